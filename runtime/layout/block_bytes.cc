// The rules of each format, from the papers and implementations that define it. Rows of codes are
// padded to whole bytes; nothing else is. n below is a head's width.
#include "runtime/layout/block_bytes.h"

#include <algorithm>

namespace troupe {
namespace {

constexpr uint64_t kF16Bytes = 2;
constexpr uint64_t kF32Bytes = 4;
constexpr uint64_t kKiviGroup = 32;  // tokens (K) or channels (V) that share scale and minimum
constexpr uint64_t kLatentFp8Group = 128;   // values of a latent that share an f32 scale (FlashMLA)
constexpr uint64_t kNuqOutlierShare = 100;  // one value in a hundred is kept apart
constexpr uint64_t kNuqOutlierBytes = 4;    // f16 value and u16 index within the token

constexpr uint64_t ceil_div(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}
constexpr uint64_t code_bytes(uint64_t values, uint64_t bits) {
  return ceil_div(values * bits, 8);
}

/// Which rule of a format a plane follows.
enum class As : uint8_t { kNever, kKey, kValue, kLatent };

As quantized_as(PlaneKind kind) noexcept {
  switch (kind) {
    case PlaneKind::kKey:
    case PlaneKind::kKeyValue:
      return As::kKey;
    case PlaneKind::kValue:
      return As::kValue;
    case PlaneKind::kLatent:
      return As::kLatent;
    case PlaneKind::kRopeKey:  // quantizing the rotated part costs accuracy and saves a ninth
    case PlaneKind::kIndexer:
    case PlaneKind::kState:  // errors of a state accumulate over the sequence
      return As::kNever;
  }
  return As::kNever;
}

/// Bytes of one layer's plane: `entries` values along the tokens, `heads` heads of `n` values.
uint64_t layer_bytes(As as, Format format, uint64_t entries, uint64_t heads, uint64_t n) noexcept {
  const uint64_t bits = format_info(format).code_bits;
  const uint64_t rows = entries * heads;
  const uint64_t codes = rows * code_bytes(n, bits);
  switch (format) {
    case Format::kF32:
    case Format::kF16:
    case Format::kBf16:
      return codes;
    case Format::kFp8E4m3:
    case Format::kFp8E5m2:
      // K and V: one scale per tensor, part of the checkpoint and so of the namespace, not of a
      // block.
      return as == As::kLatent ? codes + rows * ceil_div(n, kLatentFp8Group) * kF32Bytes : codes;
    case Format::kInt8:
    case Format::kInt4:  // the zero point lies in the low bits of the scale's mantissa
      return codes + rows * kF32Bytes;
    case Format::kKivi4:
    case Format::kKivi2: {
      if (as == As::kValue) {
        return codes + rows * (n / kKiviGroup) * 2 * kF16Bytes;
      }
      // Per channel: codes run along the tokens of a group.
      const uint64_t along = heads * n * code_bytes(entries, bits);
      return along + heads * n * (entries / kKiviGroup) * 2 * kF16Bytes;
    }
    case Format::kNuq4:
    case Format::kNuq3:
    case Format::kNuq2: {
      // Thresholds of K are calibration tables, outside the block. A token's outliers have a fixed
      // number of places, so that blocks are equally long.
      const uint64_t token =
          code_bytes(heads * n, bits) + ceil_div(heads * n, kNuqOutlierShare) * kNuqOutlierBytes;
      return entries * (token + (as == As::kValue ? 2 * kF16Bytes : 0));
    }
    case Format::kTq4:
    case Format::kTq3:
    case Format::kTq2:
      return codes + rows * (as == As::kValue ? 2 * kF16Bytes : kF16Bytes);
  }
  return 0;
}

/// Values along which a format's groups of scales lie.
uint64_t entries_of(const KvLayout& layout, const Plane& plane) noexcept {
  const Shard& shard = layout.shard;
  const uint64_t tokens = shard.token_count == 0 ? layout.block_tokens : shard.token_count;
  return plane.rate.state ? 1 : tokens / plane.rate.per_tokens;
}

}  // namespace

Status validate(const KvLayout& layout, Format format) {
  TROUPE_TRY(validate(layout));
  if (format != Format::kKivi4 && format != Format::kKivi2) {
    return Status::ok();
  }
  for (const LayerGroup& group : layout.groups) {
    for (const Plane& plane : group.planes) {
      const As as = quantized_as(plane.kind);
      const bool along_tokens = as != As::kValue;
      const uint64_t along = along_tokens ? entries_of(layout, plane) : plane.width;
      if (as != As::kNever && along % kKiviGroup != 0) {
        return {Code::kInvalidArgument,
                std::string(format_name(format)) + ": group " + group.name + ", plane " +
                    std::string(plane_kind_name(plane.kind)) + ": " +
                    (along_tokens ? "a block of " : "a width of ") + std::to_string(along) +
                    (along_tokens ? " tokens" : "") + " is no multiple of the format's group of " +
                    std::to_string(kKiviGroup)};
      }
    }
  }
  return Status::ok();
}

uint64_t plane_bytes(const KvLayout& layout, const Plane& plane, Format format) noexcept {
  const uint64_t entries = entries_of(layout, plane);
  const uint64_t heads = std::max<uint64_t>(1, plane.heads / layout.shard.tensor_size);
  const As as = quantized_as(plane.kind);
  if (as == As::kNever) {
    // An indexer key in fp8 brings the latent's scales, one f32 per 128 values.
    return plane.layers * layer_bytes(As::kLatent, plane.dtype, entries, heads, plane.width);
  }
  return plane.layers * layer_bytes(as, format, entries, heads, plane.width);
}

uint64_t bytes_per_block(const KvLayout& layout, size_t group, Format format) noexcept {
  TROUPE_ASSERT(group < layout.groups.size());
  uint64_t bytes = 0;
  for (const Plane& plane : layout.groups[group].planes) {
    bytes += plane_bytes(layout, plane, format);
  }
  return bytes;
}

uint64_t bytes_per_block(const KvLayout& layout, Format format) noexcept {
  uint64_t bytes = 0;
  for (size_t group = 0; group < layout.groups.size(); ++group) {
    bytes += bytes_per_block(layout, group, format);
  }
  return bytes;
}

uint64_t blocks_per_sequence(const KvLayout& layout, size_t group, uint64_t tokens) noexcept {
  TROUPE_ASSERT(group < layout.groups.size());
  const uint64_t all = ceil_div(tokens, layout.block_tokens);
  const uint64_t window = layout.groups[group].window_tokens;
  if (window == 0) {
    return all;
  }
  // w consecutive tokens touch at most ceil((w - 1) / b) + 1 blocks of b.
  return std::min(all, ceil_div(window - 1, layout.block_tokens) + 1);
}

uint64_t paged_bytes(const KvLayout& layout, Format format, uint64_t tokens) noexcept {
  uint64_t bytes = 0;
  for (size_t group = 0; group < layout.groups.size(); ++group) {
    bytes += blocks_per_sequence(layout, group, tokens) * bytes_per_block(layout, group, format);
  }
  return bytes;
}

}  // namespace troupe
