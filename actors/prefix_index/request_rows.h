// What the prefix index keeps of a live request: its tokens and keys (the only place that has
// them), how far its path in the tree goes, and what it waits for. Rows are found by request id, in
// order.
#pragma once

#include "actors/prefix_index/block_tree.h"

#include <cstdint>
#include <map>
#include <vector>

namespace troupe::prefix {

/// What the reply says of the request's first lookup.
struct FirstLookup {
  uint32_t done = 0;  // 1: it happened; 2: its path has ended since
  uint32_t listed = 0;
  uint32_t hit_blocks = 0;
  uint32_t hit_tokens = 0;
  uint32_t partial_tokens = 0;
  uint32_t loaded = 0;
};

struct RequestRow {
  uint64_t request = 0;
  uint64_t session = 0;
  uint64_t parent = 0;  // request that it was forked from, 0: none
  uint32_t tenant = 0;
  uint32_t domain = 0;
  uint32_t hints = 0;
  uint8_t make = 0;
  bool prompt_only = false;

  // Content. Keys: of `full_keys` full blocks, then perhaps one of a partial tail of `tail_tokens`.
  std::vector<uint32_t> tokens;  // empty with opaque keys
  std::vector<BlockKey> keys;
  uint32_t total = 0;  // tokens, also where they are not known
  uint32_t full_keys = 0;
  uint32_t tail_tokens = 0;

  // Path. The first `used` blocks are used by this request on the device; `anchor` is the deepest
  // of them and leased, which keeps all above it in place. `loading`: blocks behind the anchor that
  // are on their way up for this request, deepest first.
  uint32_t anchor = kNoBlock;
  uint32_t used = 0;
  uint32_t partial_source = kNoBlock;  // leased until the next publish
  bool cut = false;                    // its path was broken: nothing more is published
  std::vector<uint32_t> loading;

  // Its step went by way of tiering and has not come back by `publish`: a release could overtake
  // it. What was purged under it meanwhile: blocks whose release waits for that publish, and loads
  // that nobody reports when the step is left before it runs.
  bool riding = false;
  std::vector<uint32_t> kept_back;
  std::vector<uint32_t> doomed_loads;

  // Waiting. At most one of the two is set.
  bool waiting = false;
  uint64_t waits_request = 0;       // another request computes the next missing block
  uint32_t waits_block = kNoBlock;  // that block moves
  bool staged = false;              // what lies on disk was asked for; no second time
  bool pending = false;             // registered as computing `pending_key`
  BlockKey pending_key;

  FirstLookup first;

  bool opaque() const noexcept { return (make & kOpaqueBit) != 0; }
  uint8_t block_class() const noexcept { return make & static_cast<uint8_t>(~kOpaqueBit); }
  uint32_t listed() const noexcept { return static_cast<uint32_t>(keys.size()); }
  /// Tokens that the last of `blocks` leading blocks ends at.
  uint32_t tokens_of_blocks(uint32_t blocks, uint32_t block_tokens) const noexcept {
    return blocks > full_keys ? full_keys * block_tokens + tail_tokens : blocks * block_tokens;
  }
  /// Leading blocks that are used or on their way.
  uint32_t reach() const noexcept { return used + static_cast<uint32_t>(loading.size()); }
  /// Blocks that this request will publish under the keys known so far.
  uint32_t publishable() const noexcept { return prompt_only ? listed() : full_keys; }
};

class RequestRows {
 public:
  explicit RequestRows(uint32_t limit) : limit_(limit) {}
  /// A new row, or nullptr when the id is taken or the table full.
  RequestRow* add(uint64_t request);
  RequestRow* find(uint64_t request) noexcept {
    const auto found = rows_.find(request);
    return found == rows_.end() ? nullptr : &found->second;
  }
  void erase(uint64_t request);
  bool full() const noexcept { return rows_.size() >= limit_; }
  size_t size() const noexcept { return rows_.size(); }
  auto begin() noexcept { return rows_.begin(); }
  auto end() noexcept { return rows_.end(); }
  auto begin() const noexcept { return rows_.begin(); }
  auto end() const noexcept { return rows_.end(); }
  void clear() { rows_.clear(); }

  /// Token values are left out.
  void digest(Digest& d) const noexcept;
  void save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  uint32_t limit_;
  std::map<uint64_t, RequestRow> rows_;
  // Buffers of rows that ended, for those to come: large ones would be mapped anew each time.
  // Not part of the state.
  std::vector<std::pair<std::vector<uint32_t>, std::vector<BlockKey>>> spare_;
};

}  // namespace troupe::prefix
