// policy_slot: the actor that hosts one live eviction policy of one tier. Other actors reach it by
// one batched message of events, and by questions; both come from `eviction` alone, so its inbox is
// one lane. Every answer is validated against the slot's own mirror of the tier; what a policy
// leaves short, the mirror fills. A swap is a message: the new policy takes over the old one's
// state or is rebuilt from the resident set, which a swap never changes. Invariant: victims sent ⊆
// resident and unused blocks, each named once, at most as many as asked unless the policy may
// over-evict.
#pragma once

#include <memory>
#include <string>

#include "actors/policy_slot/block_mirror.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"

namespace troupe {

struct PolicySlotConfig {
  std::string policy = "lru";
  std::string params;
  uint32_t capacity = 0;  // block handles are below
  uint64_t seed = 1;
  bool touch_only = false;  // lower tiers: a hit is a touch, no release follows it
};

class PolicySlot {
 public:
  /// `registry` must outlive the slot. An unknown policy in `config` is a programmer error: main
  /// validates the name first.
  PolicySlot(PolicySlotConfig config, const policy::Registry& registry);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  const policy::EvictionPolicy& live() const noexcept { return *live_; }
  uint64_t generation() const noexcept { return generation_; }

 private:
  void on_events(wire::EventBatch::Reader events);
  void deliver(const policy::Events& events);
  void on_ask(wire::Ask::Reader ask, StepContext& cx);
  void on_swap(wire::SwapPolicy::Reader swap, StepContext& cx);
  /// Drops what may not go from `answer`; returns how many were dropped.
  uint32_t validate(std::vector<uint32_t>& answer, std::vector<int64_t>& scores, size_t limit);
  /// Names idle leaves by recency until `wanted` are there.
  void fill(std::vector<uint32_t>& answer, size_t wanted);
  Status swap_to(std::string_view name, std::string_view params);
  /// Feeds the resident set to a fresh policy as inserts and uses.
  void rebuild(policy::EvictionPolicy& next) const;

  PolicySlotConfig config_;
  const policy::Registry* registry_;
  BlockMirror mirror_;
  std::unique_ptr<policy::EvictionPolicy> live_;
  uint64_t generation_ = 1;
  uint64_t asked_ = 0;
  uint64_t rejected_ = 0;
  uint64_t filled_ = 0;    // victims that the policy owed and the mirror named
  std::vector<uint8_t> named_;           // scratch: block named in this answer
  std::vector<uint32_t> gone_children_;  // scratch
  Unexpected unexpected_;
};

}  // namespace troupe
