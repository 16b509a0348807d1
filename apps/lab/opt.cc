#include "apps/lab/opt.h"

#include <limits>
#include <queue>

namespace troupe::lab {
namespace {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// next[i]: `stamp` of the next access to the id of access i, or kNever. Stamps are request ordinals
// or access numbers.
std::vector<uint64_t> next_uses(const Trace& trace, bool by_request) {
  std::vector<uint64_t> next(trace.ids.size());
  std::vector<uint64_t> seen(trace.unique, kNever);
  for (size_t r = trace.requests(); r > 0; --r) {
    const uint64_t begin = trace.offsets[r - 1];
    const uint64_t end = trace.offsets[r];
    for (uint64_t i = end; i > begin; --i) {
      next[i - 1] = seen[trace.ids[i - 1]];
      if (!by_request) {
        seen[trace.ids[i - 1]] = i - 1;
      }
    }
    for (uint64_t i = begin; by_request && i < end; ++i) {
      seen[trace.ids[i]] = r - 1;
    }
  }
  return next;
}

struct Entry {
  uint64_t next;
  uint32_t id;
  bool operator<(const Entry& o) const { return next != o.next ? next < o.next : id < o.id; }
};

class PrefixOpt {
 public:
  PrefixOpt(const Trace& trace, uint32_t capacity)
      : trace_(trace), capacity_(capacity), next_(next_uses(trace, true)), rows_(trace.unique) {}

  Counts run() {
    for (size_t r = 0; r < trace_.requests(); ++r) {
      request(r);
    }
    return std::move(counts_);
  }

 private:
  struct Row {
    uint64_t next = kNever;
    uint64_t pinned = kNever;  // the request that uses it now
    uint32_t parent = kNone;
    uint32_t children = 0;
    bool resident = false;
  };

  void request(size_t r) {
    const auto ids = trace_.blocks(r);
    const uint64_t first = trace_.offsets[r];
    uint32_t cached = 0;
    while (cached < ids.size() && rows_[ids[cached]].resident) {
      rows_[ids[cached]].next = next_[first + cached];
      rows_[ids[cached]].pinned = r;
      ++cached;
    }
    const uint32_t hits = cached;
    while (cached < ids.size() && next_[first + cached] != kNever && !rows_[ids[cached]].resident &&
           (count_ < capacity_ || evict(next_[first + cached], r))) {
      Row& row = rows_[ids[cached]];
      row = Row{next_[first + cached], r, cached > 0 ? ids[cached - 1] : kNone, 0, true};
      if (row.parent != kNone) {
        ++rows_[row.parent].children;
      }
      ++count_;
      ++cached;
    }
    if (cached > 0 && rows_[ids[cached - 1]].children == 0) {
      heap_.push(Entry{rows_[ids[cached - 1]].next, ids[cached - 1]});
    }
    counts_.accesses += ids.size();
    counts_.hits += hits;
    counts_.uncached += ids.size() - cached;
    counts_.hits_of.push_back(hits);
  }

  // Entries go stale when a block is used, gets a child or leaves; they are dropped when they
  // surface.
  bool evict(uint64_t own_next, size_t r) {
    while (!heap_.empty()) {
      const Entry top = heap_.top();
      Row& row = rows_[top.id];
      if (!row.resident || row.next != top.next || row.children != 0 || row.pinned == r) {
        heap_.pop();
        continue;
      }
      if (top.next <= own_next) {
        return false;
      }
      heap_.pop();
      row.resident = false;
      --count_;
      ++counts_.evictions;
      if (row.parent != kNone && --rows_[row.parent].children == 0 &&
          rows_[row.parent].pinned != r) {
        heap_.push(Entry{rows_[row.parent].next, row.parent});
      }
      return true;
    }
    return false;
  }

  const Trace& trace_;
  uint32_t capacity_;
  std::vector<uint64_t> next_;
  std::vector<Row> rows_;
  std::priority_queue<Entry> heap_;
  uint32_t count_ = 0;
  Counts counts_;
};

}  // namespace

Counts opt_prefix(const Trace& trace, uint32_t capacity) {
  return PrefixOpt(trace, capacity).run();
}

Counts opt_object(const Trace& trace, uint32_t capacity) {
  const std::vector<uint64_t> next = next_uses(trace, false);
  std::vector<uint64_t> due(trace.unique, 0);
  std::vector<uint8_t> resident(trace.unique, 0);
  std::priority_queue<Entry> heap;
  uint32_t count = 0;
  Counts counts;
  for (size_t r = 0; r < trace.requests(); ++r) {
    uint32_t hits = 0;
    for (uint64_t i = trace.offsets[r]; i < trace.offsets[r + 1]; ++i) {
      const uint32_t id = trace.ids[i];
      hits += resident[id];
      if (resident[id] == 0) {
        while (count == capacity) {
          const Entry top = heap.top();
          heap.pop();
          if (resident[top.id] != 0 && due[top.id] == top.next) {
            resident[top.id] = 0;
            --count;
            ++counts.evictions;
          }
        }
        resident[id] = 1;
        ++count;
      }
      due[id] = next[i];
      heap.push(Entry{next[i], id});
    }
    counts.accesses += trace.offsets[r + 1] - trace.offsets[r];
    counts.hits += hits;
    counts.hits_of.push_back(hits);
  }
  return counts;
}

}  // namespace troupe::lab
