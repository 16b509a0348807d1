// Asymmetric min/max groups with f16 scale and minimum: KIVI (Liu et al. 2024), and the uniform V
// of the rotation formats (as in vLLM). Codes are made with the *stored*, f16-rounded parameters,
// else one may differ by one. A group without spread has scale 0 and codes 0, and decodes to its
// minimum exactly (the reference divides by zero there).
#pragma once

#include "kernels/math/half.h"
#include "kernels/math/round.h"

#include <cstdint>

namespace troupe::kernels {

struct MinMaxGroup {
  float scale = 0;
  float zero = 0;  // the minimum
};

/// KIVI's parameters before they are stored.
TROUPE_HD inline MinMaxGroup minmax_group(float low, float high, uint32_t bits) noexcept {
  return {(high - low) / static_cast<float>((1U << bits) - 1), low};
}

/// What f16 keeps of them.
TROUPE_HD inline MinMaxGroup minmax_rounded(const MinMaxGroup& group) noexcept {
  return {f16_to_f32(f32_to_f16_finite(group.scale)), f16_to_f32(f32_to_f16_finite(group.zero))};
}

/// KIVI: ties to even.
TROUPE_HD inline uint8_t minmax_code(float x, const MinMaxGroup& group, uint32_t bits) noexcept {
  if (group.scale == 0) {
    return 0;
  }
  const auto top = static_cast<float>((1U << bits) - 1);
  const float scaled = clamp_float((tame(x) - group.zero) / group.scale, 0.0F, top);
  return static_cast<uint8_t>(round_half_even(scaled));
}

/// Uniform V of the rotation formats: ties go up.
TROUPE_HD inline uint8_t minmax_code_up(float x, const MinMaxGroup& group, uint32_t bits) noexcept {
  if (group.scale == 0) {
    return 0;
  }
  const auto top = static_cast<float>((1U << bits) - 1);
  const float scaled = (tame(x) - group.zero) / group.scale + 0.5F;
  return static_cast<uint8_t>(clamp_float(scaled, 0.0F, top));
}

TROUPE_HD inline float minmax_value(uint8_t code, const MinMaxGroup& group) noexcept {
  return static_cast<float>(code) * group.scale + group.zero;
}

}  // namespace troupe::kernels
