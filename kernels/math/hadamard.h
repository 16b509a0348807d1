// Walsh-Hadamard rotation in Sylvester's order, in place and not normalised (H H = n I), over the
// largest power of two that divides the width, block by block; with random signs before it (int4)
// or without (the rotation formats, as in vLLM). The order of the additions is fixed, so results
// are equal everywhere.
#pragma once

#include "kernels/math/host_device.h"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Seed of vLLM's int4 rotation.
constexpr uint64_t kRotationSeed = 0x9E3779B9;

/// Values that rotate together: 128 of 128, 32 of 96, 64 of 576.
TROUPE_HD constexpr size_t hadamard_block(size_t width) noexcept {
  return width & (~width + 1);
}

/// Sign of channel `i`: +1 or -1, from splitmix64 of seed and channel.
TROUPE_HD constexpr float rotation_sign(uint64_t seed, size_t i) noexcept {
  uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return ((z ^ (z >> 31)) & 1) != 0 ? -1.0F : 1.0F;
}

TROUPE_HD inline void hadamard(float* x, size_t width) noexcept {
  const size_t block = hadamard_block(width);
  for (size_t begin = 0; begin < width; begin += block) {
    for (size_t half = 1; half < block; half *= 2) {
      for (size_t i = 0; i < block; i += 2 * half) {
        for (size_t j = begin + i; j < begin + i + half; ++j) {
          const float a = x[j];
          const float b = x[j + half];
          x[j] = a + b;
          x[j + half] = a - b;
        }
      }
    }
  }
}

/// x <- H S x: int4's rotation.
TROUPE_HD inline void rotate_signed(float* x, size_t width, uint64_t seed) noexcept {
  for (size_t i = 0; i < width; ++i) {
    x[i] *= rotation_sign(seed, i);
  }
  hadamard(x, width);
}

/// Undoes rotate_signed: x <- S H x / block.
TROUPE_HD inline void unrotate_signed(float* x, size_t width, uint64_t seed) noexcept {
  hadamard(x, width);
  const float inverse = 1.0F / static_cast<float>(hadamard_block(width));
  for (size_t i = 0; i < width; ++i) {
    x[i] *= inverse * rotation_sign(seed, i);
  }
}

}  // namespace troupe::kernels
