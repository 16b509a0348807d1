// int8 and int4 with one f32 scale per token and head (vLLM's per_token_head formats). int8 is
// symmetric; int4 is asymmetric with an integer zero point that lies in the four low mantissa bits
// of the scale. Against the source the range of int4 is widened to include 0: else a row of one
// sign saturates the zero point and clips. int4 rows arrive rotated (hadamard.h).
#pragma once

#include "kernels/math/half.h"
#include "kernels/math/round.h"

#include <cstdint>

namespace troupe::kernels {

constexpr float kIntScaleMin = 1e-6F;

TROUPE_HD inline float int8_scale(float absmax) noexcept {
  const float scale = absmax / 127.0F;
  return scale > kIntScaleMin ? scale : kIntScaleMin;
}

/// `inverse` is 1 / scale.
TROUPE_HD inline int8_t int8_code(float x, float inverse) noexcept {
  const float scaled = clamp_float(tame(x) * inverse, -1000.0F, 1000.0F);
  return static_cast<int8_t>(clamp_int(round_half_away(scaled), -128, 127));
}

/// Scale and zero point of an int4 row.
struct Int4Row {
  float scale = 0;  // as the codes are made
  int32_t zero = 0;
};

/// `low` <= 0 <= `high`: the caller has widened the range.
TROUPE_HD inline Int4Row int4_row(float low, float high) noexcept {
  Int4Row row;
  const float scale = (high - low) / 15.0F;
  row.scale = scale > kIntScaleMin ? scale : kIntScaleMin;
  row.zero = clamp_int(round_half_away(clamp_float(-low / row.scale, -100.0F, 100.0F)), 0, 15);
  return row;
}

TROUPE_HD inline uint8_t int4_code(float x, const Int4Row& row) noexcept {
  const float scaled = clamp_float(tame(x) / row.scale, -1000.0F, 1000.0F);
  return static_cast<uint8_t>(clamp_int(round_half_away(scaled) + row.zero, 0, 15));
}

/// What is stored: the scale's bits with the zero point in the four lowest.
TROUPE_HD inline uint32_t int4_pack_row(const Int4Row& row) noexcept {
  return (bits_of(row.scale) & ~0xFU) | static_cast<uint32_t>(row.zero);
}
TROUPE_HD inline Int4Row int4_unpack_row(uint32_t word) noexcept {
  return {float_of(word & ~0xFU), static_cast<int32_t>(word & 0xFU)};
}
TROUPE_HD inline float int4_value(uint8_t code, const Int4Row& row) noexcept {
  return static_cast<float>(static_cast<int32_t>(code) - row.zero) * row.scale;
}

}  // namespace troupe::kernels
