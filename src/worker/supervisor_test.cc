#include "worker/supervisor.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "text/byte_text.h"
#include "worker/probe_result.h"
#include "worker/supervisor_threads.h"

namespace lares::worker {
namespace {

// Shell scripts stand in for our own binary: how a child is started, watched and reaped does not
// depend on what it is. The true binary is run by the end-to-end tests.
class ProcessTest : public ::testing::Test {
 protected:
  ProcessTest() {
    char pattern[] = "/tmp/lares-supervisor-XXXXXX";
    folder_ = ::mkdtemp(pattern);
  }
  ~ProcessTest() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<WorkerFactory> workers(const std::string& script,
                                         Duration limit = std::chrono::seconds(20)) {
    const std::string path = folder_ + "/child";
    std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
    ::chmod(path.c_str(), 0700);
    ProcessOptions options;
    options.executable = path;
    options.probe_limit = limit;
    options.engine = "sim";
    options.device_arguments = {"--threads", "3"};
    return process_workers(options);
  }

  void write_file(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ + "/" + name, std::ios::binary) << bytes;
  }
  std::string read_file(const std::string& name) const {
    std::ifstream in(folder_ + "/" + name);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string folder_;
};

TEST_F(ProcessTest, AProbeReturnsWhatTheChildWrote) {
  engine::ModelInfo info;
  info.architecture = "qwen3";
  info.context = 77;
  write_file("result", encode_probe_result(info));
  const auto probed = workers("cat " + folder_ + "/result >&3")->probe("/models/a.gguf");
  ASSERT_TRUE(probed) << probed.error().message;
  EXPECT_EQ(probed->architecture, "qwen3");
  EXPECT_EQ(probed->context, 77U);
}

TEST_F(ProcessTest, AProbePassesTheErrorOn) {
  write_file("result", encode_probe_result(fail(Code::NotFound, "there is no such file")));
  const auto probed = workers("cat " + folder_ + "/result >&3")->probe("x");
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, Code::NotFound);
  EXPECT_EQ(probed.error().message, "there is no such file");
}

TEST_F(ProcessTest, ACrashOfTheProbeIsCorruptAndNamesTheSignal) {
  const auto probed = workers("kill -SEGV $$")->probe("/models/bad.gguf");
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, Code::Corrupt);
  EXPECT_NE(probed.error().message.find("signal 11"), std::string::npos) << probed.error().message;
  EXPECT_NE(probed.error().message.find("/models/bad.gguf"), std::string::npos);
}

TEST_F(ProcessTest, AProbeThatHangsIsEnded) {
  const auto probed = workers("exec sleep 1000", std::chrono::milliseconds(200))->probe("x");
  ASSERT_FALSE(probed);
  EXPECT_EQ(probed.error().code, Code::Corrupt);
  EXPECT_NE(probed.error().message.find("200.0 ms"), std::string::npos) << probed.error().message;
}

TEST_F(ProcessTest, AProbeThatTalksWithoutEndIsEnded) {
  EXPECT_EQ(workers("cat /dev/zero >&3")->probe("x").error().code, Code::Corrupt);
}

TEST_F(ProcessTest, AProbeThatSaysNothingOrNonsenseIsCorrupt) {
  EXPECT_EQ(workers("exit 0")->probe("x").error().code, Code::Corrupt);
  EXPECT_EQ(workers("exit 3")->probe("x").error().code, Code::Corrupt);
  EXPECT_EQ(workers("echo nonsense >&3")->probe("x").error().code, Code::Corrupt);
}

TEST_F(ProcessTest, AnExecutableThatIsNotThereIsIo) {
  ProcessOptions options;
  options.executable = folder_ + "/nothing";
  const auto workers = process_workers(options);
  EXPECT_EQ(workers->start(Kind::Device).error().code, Code::Io);
  EXPECT_EQ(workers->probe("x").error().code, Code::Io);
}

TEST_F(ProcessTest, ChildrenGetTheirArgumentsOneDescriptorAndACleanEnvironment) {
  ::setenv("GGML_BACKEND_PATH", "/evil.so", 1);
  // The listing's own descriptor is opened by ls, not by us; the shell keeps the script open as 10.
  const auto factory =
      workers("echo \"$@\" > " + folder_ + "/arguments; env > " + folder_ +
              "/environment; for fd in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$fd ]"
              " && printf %s $fd; done > " +
              folder_ + "/fds; head -c 1 <&3");
  const int kept_open[] = {::dup(0), ::dup(0), ::dup(0), ::dup(0)};
  auto worker = factory->start(Kind::Device);
  for (const int fd : kept_open) ::close(fd);
  ::unsetenv("GGML_BACKEND_PATH");
  ASSERT_TRUE(worker);
  const pid_t pid = (*worker)->pid();
  EXPECT_GT(pid, 0);
  // The child ends when it has read the first byte of this; its end is the end of the channel.
  ASSERT_TRUE((*worker)->channel().send(AskMemory{}));
  EXPECT_FALSE((*worker)->channel().receive());
  EXPECT_EQ(read_file("arguments"), "worker --fd 3 --parent " + std::to_string(::getpid()) +
                                        " --engine sim --device --threads 3\n");
  const std::string environment = read_file("environment");
  EXPECT_EQ(environment.find("GGML_BACKEND_PATH"), std::string::npos);
  EXPECT_NE(environment.find("GGML_NO_BACKTRACE=1"), std::string::npos);
  EXPECT_EQ(read_file("fds"), "0123");
  worker->reset();
  EXPECT_EQ(::kill(pid, 0), -1) << "not reaped";
}

TEST_F(ProcessTest, KillEndsTheChannelAndTheDestructorReaps) {
  auto worker = workers("exec sleep 1000")->start(Kind::Text);
  ASSERT_TRUE(worker);
  const pid_t pid = (*worker)->pid();
  EXPECT_EQ(::kill(pid, 0), 0);
  (*worker)->kill();
  const auto end = (*worker)->channel().receive();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Code::Io);
  worker->reset();
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(ThreadWorkers, TheSameLoopsOnThreads) {
  engine::SimOptions options;
  const auto workers = thread_workers([=] { return std::make_unique<engine::SimEngine>(options); },
                                      [] { return std::make_unique<text::ByteText>(); });
  EXPECT_TRUE(workers->probe("any"));
  auto device = workers->start(Kind::Device);
  auto text = workers->start(Kind::Text);
  ASSERT_TRUE(device);
  ASSERT_TRUE(text);
  EXPECT_EQ(std::get<Hello>(*(*device)->channel().receive()).kind, "device");
  EXPECT_EQ(std::get<Hello>(*(*text)->channel().receive()).kind, "text");
  EXPECT_EQ((*device)->pid(), 0);
  (*device)->kill();
  EXPECT_FALSE((*device)->channel().receive());
  // The other one noticed nothing.
  ASSERT_TRUE((*text)->channel().send(LoadVocabulary{ModelId{1}, "any"}));
  EXPECT_TRUE(std::holds_alternative<VocabularyDone>(*(*text)->channel().receive()));
  device = workers->start(Kind::Device);
  EXPECT_TRUE(std::holds_alternative<Hello>(*(*device)->channel().receive()));
}

}  // namespace
}  // namespace lares::worker
