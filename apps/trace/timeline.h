// A recording as a timeline: Chrome trace-event JSON, as ui.perfetto.dev and chrome://tracing read
// it ("Trace Event Format", the JSON object form).
#pragma once

#include "runtime/base/status.h"
#include "runtime/trace/lane_reader.h"

#include <cstdio>

namespace troupe {

/// Writes the whole recording to `out`. `notices`: what was damaged or missing. kIo when `out`
/// takes no more.
Status write_timeline(const std::vector<trace::LaneFiles>& lanes, std::FILE* out,
                      std::vector<std::string>& notices);

}  // namespace troupe
