// 8-bit floats (Micikevicius et al. 2022, as vLLM and CUDA use them): e4m3 "fn" (bias 7, max 448,
// no infinity, NaN 0x7F) and e5m2 (bias 15, max 57344). To nearest even; saturating: what is too
// large, infinities included, becomes the largest finite value. NaN becomes 0x7F, sign dropped, in
// both.
#pragma once

#include "kernels/math/half.h"

#include <cstdint>

namespace troupe::kernels {

struct E4m3 {
  static constexpr uint32_t kMantissaBits = 3;
  static constexpr uint32_t kBias = 7;
  static constexpr uint8_t kMaxCode = 0x7E;
  static constexpr uint8_t kOverflowCode = 0x7F;  // not saturating: NaN
  static constexpr float kMax = 448.0F;
};
struct E5m2 {
  static constexpr uint32_t kMantissaBits = 2;
  static constexpr uint32_t kBias = 15;
  static constexpr uint8_t kMaxCode = 0x7B;
  static constexpr uint8_t kOverflowCode = 0x7C;  // not saturating: infinity
  static constexpr float kMax = 57344.0F;
};

constexpr uint8_t kFp8Nan = 0x7F;

template <class Kind, bool kSaturate = true>
TROUPE_HD inline uint8_t f32_to_fp8(float x) noexcept {
  const uint32_t bits = bits_of(x);
  const auto sign = static_cast<uint8_t>((bits >> 24) & 0x80U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return kFp8Nan;
  }
  const uint8_t too_large = kSaturate ? Kind::kMaxCode : Kind::kOverflowCode;
  const uint32_t exponent = magnitude >> 23;
  constexpr uint32_t kShift = 23 - Kind::kMantissaBits;
  constexpr uint32_t kRebias = 127 - Kind::kBias;
  if (exponent > kRebias + 31) {
    return static_cast<uint8_t>(sign | too_large);  // beyond any exponent of the format
  }
  uint32_t code = 0;
  if (exponent > kRebias) {
    code = shift_round_even(magnitude - (kRebias << 23), kShift);
  } else {
    const uint32_t deeper = kRebias + 1 - exponent;  // the format's subnormals
    const uint32_t mantissa = (magnitude & 0x7FFFFFU) | (exponent != 0 ? 0x800000U : 0U);
    code = kShift + deeper > 31 ? 0U : shift_round_even(mantissa, kShift + deeper);
  }
  return static_cast<uint8_t>(sign | (code > Kind::kMaxCode ? too_large : code));
}

template <class Kind>
TROUPE_HD inline float fp8_to_f32(uint8_t code) noexcept;

/// By way of f16, whose bias 15 is 8 more than e4m3's: a shift, then times 2^8.
template <>
TROUPE_HD inline float fp8_to_f32<E4m3>(uint8_t code) noexcept {
  if ((code & 0x7FU) == 0x7FU) {
    return float_of(0x7FC00000U);
  }
  const auto half = static_cast<uint16_t>(((code & 0x80U) << 8) | ((code & 0x7FU) << 7));
  return f16_to_f32(half) * 256.0F;
}

template <>
TROUPE_HD inline float fp8_to_f32<E5m2>(uint8_t code) noexcept {
  return f16_to_f32(static_cast<uint16_t>(code << 8));
}

}  // namespace troupe::kernels
