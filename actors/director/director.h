// director: takes an operator's commands, has the actor concerned carry them out, and gives each
// command exactly one answer. Status is collected from all actors that have something to tell.
// Invariant: every control number accepted is answered once; open ≤ max_open.
#pragma once

#include "runtime/core/actor_core.h"

#include <map>
#include <string>
#include <vector>

namespace troupe {

struct DirectorConfig {
  std::vector<uint16_t> answering;           // instances of statusAsk, from actors/wiring
  std::vector<uint16_t> answering_policies;  // those among them that have to do with policies
  uint16_t policy_slots = 0;
  uint32_t max_open = 64;
};

class Director {
 public:
  explicit Director(DirectorConfig config) : config_(std::move(config)) {}

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  struct Open {
    uint32_t missing = 0;  // answers still to come
    std::map<std::string, int64_t> gauges;
  };
  void on_control(wire::Control::Reader control, StepContext& cx);
  void on_answer(wire::Answer::Reader answer, StepContext& cx);
  uint32_t ask_status(uint64_t control, const std::vector<uint16_t>& actors, StepContext& cx);
  bool pass_on(wire::Control::Reader control, StepContext& cx);
  bool slot_exists(uint64_t control, uint16_t slot, StepContext& cx);
  void refuse(uint64_t control, Code code, const std::string& text, StepContext& cx);

  DirectorConfig config_;
  std::map<uint64_t, Open> open_;
  uint64_t accepted_ = 0;
  uint64_t answered_ = 0;
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
