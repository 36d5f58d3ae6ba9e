#include "server/queue.h"

#include <gtest/gtest.h>

#include "server/work_headers.h"

namespace lares::server {
namespace {

QueueEntry entry(std::uint64_t id, std::uint32_t member, bool running) {
  return {.id = JobId{id},
          .member = MemberId{member},
          .name = "ana",
          .cls = "chat",
          .model = "m",
          .running = running,
          .position = 3,
          .reason = "behind 3, 1 of them your own",
          .waited = std::chrono::milliseconds(1500),
          .estimate = std::chrono::milliseconds(250),
          .prompt_tokens = 7,
          .output_tokens = 2};
}

TEST(QueueJson, ShowsOwnEntriesWholeAndOthersAsCounts) {
  const std::vector<QueueEntry> entries{entry(1, 4, true), entry(2, 4, false), entry(3, 5, false),
                                        entry(4, 5, true), entry(5, 6, false)};
  EXPECT_EQ(
      queue_json(entries, MemberId{4}, false),
      "{\"object\":\"queue\",\"jobs\":["
      "{\"id\":\"1\",\"state\":\"running\",\"member\":\"ana\",\"class\":\"chat\",\"model\":\"m\","
      "\"waited_s\":1.500,"
      "\"prompt_tokens\":7,\"output_tokens\":2},"
      "{\"id\":\"2\",\"state\":\"queued\",\"member\":\"ana\",\"class\":\"chat\",\"model\":\"m\","
      "\"waited_s\":1.500,"
      "\"prompt_tokens\":7,\"output_tokens\":2,\"position\":3,"
      "\"reason\":\"behind 3, 1 of them your own\",\"estimate_s\":0.250}],"
      "\"others\":{\"queued\":2,\"running\":1}}");
  EXPECT_NE(queue_json(entries, MemberId{0}, true).find("\"others\":{\"queued\":0,\"running\":0}"),
            std::string::npos);
}

HttpRequest request(std::string name, std::string value) {
  HttpRequest r;
  r.headers.emplace_back(std::move(name), std::move(value));
  return r;
}

TEST(WorkHeaders, ATaskIsTheSameForTheSameNameAndNeverNone) {
  Generation a, b, none;
  ASSERT_TRUE(read_work_headers(request("x-lares-task", "trip"), a));
  ASSERT_TRUE(read_work_headers(request("x-lares-task", "trip"), b));
  ASSERT_TRUE(read_work_headers(request("accept", "*/*"), none));
  EXPECT_EQ(a.task, b.task);
  EXPECT_NE(a.task, TaskId{});
  EXPECT_EQ(none.task, TaskId{});
}

TEST(WorkHeaders, EventsOfTheQueueAndNoOthers) {
  EXPECT_FALSE(*wants_queue_events(request("accept", "*/*")));
  EXPECT_TRUE(*wants_queue_events(request("x-lares-events", "queue")));
  EXPECT_EQ(wants_queue_events(request("x-lares-events", "weather")).error().error_code,
            "events_unknown");
}

TEST(QueueEvent, IsAnEventOfItsOwnName) {
  EXPECT_EQ(queue_event({2, "behind 2 of your own", std::chrono::milliseconds(1500)}),
            "event: queue\ndata: {\"position\":2,\"reason\":\"behind 2 of your own\","
            "\"estimate_s\":1.500}\n\n");
}

TEST(WorkHeaders, NamesBeyondTheirLimitAreRefused) {
  Generation g;
  const std::string longest(128, 'x');
  EXPECT_TRUE(read_work_headers(request("x-lares-supersede", longest), g));
  EXPECT_EQ(g.supersede, longest);
  EXPECT_EQ(read_work_headers(request("x-lares-supersede", longest + "x"), g).error().error_code,
            "supersede_too_long");
  EXPECT_EQ(read_work_headers(request("x-lares-task", longest + "x"), g).error().error_code,
            "task_too_long");
}

}  // namespace
}  // namespace lares::server
