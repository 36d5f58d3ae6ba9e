#include "app/worker_command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <memory>
#include <optional>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "app/image_folder.h"
#include "core/log.h"
#include "core/result.h"
#include "engine/joined_engine.h"
#include "engine/sim.h"
#include "text/byte_text.h"
#include "worker/child.h"
#include "worker/probe_result.h"
#include "worker/worker.h"
#ifdef LARES_HAS_LLAMA
#include "engine/diffusion/picture_engine.h"
#include "engine/llm/llm_engine.h"
#include "engine/llm/probe.h"
#include "text/llama/llama_text.h"
#endif

namespace lares::app {
namespace {

enum class Task : unsigned char { None, Device, Text, Probe };

struct Options {
  Task task = Task::None;
  std::string probe_path;
  std::string engine = "llm";
  std::int64_t fd = -1;
  std::int64_t parent = 0;
  std::int64_t threads = 0;
};

Result<std::int64_t> number(const std::string& name, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0 || value > INT32_MAX) {
    return fail(Code::Invalid, fmt::format("{}: `{}` is not a number", name, text));
  }
  return value;
}

Result<Options> parse(std::span<const std::string> arguments) {
  Options options;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--device" || name == "--text") {
      options.task = name == "--device" ? Task::Device : Task::Text;
      continue;
    }
    if (++i == arguments.size()) return fail(Code::Invalid, name + " needs a value after it");
    const std::string& value = arguments[i];
    if (name == "--probe") {
      options.task = Task::Probe;
      options.probe_path = value;
    } else if (name == "--engine") {
      options.engine = value;
    } else if (name == "--fd") {
      options.fd = TRY(number(name, value));
    } else if (name == "--parent") {
      options.parent = TRY(number(name, value));
    } else if (name == "--threads") {
      options.threads = TRY(number(name, value));
    } else {
      return fail(Code::Invalid, fmt::format("there is no flag `{}` of a worker", name));
    }
  }
  if (options.engine != "sim" && options.engine != "llm") {
    return fail(Code::Invalid, fmt::format("--engine: `{}` is not llm or sim", options.engine));
  }
  if (options.task == Task::None || options.fd < 3 || options.parent == 0) {
    return fail(Code::Invalid,
                "a worker is started by `lares serve`; there is nothing to gain by hand");
  }
  return options;
}

Result<std::unique_ptr<engine::Engine>> make_engine(const Options& options) {
  if (options.engine == "sim") {
    // Time is really spent: the server is what is under test then.
    engine::SimOptions sim;
    sim.time = engine::SimTime::Spent;
    return std::make_unique<engine::SimEngine>(sim);
  }
#ifdef LARES_HAS_LLAMA
  llm::LlmOptions llm;
  llm.threads = static_cast<std::uint32_t>(options.threads);
  auto text = TRY(llm::LlmEngine::create(llm));
  diffusion::PictureOptions pictures;
  pictures.threads = static_cast<std::uint32_t>(std::max<std::int64_t>(options.threads, 1));
  // ggml's threads wait for each other by spinning, in both engines: one governor for both.
  pictures.threads_now = [governed = text.get()] { return governed->threads_now(); };
  return std::make_unique<engine::JoinedEngine>(
      std::move(text), std::make_unique<diffusion::PictureEngine>(std::move(pictures)));
#else
  return fail(Code::Unsupported, "this program was built without llama.cpp; there is --engine sim");
#endif
}

Result<std::unique_ptr<text::TextEngine>> make_text(const Options& options) {
  if (options.engine == "sim") {
    text::ByteTextOptions bytes;
    bytes.needs_file = true;
    return std::make_unique<text::ByteText>(bytes);
  }
#ifdef LARES_HAS_LLAMA
  return std::make_unique<text::LlamaText>();
#else
  return fail(Code::Unsupported, "this program was built without llama.cpp; there is --engine sim");
#endif
}

Result<engine::ModelInfo> probe(const Options& options) {
  std::error_code none;
  if (std::filesystem::is_directory(options.probe_path, none))
    return probe_image_model(options.probe_path);
  if (options.engine == "sim") {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(options.probe_path, ignored)) {
      return fail(Code::NotFound, fmt::format("there is no model file {}", options.probe_path));
    }
    return engine::sim_model_info({});
  }
#ifdef LARES_HAS_LLAMA
  return llm::probe_model(options.probe_path);
#else
  return fail(Code::Unsupported, "this program was built without llama.cpp; there is --engine sim");
#endif
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

int run(const Options& options) {
  const int fd = static_cast<int>(options.fd);
  // The descriptor is for this process alone, should a library start another.
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  if (options.task == Task::Probe) {
    // The descriptor stays open until the end: its closing tells the server that we are gone.
    return write_all(fd, worker::encode_probe_result(probe(options))) ? 0 : 1;
  }
  worker::Channel channel(fd);
  if (options.task == Task::Device) {
    const Result<std::unique_ptr<engine::Engine>> engine = make_engine(options);
    if (!engine) {
      log_error("the device worker cannot start", {{"reason", engine.error().message}});
      return 1;
    }
    worker::run_device_worker(channel, **engine);
    return 0;
  }
  const Result<std::unique_ptr<text::TextEngine>> text = make_text(options);
  if (!text) {
    log_error("the text worker cannot start", {{"reason", text.error().message}});
    return 1;
  }
  worker::run_text_worker(channel, **text);
  return 0;
}

}  // namespace

int run_worker_command(std::span<const std::string> arguments) {
  const Result<Options> options = parse(arguments);
  if (!options) {
    fmt::print(stderr, "lares worker: {}\n", options.error().message);
    return 2;
  }
  if (const Result<> child = worker::become_child(static_cast<pid_t>(options->parent)); !child) {
    log_error("not started", {{"reason", child.error().message}});
    return 1;
  }
  return run(*options);
}

}  // namespace lares::app
