// Fixed-point numbers with 32 bits behind the point, for weights and probabilities in decisions:
// equal on every machine, which exp() of a mathematics library is not.
#pragma once

#include <stdint.h>

namespace troupe::sdk {

constexpr int64_t kOne = int64_t{1} << 32;

inline int64_t fixed_mul(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>((static_cast<__int128>(a) * b) >> 32);
}
/// a / b; b must not be 0. The quotient must fit.
inline int64_t fixed_div(int64_t a, int64_t b) noexcept {
  return static_cast<int64_t>((static_cast<__int128>(a) << 32) / b);
}
/// e^-x for x ≥ 0, to about 1e-9: halvings for the whole part of x / ln 2, the series for the rest.
inline int64_t exp_minus(int64_t x) noexcept {
  constexpr int64_t kLn2 = 2977044472;  // ln 2 · 2^32
  if (x <= 0) {
    return kOne;
  }
  const int64_t halvings = x / kLn2;
  if (halvings >= 33) {
    return 0;
  }
  const int64_t rest = x % kLn2;
  int64_t sum = kOne;
  int64_t term = kOne;
  for (int64_t k = 1; k <= 12 && term != 0; ++k) {
    term = fixed_mul(term, rest) / k;
    sum += (k & 1) != 0 ? -term : term;
  }
  return sum >> halvings;
}

/// A small generator of a policy's own; its seed comes from the host and its state is saved.
class Draws {
 public:
  explicit Draws(uint64_t seed) noexcept : state_(seed) {}
  uint32_t below(uint32_t n) noexcept {
    state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return static_cast<uint32_t>(((state_ >> 32) * n) >> 32);
  }
  int64_t state() const noexcept { return static_cast<int64_t>(state_); }
  void set_state(int64_t s) noexcept { state_ = static_cast<uint64_t>(s); }

 private:
  uint64_t state_;
};

}  // namespace troupe::sdk
