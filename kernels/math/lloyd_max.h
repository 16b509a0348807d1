// Lloyd-Max codebooks of N(0,1) for 2, 3 and 4 bits (Lloyd 1982; the tables were computed by
// fixed-point iteration and agree with the published ones), and the code of the rotation formats
// built on them (TurboQuant-MSE, Zandieh et al. 2025, as in vLLM): a vector's norm, and for each
// rotated channel, scaled to unit variance, the nearest centroid. A value on a border goes up.
#pragma once

#include "kernels/math/host_device.h"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Positive centroids and borders; the books are symmetric about 0, which is itself a border.
template <uint32_t kBits>
struct LloydMax;

template <>
struct LloydMax<2> {
  static constexpr uint32_t kHalf = 2;
  static constexpr float kCentroids[kHalf] = {0.452780035F, 1.51041761F};
  static constexpr float kBorders[kHalf - 1] = {0.981598822F};
};

template <>
struct LloydMax<3> {
  static constexpr uint32_t kHalf = 4;
  static constexpr float kCentroids[kHalf] = {0.245094179F, 0.756005281F, 1.34390928F, 2.1519457F};
  static constexpr float kBorders[kHalf - 1] = {0.50054973F, 1.04995728F, 1.74792749F};
};

template <>
struct LloydMax<4> {
  static constexpr uint32_t kHalf = 8;
  static constexpr float kCentroids[kHalf] = {0.12839503F, 0.388048299F, 0.656759119F, 0.942340456F,
                                              1.2562312F,  1.61804639F,  2.06901723F,  2.73258957F};
  static constexpr float kBorders[kHalf - 1] = {
      0.258221665F, 0.522403709F, 0.799549788F, 1.09928583F, 1.43713879F, 1.84353181F, 2.4008034F};
};

/// Centroid of a code, for unit variance. Code 0 is the lowest.
template <uint32_t kBits>
TROUPE_HD constexpr float lloyd_value(uint32_t code) noexcept {
  constexpr uint32_t kHalf = LloydMax<kBits>::kHalf;
  return code >= kHalf ? LloydMax<kBits>::kCentroids[code - kHalf]
                       : -LloydMax<kBits>::kCentroids[kHalf - 1 - code];
}

/// Code of the nearest centroid.
template <uint32_t kBits>
TROUPE_HD constexpr uint32_t lloyd_code(float y) noexcept {
  constexpr uint32_t kHalf = LloydMax<kBits>::kHalf;
  uint32_t code = y >= 0 ? kHalf : kHalf - 1;
  for (uint32_t i = 0; i + 1 < kHalf; ++i) {
    code += y >= LloydMax<kBits>::kBorders[i] ? 1U : 0U;
    code -= y < -LloydMax<kBits>::kBorders[i] ? 1U : 0U;
  }
  return code;
}

}  // namespace troupe::kernels
