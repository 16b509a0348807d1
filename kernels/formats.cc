#include "kernels/formats.h"

#include "kernels/math/pack.h"

#include <array>
#include <string>

namespace troupe::kernels {
namespace {

constexpr std::array<CodingInfo, 12> kCodings = {{
    {Coding::kF32, "f32", 32, false, false},
    {Coding::kF16, "f16", 16, false, false},
    {Coding::kBf16, "bf16", 16, false, false},
    {Coding::kFp8E4m3, "fp8_e4m3", 8, false, false},
    {Coding::kFp8E5m2, "fp8_e5m2", 8, false, false},
    {Coding::kInt8, "int8", 8, false, false},
    {Coding::kInt4, "int4", 4, true, true},
    {Coding::kKivi4, "kivi4", 4, false, false},
    {Coding::kKivi2, "kivi2", 2, false, false},
    {Coding::kTq4, "tq4", 4, true, false},
    {Coding::kTq3, "tq3", 3, true, false},
    {Coding::kTq2, "tq2", 2, true, false},
}};

/// Bytes of scales, minima and norms of a whole tile.
uint64_t params_bytes(const TileShape& shape) noexcept {
  const uint64_t tokens = shape.tokens;
  switch (shape.coding) {
    case Coding::kF32:
    case Coding::kF16:
    case Coding::kBf16:
    case Coding::kFp8E4m3:
    case Coding::kFp8E5m2:
      return 0;
    case Coding::kInt8:
    case Coding::kInt4:
      return tokens * 4;
    case Coding::kKivi4:
    case Coding::kKivi2:
      return tokens * shape.width / kKiviGroup * 4;  // f16 scale and minimum, either role
    case Coding::kTq4:
    case Coding::kTq3:
    case Coding::kTq2:
      return tokens * (shape.role == Role::kKey ? 2 : 4);
  }
  return 0;
}

}  // namespace

std::span<const CodingInfo> all_codings() noexcept {
  return kCodings;
}

const CodingInfo& coding_info(Coding coding) noexcept {
  for (const CodingInfo& info : kCodings) {
    if (info.coding == coding) {
      return info;
    }
  }
  TROUPE_ASSERT(false);
}

Status check_tile(const TileShape& shape) {
  bool known = false;
  for (const CodingInfo& info : kCodings) {
    known = known || info.coding == shape.coding;
  }
  if (!known) {
    return {Code::kInvalidArgument,
            "coding " + std::to_string(static_cast<unsigned>(shape.coding)) + " has no kernels"};
  }
  const std::string name = coding_info(shape.coding).name;
  if (shape.tokens == 0 || shape.tokens > kTileTokensMax) {
    return {Code::kInvalidArgument, name + " tile of " + std::to_string(shape.tokens) +
                                        " tokens: must be 1 to " + std::to_string(kTileTokensMax)};
  }
  if (shape.width == 0 || shape.width > kTileWidthMax) {
    return {Code::kInvalidArgument, name + " tile of width " + std::to_string(shape.width) +
                                        ": must be 1 to " + std::to_string(kTileWidthMax)};
  }
  const bool kivi = shape.coding == Coding::kKivi4 || shape.coding == Coding::kKivi2;
  const uint32_t along = shape.role == Role::kKey ? shape.tokens : shape.width;
  if (kivi && along % kKiviGroup != 0) {
    return {Code::kInvalidArgument, name + ": " +
                                        (shape.role == Role::kKey ? "block of " : "width ") +
                                        std::to_string(along) + " is no multiple of the group of " +
                                        std::to_string(kKiviGroup)};
  }
  return Status::ok();
}

uint64_t tile_row_bytes(const TileShape& shape) noexcept {
  return packed_bytes(by_channel(shape) ? shape.tokens : shape.width,
                      coding_info(shape.coding).bits);
}

uint64_t tile_params_offset(const TileShape& shape) noexcept {
  return tile_row_bytes(shape) * (by_channel(shape) ? shape.width : shape.tokens);
}

uint64_t tile_bytes(const TileShape& shape) noexcept {
  return tile_params_offset(shape) + params_bytes(shape);
}

Rotation rotation_of(Coding coding, Role role) noexcept {
  const CodingInfo& info = coding_info(coding);
  if (!(role == Role::kKey ? info.rotated_key : info.rotated_value)) {
    return Rotation::kNone;
  }
  return coding == Coding::kInt4 ? Rotation::kSigned : Rotation::kPlain;
}

}  // namespace troupe::kernels
