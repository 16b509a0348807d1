#include "runtime/trace/token_cipher.h"

#include <algorithm>
#include <cstddef>

namespace troupe::trace {
namespace {

constexpr uint16_t rotr(uint16_t x, int n) noexcept {
  return static_cast<uint16_t>((x >> n) | (x << (16 - n)));
}
constexpr uint16_t rotl(uint16_t x, int n) noexcept {
  return static_cast<uint16_t>((x << n) | (x >> (16 - n)));
}

/// One round on a pair of 16-bit halves.
constexpr void round_of(uint16_t& x, uint16_t& y, uint16_t key) noexcept {
  x = static_cast<uint16_t>(static_cast<uint16_t>(rotr(x, 7) + y) ^ key);
  y = static_cast<uint16_t>(rotl(y, 2) ^ x);
}

/// Tokens of one pass: both halves of a group fill two vector registers' worth of lanes, so that
/// the compiler turns the inner loops into 16-bit vector code.
constexpr size_t kGroup = 64;

[[gnu::always_inline]] inline void group_of(uint32_t* tokens, size_t count, const uint16_t* keys,
                                            int rounds) noexcept {
  uint16_t x[kGroup] = {};
  uint16_t y[kGroup] = {};
  for (size_t i = 0; i < count; ++i) {
    x[i] = static_cast<uint16_t>(tokens[i] >> 16);
    y[i] = static_cast<uint16_t>(tokens[i]);
  }
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < kGroup; ++i) {
      round_of(x[i], y[i], keys[r]);
    }
  }
  for (size_t i = 0; i < count; ++i) {
    tokens[i] = (static_cast<uint32_t>(x[i]) << 16) | y[i];
  }
}

[[gnu::always_inline]] inline void all_of(std::span<uint32_t> tokens, const uint16_t* keys,
                                          int rounds) noexcept {
  size_t at = 0;
  for (; at + kGroup <= tokens.size(); at += kGroup) {
    group_of(tokens.data() + at, kGroup, keys, rounds);
  }
  if (at < tokens.size()) {
    group_of(tokens.data() + at, tokens.size() - at, keys, rounds);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] void all_avx2(std::span<uint32_t> tokens, const uint16_t* keys,
                                      int rounds) noexcept {
  all_of(tokens, keys, rounds);
}
#endif

}  // namespace

TokenCipher::TokenCipher(uint64_t key) noexcept {
  auto a = static_cast<uint16_t>(key);
  uint16_t rest[3] = {static_cast<uint16_t>(key >> 16), static_cast<uint16_t>(key >> 32),
                      static_cast<uint16_t>(key >> 48)};
  for (int r = 0; r < kRounds; ++r) {
    round_keys_[static_cast<size_t>(r)] = a;
    round_of(rest[r % 3], a, static_cast<uint16_t>(r));
  }
}

void TokenCipher::apply(std::span<uint32_t> tokens) const noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) {
    all_avx2(tokens, round_keys_.data(), kRounds);
    return;
  }
#endif
  all_of(tokens, round_keys_.data(), kRounds);
}

}  // namespace troupe::trace
