// DepthGovernor: how many write chunks may be in flight while reads are about. Additive increase,
// multiplicative decrease on the latency of reads, after the congestion control of TCP Vegas
// (Brakmo, O'Malley, Peterson 1994): the floor is the best latency lately seen, and writes back off
// when reads take longer than kPatience times it. Pure: latencies come in as arguments. Invariant:
// 1 <= write_limit <= depth.
#pragma once

#include <algorithm>
#include <cstdint>

namespace troupe::io {

class DepthGovernor {
 public:
  explicit DepthGovernor(uint32_t depth) noexcept
      : depth_(depth), limit_(std::max(1U, depth / 2)) {}

  /// Latency of one read chunk of `bytes` [ns], normalised to 64 KiB steps so that sizes mix.
  void on_read(int64_t latency_ns, uint64_t bytes) noexcept {
    const auto steps = static_cast<int64_t>(1 + bytes / kStepBytes);
    const int64_t per_step = std::max<int64_t>(1, latency_ns / steps);
    if (floor_ns_ == 0 || per_step < floor_ns_) {
      floor_ns_ = per_step;
    }
    sum_ns_ += per_step;
    if (++samples_ < kWindow) {
      return;
    }
    const int64_t mean = sum_ns_ / kWindow;
    if (mean > kPatience * floor_ns_) {
      limit_ = std::max(1U, limit_ / 2);
    } else if (limit_ < depth_) {
      ++limit_;
    }
    // The floor rises by 1/64 a window, so that one lucky read does not rule for ever.
    floor_ns_ += floor_ns_ / 64 + 1;
    sum_ns_ = 0;
    samples_ = 0;
  }
  uint32_t write_limit(bool reads_about) const noexcept { return reads_about ? limit_ : depth_; }

 private:
  static constexpr int64_t kWindow = 32;
  static constexpr int64_t kPatience = 4;
  static constexpr uint64_t kStepBytes = 65536;
  uint32_t depth_;
  uint32_t limit_;
  int64_t floor_ns_ = 0;
  int64_t sum_ns_ = 0;
  int64_t samples_ = 0;
};

}  // namespace troupe::io
