// understudies: policies that watch. Each follows the lookups of real requests with a ghost cache
// and tells what it would have hit; promoted, its policy takes a slot over. Beside a request's way:
// prefix_index -lookup-> understudies; on an operator's: director -shadow, promote-> understudies
// -swapPolicy-> policy_loader. Invariants: nothing on the live path waits for them; an understudy
// that missed a lookup is incomplete and gives no figure; one that answered wrong stops.
// Sampling by whole sessions, never by block: after SHARDS (Waldspurger et al., FAST 2015), with
// the session in the place of the block, since a prefix is hit as a whole.
#pragma once

#include "actors/understudies/key_numbers.h"
#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct UnderstudiesConfig {
  uint32_t device_blocks = 0;  // capacity of an understudy that names none
  uint64_t seed = 1;
  uint32_t max_understudies = 16;
  uint64_t max_blocks = 1ULL << 28;  // of one ghost cache
  uint32_t ack_every = 64;           // lookups
  uint32_t least_keys = 1U << 20;    // remembered, at least
  uint32_t keys_per_block = 8;       // remembered, of the largest ghost cache
};

class Understudies {
 public:
  /// `registry` must outlive the actor.
  Understudies(UnderstudiesConfig config, const policy::Registry& registry);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  struct One {
    std::string policy;
    std::string params;
    uint64_t blocks = 0;  // as asked for; the ghost has one in `one_in` of them
    uint32_t one_in = 1;
    uint64_t lookups = 0;
    bool complete = true;
    std::unique_ptr<policy::Ghost> ghost;
  };
  void on_lookup(wire::Lookup::Reader lookup, StepContext& cx);
  void on_shadow(wire::Shadow::Reader shadow, StepContext& cx);
  Status add(const std::string& name, wire::Shadow::Reader shadow);
  void on_promote(wire::Promote::Reader promote, StepContext& cx);
  void watch(bool on, StepContext& cx) const;
  void answer(uint64_t control, const Status& status, StepContext& cx) const;
  void answer_status(uint64_t control, StepContext& cx) const;
  Expected<std::unique_ptr<policy::Ghost>> make_ghost(const One& one) const;
  void set_limit();

  UnderstudiesConfig config_;
  const policy::Registry* registry_;
  std::map<std::string, One> all_;
  KeyNumbers numbers_;
  uint64_t lookups_ = 0;        // ordinals of requests
  uint32_t unread_ = 0;         // read and not yet told
  std::vector<uint32_t> ids_;   // scratch
  std::vector<uint64_t> keys_;  // scratch
  Unexpected unexpected_;
};

}  // namespace troupe
