#include "app/worker_command.h"

#include <vector>

#include <gtest/gtest.h>

namespace lares::app {
namespace {

// What a worker does when its arguments are right is tested with the true binary.
TEST(WorkerCommand, WrongArgumentsAreRefusedBeforeAnythingHappens) {
  const auto run = [](std::vector<std::string> words) { return run_worker_command(words); };
  EXPECT_EQ(run({}), 2);
  EXPECT_EQ(run({"--device"}), 2) << "no descriptor";
  EXPECT_EQ(run({"--fd", "3", "--parent", "1"}), 2) << "no task";
  EXPECT_EQ(run({"--fd", "x", "--parent", "1", "--device"}), 2);
  EXPECT_EQ(run({"--fd", "2", "--parent", "1", "--device"}), 2) << "a standard descriptor";
  EXPECT_EQ(run({"--fd", "3", "--parent", "1", "--device", "--engine", "x"}), 2);
  EXPECT_EQ(run({"--fd", "3", "--parent", "1", "--probe"}), 2);
  EXPECT_EQ(run({"--fd", "3", "--parent", "1", "--device", "--colour", "red"}), 2);
}

}  // namespace
}  // namespace lares::app
