#include "app/config.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "app/settings.h"
#include "sched/policy.h"

namespace lares::app {
namespace {

// The error of reading `text` as the file /etc/lares.toml.
std::string error_of(std::string_view text) {
  Config config = default_config();
  const Result<> read = read_toml(text, "/etc/lares.toml", config);
  return read ? "" : read.error().message;
}

Result<Config> load(std::vector<std::string> arguments) {
  return load_config(arguments);
}

std::string load_error(std::vector<std::string> arguments) {
  const auto config = load(std::move(arguments));
  return config ? "" : config.error().message;
}

TEST(Config, AliasesAndWhatAClassPrefers) {
  Config config = default_config();
  ASSERT_TRUE(
      read_toml("[models.alias]\nassistant = [\"large\", \"small\"]\n"
                "[[class]]\nname = \"agent\"\nprefer = \"better\"\n",
                "/etc/lares.toml", config));
  ASSERT_EQ(config.aliases.size(), 1U);
  EXPECT_EQ(config.aliases[0].name, "assistant");
  EXPECT_EQ(config.aliases[0].models, (std::vector<std::string>{"large", "small"}));
  EXPECT_EQ(config.better_classes, std::vector<std::string>{"agent"});
  for (const char* wrong :
       {"[models.alias]\na = \"b\"", "[models.alias]\na = []", "[models.alias]\na = [1]",
        "[models]\nalias = 3", "[[class]]\nname = \"x\"\nprefer = \"best\""}) {
    const auto read = read_toml(wrong, "x.toml", config);
    ASSERT_FALSE(read) << wrong;
    EXPECT_NE(read.error().message.find("x.toml:"), std::string::npos);
  }
}

TEST(Settings, KeysAndFlagsAreUniqueAndDefaultsAreInRange) {
  std::set<std::string_view> keys, flags;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(keys.insert(setting.key).second) << setting.key;
    EXPECT_TRUE(flags.insert(setting.flag).second) << setting.flag;
    EXPECT_FALSE(setting.meaning.empty()) << setting.key;
    EXPECT_FALSE(setting.reason.empty()) << setting.key;
    Config config;
    EXPECT_TRUE(set_value(setting, setting.fallback, config)) << setting.key;
  }
}

TEST(Settings, EveryPolicyThatIsOfferedExists) {
  const auto& choices = setting_by_key("scheduler.policy")->choices;
  for (const std::string_view name : choices) EXPECT_TRUE(sched::make_policy(name, {})) << name;
  EXPECT_EQ(choices.size(), sched::policy_names().size());
}

TEST(Settings, HelpNamesEveryFlagAndFitsATerminal) {
  const std::string help = settings_help();
  for (const Setting& setting : settings()) {
    EXPECT_NE(help.find("  " + std::string(setting.flag) + " "), std::string::npos) << setting.flag;
  }
  std::size_t start = 0;
  for (std::size_t end = 0; (end = help.find('\n', start)) != std::string::npos; start = end + 1) {
    EXPECT_LE(end - start, 100U) << help.substr(start, end - start);
  }
}

// Run with LARES_BLESS=1 after a change of the table.
TEST(Settings, TheExampleIsWhatTheTableSays) {
  const std::string path = LARES_SOURCE_DIR "/examples/lares.toml";
  if (std::getenv("LARES_BLESS") != nullptr) std::ofstream(path) << settings_example();
  std::ifstream in(path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), settings_example())
      << "run app_tests with LARES_BLESS=1 and look at the difference";
}

TEST(Settings, TheExampleLoadsAndIsTheDefaults) {
  const auto config = load({"--config", LARES_SOURCE_DIR "/examples/lares.toml"});
  ASSERT_TRUE(config) << config.error().message;
  const Config fallback = *load({});
  EXPECT_EQ(config->listen, fallback.listen);
  EXPECT_EQ(config->data, fallback.data);
  EXPECT_EQ(config->models_folder, fallback.models_folder);
  EXPECT_EQ(config->body_bytes, fallback.body_bytes);
  EXPECT_EQ(config->idle_time, fallback.idle_time);
  EXPECT_EQ(config->temperature, fallback.temperature);
  EXPECT_EQ(config->classes, fallback.classes);
}

