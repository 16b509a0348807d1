// Tiles: how the values of one layer, one plane and one kv head of a block lie in memory, for every
// format that kernels can read. A block is its planes one after the other, a plane its layers, a
// layer its kv heads: [plane][layer][head] tiles, all of one size, no gaps.
//   by token    [tokens][row of codes], then [tokens][parameters]        (all but KIVI's keys)
//   by channel  [width][codes of the tokens], then [groups][width] scales, the same of minima (KIVI
//   K)
// A tile is written once, from all its tokens, and the bytes depend on the values alone: equal
// blocks are equal bytes. Codes and parameters: kernels/math. The sizes agree with runtime/layout's
// bytes-per-block function, which is the one that the runtime uses; tests compare the two.
#pragma once

#include "kernels/math/hadamard.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::kernels {

/// The numbers are those of runtime/layout's Format.
enum class Coding : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBf16 = 2,
  kFp8E4m3 = 3,
  kFp8E5m2 = 4,
  kInt8 = 5,
  kInt4 = 6,
  kKivi4 = 7,
  kKivi2 = 8,
  kTq4 = 12,
  kTq3 = 13,
  kTq2 = 14,
};

enum class Role : uint8_t { kKey, kValue };

struct CodingInfo {
  Coding coding;
  const char* name;
  uint32_t bits;  // of one code
  bool rotated_key;
  bool rotated_value;
};

/// All codings that have kernels.
std::span<const CodingInfo> all_codings() noexcept;
/// The coding must be one of them.
const CodingInfo& coding_info(Coding coding) noexcept;

/// Tokens (keys) or channels (values) that share KIVI's scale and minimum.
constexpr uint32_t kKiviGroup = 32;
constexpr uint32_t kTileWidthMax = 4096;
constexpr uint32_t kTileTokensMax = 4096;

struct TileShape {
  Coding coding = Coding::kF16;
  Role role = Role::kKey;
  uint32_t tokens = 0;
  uint32_t width = 0;  // values per token: the head dimension
};

/// Parameters of a namespace, equal for all its blocks and part of their key.
struct TileParams {
  float fp8_scale = 1.0F;  // stored = value / scale, per tensor (k_scale or v_scale)
  uint64_t rotation_seed = kRotationSeed;
};

/// Errors: invalid_argument (unknown coding, tokens or width 0 or too large, KIVI with tokens or
/// width that are no multiple of its group, int4 with an odd width).
Status check_tile(const TileShape& shape);

/// Bytes of the tile, and where its parameters begin. [shape must pass check_tile]
uint64_t tile_bytes(const TileShape& shape) noexcept;
uint64_t tile_params_offset(const TileShape& shape) noexcept;
/// Bytes of one row of codes: of a token, or of a channel for KIVI's keys.
uint64_t tile_row_bytes(const TileShape& shape) noexcept;
constexpr bool by_channel(const TileShape& shape) noexcept {
  return shape.role == Role::kKey &&
         (shape.coding == Coding::kKivi4 || shape.coding == Coding::kKivi2);
}

/// Writes tile_bytes(shape) bytes from values [tokens, width]. Reference of every other encoder.
void encode_tile(const TileShape& shape, const TileParams& params, const float* values,
                 std::byte* tile);

/// Values [tokens, width] of a tile.
void decode_tile(const TileShape& shape, const TileParams& params, const std::byte* tile,
                 float* values);

/// As decode_tile, but rotated formats stay rotated (see rotation_of): what attention reads, since
/// it rotates the query and the output instead.
void decode_tile_raw(const TileShape& shape, const TileParams& params, const std::byte* tile,
                     float* values);

/// How a tile's raw values stand to the true ones.
enum class Rotation : uint8_t {
  kNone,
  kSigned,  // raw = H S x, not normalised: <x, y> = <raw x, raw y> / hadamard_block(width)
  kPlain,   // raw = H x / sqrt(block): <x, y> = <raw x, H y> / sqrt(block)
};
Rotation rotation_of(Coding coding, Role role) noexcept;

}  // namespace troupe::kernels
