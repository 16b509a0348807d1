// Digest, invariants, save and load of the tree.
#include "actors/prefix_index/block_tree.h"

#include <algorithm>
#include <string>

namespace troupe::prefix {

Digest BlockTree::digest() const noexcept {
  Digest d;
  for (uint32_t b = 0; b < config_.capacity; ++b) {
    const Link& link = links_[b];
    if (link.parent == kDead && link.motion == 0) {
      continue;
    }
    d.add(b).add(link.parent).add(link.count).add(link.make);
    d.add(static_cast<uint64_t>(link.mask) << 8 | link.motion);
    d.add(leases_[b]).add(uses_[b]).add(facts_[b].tenant).add(facts_[b].domain);
    for (const uint64_t word : keys_[b].w) {
      d.add(word);
    }
  }
  return d.add(lease_total_);
}

namespace {
Status broken(uint32_t block, const std::string& what) {
  return Status(Code::kInternal, "prefix_index: block " + std::to_string(block) + " " + what);
}
}  // namespace

/// One live block against its parent, its children and the key table.
Status BlockTree::check_block(uint32_t b) const {
  const Link& link = links_[b];
  if (link.mask == 0 || (link.mask & ~config_.tiers) != 0) {
    return broken(b, "lies on no tier, or on one that is not there");
  }
  if (link.parent != kNoBlock && !live(link.parent)) {
    return broken(b, "has parent " + std::to_string(link.parent) + ", which is not in the tree");
  }
  const uint32_t depth = link.parent == kNoBlock ? 0 : facts_[link.parent].depth + 1;
  if (facts_[b].depth != depth) {
    return broken(
        b, "has depth " + std::to_string(facts_[b].depth) + ", not " + std::to_string(depth));
  }
  if (link.parent != kNoBlock && on(b, 0) && !on(link.parent, 0)) {
    return broken(b, "is on the device, its parent is not");
  }
  if ((link.is_parent != 0) != (order_[b].child != kNoBlock)) {
    return broken(b, "has children and does not say so, or the reverse");
  }
  if (find_child(link.parent, keys_[b], link.make, facts_[b].domain) == kNoBlock) {
    return broken(b, "is not found by its key");
  }
  return Status::ok();
}

Status BlockTree::check() const {
  uint64_t live_count = 0;
  uint64_t heads = 0;
  uint64_t lease_sum = 0;
  uint64_t on_tier[kTierCount] = {};
  std::vector<std::vector<uint32_t>> children(kTierCount,
                                              std::vector<uint32_t>(config_.capacity, 0));
  for (uint32_t b = 0; b < config_.capacity; ++b) {
    lease_sum += leases_[b];
    if (!live(b)) {
      if (leases_[b] != 0 || order_[b].child != kNoBlock) {
        return broken(b, "is not in the tree but leased or a parent");
      }
      continue;
    }
    TROUPE_TRY(check_block(b));
    const Link& link = links_[b];
    ++live_count;
    heads += continues(b) ? 0 : 1;
    for (uint8_t tier = 0; tier < kTierCount; ++tier) {
      on_tier[tier] += on(b, tier) ? 1 : 0;
      if (link.parent != kNoBlock && on(b, tier) && motion(b) != leaving(tier)) {
        ++children[tier][link.parent];
      }
    }
  }
  for (uint8_t tier = 0; tier < kTierCount; ++tier) {
    if (on_tier[tier] != live_on_[tier]) {
      return Status(Code::kInternal, "prefix_index: " + std::to_string(on_tier[tier]) +
                                         " blocks lie on tier " + std::to_string(tier) +
                                         ", counted " + std::to_string(live_on_[tier]));
    }
    for (uint32_t b = 0; b < config_.capacity; ++b) {
      if (!children_on_[tier].empty() && children_on_[tier][b] != children[tier][b]) {
        return broken(b, "has a wrong count of children on tier " + std::to_string(tier));
      }
    }
  }
  std::vector<uint32_t> reached;
  for (uint32_t b = 0; b < config_.capacity; ++b) {
    if (live(b) && links_[b].parent == kNoBlock) {
      collect_subtree(b, reached);
    }
  }
  if (live_count != live_ || reached.size() != live_ || heads != table_.size() ||
      lease_sum != lease_total_) {
    return Status(Code::kInternal,
                  "prefix_index: " + std::to_string(live_count) + " live blocks, counted " +
                      std::to_string(live_) + ", reached " + std::to_string(reached.size()) +
                      "; heads of runs " + std::to_string(heads) + ", in the table " +
                      std::to_string(table_.size()) + "; leases " + std::to_string(lease_sum) +
                      ", counted " + std::to_string(lease_total_));
  }
  return Status::ok();
}

void BlockTree::save(StateSink& sink) const {
  sink.u32(config_.capacity);
  sink.u32(config_.token_stride);
  uint64_t rows = 0;
  for (uint32_t b = 0; b < config_.capacity; ++b) {
    rows += live(b) || doomed(b) ? 1 : 0;
  }
  sink.u64(rows);
  for (uint32_t b = 0; b < config_.capacity; ++b) {
    if (!live(b) && !doomed(b)) {
      continue;
    }
    const Link& link = links_[b];
    sink.u32(b);
    sink.u32(link.parent);
    sink.u32(link.count);
    sink.u8(link.mask);
    sink.u8(link.motion);
    sink.u8(link.make);
    for (const uint64_t word : keys_[b].w) {
      sink.u64(word);
    }
    for (const uint32_t v :
         {facts_[b].depth, facts_[b].tenant, facts_[b].domain, leases_[b], uses_[b]}) {
      sink.u32(v);
    }
    if ((link.make & kOpaqueBit) == 0) {
      for (const uint32_t token : tokens_of(b)) {
        sink.u32(token);
      }
    }
  }
}

Status BlockTree::load(StateSource& source) {
  const uint32_t capacity = source.u32();
  const uint32_t stride = source.u32();
  if (capacity != config_.capacity || stride != config_.token_stride) {
    return Status(Code::kFailedPrecondition, "prefix_index: saved with " +
                                                 std::to_string(capacity) + " blocks of " +
                                                 std::to_string(stride) + " tokens, configured " +
                                                 std::to_string(config_.capacity) + " of " +
                                                 std::to_string(config_.token_stride));
  }
  *this = BlockTree(config_);
  struct Row {
    NewBlock b;
    uint8_t motion = 0;
    uint32_t depth = 0;
    uint32_t leases = 0;
    uint32_t uses = 0;
    std::vector<uint32_t> tokens;
  };
  std::vector<Row> rows;
  const uint64_t count = source.u64();
  for (uint64_t i = 0; i < count && source.status(); ++i) {
    Row r;
    r.b.block = source.u32();
    r.b.parent = source.u32();
    const uint32_t tokens = source.u32();
    r.b.mask = source.u8();
    r.motion = source.u8();
    r.b.make = source.u8();
    for (uint64_t& word : r.b.key.w) {
      word = source.u64();
    }
    for (uint32_t* v : {&r.depth, &r.b.tenant, &r.b.domain, &r.leases, &r.uses}) {
      *v = source.u32();
    }
    const bool in_tree = r.b.parent != kDead;
    if (!known(r.b.block) || tokens > stride || r.b.mask == 0 || (r.b.mask & ~config_.tiers) != 0 ||
        r.motion > static_cast<uint8_t>(Motion::kDoomed) ||
        (in_tree && r.b.parent != kNoBlock && !known(r.b.parent)) ||
        in_tree == (r.motion == static_cast<uint8_t>(Motion::kDoomed))) {
      return Status(Code::kCorrupt,
                    "prefix_index: saved block " + std::to_string(r.b.block) + " is out of range");
    }
    r.b.count = static_cast<uint16_t>(tokens);
    if ((r.b.make & kOpaqueBit) == 0) {
      for (uint32_t k = 0; k < tokens; ++k) {
        r.tokens.push_back(source.u32());
      }
    }
    rows.push_back(std::move(r));
  }
  TROUPE_TRY(source.status());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.depth < b.depth; });
  for (Row& r : rows) {
    if (r.b.parent == kDead) {
      set_doomed(r.b.block, r.b.mask);
      continue;
    }
    if (live(r.b.block) || (r.b.parent != kNoBlock && !live(r.b.parent))) {
      return Status(Code::kCorrupt, "prefix_index: saved block " + std::to_string(r.b.block) +
                                        " comes twice or before its parent");
    }
    r.b.tokens = r.tokens;
    insert(r.b);
    set_motion(r.b.block, static_cast<Motion>(r.motion));
    leases_[r.b.block] = r.leases;
    lease_total_ += r.leases;
    uses_[r.b.block] = r.uses;
  }
  return check();
}

}  // namespace troupe::prefix