TEST(Settings, TheModelBlockOfTheExampleIsValid) {
  std::string text = settings_example();
  const std::size_t at = text.find("# [[model]]");
  ASSERT_NE(at, std::string::npos);
  // Of the comments, those that are settings.
  std::string block;
  std::istringstream lines(text.substr(at));
  for (std::string line; std::getline(lines, line);) {
    const bool setting = line.starts_with("# [") || (line.find(" = ") < line.find(' ', 2) + 1);
    if (setting) block += line.substr(2) + "\n";
  }
  Config config = default_config();
  const auto read = read_toml(block, "/etc/lares.toml", config);
  ASSERT_TRUE(read) << read.error().message << "\n" << block;
  ASSERT_EQ(config.models.size(), 1U);
  EXPECT_EQ(config.models[0].name, "my-model");
  ASSERT_EQ(config.aliases.size(), 1U);
  EXPECT_EQ(config.aliases[0].models.size(), 2U);
}

TEST(Config, AModelIsKeptAlwaysOrWhileThereIsRoomOrForATime) {
  const auto model = [](const std::string& keep) {
    Config config = default_config();
    const auto read =
        read_toml("[[model]]\npath = \"x.gguf\"\nkeep = " + keep + "\n", "/etc/lares.toml", config);
    return read ? std::optional(config.models.at(0)) : std::nullopt;
  };
  EXPECT_TRUE(model("\"always\"")->pinned);
  EXPECT_FALSE(model("\"auto\"")->pinned);
  EXPECT_EQ(model("\"auto\"")->keep, Duration::max());
  EXPECT_EQ(model("\"10m\"")->keep, std::chrono::minutes(10));
  EXPECT_FALSE(model("\"sometimes\""));
  EXPECT_FALSE(model("5"));
}

TEST(Config, AnAdapterIsAModelOfItsOwn) {
  Config config = default_config();
  ASSERT_TRUE(
      read_toml("[[model]]\npath = \"base.gguf\"\n"
                "[[model]]\npath = \"base.gguf\"\nadapter = \"tone.gguf\"\n"
                "adapter_scale = 0.5\n",
                "/etc/lares.toml", config));
  ASSERT_EQ(config.models.size(), 2U);
  EXPECT_EQ(config.models[0].adapter, "");
  EXPECT_EQ(config.models[1].name, "tone");
  EXPECT_EQ(config.models[1].path, config.models[0].path);
  EXPECT_TRUE(config.models[1].adapter.ends_with("/tone.gguf"));
  EXPECT_EQ(config.models[1].adapter_scale, 0.5);
  EXPECT_NE(error_of("[[model]]\npath = \"a.gguf\"\nadapter_scale = 99\n").find("-16 .. 16"),
            std::string::npos);
}

TEST(Config, ClassesKeepWhatTheirBlockLeavesOut) {
  Config config = default_config();
  ASSERT_TRUE(
      read_toml("[[class]]\nname = \"voice\"\nfirst = \"300ms\"\nguaranteed = 40\n"
                "[[class]]\nname = \"games\"\nlongest_wait = \"2 s\"\nfloor = 2.5\n",
                "x.toml", config));
  const sched::ClassSpec voice = class_spec(config, "voice");
  EXPECT_EQ(voice.first_target, std::chrono::milliseconds(300));
  EXPECT_EQ(voice.gap_target, std::chrono::milliseconds(100)) << "as the household has it";
  EXPECT_EQ(voice.guaranteed, 400U);
  EXPECT_EQ(class_spec(config, "games").floor, 25U);
  EXPECT_EQ(class_spec(config, "games").longest_wait, std::chrono::seconds(2));
  EXPECT_EQ(class_spec(config, "never heard of").first_target, Duration{});

  const auto error = [](std::string_view text) {
    Config other = default_config();
    return read_toml(text, "x.toml", other).error().message;
  };
  EXPECT_NE(error("[[class]]\nname = \"a\"\nfirs = \"1s\"").find("x.toml:3"), std::string::npos);
  EXPECT_NE(error("[[class]]\nname = \"a\"\nfirs = \"1s\"").find("`first`"), std::string::npos);
  EXPECT_NE(error("[[class]]\nname = \"a\"\nfloor = 101").find("percentage"), std::string::npos);
  EXPECT_NE(error("[[class]]\nname = \"a\"\ngap = 5").find("a time"), std::string::npos);
  EXPECT_NE(error("[[class]]\nfloor = 1").find("needs a `name`"), std::string::npos);
}

