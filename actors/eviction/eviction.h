// eviction: asks the policy slot of a tier which blocks should go, and has the prefix index unlink
// them. Owns nothing but the order of events and questions for its slots: both are sent by it
// alone, so each slot's inbox is one lane.
//   allocator -reclaim-> eviction -ask-> policy_slot -victims-> eviction -unlink-> prefix_index
// Invariant: at most one question a tier is open, since the allocator has one reclaim a tier open.
#pragma once

#include <array>
#include <cstdint>

#include "runtime/core/actor_core.h"

namespace troupe {

class Eviction {
 public:
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  static constexpr int kSlots = 3;  // tiers whose blocks can be evicted: device, host, disk
  struct PerTier {
    uint64_t question = 0;  // open one, 0: none
    bool ahead = false;     // of that question: nobody waits for its room
    uint64_t asked = 0;     // blocks wanted so far
    uint64_t named = 0;     // victims named so far
    uint64_t rejected = 0;  // answers that the slot's host dropped
  };
  void on_reclaim(wire::Reclaim::Reader reclaim, StepContext& cx);
  void on_victims(wire::Victims::Reader victims, StepContext& cx);
  void on_events(wire::EventBatch::Reader events, StepContext& cx);
  void answer_status(uint64_t control, StepContext& cx);

  std::array<PerTier, kSlots> tiers_{};
  uint64_t next_question_ = 1;
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
