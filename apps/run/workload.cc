#include "apps/run/workload.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "apps/trace_input/trace_reader.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

constexpr uint64_t kMaxRequestTokens = 1ULL
                                       << 26;  // 64 Mi tokens: 20 times the longest context sold

// Token values stay below 2^17, the size of today's vocabularies (Llama 3: 128,256).
uint32_t token_of(uint64_t stream, uint64_t position) {
  return static_cast<uint32_t>(mix64(stream * 0x9E3779B97F4A7C15ULL + position) >> 47);
}

/// Listed block id that covers `position`, or false where the trace says nothing.
bool listed_id(const Workload& work, const WorkItem& item, uint64_t position, uint64_t& id) {
  const uint64_t block = work.block_size == 0 ? UINT64_MAX : position / work.block_size;
  if (block >= item.ids) {
    return false;
  }
  id = work.ids[item.first_id + block];
  return true;
}

Status check_item(const std::string& path, const TraceRequest& r, uint32_t block_size) {
  const std::string where = path + ":" + std::to_string(r.line) + ": ";
  if (r.input_length == 0) {
    return Status(Code::kInvalidArgument, where + "input_length 0, at least one token is needed");
  }
  if (static_cast<uint64_t>(r.input_length) > kMaxRequestTokens ||
      static_cast<uint64_t>(r.output_length) > kMaxRequestTokens) {
    return Status(Code::kOutOfRange, where + "length " + std::to_string(r.input_length) + " + " +
                                         std::to_string(r.output_length) + ", the limit is " +
                                         std::to_string(kMaxRequestTokens) + " tokens");
  }
  if (!r.hash_ids.empty() && r.block_size != block_size) {
    return Status(Code::kInvalidArgument, where + "block_size " + std::to_string(r.block_size) +
                                              ", the lines before have " +
                                              std::to_string(block_size));
  }
  const uint64_t most = (static_cast<uint64_t>(r.input_length) + block_size - 1) / block_size;
  if (!r.hash_ids.empty() && r.hash_ids.size() > most) {
    return Status(Code::kInvalidArgument,
                  where + std::to_string(r.hash_ids.size()) + " hash_ids, but " +
                      std::to_string(r.input_length) + " tokens fill only " + std::to_string(most) +
                      " blocks of " + std::to_string(block_size));
  }
  return Status::ok();
}

/// next_turn: the next request of the session whose listed blocks begin with all of this one's.
void link_turns(Workload& work) {
  std::unordered_map<uint64_t, uint32_t> last;  // session -> item; looked up only, never iterated
  for (uint32_t i = 0; i < work.items.size(); ++i) {
    WorkItem& item = work.items[i];
    if (item.session == 0) {
      continue;
    }
    const auto found = last.find(item.session);
    if (found != last.end()) {
      WorkItem& before = work.items[found->second];
      // Only full blocks must agree: the last listed one may be partial.
      const uint64_t full = work.block_size == 0 ? 0 : before.prompt / work.block_size;
      const auto common = static_cast<ptrdiff_t>(std::min<uint64_t>(before.ids, full));
      const auto a = work.ids.begin() + static_cast<ptrdiff_t>(before.first_id);
      const auto b = work.ids.begin() + static_cast<ptrdiff_t>(item.first_id);
      if (item.ids > before.ids && std::equal(a, a + common, b)) {
        before.next_turn = i;
      }
    }
    last[item.session] = i;
  }
}

}  // namespace

Expected<Workload> read_workload(const std::string& path, uint64_t limit) {
  auto opened = TraceReader::open(path);
  if (!opened) {
    return opened.status();
  }
  Workload work;
  work.source = path;
  work.tenants.push_back("default");
  std::map<std::string, uint32_t> tenant_ids{{"", 0}, {"default", 0}};
  std::map<int64_t, uint64_t> sessions;
  TraceRequest r;
  while (limit == 0 || work.items.size() < limit) {
    auto more = (*opened)->next(r);
    if (!more) {
      return more.status();
    }
    if (!*more) {
      break;
    }
    if (work.block_size == 0 && !r.hash_ids.empty()) {
      work.block_size = r.block_size;
    }
    TROUPE_TRY(check_item(path, r, work.block_size == 0 ? r.block_size : work.block_size));
    WorkItem item;
    item.timestamp_ms = r.timestamp_ms;
    item.prompt = static_cast<uint32_t>(r.input_length);
    item.output = static_cast<uint32_t>(std::max<int64_t>(1, r.output_length));
    item.first_id = work.ids.size();
    item.ids = static_cast<uint32_t>(r.hash_ids.size());
    item.next_turn = kNoItem;
    item.line = r.line;
    if (r.session_id >= 0) {
      item.session = sessions.emplace(r.session_id, sessions.size() + 1).first->second;
    }
    const auto tenant = tenant_ids.emplace(r.tenant, static_cast<uint32_t>(work.tenants.size()));
    if (tenant.second) {
      work.tenants.push_back(r.tenant);
    }
    item.tenant = tenant.first->second;
    work.ids.insert(work.ids.end(), r.hash_ids.begin(), r.hash_ids.end());
    if (!r.tokens.empty()) {
      work.given_tokens.resize(work.items.size() + 1);
      work.given_tokens.back() = r.tokens;
    }
    work.items.push_back(item);
  }
  if (work.items.empty()) {
    return Status(Code::kInvalidArgument, path + ": no requests in it");
  }
  work.given_tokens.resize(work.items.size());
  work.sessions = sessions.size();
  link_turns(work);
  return work;
}

std::vector<uint32_t> token_stream(const Workload& work, uint32_t index, bool prompt_only) {
  const WorkItem& item = work.items[index];
  const uint64_t total = item.prompt + (prompt_only ? 0ULL : item.output);
  const bool has_next = item.next_turn != kNoItem;
  const std::vector<uint32_t>& given = work.given_tokens[index];
  std::vector<uint32_t> tokens(total);
  for (uint64_t p = 0; p < total; ++p) {
    uint64_t id = 0;
    if (p < given.size()) {
      tokens[p] = given[p];
    } else if (listed_id(work, item, p, id) && p < item.prompt) {
      tokens[p] = token_of(id, p % work.block_size);
    } else if (has_next && listed_id(work, work.items[item.next_turn], p, id)) {
      tokens[p] = token_of(id, p % work.block_size);
    } else {
      tokens[p] = token_of(~static_cast<uint64_t>(index), p);  // private to this request
    }
  }
  return tokens;
}

}  // namespace troupe