TEST(Config, Defaults) {
  const Config config = *load({});
  EXPECT_EQ(config.address, "127.0.0.1");
  EXPECT_EQ(config.port, 8080);
  EXPECT_EQ(config.policy, "lares");
  EXPECT_EQ(config.body_bytes, 16U << 20U);
  EXPECT_EQ(config.header_time, std::chrono::seconds(10));
  EXPECT_EQ(config.classes.size(), 6U);
  EXPECT_EQ(config.models_folder, config.data + "/models");
}

TEST(Config, ReadsEveryKindOfValue) {
  Config config = default_config();
  const auto read = read_toml(R"(
[server]
data = "data"
[models]
folder = "/abs/models"
[limits]
body_bytes = "2 MiB"
stream_buffer = 65536
idle_time = "1.5m"
connections = 12
[sampling]
temperature = 0
top_p = 0.5
[classes]
names = ["chat", "batch"]
[[model]]
path = "a.b.gguf"
context = 512
[[model]]
name = "second"
path = "/m/c.gguf"
)",
                              "/etc/lares.toml", config);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(config.data, "/etc/data");
  EXPECT_EQ(config.models_folder, "/abs/models");
  EXPECT_EQ(config.body_bytes, 2U << 20U);
  EXPECT_EQ(config.stream_buffer, 65536U);
  EXPECT_EQ(config.idle_time, std::chrono::seconds(90));
  EXPECT_EQ(config.connections, 12U);
  EXPECT_EQ(config.temperature, 0);
  EXPECT_EQ(config.top_p, 0.5);
  EXPECT_EQ(config.classes, (std::vector<std::string>{"chat", "batch"}));
  ASSERT_EQ(config.models.size(), 2U);
  EXPECT_EQ(config.models[0].name, "a.b");
  EXPECT_EQ(config.models[0].path, "/etc/a.b.gguf");
  EXPECT_EQ(config.models[0].context, 512U);
  EXPECT_EQ(config.models[1].path, "/m/c.gguf");
}

TEST(Config, UnknownKeysAreErrorsWithASuggestionAndAPlace) {
  EXPECT_EQ(error_of("[server]\nlisten = \"[::1]:1\"\nlistn = 3\n"),
            "/etc/lares.toml:3:1: [server] has no key `listn`. Did you mean `listen`?");
  EXPECT_EQ(error_of("[limts]\n"),
            "/etc/lares.toml:1:2: there is no section or key `limts`. Did you mean `limits`?");
  EXPECT_NE(error_of("listen = \"x\"").find("no section or key `listen`"), std::string::npos);
  EXPECT_NE(error_of("[[model]]\npth = \"x\"").find("Did you mean `path`?"), std::string::npos);
}

TEST(Config, WrongTypesSayWhatIsWanted) {
  EXPECT_EQ(error_of("[device]\nthreads = \"4\""),
            "/etc/lares.toml:2:11: device.threads must be a whole number");
  EXPECT_NE(error_of("[device]\nthreads = 1.5").find("whole number"), std::string::npos);
  EXPECT_NE(error_of("[limits]\nidle_time = 10").find("with its unit"), std::string::npos);
  EXPECT_NE(error_of("[limits]\nbody_bytes = true").find("a size such as"), std::string::npos);
  EXPECT_NE(error_of("[server]\nlisten = 8080").find("a text in quotes"), std::string::npos);
  EXPECT_NE(error_of("[sampling]\ntop_p = \"a\"").find("must be a number"), std::string::npos);
  EXPECT_NE(error_of("[classes]\nnames = \"chat\"").find("a list of texts"), std::string::npos);
  EXPECT_NE(error_of("[classes]\nnames = [1]").find("a list of texts"), std::string::npos);
  EXPECT_NE(error_of("server = 1").find("write [server]"), std::string::npos);
  EXPECT_NE(error_of("model = 1").find("[[model]]"), std::string::npos);
  EXPECT_NE(error_of("[[model]]\nname = \"x\"").find("needs a `path`"), std::string::npos);
  EXPECT_NE(error_of("[[model]]\npath = \"x\"\ncontext = -1").find("whole number"),
            std::string::npos);
}

