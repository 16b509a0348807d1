// The radix tree over block contents, as arrays by block handle. A node is one block; a run is a
// chain of blocks whose handles follow each other (the allocator hands them out that way), and
// within a run a child is found by looking right behind its parent, without any table: runs need no
// objects, no splits and no joins. Only the first block of a run is in the table of keys. Siblings
// hang in a treap ordered by their tokens, so that the child that shares most tokens with a prompt
// is a neighbour of the place where the prompt would stand. Invariants: a live block's parent is
// live (parent closure); a block on the device has its parent there (device closure);
// `children_on(t, b)` counts the children on tier t that are not leaving it. After SGLang's
// RadixAttention (Zheng et al., 2024) and vLLM's block hashes (Kwon et al., SOSP 2023); treap:
// Seidel, Aragon 1996.
#pragma once

#include "actors/prefix_index/key_table.h"
#include "runtime/base/digest.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"
#include "runtime/core/snapshot.h"
#include "runtime/core/wire.h"

#include <cstdint>
#include <span>
#include <vector>

namespace troupe::prefix {

/// What a block is apart from its content: its class and whether its key is an engine's own.
/// Blocks of different make never match.
constexpr uint8_t kOpaqueBit = 0x80;
constexpr uint8_t make_of(uint8_t block_class, bool opaque) noexcept {
  return static_cast<uint8_t>(block_class | (opaque ? kOpaqueBit : 0));
}

/// Movement of a block. While it lasts no lookup may use the block.
enum class Motion : uint8_t {
  kNone = 0,
  kLeavingDevice,  // + tier: on its way out of that tier
  kLeavingHost,
  kLeavingDisk,
  kLeavingRemote,
  kLoading,  // a request loads it to the device
  kDoomed,   // purged or lost while it moved: out of the tree, released when the motion settles
};
constexpr Motion leaving(uint8_t tier) noexcept {
  return static_cast<Motion>(tier + 1);
}

struct TreeConfig {
  uint32_t capacity = 0;       // block handles are below
  uint32_t token_stride = 16;  // tokens kept a block: the largest class
  uint8_t tiers = 1;           // mask of the tiers that are there
};

struct NewBlock {
  uint32_t block = 0;
  uint32_t parent = kNoBlock;
  BlockKey key;
  uint8_t make = 0;
  uint16_t count = 0;                // tokens in the block
  std::span<const uint32_t> tokens;  // count of them; empty with opaque keys
  uint8_t mask = 0;                  // residence
  uint32_t tenant = 0;
  uint32_t domain = 0;
};

/// A chain of keys to look up. Tokens are compared where `tokens` is not empty.
struct Lookup {
  std::span<const BlockKey> keys;    // of full blocks, in order
  std::span<const uint32_t> tokens;  // block_tokens a key
  uint32_t block_tokens = 16;
  uint8_t make = 0;
  uint32_t domain = 0;
};

class BlockTree {
 public:
  explicit BlockTree(const TreeConfig& config);

  /// The child of `parent` (kNoBlock: a root of `domain`) with this key and make, or kNoBlock.
  /// An engine's own keys know nothing of domains, so roots are told apart by theirs.
  uint32_t find_child(uint32_t parent, const BlockKey& key, uint8_t make,
                      uint32_t domain) const noexcept;
  /// Appends the leading run of known blocks that do not move and whose tokens are the same. When
  /// it ends at a block that moves, `obstacle` names it, else it is kNoBlock.
  void match(const Lookup& lookup, std::vector<uint32_t>& out, uint32_t& obstacle) const noexcept;
  /// Length of the leading run of known keys, moving blocks included; compares keys alone.
  uint32_t longest_prefix(std::span<const BlockKey> keys, uint8_t make,
                          uint32_t domain) const noexcept;
  /// Among the children of `parent` of this make that lie on the device and do not move: the one
  /// that shares most leading tokens with `tokens`, at least `least` and never all of a full
  /// block's (equal tokens under another key are another content). Looks at 16 at most. Which
  /// one does not depend on how token values compare, only on which are equal.
  struct Partial {
    uint32_t block = kNoBlock;
    uint32_t tokens = 0;
  };
  Partial best_partial(uint32_t parent, std::span<const uint32_t> tokens, uint8_t make,
                       uint32_t least, uint32_t block_tokens) const noexcept;

