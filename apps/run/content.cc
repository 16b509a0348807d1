#include "apps/run/content.h"

#include <cstring>

#include "kernels/pattern.h"

namespace troupe {
namespace {

// Odd multiplier of a multiplicative congruential step (Steele, Vigna 2021); one multiply a token
// keeps the chain short, the pattern's own scramble does the mixing.
constexpr uint64_t kStep = 0xD1342543DE82EF95ULL;

uint64_t seed_of(const BlockKey& parent) noexcept {
  return parent.w[0] ^ (parent.w[1] * 3) ^ (parent.w[2] * 5) ^ (parent.w[3] * 7);
}

/// Calls piece(index, base) for tokens [first, last), base being the pattern base of the token's
/// seed.
template <class Piece>
void for_each_piece(const BlockKey& parent, std::span<const uint32_t> tokens, uint32_t first,
                    uint32_t last, Piece&& piece) noexcept {
  uint64_t state = seed_of(parent);
  for (uint32_t j = 0; j < last; ++j) {
    state = (state ^ (tokens[j] + 1ULL)) * kStep;
    if (j >= first && !piece(j, kernels::pattern_base(state))) {
      return;
    }
  }
}

}  // namespace

void fill_content(const ContentShape& shape, const BlockKey& parent,
                  std::span<const uint32_t> tokens, uint32_t first, uint32_t last,
                  std::span<std::byte> block) noexcept {
  const uint32_t words = shape.token_bytes / 8;
  for_each_piece(parent, tokens, first, last, [&](uint32_t j, uint64_t base) {
    std::byte* out = block.data() + static_cast<size_t>(j) * shape.token_bytes;
    for (uint32_t w = 0; w < words; ++w) {
      const uint64_t word = kernels::pattern_scramble(base + w * kernels::kPatternStep);
      std::memcpy(out + w * 8UL, &word, 8);
    }
    return true;
  });
}

uint32_t verify_content(const ContentShape& shape, const BlockKey& parent,
                        std::span<const uint32_t> tokens, uint32_t first, uint32_t last,
                        std::span<const std::byte> block) noexcept {
  const uint32_t words = shape.token_bytes / 8;
  uint32_t bad = last;
  for_each_piece(parent, tokens, first, last, [&](uint32_t j, uint64_t base) {
    const std::byte* in = block.data() + static_cast<size_t>(j) * shape.token_bytes;
    uint64_t difference = 0;
    for (uint32_t w = 0; w < words; ++w) {
      uint64_t word = 0;
      std::memcpy(&word, in + w * 8UL, 8);
      difference |= word ^ kernels::pattern_scramble(base + w * kernels::kPatternStep);
    }
    if (difference != 0) {
      bad = j;
      return false;
    }
    return true;
  });
  return bad;
}

}  // namespace troupe
