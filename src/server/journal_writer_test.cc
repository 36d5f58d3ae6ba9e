#include "server/journal_writer.h"

#include <atomic>
#include <future>
#include <string>

#include <gtest/gtest.h>

#include "core/test_folder.h"

namespace lares::server {
namespace {

std::unique_ptr<store::Journal> open_journal() {
  static int number = 0;
  auto opened = store::Journal::open(test_file("writer" + std::to_string(++number)));
  EXPECT_TRUE(opened);
  return std::move(*opened);
}

store::NewJob job_of(std::string id, std::string key = "") {
  store::NewJob job;
  job.id = std::move(id);
  job.member = "home";
  job.cls = "chat";
  job.kind = "/v1/completions";
  job.idempotency_key = std::move(key);
  return job;
}

JournalOp add(std::string id, std::promise<Result<>>& told, std::string key = "") {
  JournalOp op;
  op.work = [job = job_of(std::move(id), std::move(key))](store::Journal& journal) -> Result<> {
    TRY(journal.add(job));
    return {};
  };
  op.done = [&told](const Result<>& done) { told.set_value(done); };
  return op;
}

TEST(JournalWriter, OneThatFailsDoesNotTakeTheOthersAlong) {
  JournalWriter writer(open_journal());
  std::promise<Result<>> a, b, c;
  std::vector<JournalOp> ops;
  ops.push_back(add("job_a", a, "k"));
  ops.push_back(add("job_b", b, "k"));  // The key is taken.
  ops.push_back(add("job_c", c));
  writer.post(std::move(ops));
  EXPECT_TRUE(a.get_future().get());
  EXPECT_EQ(b.get_future().get().error().code, Code::Conflict);
  EXPECT_TRUE(c.get_future().get());
}

TEST(JournalWriter, WhatMustBeWrittenIsTriedUntilItIs) {
  JournalWriter writer(open_journal(), {.retry = std::chrono::milliseconds(1)});
  std::atomic<int> tries = 0;
  std::promise<Result<>> told;
  JournalOp op;
  op.must = true;
  op.work = [&](store::Journal&) -> Result<> {
    return ++tries < 5 ? Result<>(fail(Code::Io, "the disk is full")) : Result<>();
  };
  op.done = [&](const Result<>& done) { told.set_value(done); };
  writer.post(std::move(op));
  EXPECT_TRUE(told.get_future().get());
  EXPECT_EQ(tries, 5);
}

TEST(JournalWriter, WhatIsKeptHasItsTurnAndItsOrderHoweverMuchComesMeanwhile) {
  JournalWriter writer(open_journal(), {.retry = std::chrono::milliseconds(2)});
  int tries = 0;  // The journal's thread.
  bool first = false, in_order = false;
  std::atomic<bool> told = false;
  writer.post(JournalOp{.work = [&](store::Journal&) -> Result<> {
                          first = ++tries > 3;
                          return first ? Result<>() : Result<>(fail(Code::Io, "full"));
                        },
                        .must = true});
  writer.post(JournalOp{.work = [&](store::Journal&) -> Result<> {
                          in_order = first;
                          return {};
                        },
                        .done = [&](const Result<>&) { told = true; },
                        .must = true});
  while (!told) {
    std::promise<Result<>> read;
    writer.post(JournalOp{.work = [](store::Journal&) { return Result<>(); },
                          .done = [&](const Result<>& done) { read.set_value(done); }});
    EXPECT_TRUE(read.get_future().get());
  }
  EXPECT_TRUE(in_order);
}

TEST(JournalWriter, AtItsEndEverythingIsWritten) {
  const std::string folder = test_file("writer_end");
  {
    JournalWriter writer(std::move(*store::Journal::open(folder)));
    for (int i = 0; i < 100; ++i) {
      writer.post(JournalOp{.work = [i](store::Journal& journal) -> Result<> {
        TRY(journal.add(job_of("job_" + std::to_string(i))));
        return {};
      }});
    }
  }
  const auto journal = store::Journal::open_existing(folder);
  ASSERT_TRUE(journal);
  EXPECT_EQ((*journal)->list({.limit = 1000})->size(), 100U);
}

}  // namespace
}  // namespace lares::server
