#include "actors/allocator/slot_pool.h"

#include "runtime/base/assert.h"

#include <algorithm>
#include <bit>
#include <string>

namespace troupe {
namespace {
constexpr size_t kRefill = 256;  // slots that one refill takes from the map at most
constexpr size_t kJoin = 4096;   // slots that one round gives back to it, from each stack
}  // namespace

SlotPool::SlotPool(uint32_t granules)
    : granules_(granules),
      free_(granules),
      in_map_(granules),
      map_((static_cast<size_t>(granules) + 63) / 64, 0) {
  if (granules > 0) {
    set_run(0, granules, true);
  }
}

SlotPool::Stack& SlotPool::stack_of(uint32_t count) {
  const auto place =
      std::lower_bound(stacks_.begin(), stacks_.end(), count,
                       [](const Stack& stack, uint32_t c) { return stack.count < c; });
  if (place != stacks_.end() && place->count == count) {
    return *place;
  }
  return *stacks_.insert(place, Stack{count, {}});
}

uint32_t SlotPool::take(uint32_t count) {
  TROUPE_ASSERT(count > 0);
  if (count > free_ || count >= hopeless_) {
    return kNone;
  }
  Stack& stack = stack_of(count);
  while (stack.firsts.empty()) {
    if (in_map_ >= count) {
      refill(stack);
    }
    if (stack.firsts.empty() && !join_some(stack)) {
      hopeless_ = count;
      return kNone;
    }
  }
  const uint32_t first = stack.firsts.back();
  stack.firsts.pop_back();
  free_ -= count;
  return first;
}

void SlotPool::give(uint32_t first, uint32_t count) {
  TROUPE_ASSERT(static_cast<uint64_t>(first) + count <= granules_ && count <= used());
  stack_of(count).firsts.push_back(first);
  free_ += count;
  hopeless_ = kNone;
}

void SlotPool::quarantine(uint32_t first, uint32_t count) noexcept {
  TROUPE_ASSERT(static_cast<uint64_t>(first) + count <= granules_ && count <= used());
  quarantined_ += count;
}

void SlotPool::refill(Stack& stack) {
  // From the cursor to the end, then from the start; a run across the border is found next time.
  for (int round = 0; round < 2 && stack.firsts.empty(); ++round) {
    uint32_t at = round == 0 ? cursor_ : 0;
    while (stack.firsts.size() < kRefill) {
      const uint32_t first = next(at, true);
      if (first >= granules_) {
        break;
      }
      const uint32_t end = next(first, false);
      uint32_t begin = first;
      for (; end - begin >= stack.count && stack.firsts.size() < kRefill; begin += stack.count) {
        stack.firsts.push_back(begin);
      }
      set_run(first, begin - first, false);
      in_map_ -= begin - first;
      at = stack.firsts.size() < kRefill ? end : begin;
    }
    cursor_ = at < granules_ ? at : 0;
  }
  std::reverse(stack.firsts.begin(), stack.firsts.end());  // the lowest is taken first
}

bool SlotPool::join_some(const Stack& except) {
  bool any = false;
  for (Stack& stack : stacks_) {
    if (&stack == &except) {
      continue;
    }
    for (size_t i = 0; i < kJoin && !stack.firsts.empty(); ++i) {
      set_run(stack.firsts.back(), stack.count, true);
      in_map_ += stack.count;
      stack.firsts.pop_back();
      any = true;
    }
  }
  return any;
}

void SlotPool::set_run(uint32_t first, uint32_t count, bool free) noexcept {
  uint32_t at = first;
  while (count > 0) {
    const uint32_t bit = at % 64;
    const uint32_t n = std::min(count, 64 - bit);
    const uint64_t mask = (n == 64 ? ~0ULL : (1ULL << n) - 1) << bit;
    uint64_t& word = map_[at / 64];
    word = free ? word | mask : word & ~mask;
    at += n;
    count -= n;
  }
}

uint32_t SlotPool::next(uint32_t from, bool free) const noexcept {
  uint64_t mask = ~0ULL << (from % 64);
  for (size_t i = from / 64; i < map_.size(); ++i, mask = ~0ULL) {
    const uint64_t word = (free ? map_[i] : ~map_[i]) & mask;
    if (word != 0) {
      const size_t at = i * 64 + static_cast<size_t>(std::countr_zero(word));
      return static_cast<uint32_t>(std::min<size_t>(at, granules_));
    }
  }
  return granules_;
}

size_t SlotPool::bytes() const noexcept {
  size_t bytes = map_.size() * sizeof(uint64_t);
  for (const Stack& stack : stacks_) {
    bytes += stack.firsts.capacity() * sizeof(uint32_t);
  }
  return bytes;
}

std::vector<bool> SlotPool::free_map() const {
  std::vector<bool> free(granules_, false);
  for (uint32_t g = 0; g < granules_; ++g) {
    free[g] = is_set(g);
  }
  for (const Stack& stack : stacks_) {
    for (const uint32_t first : stack.firsts) {
      std::fill_n(free.begin() + first, stack.count, true);
    }
  }
  return free;
}

Status SlotPool::check() const {
  std::vector<uint64_t> seen = map_;
  uint64_t sum = 0;
  for (const uint64_t word : map_) {
    sum += static_cast<uint64_t>(std::popcount(word));
  }
  if (sum != in_map_) {
    return Status(Code::kInternal, "the map has " + std::to_string(sum) + " free granules, " +
                                       std::to_string(in_map_) + " are counted");
  }
  for (const Stack& stack : stacks_) {
    for (const uint32_t first : stack.firsts) {
      if (static_cast<uint64_t>(first) + stack.count > granules_) {
        return Status(Code::kInternal,
                      "granule " + std::to_string(first) + " is outside of the pool");
      }
      for (uint32_t g = first; g < first + stack.count; ++g) {
        uint64_t& word = seen[g / 64];
        if (((word >> (g % 64)) & 1U) != 0) {
          return Status(Code::kInternal, "granule " + std::to_string(g) + " is free twice");
        }
        word |= 1ULL << (g % 64);
      }
      sum += stack.count;
    }
  }
  if (sum != free_ || static_cast<uint64_t>(free_) + quarantined_ > granules_) {
    return Status(Code::kInternal, "free runs sum to " + std::to_string(sum) + " granules, " +
                                       std::to_string(free_) + " of " + std::to_string(granules_) +
                                       " are counted");
  }
  return Status::ok();
}

void SlotPool::save(StateSink& sink) const {
  for (const uint32_t v : {granules_, free_, quarantined_, in_map_, cursor_, hopeless_}) {
    sink.u32(v);
  }
  sink.array(map_);
  sink.u64(stacks_.size());
  for (const Stack& stack : stacks_) {
    sink.u32(stack.count);
    sink.array(stack.firsts);
  }
}

Status SlotPool::load(StateSource& source) {
  if (const uint32_t granules = source.u32(); granules != granules_) {
    return Status(Code::kFailedPrecondition, "snapshot of " + std::to_string(granules) +
                                                 " granules, the pool has " +
                                                 std::to_string(granules_));
  }
  for (uint32_t* v : {&free_, &quarantined_, &in_map_, &cursor_, &hopeless_}) {
    *v = source.u32();
  }
  map_ = source.array<uint64_t>();
  stacks_.clear();
  const uint64_t stacks = source.u64();
  for (uint64_t i = 0; i < stacks && source.status(); ++i) {
    Stack stack;
    stack.count = source.u32();
    stack.firsts = source.array<uint32_t>();
    stacks_.push_back(std::move(stack));
  }
  TROUPE_TRY(source.status());
  const auto ordered = [](const Stack& a, const Stack& b) { return a.count >= b.count; };
  if (map_.size() != (static_cast<size_t>(granules_) + 63) / 64 ||
      (granules_ % 64 != 0 && !map_.empty() && (map_.back() >> (granules_ % 64)) != 0) ||
      (granules_ > 0 && cursor_ >= granules_) ||
      std::adjacent_find(stacks_.begin(), stacks_.end(), ordered) != stacks_.end()) {
    return Status(Code::kCorrupt, "a pool's map is not of its size or its stacks are out of order");
  }
  return check();
}

}  // namespace troupe
