// Results of a replay as text for people and JSON for machines.
#pragma once

#include "runtime/replay/compare.h"
#include "runtime/replay/system_replay.h"

#include <string>
#include <vector>

namespace troupe {

std::string system_text(const replay::SystemReport& report, double seconds);
std::string system_json(const replay::SystemReport& report, double seconds);
std::string lane_text(const replay::LaneReport& report);
std::string lane_json(const replay::LaneReport& report);
std::string comparison_text(const std::vector<replay::LaneComparison>& rows);
std::string comparison_json(const std::vector<replay::LaneComparison>& rows);

}  // namespace troupe
