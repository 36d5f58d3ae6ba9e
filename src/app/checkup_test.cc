#include "app/checkup.h"

#include <filesystem>
#include <fstream>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::app {
namespace {

using Level = Finding::Level;

TEST(Checkup, ADataFolderIsMadeWrittenAndLeftAsItWas) {
  const std::string folder = test_file("checkup_data");
  const Finding finding = check_data_folder(folder);
  EXPECT_NE(finding.level, Level::Problem) << finding.what;
  EXPECT_NE(finding.what.find(folder), std::string::npos);
  EXPECT_NE(check_disk(folder).level, Level::Problem);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(Checkup, ADataFolderThatIsNoneSaysWhatToDo) {
  const std::string file = test_file("checkup_file");
  std::ofstream(file) << "x";
  const Finding finding = check_data_folder(file + "/data");
  EXPECT_EQ(finding.level, Level::Problem);
  EXPECT_NE(finding.advice.find("--data"), std::string::npos) << finding.advice;
}

TEST(Checkup, AnAddressThatSomebodyHas) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof to;
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&to), &size), 0);
  Config config = default_config();
  config.data = test_file("checkup_none");
  config.address = "127.0.0.1";
  config.listen = "127.0.0.1:x";
  config.port = ntohs(to.sin_port);
  EXPECT_EQ(check_address(config).level, Level::Problem);
  EXPECT_NE(check_address(config).advice.find("--listen"), std::string::npos);
  ::close(fd);
  EXPECT_EQ(check_address(config).level, Level::Well) << check_address(config).what;
  config.address = "203.0.113.7";  // Of nobody (RFC 5737).
  EXPECT_EQ(check_address(config).level, Level::Problem);
}

TEST(Checkup, MoreMemoryThanThereIs) {
  Config config = default_config();
  EXPECT_EQ(check_memory(config).at(0).level, Level::Well);
  config.device_memory = std::uint64_t{1} << 50U;
  EXPECT_EQ(check_memory(config).at(0).level, Level::Problem);
}

TEST(Checkup, AFolderWithoutModels) {
  Config config = default_config();
  config.models_folder = test_file("checkup_models");
  std::filesystem::create_directory(config.models_folder);
  const Findings findings = check_models(config, "/bin/false");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].level, Level::Problem);
}

TEST(Checkup, Clocks) {
  constexpr std::int64_t kNow = 1'800'000'000'000;
  EXPECT_EQ(check_clock(kNow, 0).level, Level::Well);
  EXPECT_EQ(check_clock(kNow, kNow - 1).level, Level::Well);
  EXPECT_EQ(check_clock(kNow, kNow + 3'600'000).level, Level::Advice);
  EXPECT_EQ(check_clock(1'000, 0).level, Level::Problem);
}

}  // namespace
}  // namespace lares::app
