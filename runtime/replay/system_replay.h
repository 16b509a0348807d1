// Replay of all cores of a recording in one thread. Each core takes its inbox in the order of its
// lane; a message of another core is delivered once that core, replayed, has sent it, so causality
// alone decides who goes next. Only what came from outside (the client, movers) is read from the
// lanes.
#pragma once

#include "runtime/core/routes.h"
#include "runtime/replay/lane_replay.h"

namespace troupe::replay {

struct SystemReport {
  std::vector<LaneReport> lanes;                // replayed actors, by ascending address
  std::optional<trace::Divergence> divergence;  // the first one
  uint64_t deliveries = 0;
  uint64_t outputs = 0;
  uint64_t not_replayed = 0;  // deliveries that were recorded but could not be reached
  uint64_t in_flight = 0;     // messages sent but never delivered in the recording
  uint64_t digest = 0;        // over all replayed actors
  std::vector<std::string> notices;
  bool complete = false;
};

/// `troupe`: as new, built from the recording's configuration; its movers are not run and may be
/// missing. An error when an actor of the recording is not in the troupe.
Expected<SystemReport> replay_system(const std::vector<trace::LaneFiles>& lanes,
                                     trace::ReadLimits limits, Troupe& troupe);

/// Digest of a whole system: of its actors' digests, movers left out. What replay_system reports.
uint64_t system_digest(const Troupe& troupe);

}  // namespace troupe::replay
