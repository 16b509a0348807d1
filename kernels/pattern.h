// The bytes that a seed stands for: word i (8 bytes, little-endian) of the pattern is a bijection
// of seed' + i * odd, so equal offsets of different seeds always differ, and a block that lands at
// a wrong offset differs too. Used by fill and verify on every device; movers derive the seed from
// a block's content. Adds, shifts and xors only: any SIMD unit and any GPU does it at memory speed.
#pragma once

#include "kernels/math/host_device.h"

#include <cstdint>

namespace troupe::kernels {

/// Step between words: the odd number nearest 2^64 / golden ratio, so that positions spread.
constexpr uint64_t kPatternStep = 0x9E3779B97F4A7C15ULL;

/// First counter of a seed (splitmix64's finalizer, so that near seeds start far apart).
TROUPE_HD constexpr uint64_t pattern_base(uint64_t seed) noexcept {
  uint64_t z = seed + kPatternStep;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Word of a counter: one xorshift64 round (Marsaglia, 2003), a bijection.
TROUPE_HD constexpr uint64_t pattern_scramble(uint64_t x) noexcept {
  x ^= x << 13;
  x ^= x >> 7;
  return x ^ (x << 17);
}

/// Word at pattern position 8 * index.
TROUPE_HD constexpr uint64_t pattern_word(uint64_t seed, uint64_t index) noexcept {
  return pattern_scramble(pattern_base(seed) + index * kPatternStep);
}

/// Byte at pattern position `position`.
TROUPE_HD constexpr uint8_t pattern_byte(uint64_t seed, uint64_t position) noexcept {
  return static_cast<uint8_t>(pattern_word(seed, position / 8) >> (8 * (position % 8)));
}

}  // namespace troupe::kernels
