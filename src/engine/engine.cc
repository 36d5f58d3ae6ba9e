#include "engine/engine.h"

namespace lares::engine {

Result<Prepared> Engine::prepare(const Prepare& /*prepare*/) {
  return fail(Code::Unsupported, "this engine makes no pictures");
}

Result<Delivered> Engine::deliver(const Deliver& /*deliver*/) {
  return fail(Code::Unsupported, "this engine makes no pictures");
}

}  // namespace lares::engine
