// Every block that was ever in the cache of a recording, by identity: its whole life, and which
// stored block comes nearest to a missing one. Filled by story.cc as the recording passes.
#pragma once

#include "runtime/base/block_key.h"
#include "runtime/base/tick.h"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe {

constexpr uint32_t kNoLife = 0xFFFFFFFFU;
constexpr uint32_t kNoAnswer = 0xFFFFFFFFU;

/// What a block is: its key, which binds tokens, domain and adapter; and class and domain, which
/// opaque keys do not bind.
struct BlockName {
  BlockKey key;
  uint32_t domain = 0;
  uint8_t make = 0;
  friend bool operator==(const BlockName&, const BlockName&) noexcept = default;
};
struct BlockNameHash {
  size_t operator()(const BlockName& n) const noexcept {
    return static_cast<size_t>(n.key.w[0] ^ (n.key.w[1] << 1) ^ (uint64_t{n.domain} << 32) ^
                               n.make);
  }
};

enum class LifeChange : uint8_t {
  kStored,
  kPromoted,     // also on the device now
  kDemoted,      // also on a lower tier now
  kLeftTier,     // no longer on one tier, still on another
  kStayed,       // was to leave and did not
  kEvicted,      // gone
  kEvictedWith,  // gone, since a block that it hangs on went
  kSwappedOut,   // gone: its sequence was preempted and there was no room below
  kLost,         // gone: its bytes, or those of a block that it hangs on, did not verify
  kPurged,       // gone
};
const char* change_name(LifeChange change) noexcept;

struct LifeEvent {
  Tick at;
  uint64_t delivery = 0;  // of the prefix index
  LifeChange what = LifeChange::kStored;
  uint8_t tier = 0;
  uint64_t request = 0;         // stored: by whom
  uint32_t answer = kNoAnswer;  // evicted: the policy's answer that named it,
  uint32_t place = 0;           //   and where in it
};

struct Life {
  BlockName name;
  uint32_t parent = kNoLife;
  uint32_t depth = 0;
  uint32_t handle = 0;  // the last one
  bool live = false;
  bool had_children = false;
  uint64_t chain = 0;  // of all tokens up to its end, without its domain
  std::vector<uint32_t> tokens;
  uint64_t hits = 0;
  Tick last_hit;
  std::vector<LifeEvent> events;
};

class BlockLives {
 public:
  /// The block of that name; kNoLife when it was never stored.
  uint32_t find(const BlockName& name) const;
  /// A block is stored, for the first time or again. Returns its life.
  uint32_t store(const BlockName& name, uint32_t parent, uint32_t handle,
                 std::span<const uint32_t> tokens);
  Life& at(uint32_t id) { return lives_[id]; }
  const Life& at(uint32_t id) const { return lives_[id]; }
  const std::vector<Life>& all() const noexcept { return lives_; }

  /// Most leading tokens that a child of `parent` (kNoLife: a root of that domain and make), stored
  /// now or once, shares with `tokens`.
  uint32_t shared_tokens(uint32_t parent, uint32_t domain, uint8_t make,
                         std::span<const uint32_t> tokens) const;
  /// A block with the same tokens up to its end, in another domain or of another make; else
  /// kNoLife.
  uint32_t find_elsewhere(uint64_t chain, const BlockName& name) const;
  static uint64_t extend(uint64_t chain, std::span<const uint32_t> tokens) noexcept;

 private:
  static uint64_t child_slot(uint32_t parent, uint32_t domain, uint8_t make,
                             uint32_t first_token) noexcept;
  std::vector<Life> lives_;
  std::unordered_map<BlockName, uint32_t, BlockNameHash> by_name_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> children_;  // by slot; checked on use
  std::unordered_map<uint64_t, std::vector<uint32_t>> by_chain_;
};

std::string key_text(const BlockKey& key);

}  // namespace troupe
