// What an engine would compute, as bytes that prove themselves: each token's piece of a block is a
// function of all tokens up to it and of the block's parent key, which binds domain and adapter. So
// a requester derives what it must find from its own tokens, never from what is stored with the
// block; a swapped slot, a stale block or a flipped bit shows. Stands for the attention kernels of
// a real engine and works on the CPU arena directly, as they would on device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/core/wire.h"

namespace troupe {

/// Geometry of the real (scaled-down) bytes of one block: [block_tokens][token_bytes].
struct ContentShape {
  uint32_t block_tokens = 16;
  uint32_t token_bytes = 256;  // a multiple of 8
};

/// Writes the pieces of tokens [first, last) of a block into `block` [block_tokens * token_bytes].
/// `parent`: key of the block before it (the chain's root for the first). `tokens`: the block's
/// tokens from its start, at least `last` of them.
void fill_content(const ContentShape& shape, const BlockKey& parent,
                  std::span<const uint32_t> tokens, uint32_t first, uint32_t last,
                  std::span<std::byte> block) noexcept;

/// Index of the first token in [first, last) whose piece is wrong, or `last`.
uint32_t verify_content(const ContentShape& shape, const BlockKey& parent,
                        std::span<const uint32_t> tokens, uint32_t first, uint32_t last,
                        std::span<const std::byte> block) noexcept;

}  // namespace troupe
