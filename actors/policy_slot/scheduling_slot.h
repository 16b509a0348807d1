// The slot of the scheduling policy: answers the scheduler's question which of the queued requests
// should enter first. Built in: first come first served, and longest cached prefix first (SGLang,
// Zheng et al., NeurIPS 2024), both within priority.
#pragma once

#include "runtime/core/actor_core.h"
#include "runtime/core/policy.h"

#include <memory>
#include <string>

namespace troupe {

/// "fcfs" or "lpm"; anything else is not found.
Expected<std::unique_ptr<policy::SchedulingPolicy>> make_scheduling(std::string_view name);

class SchedulingSlot {
 public:
  SchedulingSlot(std::string policy, uint16_t slot);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  void on_order(wire::Order::Reader order, StepContext& cx);
  void change(const std::string& name, uint64_t generation, uint64_t control,
              wire::PolicyChanged::Cause cause, StepContext& cx);
  void answer_status(uint64_t control, StepContext& cx) const;

  uint16_t slot_;
  std::string policy_;
  std::string before_;  // what a rollback goes back to
  std::unique_ptr<policy::SchedulingPolicy> live_;
  uint64_t generation_ = 1;
  uint64_t invalid_answers_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
