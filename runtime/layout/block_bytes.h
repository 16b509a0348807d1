// How many bytes a block takes: the one function that allocator, tiers, arenas, `troupe size` and
// the engines' namespace handshake all use. Metadata (scales, norms, outliers) is counted;
// alignment is not: a slot is a run of granules and rounds up by itself.
#pragma once

#include "runtime/layout/layout.h"

#include <cstddef>
#include <cstdint>

namespace troupe {

/// validate(layout), and what `format` asks of it: KIVI's groups of 32 lie within a block, along
/// its tokens (K, latents) or a head's width (V). Errors: invalid argument, naming group, plane,
/// value and limit.
Status validate(const KvLayout& layout, Format format);

/// Bytes of one block of `layout.groups[group]` for this shard, stored in `format`. Rope keys,
/// indexer keys and states keep their own dtype in every format. [layout must pass validate with
/// this format; group must exist]
uint64_t bytes_per_block(const KvLayout& layout, size_t group, Format format) noexcept;

/// The same over all groups: what one block's worth of new tokens costs before windows let go of
/// any.
uint64_t bytes_per_block(const KvLayout& layout, Format format) noexcept;

/// Bytes of one plane in one block.
uint64_t plane_bytes(const KvLayout& layout, const Plane& plane, Format format) noexcept;

/// Most blocks of a group that a sequence of `tokens` needs at one time: all of them, or those that
/// a sliding window touches wherever it lies relative to block borders.
uint64_t blocks_per_sequence(const KvLayout& layout, size_t group, uint64_t tokens) noexcept;

/// Bytes that a sequence of `tokens` takes in whole blocks, over all groups.
uint64_t paged_bytes(const KvLayout& layout, Format format, uint64_t tokens) noexcept;

}  // namespace troupe
