// The offline bound: what a cache could do that knows the future.
// Prefix semantics: of the unpinned leaves the one used again farthest ahead leaves; insertion
// stops at the first block that is never used again, or whose own next use is not before the
// victim's. Object semantics: Belady's MIN with forced insertion (Belady, IBM Systems Journal
// 1966).
#pragma once

#include "apps/lab/replay.h"

namespace troupe::lab {

Counts opt_prefix(const Trace& trace, uint32_t capacity);
Counts opt_object(const Trace& trace, uint32_t capacity);

}  // namespace troupe::lab
