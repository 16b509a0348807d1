// Reads a segment's bytes, plain or compressed, bounded.
#pragma once

#include "runtime/trace/lane_reader.h"

#include <string>
#include <vector>

namespace troupe::trace {

struct SegmentBytes {
  std::vector<uint64_t> words;  // whole words; a tail of less than 8 bytes is left out
  bool cut = false;    // the compressed stream ended early or was damaged from some point on
  std::string notice;  // why, when cut
};

/// At most `limit_bytes` of the segment at `path` (".zst": uncompressed bytes count). kNoCapacity
/// when there are more, unless `prefix`, which returns the first ones.
Expected<SegmentBytes> read_segment(const std::string& path, uint64_t limit_bytes, bool prefix);

/// Checks the head and decodes the header. `records_at`: word where the records begin.
Expected<LaneInfo> read_header(std::span<const uint64_t> words, size_t& records_at, uint64_t& seed);

}  // namespace troupe::trace
