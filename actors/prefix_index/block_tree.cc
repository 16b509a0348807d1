// Lookup, insertion and removal, residence, leases of the tree.
#include "actors/prefix_index/block_tree.h"

#include <algorithm>
#include <cstring>

namespace troupe::prefix {

BlockTree::BlockTree(const TreeConfig& config) : config_(config), table_(config.capacity) {
  TROUPE_ASSERT(config.capacity > 0 && config.capacity < kDead && config.tiers != 0);
  const size_t n = config.capacity;
  keys_.resize(n);
  links_.resize(n);
  uses_.resize(n, 0);
  leases_.resize(n, 0);
  order_.resize(n);
  facts_.resize(n);
  tokens_.resize(n * config.token_stride, 0);
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    if (((config.tiers >> tier) & 1U) != 0) {
      children_on_[tier].resize(n, 0);
      lowest_ = tier;
    }
  }
}

uint32_t BlockTree::hash_of(uint32_t parent, const BlockKey& key, uint8_t make) const noexcept {
  if ((make & kOpaqueBit) == 0) {
    return static_cast<uint32_t>(key.w[0]);  // a cryptographic hash: any 32 bits are as good
  }
  uint64_t h = parent;
  for (const uint64_t word : key.w) {
    h = mix64(h ^ word);
  }
  return static_cast<uint32_t>(h >> 32);
}

uint32_t BlockTree::find_child(uint32_t parent, const BlockKey& key, uint8_t make,
                               uint32_t domain) const noexcept {
  if (parent != kNoBlock) {
    const uint32_t behind = parent + 1;
    if (behind < config_.capacity && is_child(behind, parent, key, make)) {
      return behind;
    }
  }
  return find_in_table(parent, key, make, domain);
}

uint32_t BlockTree::find_in_table(uint32_t parent, const BlockKey& key,
                                  uint8_t make, uint32_t domain) const noexcept {
  if (parent != kNoBlock && links_[parent].is_parent == 0) {
    return kNoBlock;  // the end of a chain, or one that is just being built
  }
  return table_.find(hash_of(parent, key, make), [&](uint32_t block) {
    return is_child(block, parent, key, make) &&
           (parent != kNoBlock || facts_[block].domain == domain);
  });
}

/// Brings what the next keys need into the cache while the current one is compared. Called where
/// the chain left its run; along a run memory is read in order and the processor sees that by
/// itself.
class BlockTree::Ahead {
 public:
  Ahead(const BlockTree& tree, std::span<const BlockKey> keys, uint8_t make) noexcept
      : tree_(tree), keys_(keys), usable_((make & kOpaqueBit) == 0) {}
  void reach(size_t i) noexcept {
    if (!usable_) {
      return;  // where an opaque key lies depends on its parent, which is not known yet
    }
    const size_t cells = std::min(i + kCells, keys_.size());
    for (cells_ = std::max(cells_, i + 1); cells_ < cells; ++cells_) {
      tree_.table_.prefetch(static_cast<uint32_t>(keys_[cells_].w[0]));
    }
    const size_t blocks = std::min(i + kBlocks, keys_.size());
    for (blocks_ = std::max(blocks_, i + 1); blocks_ < blocks; ++blocks_) {
      const uint32_t guess = tree_.table_.guess(static_cast<uint32_t>(keys_[blocks_].w[0]));
      if (guess != kNoBlock) {
        __builtin_prefetch(&tree_.keys_[guess]);
        __builtin_prefetch(&tree_.links_[guess]);
        const uint32_t* tokens =
            tree_.tokens_.data() + static_cast<size_t>(guess) * tree_.config_.token_stride;
        __builtin_prefetch(tokens);
        __builtin_prefetch(tokens + tree_.config_.token_stride - 1);
      }
    }
  }

 private:
  static constexpr size_t kCells = 24;
  static constexpr size_t kBlocks = 12;
  const BlockTree& tree_;
  std::span<const BlockKey> keys_;
  bool usable_;
  size_t cells_ = 0;   // keys below have their cell on the way
  size_t blocks_ = 0;  // keys below have their block on the way
};

void BlockTree::match(const Lookup& lookup, std::vector<uint32_t>& out,
                      uint32_t& obstacle) const noexcept {
  obstacle = kNoBlock;
  Ahead ahead(*this, lookup.keys, lookup.make);
  uint32_t at = kNoBlock;
  const size_t n = lookup.block_tokens;
  for (size_t i = 0; i < lookup.keys.size(); ++i) {
    uint32_t block = at + 1;
    if (at == kNoBlock || block >= config_.capacity ||
        !is_child(block, at, lookup.keys[i], lookup.make)) {
      ahead.reach(i);
      block = find_in_table(at, lookup.keys[i], lookup.make, lookup.domain);
      if (block == kNoBlock) {
        return;
      }
    }
    if (motion(block) != Motion::kNone) {
      obstacle = block;
      return;
    }
    if (count(block) != n ||
        (!lookup.tokens.empty() && !same_tokens(block, lookup.tokens.subspan(i * n, n)))) {
      return;
    }
    out.push_back(block);
    at = block;
  }
}

uint32_t BlockTree::longest_prefix(std::span<const BlockKey> keys, uint8_t make,
                                   uint32_t domain) const noexcept {
  Ahead ahead(*this, keys, make);
  uint32_t at = kNoBlock;
  for (size_t i = 0; i < keys.size(); ++i) {
    uint32_t block = at + 1;
    if (at == kNoBlock || block >= config_.capacity || !is_child(block, at, keys[i], make)) {
      ahead.reach(i);
      block = find_in_table(at, keys[i], make, domain);
      if (block == kNoBlock) {
        return static_cast<uint32_t>(i);
      }
    }
    at = block;
  }
  return static_cast<uint32_t>(keys.size());
}

