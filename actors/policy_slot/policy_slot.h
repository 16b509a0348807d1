// policy_slot: the actor that hosts the live eviction policy of one tier. Other actors reach it by
// one batched message of events, and by questions; both come from `eviction` alone, so its inbox is
// one lane. Every answer is validated against the slot's own mirror of the tier; what a policy
// leaves short, the mirror fills. A swap is a message: the new policy is told of the resident set
// in ranges, between the messages of the live path (take_over.h), and decides from the message at
// which it knows all; the one before follows for a while and is back at once if it is called for. A
// policy that answers wrong too often gives way by itself, to the one before or to the built-in.
// Invariants: victims sent ⊆ resident and unused blocks, each named once, at most as many as asked
// unless the policy may over-evict; a change of policy leaves the resident set as it is.
#pragma once

#include "actors/policy_slot/block_mirror.h"
#include "actors/policy_slot/take_over.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"

#include <memory>
#include <string>

namespace troupe {

struct PolicySlotConfig {
  std::string policy = "lru";
  std::string params;
  uint32_t capacity = 0;  // block handles are below
  uint64_t seed = 1;
  bool touch_only = false;       // lower tiers: a hit is a touch, no release follows it
  uint16_t slot = 0;             // instance
  uint32_t range_blocks = 256;   // told to a new policy between two messages of the live path
  uint32_t whole_blocks = 4096;  // up to this capacity a policy's own state moves, in one piece
  uint64_t probation = 10000;    // event batches for which the policy before follows
  uint32_t strikes = 16;         // wrong or short answers, of …
  uint32_t strike_window = 256;  // … so many: the policy has to go
};

class PolicySlot {
 public:
  /// `registry` must outlive the slot. An unknown policy in `config` is a programmer error: main
  /// validates the name first.
  PolicySlot(PolicySlotConfig config, const policy::Registry& registry);
  ~PolicySlot();
  PolicySlot(const PolicySlot&) = delete;
  PolicySlot& operator=(const PolicySlot&) = delete;

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  const policy::EvictionPolicy& live() const noexcept { return *live_.policy; }
  uint64_t generation() const noexcept { return generation_; }
  bool changing() const noexcept { return take_over_.under_way(); }

 private:
  struct Hosted {
    std::string name;
    std::string params;
    std::unique_ptr<policy::EvictionPolicy> policy;  // null: known by name alone
  };
  using Cause = wire::PolicyChanged::Cause;

  // policy_slot.cc: events and questions
  void on_events(wire::EventBatch::Reader events);
  void deliver(const policy::Events& events);
  void on_ask(wire::Ask::Reader ask, StepContext& cx);
  /// Drops what may not go from `answer`; returns how many were dropped.
  uint32_t validate(std::vector<uint32_t>& answer, std::vector<int64_t>& scores, size_t limit);
  /// Names idle leaves by recency until `wanted` are there.
  void fill(std::vector<uint32_t>& answer, size_t wanted);
  bool name_victim(uint32_t block);

  // policy_slot_change.cc: from one policy to another
  void on_swap(wire::SwapPolicy::Reader swap, StepContext& cx);
  void on_rollback(wire::Rollback::Reader rollback, StepContext& cx);
  void on_take_over(wire::TakeOver::Reader range, StepContext& cx);
  Status may_change(uint64_t generation) const;
  Status begin_change(Hosted next, uint64_t control, Cause cause, std::string why, StepContext& cx);
  bool carry_state(Hosted& next);
  void commit(std::unique_ptr<policy::EvictionPolicy> policy, StepContext& cx);
  Hosted take_before();
  void put_before(Hosted&& hosted, bool follows);
  void strike(bool wrong, StepContext& cx);
  void answer(uint64_t control, const Status& status, StepContext& cx) const;
  void ask_for_range(StepContext& cx) const;
  void answer_status(uint64_t control, StepContext& cx) const;

  PolicySlotConfig config_;
  const policy::Registry* registry_;
  BlockMirror mirror_;
  Hosted live_;
  Hosted before_;                // what a rollback goes back to; follows events in its probation
  uint64_t probation_left_ = 0;  // event batches
  TakeOver take_over_;
  Hosted coming_;                // names of the one in take_over_
  uint64_t change_control_ = 0;  // who waits for the answer; 0: nobody
  Cause change_cause_ = Cause::INVALID;
  std::string change_why_;
  uint64_t generation_ = 1;
  uint64_t ordinal_ = 0;  // of the newest request
  uint64_t asked_ = 0;
  uint64_t decided_ = 0;   // victims that the live policy named
  uint64_t rejected_ = 0;  // victims that the host dropped
  uint64_t filled_ = 0;    // victims that the policy owed and the mirror named
  uint32_t strikes_ = 0;   // in this window
  uint32_t answers_ = 0;
  std::vector<uint8_t> named_;           // scratch: block named in this answer
  std::vector<uint32_t> gone_children_;  // scratch
  Unexpected unexpected_;
};

}  // namespace troupe
