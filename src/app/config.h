// What a `lares serve` is told: one plain struct, from defaults, a TOML file and flags, in this
// order.
//
// The table of settings (settings.h) names every key, flag, default, range and reason; this file's
// struct only holds the values. Paths written in a file are relative to that file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "core/types.h"
#include "sched/policy.h"

namespace lares::app {

// One `[[model]]` of the file.
struct ConfiguredModel {
  std::string name;       // As clients say it.
  std::string path;       // GGUF; the first file of a split model.
  std::string adapter{};  // GGUF of a LoRA adapter for it; "" = none.
  double adapter_scale = 1;
  std::uint32_t context = 0;        // Most tokens of one sequence; 0 = as trained.
  std::uint32_t pool_tokens = 0;    // Cells of its KV pool; 0 = device.pool_tokens.
  bool pinned = false;              // keep = "always"
  Duration keep = Duration::max();  // max: keep = "auto"
};

// One line of `[models.alias]`: a name that stands for any of these models, the best first.
struct ConfiguredAlias {
  std::string name;
  std::vector<std::string> models;
};

struct Config {
  // Of `[[class]]`; a class that is named in classes.names and not here is as the household has it.
  std::vector<sched::ClassSpec> class_specs;
  // server
  std::string listen;      // As written; see `address` and `port`.
  std::string data;        // Folder.
  std::string address;     // Of `listen`, without brackets.
  std::uint16_t port = 0;  // Of `listen`; 0 picks one.
  Duration drain{};        // How long what runs may go on once the server is asked to stop.
  // models
  std::string models_folder;
  std::string shared_prompts;  // File or folder; "" = none.
  std::string default_model;   // "" = the first that can do what is asked.
  std::vector<ConfiguredModel> models;
  std::vector<ConfiguredAlias> aliases;
  std::vector<std::string> better_classes;  // Those that prefer the best model to a loaded one.
  // scheduler
  std::string policy;
  Duration slice{};
  Duration slice_alone{};
  Duration guard{};
  Duration lead{};
  std::uint32_t step_tokens = 0;
  std::uint32_t sequences = 0;
  std::uint32_t jobs = 0;
  std::uint32_t runs_in_flight = 0;
  std::uint32_t cache_tokens = 0;
  std::uint32_t member_pool = 0;  // Percent.
  std::string event_log;          // File; "" = none.
  // device
  std::uint32_t threads = 0;        // 0 = as many as cores.
  std::uint32_t pool_tokens = 0;    // 0 = from what memory is left.
  std::uint64_t device_memory = 0;  // Bytes for models; 0 = nine tenths of what is free.
  std::uint64_t host_memory = 0;
  std::string engine;
  // jobs
  Duration jobs_keep{};
  std::uint64_t jobs_keep_bytes = 0;
  std::uint32_t jobs_attempts = 0;
  std::uint32_t jobs_each = 0;  // Of one member, that are not over.
  Duration jobs_wait{};         // Of a call for its answer; then it becomes a job.
  // webhooks
  std::string webhooks_reach;
  // telemetry
  std::string otlp_endpoint;  // "" = no traces.
  // limits
  std::uint64_t body_bytes = 0;
  std::uint64_t bodies_bytes = 0;
  std::uint32_t header_bytes = 0;
  Duration header_time{};
  Duration body_time{};
  Duration idle_time{};
  Duration write_time{};
  std::uint64_t stream_buffer = 0;
  std::uint32_t connections = 0;
  std::uint32_t json_depth = 0;
  std::uint32_t output_tokens = 0;
  // text
  Duration text_limit{};
  std::uint64_t prompt_bytes = 0;
  // sampling: what a request that does not say gets
  double temperature = 0;
  std::uint32_t top_k = 0;
  double top_p = 0;
  double min_p = 0;
  // classes
  std::vector<std::string> classes;
  // log
  std::string log_level;

  bool help = false;  // --help was among the flags.
};

// Every setting at its default.
Config default_config();

// Defaults, then the file that `--config` names, then the other flags (without argv[0] and the
// verb). Errors: Invalid with file:line:column or the flag, what is wrong and what would be right;
// NotFound and Io for the file.
Result<Config> load_config(std::span<const std::string> arguments);

// The text of a file onto `config`; `name` stands in errors, and paths are relative to its folder.
Result<> read_toml(std::string_view text, const std::string& name, Config& config);

// Checks what concerns more than one value and fills in what depends on others.
Result<> finish_config(Config& config);

// $XDG_DATA_HOME/lares, or ~/.local/share/lares.
std::string default_data_folder();

// What the configuration, or else the household, says of the class; without targets if neither
// does.
sched::ClassSpec class_spec(const Config& config, const std::string& name);

}  // namespace lares::app
