// Reference encoders of tiles, on the shared math headers: plain loops, and the specification of
// every faster path (SIMD, GPU), which must give the same bytes.
#include "kernels/formats.h"
#include "kernels/math/fp8.h"
#include "kernels/math/half.h"
#include "kernels/math/int_token_head.h"
#include "kernels/math/lloyd_max.h"
#include "kernels/math/minmax.h"
#include "kernels/math/pack.h"
#include "kernels/tile_parts.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe::kernels {
namespace {

struct Range {
  float low = 0;
  float high = 0;
};

/// Smallest and largest of `count` values, `stride` apart.
Range range_of(const float* x, size_t count, size_t stride) {
  Range range{tame(x[0]), tame(x[0])};
  for (size_t i = 1; i < count; ++i) {
    range.low = std::min(range.low, tame(x[i * stride]));
    range.high = std::max(range.high, tame(x[i * stride]));
  }
  return range;
}

void encode_float(const TileShape& shape, const TileParams& params, const float* x,
                  std::byte* tile) {
  const size_t count = size_t{shape.tokens} * shape.width;
  for (size_t i = 0; i < count; ++i) {
    switch (shape.coding) {
      case Coding::kF16:
        put(tile, i, f32_to_f16(x[i]));
        break;
      case Coding::kBf16:
        put(tile, i, f32_to_bf16(x[i]));
        break;
      case Coding::kFp8E4m3:
        put(tile, i, f32_to_fp8<E4m3>(x[i] / params.fp8_scale));
        break;
      case Coding::kFp8E5m2:
        put(tile, i, f32_to_fp8<E5m2>(x[i] / params.fp8_scale));
        break;
      default:
        put(tile, i, x[i]);
        break;
    }
  }
}

void encode_int8(const TileShape& shape, const float* x, std::byte* tile) {
  const Out out(shape, tile);
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    const Range range = range_of(x, shape.width, 1);
    const float scale = int8_scale(std::max(-range.low, range.high));
    const float inverse = 1.0F / scale;
    for (size_t i = 0; i < shape.width; ++i) {
      out.row(t)[i] = static_cast<uint8_t>(int8_code(x[i], inverse));
    }
    put(out.params, t, scale);
  }
}

void encode_int4(const TileShape& shape, const TileParams& params, const float* x,
                 std::byte* tile) {
  const Out out(shape, tile);
  std::vector<float> rotated(shape.width);
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    std::transform(x, x + shape.width, rotated.begin(), tame);
    rotate_signed(rotated.data(), shape.width, params.rotation_seed);
    const Range range = range_of(rotated.data(), shape.width, 1);
    const Int4Row row = int4_row(std::min(range.low, 0.0F), std::max(range.high, 0.0F));
    for (size_t i = 0; i < shape.width; ++i) {
      pack_code(out.row(t), i, 4, int4_code(rotated[i], row));
    }
    put(out.params, t, int4_pack_row(row));
  }
}

/// Keys: groups of tokens per channel. Scales of all groups and channels, then their minima.
void encode_kivi_key(const TileShape& shape, uint32_t bits, const float* x, std::byte* tile) {
  const Out out(shape, tile);
  const size_t all = size_t{shape.tokens} / kKiviGroup * shape.width;
  for (size_t first = 0; first < shape.tokens; first += kKiviGroup) {
    for (size_t c = 0; c < shape.width; ++c) {
      const float* column = x + first * shape.width + c;
      const Range range = range_of(column, kKiviGroup, shape.width);
      const MinMaxGroup group = minmax_rounded(minmax_group(range.low, range.high, bits));
      for (size_t t = 0; t < kKiviGroup; ++t) {
        pack_code(out.row(c), first + t, bits, minmax_code(column[t * shape.width], group, bits));
      }
      const size_t at = first / kKiviGroup * shape.width + c;
      put(out.params, at, f32_to_f16_finite(group.scale));
      put(out.params, all + at, f32_to_f16_finite(group.zero));
    }
  }
}

/// Values: groups of channels per token; `group_width` channels each. Scales, then minima.
template <class Coder>
void encode_minmax_rows(const TileShape& shape, uint32_t bits, size_t group_width, const float* x,
                        std::byte* tile, Coder coder) {
  const Out out(shape, tile);
  const size_t groups = shape.width / group_width;
  const size_t all = groups * shape.tokens;
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    for (size_t g = 0; g < groups; ++g) {
      const float* part = x + g * group_width;
      const Range range = range_of(part, group_width, 1);
      const MinMaxGroup group = minmax_rounded(minmax_group(range.low, range.high, bits));
      for (size_t i = 0; i < group_width; ++i) {
        pack_code(out.row(t), g * group_width + i, bits, coder(part[i], group, bits));
      }
      put(out.params, t * groups + g, f32_to_f16_finite(group.scale));
      put(out.params, all + t * groups + g, f32_to_f16_finite(group.zero));
    }
  }
}

template <uint32_t kBits>
void encode_tq_key(const TileShape& shape, const float* x, std::byte* tile) {
  const Out out(shape, tile);
  std::vector<float> rotated(shape.width);
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    std::transform(x, x + shape.width, rotated.begin(), tame);
    double square = 0;
    for (const float value : rotated) {
      square += static_cast<double>(value) * value;
    }
    const double norm = std::sqrt(square);
    hadamard(rotated.data(), shape.width);
    // Unit variance per channel: y / norm * sqrt(width), and the rotation itself adds sqrt(block).
    const double spread = std::sqrt(static_cast<double>(shape.width) /
                                    static_cast<double>(hadamard_block(shape.width)));
    const auto unit = static_cast<float>(norm > 0 ? spread / norm : 0.0);
    for (size_t i = 0; i < shape.width; ++i) {
      pack_code(out.row(t), i, kBits, lloyd_code<kBits>(rotated[i] * unit));
    }
    put(out.params, t, f32_to_f16_finite(static_cast<float>(norm)));
  }
}

void encode_tq(const TileShape& shape, uint32_t bits, const float* x, std::byte* tile) {
  if (shape.role == Role::kValue) {
    encode_minmax_rows(shape, bits, shape.width, x, tile, minmax_code_up);
  } else if (bits == 4) {
    encode_tq_key<4>(shape, x, tile);
  } else if (bits == 3) {
    encode_tq_key<3>(shape, x, tile);
  } else {
    encode_tq_key<2>(shape, x, tile);
  }
}

}  // namespace

void encode_tile(const TileShape& shape, const TileParams& params, const float* values,
                 std::byte* tile) {
  TROUPE_ASSERT(check_tile(shape).is_ok());
  const uint32_t bits = coding_info(shape.coding).bits;
  std::memset(tile, 0, tile_bytes(shape));  // packing adds to zeros
  switch (shape.coding) {
    case Coding::kF32:
    case Coding::kF16:
    case Coding::kBf16:
    case Coding::kFp8E4m3:
    case Coding::kFp8E5m2:
      encode_float(shape, params, values, tile);
      break;
    case Coding::kInt8:
      encode_int8(shape, values, tile);
      break;
    case Coding::kInt4:
      encode_int4(shape, params, values, tile);
      break;
    case Coding::kKivi4:
    case Coding::kKivi2:
      if (shape.role == Role::kKey) {
        encode_kivi_key(shape, bits, values, tile);
      } else {
        encode_minmax_rows(shape, bits, kKiviGroup, values, tile, minmax_code);
      }
      break;
    case Coding::kTq4:
    case Coding::kTq3:
    case Coding::kTq2:
      encode_tq(shape, bits, values, tile);
      break;
  }
}

}  // namespace troupe::kernels
