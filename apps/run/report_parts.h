// Parts of a run's report, written by several files.
#pragma once

#include "apps/json/json_writer.h"
#include "apps/run/stats.h"

namespace troupe {

void write_quantiles(JsonWriter& json, const char* key, const std::vector<double>& values);
void add_operator_text(std::string& out, const RunReport& report);
void write_operator(JsonWriter& json, const RunReport& report);

}  // namespace troupe
