// A trace as the engine's client sees it: every request with its token stream and the keys of its
// blocks. Tokens are synthesised from the trace's block ids (equal id = equal whole prefix), so
// that the runtime under test sees tokens, never the ids. What a request generates equals the next
// turn's prompt where the session tells; else it is private to the request and never hit.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/core/wire.h"

namespace troupe {

/// One request, compact; the token stream is made when it is submitted and dropped when it ended.
struct WorkItem {
  double timestamp_ms = 0;
  uint32_t prompt = 0;
  uint32_t output = 0;
  uint32_t tenant = 0;
  uint64_t session = 0;
  uint64_t first_id = 0;   // in Workload::ids
  uint32_t ids = 0;        // listed blocks
  uint32_t next_turn = 0;  // index of the item that continues this one, or kNoItem
  uint64_t line = 0;
};
constexpr uint32_t kNoItem = 0xFFFFFFFFU;

struct Workload {
  std::string source;
  uint32_t block_size = 0;  // of the listed ids [tokens]
  std::vector<WorkItem> items;
  std::vector<uint64_t> ids;
  std::vector<std::vector<uint32_t>>
      given_tokens;  // of items whose line carried tokens, else empty
  std::vector<std::string> tenants;                 // names by tenant id; "default" is 0
  uint64_t sessions = 0;
};

/// Reads a whole trace. `limit`: at most so many requests, 0: all. Errors name file and line.
Expected<Workload> read_workload(const std::string& path, uint64_t limit);

/// Token stream of item `index`: its prompt, then `output` generated tokens.
std::vector<uint32_t> token_stream(const Workload& work, uint32_t index, bool prompt_only);

}  // namespace troupe