void BlockTree::insert(const NewBlock& b) noexcept {
  TROUPE_ASSERT(known(b.block) && !live(b.block) && motion(b.block) == Motion::kNone);
  TROUPE_ASSERT(b.parent == kNoBlock || live(b.parent));
  TROUPE_ASSERT(b.mask != 0 && (b.mask & ~config_.tiers) == 0 && b.count <= config_.token_stride);
  Link& link = links_[b.block];
  link.parent = b.parent;
  link.count = b.count & 0x7FFFU;
  link.mask = b.mask & 0xFU;
  link.make = b.make;
  keys_[b.block] = b.key;
  facts_[b.block] = {b.parent == kNoBlock ? 0 : facts_[b.parent].depth + 1, b.tenant, b.domain};
  uses_[b.block] = 1;
  if (!b.tokens.empty()) {
    std::memcpy(tokens_.data() + static_cast<size_t>(b.block) * config_.token_stride,
                b.tokens.data(), b.tokens.size_bytes());
  }
  if (!continues(b.block)) {
    table_.insert(hash_of(b.parent, b.key, b.make), b.block);
  }
  order_insert(children_root(b.parent), b.block);
  if (b.parent != kNoBlock) {
    links_[b.parent].is_parent = 1;
  }
  ++live_;
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    if (on(b.block, tier)) {
      ++live_on_[tier];
      count_child(b.block, tier, 1);
    }
  }
}

void BlockTree::remove(uint32_t block) noexcept {
  TROUPE_ASSERT(live(block) && !has_children(block) && leases_[block] == 0);
  set_motion(block, Motion::kNone);
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    if (on(block, tier)) {
      drop_tier(block, tier);
    }
  }
  if (!continues(block)) {
    table_.erase(hash_of(links_[block].parent, keys_[block], links_[block].make), block);
  }
  const uint32_t parent = links_[block].parent;
  order_erase(children_root(parent), block);
  if (parent != kNoBlock) {
    links_[parent].is_parent = order_[parent].child != kNoBlock ? 1 : 0;
  }
  links_[block] = Link{};
  --live_;
}

void BlockTree::set_doomed(uint32_t block, uint8_t mask) noexcept {
  TROUPE_ASSERT(!live(block));
  keys_[block] = BlockKey{};
  facts_[block] = Facts{};
  uses_[block] = 0;
  links_[block].mask = mask & 0xFU;
  links_[block].motion = static_cast<uint8_t>(Motion::kDoomed) & 0xFU;
}

void BlockTree::forget_doomed(uint32_t block) noexcept {
  links_[block] = Link{};
}

void BlockTree::count_child(uint32_t block, uint8_t tier, int change) noexcept {
  const uint32_t parent = links_[block].parent;
  if (parent != kNoBlock && !children_on_[tier].empty()) {
    children_on_[tier][parent] += static_cast<uint32_t>(change);
  }
}

void BlockTree::add_tier(uint32_t block, uint8_t tier) noexcept {
  TROUPE_ASSERT(live(block) && !on(block, tier));
  links_[block].mask |= static_cast<uint8_t>(1U << tier) & 0xFU;
  ++live_on_[tier];
  if (motion(block) != leaving(tier)) {
    count_child(block, tier, 1);
  }
}

void BlockTree::drop_tier(uint32_t block, uint8_t tier) noexcept {
  TROUPE_ASSERT(live(block) && on(block, tier));
  links_[block].mask &= static_cast<uint8_t>(~(1U << tier)) & 0xFU;
  --live_on_[tier];
  if (motion(block) != leaving(tier)) {
    count_child(block, tier, -1);
  }
}

void BlockTree::set_motion(uint32_t block, Motion motion) noexcept {
  TROUPE_ASSERT(live(block) && motion != Motion::kDoomed);
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    if (on(block, tier)) {
      const int was = this->motion(block) != leaving(tier) ? 1 : 0;
      const int is = motion != leaving(tier) ? 1 : 0;
      if (was != is) {
        count_child(block, tier, is - was);
      }
    }
  }
  links_[block].motion = static_cast<uint8_t>(motion) & 0xFU;
}

void BlockTree::lease(uint32_t block) noexcept {
  TROUPE_ASSERT(live(block));
  ++leases_[block];
  ++lease_total_;
}

void BlockTree::unlease(uint32_t block) noexcept {
  TROUPE_ASSERT(live(block) && leases_[block] > 0);
  --leases_[block];
  --lease_total_;
}

bool BlockTree::may_leave(uint32_t block, uint8_t tier) const noexcept {
  if (!live(block) || !on(block, tier) || leases_[block] != 0 || motion(block) != Motion::kNone ||
      children_on(tier, block) != 0) {
    return false;
  }
  if (tier != lowest_ || links_[block].mask != (1U << tier)) {
    return true;  // it stays somewhere, or may be demoted
  }
  for (uint8_t other = 0; other < kTierCount; ++other) {
    if (children_on(other, block) != 0) {
      return false;
    }
  }
  return true;
}

size_t BlockTree::bytes() const noexcept {
  size_t bytes = keys_.size() * sizeof(BlockKey) + links_.size() * sizeof(Link) +
                 uses_.size() * sizeof(uint32_t) + leases_.size() * sizeof(uint32_t) +
                 order_.size() * sizeof(Order) + facts_.size() * sizeof(Facts) +
                 tokens_.size() * sizeof(uint32_t) + table_.bytes();
  for (const auto& counts : children_on_) {
    bytes += counts.size() * sizeof(uint32_t);
  }
  return bytes;
}

}  // namespace troupe::prefix