TEST(Config, WrongRangesSayTheRange) {
  EXPECT_EQ(error_of("[scheduler]\nsequences = 300"),
            "/etc/lares.toml:2:13: scheduler.sequences: `300` is out of range; 1 .. 256");
  EXPECT_NE(error_of("[scheduler]\nsequences = -1").find("1 .. 256"), std::string::npos);
  EXPECT_NE(error_of("[limits]\nbody_bytes = \"2 GiB\"").find("1 KiB .. 1 GiB"), std::string::npos);
  EXPECT_NE(error_of("[limits]\nidle_time = \"1us\"").find("100 ms .. "), std::string::npos);
  EXPECT_NE(error_of("[sampling]\ntop_p = 1.5").find("0 .. 1"), std::string::npos);
  EXPECT_NE(error_of("[sampling]\ntop_p = nan").find("number"), std::string::npos);
  EXPECT_NE(error_of("[device]\nengine = \"lm\"").find("Did you mean `llm`?"), std::string::npos);
  EXPECT_NE(error_of("[[model]]\npath=\"a\"\n[[model]]\npath=\"b/a\"").find("two models"),
            std::string::npos);
}

TEST(Config, BrokenTomlHasAPlace) {
  EXPECT_EQ(error_of("[server]\nlisten = \n").substr(0, 18), "/etc/lares.toml:2:");
  EXPECT_NE(error_of("[server"), "");
  EXPECT_NE(error_of(std::string("a\0b", 3)), "");
  EXPECT_NE(error_of("\xff\xfe"), "");
}

TEST(Config, FlagsOverride) {
  const auto config =
      load({"--listen", "[::1]:0", "--data=/d", "--models", "m", "--policy=fifo", "--threads", "2",
            "--pool-tokens", "4096", "--body-bytes", "1 MiB", "--classes", "chat, x"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->address, "::1");
  EXPECT_EQ(config->port, 0);
  EXPECT_EQ(config->data, "/d");
  EXPECT_EQ(config->models_folder, "m");
  EXPECT_EQ(config->policy, "fifo");
  EXPECT_EQ(config->threads, 2U);
  EXPECT_EQ(config->pool_tokens, 4096U);
  EXPECT_EQ(config->body_bytes, 1U << 20U);
  EXPECT_EQ(config->classes.size(), 2U);
}

TEST(Config, FlagsCountInsteadOfTheFileWhereverTheyStand) {
  char pattern[] = "/tmp/lares-config-XXXXXX";
  const std::string folder = ::mkdtemp(pattern);
  const std::string path = folder + "/lares.toml";
  std::ofstream(path) << "[device]\nthreads = 3\npool_tokens = 100\n";
  const auto config = load({"--threads", "2", "--config", path});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->threads, 2U);
  EXPECT_EQ(config->pool_tokens, 100U);
  std::ofstream(path) << std::string((1 << 20) + 1, '#');
  EXPECT_EQ(load({"--config", path}).error().code, Code::TooLarge);
  EXPECT_EQ(load({"--config", folder}).error().code, Code::Io);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(load({"--config", path}).error().code, Code::NotFound);
}

TEST(Config, WrongFlags) {
  EXPECT_NE(load_error({"--lisen", "x"}).find("Did you mean `--listen`?"), std::string::npos);
  EXPECT_NE(load_error({"--listen"}).find("needs a value"), std::string::npos);
  EXPECT_NE(load_error({"serve"}).find("is not a flag"), std::string::npos);
  EXPECT_EQ(load_error({"--threads", "x"}), "--threads: `x` is not a whole number; 0 .. 1024");
  EXPECT_NE(load_error({"--policy", "orka"}).find("Did you mean `orca`?"), std::string::npos);
  EXPECT_TRUE(load({"--help"})->help);
}

TEST(Config, ListenMustBeAddressAndPort) {
  for (const char* bad :
       {"8080", "127.0.0.1", "127.0.0.1:", ":8080", "::1:80", "a:65536", "a:-1", "a:80x", ""}) {
    EXPECT_NE(load_error({"--listen", bad}).find("ADDRESS:PORT"), std::string::npos) << bad;
  }
  EXPECT_EQ(load({"--listen", "0.0.0.0:65535"})->port, 65535);
}

TEST(Config, ClassNamesAreChecked) {
  EXPECT_NE(load_error({"--classes", "chat,chat"}).find("twice"), std::string::npos);
  EXPECT_NE(load_error({"--classes", "chat,Big Ones"}).find("small letters"), std::string::npos);
  EXPECT_NE(load_error({"--classes", "voice"}).find("must contain `chat`"), std::string::npos);
}

}  // namespace
}  // namespace lares::app
