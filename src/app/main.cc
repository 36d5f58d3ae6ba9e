// lares: one accelerator, the whole household.
#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/stat.h>

#include "app/backup_command.h"
#include "app/bench_command.h"
#include "app/chat_command.h"
#include "app/doctor_command.h"
#include "app/jobs_command.h"
#include "app/member_command.h"
#include "app/model_command.h"
#include "app/serve_command.h"
#include "app/share_command.h"
#include "app/simulate_command.h"
#include "app/sketch_command.h"
#include "app/top_command.h"
#include "app/usage_command.h"
#include "app/worker_command.h"
#include "core/text.h"

namespace {

constexpr std::string_view kHelp =
    "lares - one accelerator, the whole household\n"
    "\n"
    "  lares serve [FLAGS]    start the server; `lares serve --help` names every setting\n"
    "  lares chat [FLAGS]     chat in the terminal; -m \"one question\" and pipes too\n"
    "  lares member ...       keys for people and devices: add, set, list, show, rotate, remove\n"
    "  lares model ...        models: list, show, add, remove\n"
    "  lares sketch ...       pictures and texts in a few lines: check, fmt\n"
    "  lares share lat:ID MEMBER  lets another member use a latent that you keep\n"
    "  lares jobs ...         work that outlives its client: list, show, result, wait, cancel, "
    "retry\n"
    "  lares top [FLAGS]      what the server does now, redrawn in place; --once, --once --json\n"
    "  lares usage [FLAGS]    who used how much: --by member|class|model|day, --check, --json\n"
    "  lares export usage     every row of the ledger: --csv, --json\n"
    "  lares backup FILE      a copy of everything that lasts, beside the running server\n"
    "  lares doctor [FLAGS]   what the configuration promises on this machine: --json\n"
    "  lares bench [FLAGS]    a household's load against a server, and what each member felt\n"
    "  lares simulate [FLAGS] the scheduler on recorded or made-up arrivals, without a device\n"
    "  lares help             this text\n"
    "  lares version\n";

constexpr std::array<std::string_view, 16> kVerbs{
    "serve",  "chat",   "jobs",  "backup", "bench", "export",   "member", "model",
    "doctor", "sketch", "share", "top",    "usage", "simulate", "help",   "version"};

// Our own binary, however it was called: the workers are started from it.
std::string own_path() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

int run(std::string_view verb, std::span<const std::string> arguments) {
  // What people said is no other user's of this machine. Models and pictures are made to be shared.
  if (verb != "model" && verb != "sketch") ::umask(0077);
  if (verb == "serve") return lares::app::run_serve_command(arguments, own_path());
  if (verb == "worker") return lares::app::run_worker_command(arguments);
  if (verb == "chat") return lares::app::run_chat_command(arguments);
  if (verb == "member") return lares::app::run_member_command(arguments);
  if (verb == "model") return lares::app::run_model_command(arguments, own_path());
  if (verb == "sketch") return lares::app::run_sketch_command(arguments, own_path());
  if (verb == "top") return lares::app::run_top_command(arguments);
  if (verb == "share") return lares::app::run_share_command(arguments);
  if (verb == "jobs") return lares::app::run_jobs_command(arguments);
  if (verb == "backup") return lares::app::run_backup_command(arguments);
  if (verb == "bench") return lares::app::run_bench_command(arguments);
  if (verb == "export") return lares::app::run_export_command(arguments);
  if (verb == "doctor") return lares::app::run_doctor_command(arguments, own_path());
  if (verb == "simulate") return lares::app::run_simulate_command(arguments);
  if (verb == "usage") return lares::app::run_usage_command(arguments);
  if (verb == "version" || verb == "--version") {
    fmt::print("lares {}\n", LARES_VERSION);
    return 0;
  }
  if (verb == "help" || verb == "--help" || verb == "-h") {
    fmt::print("{}", kHelp);
    return 0;
  }
  fmt::print(stderr, "lares: there is no command `{}`.{}\n\n{}", verb,
             lares::suggestion(verb, kVerbs), kHelp);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    fmt::print("{}", kHelp);
    return 2;
  }
  return run(arguments.front(), std::span(arguments).subspan(1));
}
