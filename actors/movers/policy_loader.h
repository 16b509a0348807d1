// policy_loader: the mover that brings a policy in. Reads the library and makes the instance on a
// thread of its own, away from the live path, and only then tells the slot; a policy that cannot be
// had is answered here, and the slot never hears of it. On the way of an operator's command:
// director -> policy_loader -> policy_slot.
#pragma once

#include "actors/roles.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"

namespace troupe {

struct PolicyLoaderConfig {
  uint32_t capacity = 0;  // of the eviction slots
  uint64_t seed = 1;
};

class PolicyLoader {
 public:
  /// `registry` must outlive the mover.
  PolicyLoader(PolicyLoaderConfig config, const policy::Registry& registry)
      : config_(config), registry_(registry) {}
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept { return Digest().add(prepared_).add(refused_); }
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  PolicyLoaderConfig config_;
  const policy::Registry& registry_;
  uint64_t prepared_ = 0;
  uint64_t refused_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
