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

BlockTree::Partial BlockTree::best_partial(uint32_t parent, std::span<const uint32_t> tokens,
                                           uint8_t make, uint32_t least,
                                           uint32_t block_tokens) const noexcept {
  constexpr int kLookAround = 8;  // usable or not, on each side
  Partial best;
  // Blocks before and behind the place of `tokens`, nearest last.
  std::vector<uint32_t> lower;
  std::vector<uint32_t> upper;
  for (uint32_t at = children_root(parent); at != kNoBlock;) {
    const bool is_before = links_[at].make != make ? links_[at].make < make
                                                   : compare_tokens(tokens_of(at), tokens) < 0;
    (is_before ? lower : upper).push_back(at);
    at = is_before ? order_[at].right : order_[at].left;
  }
  const auto look = [&](std::vector<uint32_t>& side, bool down) {
    for (int i = 0; i < kLookAround && !side.empty(); ++i) {
      const uint32_t block = side.back();
      side.pop_back();
      const uint32_t shared =
          links_[block].make == make ? common_tokens(tokens_of(block), tokens) : 0;
      if (shared < least || shared <= best.tokens) {
        return;  // farther ones share no more
      }
      const bool usable = on(block, 0) && motion(block) == Motion::kNone && shared < block_tokens;
      if (usable) {
        best = {block, shared};
        return;
      }
      for (uint32_t at = down ? order_[block].left : order_[block].right; at != kNoBlock;
           at = down ? order_[at].right : order_[at].left) {
        side.push_back(at);
      }
    }
  };
  if ((make & kOpaqueBit) == 0 && !tokens.empty()) {
    look(lower, true);
    look(upper, false);
  }
  return best;
}

void BlockTree::collect_subtree(uint32_t root, std::vector<uint32_t>& out) const {
  // Parents first, then reversed: whatever stands behind its parent here stands before it there.
  const size_t begin = out.size();
  out.push_back(root);
  std::vector<uint32_t> siblings;
  for (size_t i = begin; i < out.size(); ++i) {
    if (order_[out[i]].child != kNoBlock) {
      siblings.push_back(order_[out[i]].child);
    }
    while (!siblings.empty()) {
      const uint32_t block = siblings.back();
      siblings.pop_back();
      out.push_back(block);
      if (order_[block].left != kNoBlock) {
        siblings.push_back(order_[block].left);
      }
      if (order_[block].right != kNoBlock) {
        siblings.push_back(order_[block].right);
      }
    }
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(begin), out.end());
}

}  // namespace troupe::prefix
