// What the dashboard says of a setting is what could be written after its flag.
#include <gtest/gtest.h>

#include "app/settings.h"

namespace lares::app {
namespace {

TEST(SettingsValue, ReadsBackAsItself) {
  Config config = default_config();
  config.drain = std::chrono::milliseconds(1500);
  config.body_bytes = 3U << 20U;
  config.classes = {"voice", "chat"};
  config.temperature = 0.25;
  for (const Setting& setting : settings()) {
    const std::string text = value_text(setting, config);
    Config read = config;
    if (text.empty()) continue;  // A text that is not set.
    const auto set = set_value(setting, text, read);
    ASSERT_TRUE(set) << setting.key << " = " << text << ": " << set.error().message;
    EXPECT_EQ(value_text(setting, read), text) << setting.key;
    std::visit([&](auto member) { EXPECT_EQ(read.*member, config.*member) << setting.key; },
               setting.target);
  }
  EXPECT_EQ(value_text(*setting_by_key("server.drain"), config), "1.50 s");
  EXPECT_EQ(value_text(*setting_by_key("limits.body_bytes"), config), "3 MiB");
  EXPECT_EQ(value_text(*setting_by_key("classes.names"), config), "voice,chat");
}

}  // namespace
}  // namespace lares::app
