// Named points at which a test can kill the process: TROUPE_CRASH_AT=name:n ends it by SIGKILL at
// the n-th visit (from 1). Compiled in always, so that what is tested is what ships; a visit costs
// one load. Each point marks the border between two durable steps (before a write, after it, before
// a rename, …).
#pragma once

#include <span>
#include <string_view>

namespace troupe::io {

/// Dies here when the environment says so. [any thread]
void crash_point(std::string_view name) noexcept;
/// True at the visit at which `crash_point(name)` would die: lets a caller do half of its work
/// first.
bool crash_is_due(std::string_view name) noexcept;
/// Every name in use, so that a test can walk through all of them.
std::span<const std::string_view> crash_point_names() noexcept;

}  // namespace troupe::io
