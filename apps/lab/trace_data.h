// A trace as the lab replays it: parsed once, ids renumbered densely in order of first use,
// requests as spans of one array. Shared read-only by all replays.
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::lab {

struct Trace {
  std::string path;
  std::vector<uint32_t> ids;      // of all requests, one after another; below `unique`
  std::vector<uint64_t> offsets;  // request r is ids[offsets[r] … offsets[r+1])
  std::vector<uint32_t> input_tokens;
  std::vector<uint32_t> output_tokens;
  std::vector<int64_t> sessions;
  std::vector<double> arrival_ms;
  uint32_t block_tokens = 512;  // of the first request; all must agree
  uint32_t unique = 0;

  size_t requests() const noexcept { return input_tokens.size(); }
  std::span<const uint32_t> blocks(size_t request) const noexcept {
    return {ids.data() + offsets[request], offsets[request + 1] - offsets[request]};
  }
};

/// Reads at most `requests_max` requests (0: all). Errors: those of the reader; kOutOfRange when
/// ids, requests or blocks pass 2^32, or block sizes differ.
Expected<Trace> load_trace(const std::string& path, uint64_t requests_max);

}  // namespace troupe::lab
