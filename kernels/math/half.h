// f16 and bf16 from and to f32, to nearest even, equal on host and GPU because it is integer work.
// NaN stays a (quiet) NaN; too large becomes infinity, as IEEE 754 says. Saturating f16 is for
// stored scales, which must stay finite.
#pragma once

#include "kernels/math/host_device.h"

#include <cstdint>
#include <cstring>

namespace troupe::kernels {

TROUPE_HD inline uint32_t bits_of(float x) noexcept {
  uint32_t bits = 0;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TROUPE_HD inline float float_of(uint32_t bits) noexcept {
  float x = 0;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

/// `mantissa` >> `shift` to nearest, ties to even. shift 1 … 31.
TROUPE_HD inline uint32_t shift_round_even(uint32_t mantissa, uint32_t shift) noexcept {
  const uint32_t kept = mantissa >> shift;
  const uint32_t rest = mantissa & ((1U << shift) - 1);
  const uint32_t half = 1U << (shift - 1);
  return kept + ((rest > half || (rest == half && (kept & 1) != 0)) ? 1U : 0U);
}

TROUPE_HD inline float f16_to_f32(uint16_t h) noexcept {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
  const uint32_t exponent = (h >> 10) & 0x1FU;
  const uint32_t mantissa = h & 0x3FFU;
  if (exponent == 0x1F) {
    return float_of(sign | 0x7F800000U | (mantissa << 13));
  }
  if (exponent != 0) {
    return float_of(sign | ((exponent + 112) << 23) | (mantissa << 13));
  }
  const float magnitude = static_cast<float>(mantissa) * 5.9604644775390625e-8F;  // 2^-24, exact
  return float_of(sign | bits_of(magnitude));
}

TROUPE_HD inline uint16_t f32_to_f16(float x) noexcept {
  const uint32_t bits = bits_of(x);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {
    return static_cast<uint16_t>(sign | 0x7E00U);
  }
  if (magnitude >= 0x477FF000U) {  // 65520: half way to 2^16, rounds to infinity
    return static_cast<uint16_t>(sign | 0x7C00U);
  }
  const uint32_t exponent = magnitude >> 23;
  if (exponent >= 113) {  // normal: 2^-14 and more
    const uint32_t rounded = shift_round_even(magnitude - (112U << 23), 13);
    return static_cast<uint16_t>(sign | rounded);
  }
  if (exponent < 102) {  // below 2^-25
    return sign;
  }
  const uint32_t mantissa = (magnitude & 0x7FFFFFU) | 0x800000U;
  return static_cast<uint16_t>(sign | shift_round_even(mantissa, 126 - exponent));
}

/// The nearest finite f16: ±65504 for what is larger. NaN becomes 0.
TROUPE_HD inline uint16_t f32_to_f16_finite(float x) noexcept {
  const uint16_t h = f32_to_f16(x);
  if ((h & 0x7C00U) != 0x7C00U) {
    return h;
  }
  return (h & 0x3FFU) != 0 ? uint16_t{0} : static_cast<uint16_t>((h & 0x8000U) | 0x7BFFU);
}

TROUPE_HD inline float bf16_to_f32(uint16_t b) noexcept {
  return float_of(static_cast<uint32_t>(b) << 16);
}

TROUPE_HD inline uint16_t f32_to_bf16(float x) noexcept {
  const uint32_t bits = bits_of(x);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
    return static_cast<uint16_t>((bits >> 16) | 0x40U);
  }
  return static_cast<uint16_t>(shift_round_even(bits & 0x7FFFFFFFU, 16) | ((bits >> 16) & 0x8000U));
}

}  // namespace troupe::kernels
