// Two recordings side by side: where does each actor's inbox, or what it did, first differ?
#pragma once

#include "runtime/trace/divergence.h"
#include "runtime/trace/lane_reader.h"

#include <optional>

namespace troupe::replay {

struct LaneComparison {
  std::string actor;
  uint64_t same = 0;                            // deliveries that are equal, from the first on
  std::optional<trace::Divergence> divergence;  // the first that is not
  std::string note;  // a lane that ends earlier, or is in one recording only
};

/// One row a lane of either recording, by ascending address. Each recording has its own permutation
/// of tokens, so tokens are compared by their pattern: what was equal in one must be equal in the
/// other.
std::vector<LaneComparison> compare_recordings(const std::vector<trace::LaneFiles>& expected,
                                               const std::vector<trace::LaneFiles>& got,
                                               trace::ReadLimits limits);

}  // namespace troupe::replay
