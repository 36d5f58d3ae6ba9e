// The classes of work that a household has unless its configuration says otherwise.
#pragma once

#include <vector>

#include "sched/policy.h"

namespace lares::sched {

// voice, chat, agent, embedding, image, maintenance: in that order, so that an index means the same
// everywhere. Targets are what people notice: a spoken answer should begin within half a second; a
// stream slower than about seven tokens a second is slower than reading. Shares leave a fifth of
// the device to nobody in particular.
std::vector<ClassSpec> household_classes();

}  // namespace lares::sched
