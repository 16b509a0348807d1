// Seeded generator whose state lives in an actor's state: equal seeds give equal decisions
// everywhere. xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64. No floats in the
// interface: chances are ratios. Two calls never stand in one expression (their order would be the
// compiler's choice).
#pragma once

#include <array>
#include <cstdint>

#include "runtime/base/assert.h"

namespace troupe {

/// One step of splitmix64: advances `x` and returns a mixed value. Also a cheap integer mixer.
constexpr uint64_t splitmix64(uint64_t& x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  uint64_t z = x;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// Stateless mix of one word.
constexpr uint64_t mix64(uint64_t x) noexcept { return splitmix64(x); }

class Rng {
 public:
  explicit Rng(uint64_t seed = 1) noexcept {
    for (uint64_t& word : s_) {
      word = splitmix64(seed);
    }
  }
  uint64_t next() noexcept {
    const uint64_t result = rotl(s_[1] * 5, 7) * 9;
    const uint64_t t = s_[1] << 17;
    s_[2] ^= s_[0];
    s_[3] ^= s_[1];
    s_[1] ^= s_[2];
    s_[0] ^= s_[3];
    s_[2] ^= t;
    s_[3] = rotl(s_[3], 45);
    return result;
  }
  /// Uniform in [0, bound), bound ≥ 1 (Lemire's multiply; the bias below 2^-64 · bound is
  /// accepted).
  uint64_t below(uint64_t bound) noexcept {
    TROUPE_ASSERT(bound > 0);
    return static_cast<uint64_t>((static_cast<unsigned __int128>(next()) * bound) >> 64);
  }
  /// True with chance num / den.
  bool chance(uint64_t num, uint64_t den) noexcept { return below(den) < num; }
  const std::array<uint64_t, 4>& state() const noexcept { return s_; }
  void set_state(const std::array<uint64_t, 4>& s) noexcept { s_ = s; }

 private:
  static constexpr uint64_t rotl(uint64_t x, int k) noexcept { return (x << k) | (x >> (64 - k)); }
  std::array<uint64_t, 4> s_{};
};

}  // namespace troupe
