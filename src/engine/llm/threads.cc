#include "engine/llm/threads.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include <fmt/format.h>
#include <ggml-backend.h>
#include <llama.h>

#include "core/assert.h"
#include "core/text.h"

namespace lares::llm {
namespace {

using NewPool = ggml_threadpool* (*)(ggml_threadpool_params*);
using FreePool = void (*)(ggml_threadpool*);

// The CPU backend is a plug-in: its functions are found by name.
template <class Function>
Function cpu_function(const char* name) {
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device == nullptr) return nullptr;
  return reinterpret_cast<Function>(
      ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), name));
}

constexpr Duration kEvery = std::chrono::milliseconds(100);
constexpr Duration kHalfLife = std::chrono::milliseconds(100);
constexpr Duration kReturnAfter = std::chrono::seconds(1);
constexpr double kSmallLoad = 0.25;  // Cores.

Duration ticks(std::int64_t count) {
  static const std::int64_t per_second = std::max<std::int64_t>(1, sysconf(_SC_CLK_TCK));
  return std::chrono::nanoseconds(count * (1'000'000'000 / per_second));
}

// "cpu3 user nice system idle iowait irq softirq steal guest guest_nice". Left out: idle and
// waiting; guest time, which is already part of user; and nice, the time of those who asked to come
// last: they give way to us, and a background build must not halve our speed for an hour. Time
// stolen by a hypervisor counts as somebody else's.
Duration busy_of(const std::string& line) {
  std::istringstream fields(line);
  std::string name;
  std::int64_t user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0;
  fields >> name >> user >> nice >> system >> idle >> wait >> irq >> soft >> steal;
  return ticks(user + system + irq + soft + steal);
}

}  // namespace

void ThreadPool::Free::operator()(ggml_threadpool* pool) const {
  if (const auto free_pool = cpu_function<FreePool>("ggml_threadpool_free")) free_pool(pool);
}

Result<ThreadPool> ThreadPool::create(std::uint32_t threads) {
  ThreadPool pool;
  if (threads <= 1) return pool;
  const auto new_pool = cpu_function<NewPool>("ggml_threadpool_new");
  if (new_pool == nullptr) return fail(Code::Unavailable, "ggml's CPU backend has no thread pools");
  ggml_threadpool_params params = ggml_threadpool_params_default(static_cast<int>(threads));
  params.poll = 0;
  pool.pool_.reset(new_pool(&params));
  if (!pool.pool_) {
    return fail(Code::Unavailable, fmt::format("could not start {} compute threads", threads));
  }
  return pool;
}

void ThreadPool::attach(llama_context* context) const {
  if (pool_) llama_attach_threadpool(context, pool_.get(), pool_.get());
}

CpuTimes read_cpu_times(Instant now) {
  CpuTimes times;
  times.now = now;
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    times.cores = static_cast<std::uint32_t>(std::max(1, CPU_COUNT(&allowed)));
  }
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  times.own = std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
              std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line) && line.compare(0, 3, "cpu") == 0) {
    int core = -1;  // The first line, "cpu ", is the sum over all.
    if (std::sscanf(line.c_str(), "cpu%d", &core) != 1 || core < 0 || core >= CPU_SETSIZE) continue;
    if (CPU_ISSET(core, &allowed)) times.machine += busy_of(line);
  }
  return times;
}

ThreadGovernor::ThreadGovernor(std::uint32_t most)
    : most_(std::max(1U, most)), threads_(std::max(1U, most)) {}

void ThreadGovernor::set_most(std::uint32_t most) {
  most_ = std::max(1U, most);
  threads_ = std::min(threads_, most_);
}

bool ThreadGovernor::due(Instant now) const {
  return !started_ || now - last_.now >= kEvery;
}

std::uint32_t ThreadGovernor::update(const CpuTimes& times) {
  if (!started_) {
    started_ = true;
    last_ = times;
    return threads_;
  }
  const double wall = in_seconds(times.now - last_.now);
  if (!(wall > 0)) return threads_;
  const double load = std::clamp(
      (in_seconds(times.machine - last_.machine) - in_seconds(times.own - last_.own)) / wall, 0.0,
      static_cast<double>(times.cores));
  const double weight = 1.0 - std::exp2(-wall / in_seconds(kHalfLife));
  others_ += (load - others_) * weight;
  last_ = times;

  const double free = static_cast<double>(times.cores) - others_ + kSmallLoad;
  const auto fit = static_cast<std::uint32_t>(std::max(1.0, std::floor(free)));
  const std::uint32_t want = std::min(fit, most_);
  if (want <= threads_) {
    threads_ = want;
    quiet_ = false;
  } else if (!quiet_) {
    quiet_ = true;
    quiet_since_ = times.now;
  } else if (times.now - quiet_since_ >= kReturnAfter) {
    threads_ = want;
    quiet_ = false;
  }
  LARES_ASSERT(threads_ >= 1 && threads_ <= most_, "{} threads of {}", threads_, most_);
  return threads_;
}

}  // namespace lares::llm
