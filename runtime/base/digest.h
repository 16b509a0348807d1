// 64-bit digest of an actor's logical state, used to compare two runs (not against an adversary:
// keys are hashed by runtime/keys). Order-sensitive `add`, and `add_unordered` for sets whose
// container order is no part of the state.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/base/rng.h"

namespace troupe {

class Digest {
 public:
  constexpr Digest& add(uint64_t word) noexcept {
    h_ = mix64(h_ ^ mix64(word + 0x51ED270B7A1F3C29ULL));
    return *this;
  }
  constexpr Digest& add_signed(int64_t word) noexcept { return add(static_cast<uint64_t>(word)); }
  Digest& add_bytes(std::span<const uint8_t> bytes) noexcept {
    add(bytes.size());
    uint64_t word = 0;
    unsigned filled = 0;
    for (const uint8_t b : bytes) {
      word |= static_cast<uint64_t>(b) << (8 * filled);
      if (++filled == 8) {
        add(word);
        word = 0;
        filled = 0;
      }
    }
    if (filled != 0) {
      add(word);
    }
    return *this;
  }
  /// Adds an element of a set: any order of the same elements gives the same digest.
  constexpr Digest& add_unordered(const Digest& element) noexcept {
    sum_ += mix64(element.value());
    return *this;
  }
  constexpr uint64_t value() const noexcept { return sum_ == 0 ? h_ : mix64(h_ ^ sum_); }
  friend constexpr bool operator==(const Digest& a, const Digest& b) noexcept {
    return a.value() == b.value();
  }

 private:
  uint64_t h_ = 0x2545F4914F6CDD1DULL;
  uint64_t sum_ = 0;
};

}  // namespace troupe
