// Time inside the runtime: nanoseconds since the run began, carried by messages. No core reads a
// clock.
#pragma once

#include <compare>
#include <cstdint>

namespace troupe {

/// A point in time [ns since start] or, by context, a span [ns]. Signed, so that differences are
/// safe.
struct Tick {
  int64_t ns = 0;
  friend constexpr auto operator<=>(const Tick&, const Tick&) noexcept = default;
  constexpr Tick operator+(Tick o) const noexcept { return Tick{ns + o.ns}; }
  constexpr Tick operator-(Tick o) const noexcept { return Tick{ns - o.ns}; }
};

constexpr Tick from_us(int64_t us) noexcept { return Tick{us * 1000}; }
constexpr Tick from_ms(int64_t ms) noexcept { return Tick{ms * 1000000}; }
constexpr double to_ms(Tick t) noexcept { return static_cast<double>(t.ns) / 1e6; }
/// Later than any deadline.
constexpr Tick kNever{INT64_MAX};

}  // namespace troupe
