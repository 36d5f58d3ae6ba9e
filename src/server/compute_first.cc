#include "server/compute_first.h"

#include <sched.h>

#include "core/log.h"

namespace lares::server {

void let_compute_go_first() {
  const sched_param none{};
  if (::sched_setscheduler(0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none) != 0) {
    log_warn("SCHED_BATCH was refused; the server's threads may push compute threads aside");
  }
}

}  // namespace lares::server
