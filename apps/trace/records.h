// Walks the deliveries of a recording, filtered: what `troupe trace` shows, searches and exports.
#pragma once

#include "runtime/trace/lane_reader.h"

#include <functional>
#include <string>
#include <vector>

namespace troupe {

struct RecordFilter {
  std::string actor;  // empty: all
  std::string kind;   // as in the schema; empty: all
  std::string text;   // in the kind's name or the message's text; empty: all
  uint64_t from = 1;  // first and last delivery of each lane
  uint64_t to = UINT64_MAX;
};

/// One delivery with what its step sent, when the lane says so.
struct Delivered {
  const trace::LaneInfo* lane = nullptr;
  uint64_t seq = 0;
  FrameHeader header;
  bool has_payload = false;
  std::span<const capnp::word> payload;  // until the visitor returns
};

/// Calls `visit` for each delivery that passes, lane by lane; false from it ends the walk. Returns
/// notices of what was damaged or missing.
std::vector<std::string> walk_records(const std::vector<trace::LaneFiles>& lanes,
                                      const RecordFilter& filter,
                                      const std::function<bool(const Delivered&)>& visit);

/// One lane in figures.
struct LaneSummary {
  trace::LaneInfo info;
  uint64_t deliveries = 0;
  uint64_t sent = 0;
  uint64_t payload_bytes = 0;
  uint64_t file_bytes = 0;
  size_t segments = 0;
  int64_t first_tick = 0;
  int64_t last_tick = 0;
  trace::LaneProblems problems;
};
LaneSummary summarize(const trace::LaneFiles& files);

/// Name of the actor at `address`, from the lanes.
std::string actor_name(const std::vector<trace::LaneFiles>& lanes, Address address);

}  // namespace troupe
