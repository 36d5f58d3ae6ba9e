#include "sched/classes.h"

namespace lares::sched {

std::vector<ClassSpec> household_classes() {
  using std::chrono::milliseconds, std::chrono::seconds;
  return {
      {.name = "voice",
       .first_target = milliseconds(500),
       .gap_target = milliseconds(100),
       .guaranteed = 300,
       .floor = 50,
       .longest_wait = seconds(2)},
      {.name = "chat",
       .first_target = seconds(2),
       .gap_target = milliseconds(150),
       .guaranteed = 300,
       .floor = 50,
       .longest_wait = seconds(10)},
      {.name = "agent",
       .first_target = seconds(10),
       .gap_target = milliseconds(500),
       .guaranteed = 100,
       .floor = 50,
       .longest_wait = seconds(30)},
      {.name = "embedding",
       .completion_target = seconds(30),
       .guaranteed = 50,
       .floor = 30,
       .longest_wait = seconds(60)},
      {.name = "image",
       .completion_target = seconds(120),
       .guaranteed = 50,
       .floor = 30,
       .longest_wait = seconds(60)},
      {.name = "maintenance", .floor = 10, .longest_wait = seconds(300)},
  };
}

}  // namespace lares::sched