  /// The handle must be free here, the parent live.
  void insert(const NewBlock& b) noexcept;
  /// Takes a block without children out of the tree. Its lease count must be 0.
  void remove(uint32_t block) noexcept;
  /// Appends `root` and all that hang on it, children before parents.
  void collect_subtree(uint32_t root, std::vector<uint32_t>& out) const;
  /// The same tokens as the block holds (always true for opaque blocks).
  bool same_tokens(uint32_t block, std::span<const uint32_t> tokens) const noexcept {
    if ((links_[block].make & kOpaqueBit) != 0) {
      return true;
    }
    if (links_[block].count != tokens.size()) {
      return false;
    }
    const uint32_t* own = tokens_.data() + static_cast<size_t>(block) * config_.token_stride;
    uint32_t differ = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {  // no early exit: nearly always equal
      differ |= own[i] ^ tokens[i];
    }
    return differ == 0;
  }

  void add_tier(uint32_t block, uint8_t tier) noexcept;
  void drop_tier(uint32_t block, uint8_t tier) noexcept;
  void set_motion(uint32_t block, Motion motion) noexcept;
  /// A block that was taken out while it moved keeps its handle until the motion settles.
  void set_doomed(uint32_t block, uint8_t mask) noexcept;
  void forget_doomed(uint32_t block) noexcept;

  void lease(uint32_t block) noexcept;
  void unlease(uint32_t block) noexcept;
  void count_use(uint32_t block) noexcept { uses_[block] += uses_[block] != UINT32_MAX ? 1 : 0; }
  /// No lease, no motion, no child on that tier; from the lowest tier no child anywhere.
  bool may_leave(uint32_t block, uint8_t tier) const noexcept;

  bool known(uint32_t block) const noexcept { return block < links_.size(); }
  bool live(uint32_t block) const noexcept { return known(block) && links_[block].parent != kDead; }
  bool doomed(uint32_t block) const noexcept {
    return known(block) && motion(block) == Motion::kDoomed;
  }
  uint32_t parent(uint32_t block) const noexcept { return links_[block].parent; }
  uint8_t mask(uint32_t block) const noexcept { return links_[block].mask; }
  bool on(uint32_t block, uint8_t tier) const noexcept {
    return ((links_[block].mask >> tier) & 1U) != 0;
  }
  Motion motion(uint32_t block) const noexcept { return static_cast<Motion>(links_[block].motion); }
  uint8_t make(uint32_t block) const noexcept { return links_[block].make; }
  uint16_t count(uint32_t block) const noexcept { return links_[block].count; }
  uint32_t depth(uint32_t block) const noexcept { return facts_[block].depth; }
  uint32_t tenant(uint32_t block) const noexcept { return facts_[block].tenant; }
  uint32_t domain(uint32_t block) const noexcept { return facts_[block].domain; }
  uint32_t uses(uint32_t block) const noexcept { return uses_[block]; }
  uint32_t leases(uint32_t block) const noexcept { return leases_[block]; }
  const BlockKey& key(uint32_t block) const noexcept { return keys_[block]; }
  bool has_children(uint32_t block) const noexcept { return order_[block].child != kNoBlock; }
  uint32_t children_on(uint8_t tier, uint32_t block) const noexcept {
    return children_on_[tier].empty() ? 0 : children_on_[tier][block];
  }

  uint32_t capacity() const noexcept { return config_.capacity; }
  uint8_t lowest_tier() const noexcept { return lowest_; }
  uint64_t live_blocks() const noexcept { return live_; }
  uint64_t live_on(uint8_t tier) const noexcept { return live_on_[tier]; }
  uint64_t live_leases() const noexcept { return lease_total_; }
  /// Chains of handles that follow each other.
  uint64_t runs() const noexcept { return table_.size(); }
  /// Bytes of all tables, token store included.
  size_t bytes() const noexcept;

