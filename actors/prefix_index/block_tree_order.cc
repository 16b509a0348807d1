// The treap of siblings, ordered by tokens: enumeration of children, and the child that shares most
// leading tokens with a prompt. Its shape depends on its members alone (priorities are a mix of the
// key), so a loaded tree is the same tree.
#include "actors/prefix_index/block_tree.h"

#include <algorithm>

namespace troupe::prefix {
namespace {

uint32_t common_tokens(std::span<const uint32_t> a, std::span<const uint32_t> b) noexcept {
  const size_t n = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < n && a[i] == b[i]) {
    ++i;
  }
  return static_cast<uint32_t>(i);
}

/// -1, 0, 1 as `a` stands before, at or behind `b`; a prefix stands before what it begins.
int compare_tokens(std::span<const uint32_t> a, std::span<const uint32_t> b) noexcept {
  const uint32_t n = common_tokens(a, b);
  if (n < a.size() && n < b.size()) {
    return a[n] < b[n] ? -1 : 1;
  }
  return a.size() == b.size() ? 0 : (a.size() < b.size() ? -1 : 1);
}

}  // namespace

bool BlockTree::before(uint32_t a, uint32_t b) const noexcept {
  if (links_[a].make != links_[b].make) {
    return links_[a].make < links_[b].make;
  }
  if ((links_[a].make & kOpaqueBit) == 0) {
    const int order = compare_tokens(tokens_of(a), tokens_of(b));
    if (order != 0) {
      return order < 0;
    }
  }
  return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b;
}

bool BlockTree::above(uint32_t a, uint32_t b) const noexcept {
  const uint64_t pa = mix64(keys_[a].w[0] ^ keys_[a].w[1]);
  const uint64_t pb = mix64(keys_[b].w[0] ^ keys_[b].w[1]);
  return pa != pb ? pa > pb : a < b;
}

void BlockTree::order_insert(uint32_t& root, uint32_t block) noexcept {
  uint32_t* link = &root;
  while (*link != kNoBlock && above(*link, block)) {
    link = before(block, *link) ? &order_[*link].left : &order_[*link].right;
  }
  // Split what hangs here into what stands before the block and what stands behind it.
  uint32_t rest = *link;
  uint32_t* left = &order_[block].left;
  uint32_t* right = &order_[block].right;
  while (rest != kNoBlock) {
    if (before(rest, block)) {
      *left = rest;
      left = &order_[rest].right;
      rest = *left;
    } else {
      *right = rest;
      right = &order_[rest].left;
      rest = *right;
    }
  }
  *left = kNoBlock;
  *right = kNoBlock;
  *link = block;
}

uint32_t BlockTree::order_merge(uint32_t a, uint32_t b) noexcept {
  uint32_t root = kNoBlock;
  uint32_t* link = &root;
  while (a != kNoBlock && b != kNoBlock) {
    if (above(a, b)) {
      *link = a;
      link = &order_[a].right;
      a = *link;
    } else {
      *link = b;
      link = &order_[b].left;
      b = *link;
    }
  }
  *link = a != kNoBlock ? a : b;
  return root;
}

void BlockTree::order_erase(uint32_t& root, uint32_t block) noexcept {
  uint32_t* link = &root;
  while (*link != block) {
    TROUPE_ASSERT(*link != kNoBlock);
    link = before(block, *link) ? &order_[*link].left : &order_[*link].right;
  }
  *link = order_merge(order_[block].left, order_[block].right);
  order_[block] = Order{};
}

int BlockTree::side_of(uint32_t block, const Asked& asked, uint32_t& shared) const noexcept {
  if (links_[block].make != asked.make) {
    shared = 0;
    return links_[block].make < asked.make ? -1 : 1;
  }
  const std::span<const uint32_t> own = tokens_of(block);
  shared = common_tokens(own, asked.tokens);
  if (shared < own.size() && shared < asked.tokens.size()) {
    return own[shared] < asked.tokens[shared] ? -1 : 1;
  }
  return own.size() < asked.tokens.size() ? -1 : 1;
}

