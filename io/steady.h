// The monotonic clock of the I/O libraries: for waiting and for measured latencies only, never in a
// decision that must replay.
#pragma once

#include <chrono>
#include <cstdint>

namespace troupe::io {

inline int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace troupe::io
