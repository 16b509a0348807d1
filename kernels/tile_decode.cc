// Reference decoders of tiles, on the shared math headers: plain loops, and the specification of
// every faster path.
#include "kernels/formats.h"
#include "kernels/math/fp8.h"
#include "kernels/math/half.h"
#include "kernels/math/int_token_head.h"
#include "kernels/math/lloyd_max.h"
#include "kernels/math/minmax.h"
#include "kernels/math/pack.h"
#include "kernels/tile_parts.h"

#include <cmath>

namespace troupe::kernels {
namespace {

void decode_float(const TileShape& shape, const TileParams& params, const std::byte* tile,
                  float* x) {
  const size_t count = size_t{shape.tokens} * shape.width;
  for (size_t i = 0; i < count; ++i) {
    switch (shape.coding) {
      case Coding::kF16:
        x[i] = f16_to_f32(get<uint16_t>(tile, i));
        break;
      case Coding::kBf16:
        x[i] = bf16_to_f32(get<uint16_t>(tile, i));
        break;
      case Coding::kFp8E4m3:
        x[i] = fp8_to_f32<E4m3>(get<uint8_t>(tile, i)) * params.fp8_scale;
        break;
      case Coding::kFp8E5m2:
        x[i] = fp8_to_f32<E5m2>(get<uint8_t>(tile, i)) * params.fp8_scale;
        break;
      default:
        x[i] = get<float>(tile, i);
        break;
    }
  }
}

void decode_int8(const TileShape& shape, const std::byte* tile, float* x) {
  const In in(shape, tile);
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    const float scale = get<float>(in.params, t);
    for (size_t i = 0; i < shape.width; ++i) {
      x[i] = static_cast<float>(static_cast<int8_t>(in.row(t)[i])) * scale;
    }
  }
}

void decode_int4(const TileShape& shape, const std::byte* tile, float* x) {
  const In in(shape, tile);
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    const Int4Row row = int4_unpack_row(get<uint32_t>(in.params, t));
    for (size_t i = 0; i < shape.width; ++i) {
      x[i] = int4_value(static_cast<uint8_t>(unpack_code(in.row(t), i, 4)), row);
    }
  }
}

void decode_kivi_key(const TileShape& shape, uint32_t bits, const std::byte* tile, float* x) {
  const In in(shape, tile);
  const size_t all = size_t{shape.tokens} / kKiviGroup * shape.width;
  for (size_t t = 0; t < shape.tokens; ++t) {
    for (size_t c = 0; c < shape.width; ++c) {
      const size_t at = t / kKiviGroup * shape.width + c;
      const MinMaxGroup group{f16_to_f32(get<uint16_t>(in.params, at)),
                              f16_to_f32(get<uint16_t>(in.params, all + at))};
      x[t * shape.width + c] =
          minmax_value(static_cast<uint8_t>(unpack_code(in.row(c), t, bits)), group);
    }
  }
}

void decode_minmax_rows(const TileShape& shape, uint32_t bits, size_t group_width,
                        const std::byte* tile, float* x) {
  const In in(shape, tile);
  const size_t groups = shape.width / group_width;
  const size_t all = groups * shape.tokens;
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    for (size_t i = 0; i < shape.width; ++i) {
      const size_t at = t * groups + i / group_width;
      const MinMaxGroup group{f16_to_f32(get<uint16_t>(in.params, at)),
                              f16_to_f32(get<uint16_t>(in.params, all + at))};
      x[i] = minmax_value(static_cast<uint8_t>(unpack_code(in.row(t), i, bits)), group);
    }
  }
}

template <uint32_t kBits>
void decode_tq_key(const TileShape& shape, const std::byte* tile, float* x) {
  const In in(shape, tile);
  const float unit = 1.0F / std::sqrt(static_cast<float>(shape.width));
  for (size_t t = 0; t < shape.tokens; ++t, x += shape.width) {
    const float scale = f16_to_f32(get<uint16_t>(in.params, t)) * unit;
    for (size_t i = 0; i < shape.width; ++i) {
      x[i] = lloyd_value<kBits>(unpack_code(in.row(t), i, kBits)) * scale;
    }
  }
}

void decode_tq(const TileShape& shape, uint32_t bits, const std::byte* tile, float* x) {
  if (shape.role == Role::kValue) {
    decode_minmax_rows(shape, bits, shape.width, tile, x);
  } else if (bits == 4) {
    decode_tq_key<4>(shape, tile, x);
  } else if (bits == 3) {
    decode_tq_key<3>(shape, tile, x);
  } else {
    decode_tq_key<2>(shape, tile, x);
  }
}

}  // namespace

void decode_tile_raw(const TileShape& shape, const TileParams& params, const std::byte* tile,
                     float* values) {
  TROUPE_ASSERT(check_tile(shape).is_ok());
  const uint32_t bits = coding_info(shape.coding).bits;
  switch (shape.coding) {
    case Coding::kF32:
    case Coding::kF16:
    case Coding::kBf16:
    case Coding::kFp8E4m3:
    case Coding::kFp8E5m2:
      decode_float(shape, params, tile, values);
      break;
    case Coding::kInt8:
      decode_int8(shape, tile, values);
      break;
    case Coding::kInt4:
      decode_int4(shape, tile, values);
      break;
    case Coding::kKivi4:
    case Coding::kKivi2:
      if (shape.role == Role::kKey) {
        decode_kivi_key(shape, bits, tile, values);
      } else {
        decode_minmax_rows(shape, bits, kKiviGroup, tile, values);
      }
      break;
    case Coding::kTq4:
    case Coding::kTq3:
    case Coding::kTq2:
      decode_tq(shape, bits, tile, values);
      break;
  }
}

void decode_tile(const TileShape& shape, const TileParams& params, const std::byte* tile,
                 float* values) {
  decode_tile_raw(shape, params, tile, values);
  const Rotation rotation = rotation_of(shape.coding, shape.role);
  const float unit = 1.0F / std::sqrt(static_cast<float>(hadamard_block(shape.width)));
  for (size_t t = 0; t < shape.tokens && rotation != Rotation::kNone; ++t) {
    float* row = values + t * shape.width;
    if (rotation == Rotation::kSigned) {
      unrotate_signed(row, shape.width, params.rotation_seed);
      continue;
    }
    hadamard(row, shape.width);
    for (size_t i = 0; i < shape.width; ++i) {
      row[i] *= unit;
    }
  }
}

}  // namespace troupe::kernels
