// Replay of one actor from its own lane: the actor depends on nothing else.
#pragma once

#include "runtime/replay/stepper.h"

#include <functional>

namespace troupe::replay {

struct LaneReport {
  std::string actor;
  StepCounts counts;
  uint64_t digest = 0;  // of the state where the replay ended
  std::optional<trace::Divergence> divergence;
  trace::LaneProblems problems;
  bool complete = false;  // all of the lane was replayed and compared
  std::string stopped;    // why not, when not complete and nothing diverged
  Status check;           // the actor's invariants at the end
};

struct LaneReplayOptions {
  uint64_t until = UINT64_MAX;  // last delivery that is replayed
  /// Called after each step, before it is compared.
  std::function<void(uint64_t seq, const Frame& in, const std::vector<Outgoing>& out)> on_step;
};

/// `actor` must be as new. Stops at the first divergence, at a gap, at a damaged delivery.
LaneReport replay_lane(trace::LaneReader& lane, Actor& actor, const RecordedMessages& recorded,
                       const LaneReplayOptions& options);

}  // namespace troupe::replay