  Digest digest() const noexcept;
  Status check() const;
  void save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  static constexpr uint32_t kDead = 0xFFFFFFFEU;
  struct Link {  // all that a lookup reads of a block beside its key and tokens
    uint32_t parent = kDead;
    uint16_t count : 15 = 0;     // tokens
    uint16_t is_parent : 1 = 0;  // it has children
    uint8_t mask : 4 = 0;
    uint8_t motion : 4 = 0;
    uint8_t make = 0;
  };
  struct Order {  // treap of siblings: root of the children, and the two sides
    uint32_t child = kNoBlock;
    uint32_t left = kNoBlock;
    uint32_t right = kNoBlock;
  };
  struct Facts {
    uint32_t depth = 0;
    uint32_t tenant = 0;
    uint32_t domain = 0;
  };
  class Ahead;
  uint32_t find_in_table(uint32_t parent, const BlockKey& key, uint8_t make,
                         uint32_t domain) const noexcept;
  uint32_t hash_of(uint32_t parent, const BlockKey& key, uint8_t make) const noexcept;
  bool is_child(uint32_t block, uint32_t parent, const BlockKey& key, uint8_t make) const noexcept {
    const Link& link = links_[block];
    return link.parent == parent && link.make == make && keys_[block] == key;
  }
  /// Not reached through the table: its handle follows its parent's.
  bool continues(uint32_t block) const noexcept {
    return links_[block].parent != kNoBlock && links_[block].parent + 1 == block;
  }
  std::span<const uint32_t> tokens_of(uint32_t block) const noexcept {
    return {tokens_.data() + static_cast<size_t>(block) * config_.token_stride,
            links_[block].count};
  }
  uint32_t& children_root(uint32_t parent) noexcept {
    return parent == kNoBlock ? root_ : order_[parent].child;
  }
  uint32_t children_root(uint32_t parent) const noexcept {
    return parent == kNoBlock ? root_ : order_[parent].child;
  }
  void count_child(uint32_t block, uint8_t tier, int change) noexcept;
  // block_tree_order.cc: the treap
  bool before(uint32_t a, uint32_t b) const noexcept;
  bool above(uint32_t a, uint32_t b) const noexcept;
  /// Place of `tokens` among the children of `parent`.
  struct Asked {
    uint32_t parent;
    std::span<const uint32_t> tokens;
    uint8_t make;
  };
  /// Neighbours on one side (-1: before, 1: behind) that share at least `low` and less than `high`
  /// leading tokens with what is asked for: they stand next to each other.
  struct Band {
    int side;
    uint32_t low;
    uint32_t high;
  };
  int side_of(uint32_t block, const Asked& asked, uint32_t& shared) const noexcept;
  /// The topmost block of the band in the treap under `at`.
  uint32_t top_of(uint32_t at, const Asked& asked, const Band& band) const noexcept;
  /// Most tokens that a block of that side shares, of those that share less than `high`.
  uint32_t nearest(const Asked& asked, int side, uint32_t high) const noexcept;
  void order_insert(uint32_t& root, uint32_t block) noexcept;
  void order_erase(uint32_t& root, uint32_t block) noexcept;
  uint32_t order_merge(uint32_t a, uint32_t b) noexcept;

  // block_tree_state.cc
  Status check_block(uint32_t b) const;

  TreeConfig config_;
  uint8_t lowest_ = 0;
  std::vector<BlockKey> keys_;
  std::vector<Link> links_;
  std::vector<uint32_t> uses_;
  std::vector<uint32_t> leases_;
  std::vector<Order> order_;
  std::vector<Facts> facts_;
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t> children_on_[kTierCount];  // empty for tiers that are not there
  KeyTable table_;
  uint32_t root_ = kNoBlock;  // treap of the roots
  uint64_t live_ = 0;
  uint64_t live_on_[kTierCount] = {};
  uint64_t lease_total_ = 0;
};

}  // namespace troupe::prefix
