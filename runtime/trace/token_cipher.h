// The permutation of token values in a recording: Speck32/64 (Beaulieu, Shors, Smith,
// Treatman-Clark, Weeks, Wingers, "The SIMON and SPECK Families of Lightweight Block Ciphers",
// 2013), whose 32-bit block is one token. Equal tokens stay equal, so cores replay alike; text is
// not kept. What it does not hide: which tokens are equal, and so their frequencies. A 64-bit key
// drawn per recording and never written down.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace troupe::trace {

class TokenCipher {
 public:
  explicit TokenCipher(uint64_t key) noexcept;
  /// Permutes `tokens` [n] in place.
  void apply(std::span<uint32_t> tokens) const noexcept;
  uint32_t apply(uint32_t token) const noexcept {
    apply(std::span<uint32_t>(&token, 1));
    return token;
  }

 private:
  static constexpr int kRounds = 22;
  std::array<uint16_t, kRounds> round_keys_{};
};

}  // namespace troupe::trace
