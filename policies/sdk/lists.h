// Doubly linked lists over dense node numbers, several lists sharing one array: O(1) everywhere, no
// allocation after construction. Every node carries a stamp that grows toward the front, so that a
// list can be saved node by node in any order and be put together again by sorting.
#pragma once

#include "policies/sdk/blocks.h"

#include <algorithm>
#include <stdint.h>
#include <vector>

namespace troupe::sdk {

class Lists {
 public:
  static constexpr uint8_t kNoList = 0xff;
  struct Place {  // one node's state
    int64_t stamp = 0;
    uint64_t list = kNoList;
  };

  /// Nodes 0 … nodes-1 in at most `lists` lists.
  Lists(uint32_t nodes, uint32_t lists) : count_(nodes), nodes_(nodes + lists), sizes_(lists, 0) {
    for (uint32_t l = 0; l < lists; ++l) {
      nodes_[nodes + l] = Node{nodes + l, nodes + l, kNoList};
    }
  }

  uint8_t list_of(uint32_t n) const noexcept { return nodes_[n].list(); }
  bool linked(uint32_t n) const noexcept { return nodes_[n].list() != kNoList; }
  uint32_t size(uint8_t list) const noexcept { return sizes_[list]; }
  uint32_t front(uint8_t list) const noexcept { return outside(nodes_[count_ + list].next); }
  uint32_t back(uint8_t list) const noexcept { return outside(nodes_[count_ + list].prev); }
  /// Neighbour toward the front, kNone at the front.
  uint32_t toward_front(uint32_t n) const noexcept { return outside(nodes_[n].prev); }
  uint32_t toward_back(uint32_t n) const noexcept { return outside(nodes_[n].next); }

  void push_front(uint8_t list, uint32_t n) noexcept {
    const uint32_t head = count_ + list;
    link(head, nodes_[head].next, n, list, ++front_stamp_);
  }
  void push_back(uint8_t list, uint32_t n) noexcept {
    const uint32_t head = count_ + list;
    link(nodes_[head].prev, head, n, list, --back_stamp_);
  }
  void unlink(uint32_t n) noexcept {
    Node& node = nodes_[n];
    nodes_[node.prev].next = node.next;
    nodes_[node.next].prev = node.prev;
    --sizes_[node.list()];
    node.packed = kNoList;
  }
  void drop(uint32_t n) noexcept {
    if (linked(n)) {
      unlink(n);
    }
  }
  /// `n` takes the place of `old`, which leaves.
  void replace(uint32_t old, uint32_t n) noexcept {
    const Node was = nodes_[old];
    unlink(old);
    link(was.prev, was.next, n, was.list(), was.stamp());
  }
  void move_front(uint8_t list, uint32_t n) noexcept {
    drop(n);
    push_front(list, n);
  }

  Place save(uint32_t n) const noexcept {
    return linked(n) ? Place{nodes_[n].stamp(), nodes_[n].list()} : Place{};
  }
  /// False when the list is unknown. Nodes may come in any order; `finish_load` links them.
  bool load(uint32_t n, const Place& place) {
    if (place.list == kNoList) {
      return true;
    }
    if (place.list >= sizes_.size() || n >= count_) {
      return false;
    }
    loading_.push_back(Loaded{place.stamp, n, static_cast<uint8_t>(place.list)});
    return true;
  }
  void finish_load() {
    std::sort(loading_.begin(), loading_.end(), [](const Loaded& a, const Loaded& b) {
      return a.stamp != b.stamp ? a.stamp < b.stamp : a.node < b.node;
    });
    for (const Loaded& l : loading_) {
      drop(l.node);
      const uint32_t head = count_ + l.list;
      link(head, nodes_[head].next, l.node, l.list, l.stamp);
    }
    if (!loading_.empty()) {
      front_stamp_ = std::max(front_stamp_, loading_.back().stamp);
      back_stamp_ = std::min(back_stamp_, loading_.front().stamp);
    }
    loading_.clear();
    loading_.shrink_to_fit();
  }
  int64_t front_stamp() const noexcept { return front_stamp_; }
  int64_t back_stamp() const noexcept { return back_stamp_; }
  void set_stamps(int64_t front, int64_t back) noexcept {
    front_stamp_ = front;
    back_stamp_ = back;
  }

 private:
  struct Node {
    uint32_t prev = 0;
    uint32_t next = 0;
    int64_t packed = kNoList;  // stamp · 256 + list: 16 bytes a node keep four in a cache line
    int64_t stamp() const noexcept { return packed >> 8; }
    uint8_t list() const noexcept { return static_cast<uint8_t>(packed & 0xff); }
    void set(int64_t stamp, uint8_t list) noexcept { packed = stamp * 256 + list; }
  };
  struct Loaded {
    int64_t stamp;
    uint32_t node;
    uint8_t list;
  };
  uint32_t outside(uint32_t n) const noexcept { return n < count_ ? n : kNone; }
  void link(uint32_t before, uint32_t after, uint32_t n, uint8_t list, int64_t stamp) noexcept {
    nodes_[n].prev = before;
    nodes_[n].next = after;
    nodes_[n].set(stamp, list);
    nodes_[before].next = n;
    nodes_[after].prev = n;
    ++sizes_[list];
  }

  uint32_t count_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> sizes_;
  int64_t front_stamp_ = 0;
  int64_t back_stamp_ = 0;
  std::vector<Loaded> loading_;
};

}  // namespace troupe::sdk
