// Request traces as a stream: one TraceRequest per call, in file order, with line numbers in every
// error. Forms: Mooncake JSONL (plain or .zst) and our token-level JSONL, libCacheSim's
// oracleGeneral and CSV, Azure's arrivals CSV. Nothing is read ahead beyond one buffer, so a trace
// may be larger than memory.
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// One request of a trace. Reused between calls, so vectors keep their memory.
struct TraceRequest {
  double timestamp_ms = 0;         // since the start of the trace
  int64_t input_length = 0;        // prompt tokens
  int64_t output_length = 0;       // generated tokens
  int64_t session_id = -1;         // -1: the trace names none
  uint32_t block_size = 512;       // tokens per block; Mooncake's lines name none and mean 512
  std::vector<uint64_t> hash_ids;  // the prompt's blocks in prefix order; equal id = equal prefix
  // Fields of our own token-level lines; empty or negative where absent.
  int64_t request_id = -1;
  int64_t parent = -1;   // request_id that this one continues or forks from
  double pause_ms = -1;  // the session expects to come back after this long
  std::string tenant;
  std::string hints;  // space-separated words, as the gateway takes them
  std::vector<uint32_t> tokens;
  uint64_t line = 0;  // 1-based line or record number, for messages
  void clear();
};

enum class TraceFormat : uint8_t { kAuto, kJsonl, kOracleGeneral, kCsv };

class TraceReader {
 public:
  virtual ~TraceReader() = default;
  /// Opens `path`. kAuto looks at the name (.jsonl, .json, .csv, .oracleGeneral, each with or
  /// without .zst) and fails with what it knows when the name says nothing. Errors: not found,
  /// unsupported.
  static Expected<std::unique_ptr<TraceReader>> open(const std::string& path,
                                                     TraceFormat format = TraceFormat::kAuto);
  /// Fills `out` with the next request and returns true; false at the end of the trace. A malformed
  /// line, a negative length or an id that is no integer is an error naming file and line; the
  /// reader stays at its end afterwards.
  virtual Expected<bool> next(TraceRequest& out) = 0;
};

}  // namespace troupe
