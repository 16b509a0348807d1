#include "apps/lab/trace_data.h"

#include "apps/trace_input/trace_reader.h"

#include <limits>
#include <unordered_map>

namespace troupe::lab {
namespace {

// Published traces number their ids densely, so a table answers nearly all of them.
class Renumber {
 public:
  uint32_t operator()(uint64_t id) {
    constexpr uint64_t kTableMax = uint64_t{1} << 26;
    uint32_t* slot = nullptr;
    if (id < kTableMax) {
      if (id >= table_.size()) {
        table_.resize(static_cast<size_t>(id * 3 / 2 + 1024), kUnset);
      }
      slot = &table_[static_cast<size_t>(id)];
    } else {
      slot = &sparse_.try_emplace(id, kUnset).first->second;
    }
    if (*slot == kUnset) {
      *slot = next_++;
    }
    return *slot;
  }
  uint32_t count() const { return next_; }

 private:
  static constexpr uint32_t kUnset = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> table_;
  std::unordered_map<uint64_t, uint32_t> sparse_;
  uint32_t next_ = 0;
};

uint32_t clamp_tokens(int64_t tokens) {
  return static_cast<uint32_t>(std::min<int64_t>(tokens, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

Expected<Trace> load_trace(const std::string& path, uint64_t requests_max) {
  auto reader = TraceReader::open(path);
  if (!reader) {
    return reader.status();
  }
  Trace trace;
  trace.path = path;
  trace.offsets.push_back(0);
  Renumber renumber;
  TraceRequest request;
  while (requests_max == 0 || trace.requests() < requests_max) {
    auto more = (*reader)->next(request);
    if (!more) {
      return more.status();
    }
    if (!*more) {
      break;
    }
    if (trace.requests() == 0) {
      trace.block_tokens = request.block_size;
    } else if (trace.block_tokens != request.block_size) {
      return Status(Code::kOutOfRange, path + ":" + std::to_string(request.line) +
                                           ": block_size is " + std::to_string(request.block_size) +
                                           ", the lines before have " +
                                           std::to_string(trace.block_tokens));
    }
    for (const uint64_t id : request.hash_ids) {
      trace.ids.push_back(renumber(id));
    }
    if (renumber.count() >= std::numeric_limits<uint32_t>::max() - 1) {
      return Status(Code::kOutOfRange, path + ": more than 2^32 - 2 different blocks");
    }
    trace.offsets.push_back(trace.ids.size());
    trace.input_tokens.push_back(clamp_tokens(request.input_length));
    trace.output_tokens.push_back(clamp_tokens(request.output_length));
    trace.sessions.push_back(request.session_id);
    trace.arrival_ms.push_back(request.timestamp_ms);
  }
  trace.unique = renumber.count();
  if (trace.ids.empty()) {
    return Status(Code::kInvalidArgument,
                  path + ": names no block in " + std::to_string(trace.requests()) + " requests");
  }
  return trace;
}

}  // namespace troupe::lab