uint32_t BlockTree::top_of(uint32_t at, const Asked& asked, const Band& band) const noexcept {
  while (at != kNoBlock) {
    uint32_t shared = 0;
    const int side = side_of(at, asked, shared);
    if (side == band.side && shared >= band.low && shared < band.high) {
      break;
    }
    // The band lies towards `asked` when this block shares less, and away from it when it shares
    // more or stands on the other side.
    const bool towards = side == band.side && shared < band.low;
    at = towards == (band.side < 0) ? order_[at].right : order_[at].left;
  }
  return at;
}

uint32_t BlockTree::nearest(const Asked& asked, int side, uint32_t high) const noexcept {
  uint32_t best = 0;
  for (uint32_t at = children_root(asked.parent); at != kNoBlock;) {
    uint32_t shared = 0;
    const bool outside = side_of(at, asked, shared) == side && shared < high;
    best = outside ? std::max(best, shared) : best;
    at = outside == (side < 0) ? order_[at].right : order_[at].left;
  }
  return best;
}

/// Which of several blocks that share as much is taken, and which are looked at when some are not
/// usable, must not depend on how token values compare: a replay knows tokens under a permutation
/// only. So blocks of one band are looked at by priority, which is a mix of the key.
BlockTree::Partial BlockTree::best_partial(uint32_t parent, std::span<const uint32_t> tokens,
                                           uint8_t make, uint32_t least,
                                           uint32_t block_tokens) const noexcept {
  if ((make & kOpaqueBit) != 0 || tokens.empty()) {
    return {};
  }
  constexpr int kLooks = 16;  // usable or not
  const Asked asked{parent, tokens, make};
  const auto usable = [&](uint32_t block, uint32_t shared) {
    return shared >= std::max(least, 1U) && shared < block_tokens && on(block, 0) &&
           motion(block) == Motion::kNone;
  };
  // The way to where `tokens` would stand passes the topmost block of those that share most.
  Partial first;
  for (uint32_t at = children_root(parent); at != kNoBlock;) {
    uint32_t shared = 0;
    const int side = side_of(at, asked, shared);
    first = shared > first.tokens ? Partial{at, shared} : first;
    at = side < 0 ? order_[at].right : order_[at].left;
  }
  if (first.block == kNoBlock || usable(first.block, first.tokens)) {
    return first;
  }
  int looks = kLooks;
  std::vector<std::pair<uint32_t, Band>> open;  // tops of parts of a band not yet looked at
  const auto lower = [&](const auto& a, const auto& b) { return above(b.first, a.first); };
  const auto add = [&](uint32_t from, const Band& band) {
    const uint32_t top = top_of(from, asked, band);
    if (top != kNoBlock) {
      open.emplace_back(top, band);
      std::push_heap(open.begin(), open.end(), lower);
    }
  };
  for (uint32_t high = UINT32_MAX; looks > 0;) {
    const uint32_t low = std::max(nearest(asked, -1, high), nearest(asked, 1, high));
    if (low < std::max(least, 1U)) {
      return {};
    }
    for (const int side : {-1, 1}) {
      add(children_root(parent), Band{side, low, high});
    }
    while (!open.empty() && looks-- > 0) {
      std::pop_heap(open.begin(), open.end(), lower);
      const auto [block, band] = open.back();
      open.pop_back();
      if (usable(block, low)) {
        return {block, low};
      }
      add(order_[block].left, band);
      add(order_[block].right, band);
    }
    open.clear();
    high = low;
  }
  return {};
}

void BlockTree::collect_subtree(uint32_t root, std::vector<uint32_t>& out) const {
  // Parents first, then reversed: whatever stands behind its parent here stands before it there.
  // Siblings by handle: their order in the treap depends on token values, which a replay has not.
  const size_t begin = out.size();
  out.push_back(root);
  std::vector<uint32_t> siblings;
  for (size_t i = begin; i < out.size(); ++i) {
    const size_t first = out.size();
    if (order_[out[i]].child != kNoBlock) {
      siblings.push_back(order_[out[i]].child);
    }
    while (!siblings.empty()) {
      const uint32_t block = siblings.back();
      siblings.pop_back();
      out.push_back(block);
      for (const uint32_t side : {order_[block].left, order_[block].right}) {
        if (side != kNoBlock) {
          siblings.push_back(side);
        }
      }
    }
    std::sort(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(begin), out.end());
}

}  // namespace troupe::prefix
