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

class ReuseAdmission final : public policy::TieringPolicy {
 public:
  explicit ReuseAdmission(std::unique_ptr<policy::TieringPolicy> inner)
      : inner_(std::move(inner)) {}
  std::string_view name() const noexcept override { return "reused"; }
  uint32_t load(const policy::LoadQuestion& question) noexcept override {
    return inner_->load(question);
  }
  bool demote(const policy::LeavingBlock& block) noexcept override {
    const bool to_disk = block.to == static_cast<uint8_t>(Tier::kDisk);
    return (!to_disk || block.uses > 1) && inner_->demote(block);
  }

 private:
  std::unique_ptr<policy::TieringPolicy> inner_;
};

}  // namespace

std::unique_ptr<policy::TieringPolicy> make_reuse_admission(
    std::unique_ptr<policy::TieringPolicy> inner) {
  return std::make_unique<ReuseAdmission>(std::move(inner));
}

std::unique_ptr<policy::TieringPolicy> make_measured_tiering() {
  return std::make_unique<Measured>();
}

std::unique_ptr<policy::TieringPolicy> make_always_tiering() {
  return std::make_unique<Always>();
}

}  // namespace troupe
