// Checks a frame's bytes against the schema before a core sees them: a lane is hostile input, and
// Cap'n Proto answers a malformed pointer by an exception in the middle of a step. Stricter than
// the encoding allows, since our frames are built in one way: one flat segment, near pointers only,
// nothing overlaps, lists have the element type of the schema. Costs a walk over the pointers, not
// the data.
#pragma once

#include "runtime/base/status.h"
#include "runtime/core/frame.h"

#include <span>

namespace troupe::trace {

/// Ok: every getter of the message can be called. kCorrupt names the first thing that is wrong.
Status check_frame(std::span<const capnp::word> words);

}  // namespace troupe::trace
