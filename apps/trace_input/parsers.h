// The readers behind TraceReader::open, one per form. Private to this folder.
#pragma once

#include "apps/trace_input/byte_source.h"
#include "apps/trace_input/trace_reader.h"

#include <memory>
#include <string>
#include <string_view>

namespace troupe {

/// Parses one JSON line into `out`. The error text names field and value, not file or line.
Status parse_jsonl_line(std::string_view line, TraceRequest& out);

std::unique_ptr<TraceReader> make_jsonl_reader(std::string path, BufferedInput input);
std::unique_ptr<TraceReader> make_csv_reader(std::string path, BufferedInput input);
std::unique_ptr<TraceReader> make_oracle_reader(std::string path, BufferedInput input);

}  // namespace troupe
