// The built-in tiering policies. `measured` compares the time to load with the time to compute
// again: turning a tier on must never make the first token later than leaving it off. After
// CacheGen's and Mooncake's load-or-recompute choice (Liu et al., SIGCOMM 2024; Qin et al., FAST
// 2025); integers only.
#include "actors/tiering/tiering.h"

namespace troupe {
namespace {

class Always final : public policy::TieringPolicy {
 public:
  std::string_view name() const noexcept override { return "always"; }
  uint32_t load(const policy::LoadQuestion& question) noexcept override { return question.blocks; }
  bool demote(const policy::LeavingBlock&) noexcept override { return true; }
};

class Measured final : public policy::TieringPolicy {
 public:
  std::string_view name() const noexcept override { return "measured"; }
  uint32_t load(const policy::LoadQuestion& q) noexcept override {
    if (q.blocks == 0 || q.tier_bytes_per_s == 0 || q.prefill_tokens_per_s == 0) {
      return q.blocks;  // nothing is known yet: a first load measures it
    }
    using Wide = unsigned __int128;
    const Wide second = 1000000000;
    const Wide bytes = static_cast<Wide>(q.bytes) * (q.blocks + q.queue_depth);
    const Wide load_ns = q.tier_latency_ns + bytes * second / q.tier_bytes_per_s;
    const Wide compute_ns = static_cast<Wide>(q.tokens) * second / q.prefill_tokens_per_s;
    // All or none: per block both costs are linear, so a split pays the latency and wins nothing.
    return load_ns <= compute_ns ? q.blocks : 0;
  }
  bool demote(const policy::LeavingBlock&) noexcept override { return true; }
};

}  // namespace

std::unique_ptr<policy::TieringPolicy> make_measured_tiering() {
  return std::make_unique<Measured>();
}

std::unique_ptr<policy::TieringPolicy> make_always_tiering() {
  return std::make_unique<Always>();
}

}  // namespace troupe
