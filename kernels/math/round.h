// Rounding and clamping that quantizers share: no rounding mode, no library call, so equal on host
// and GPU.
#pragma once

#include "kernels/math/host_device.h"

#include <cstdint>

namespace troupe::kernels {

/// To nearest, ties to even. |x| < 2^22.
TROUPE_HD inline int32_t round_half_even(float x) noexcept {
  const auto floor_value =
      static_cast<int32_t>(x) - (x < static_cast<float>(static_cast<int32_t>(x)) ? 1 : 0);
  const float rest = x - static_cast<float>(floor_value);
  const bool up = rest > 0.5F || (rest == 0.5F && (floor_value & 1) != 0);
  return floor_value + (up ? 1 : 0);
}

/// To nearest, ties away from zero. |x| < 2^22.
TROUPE_HD inline int32_t round_half_away(float x) noexcept {
  const float magnitude = x < 0 ? -x : x;
  const auto whole = static_cast<int32_t>(magnitude);
  const int32_t rounded = whole + (magnitude - static_cast<float>(whole) >= 0.5F ? 1 : 0);
  return x < 0 ? -rounded : rounded;
}

TROUPE_HD constexpr int32_t clamp_int(int32_t x, int32_t low, int32_t high) noexcept {
  return x < low ? low : (x > high ? high : x);
}
TROUPE_HD constexpr float clamp_float(float x, float low, float high) noexcept {
  return x < low ? low : (x > high ? high : x);
}

/// What quantizers read: NaN counts as 0 and infinities as huge, so that one bad value can't turn a
/// whole group's scale into NaN.
TROUPE_HD constexpr float tame(float x) noexcept {
  constexpr float kHuge = 1e30F;
  return x != x ? 0.0F : clamp_float(x, -kHuge, kHuge);
}

}  // namespace troupe::kernels
