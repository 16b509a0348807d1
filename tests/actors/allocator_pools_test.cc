// Slots and handles against a plain array of flags: random sizes, joins, quarantine, snapshots.
#include "actors/allocator/id_pool.h"
#include "actors/allocator/slot_pool.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>

namespace troupe {
namespace {

struct Pair {
  Pair(uint32_t granules, uint64_t seed) : pool(granules), used(granules, 0), rng(seed) {}

  /// The longest run of free granules of the model.
  uint32_t longest() const {
    uint32_t best = 0;
    uint32_t run = 0;
    for (const uint8_t u : used) {
      run = u == 0 ? run + 1 : 0;
      best = std::max(best, run);
    }
    return best;
  }
  void take(uint32_t count) {
    const uint32_t first = pool.take(count);
    if (first == SlotPool::kNone) {
      REQUIRE(longest() < count);
      return;
    }
    REQUIRE(static_cast<size_t>(first) + count <= used.size());
    for (uint32_t g = first; g < first + count; ++g) {
      REQUIRE(used[g] == 0);  // never the same granule twice
      used[g] = 1;
    }
    slots.emplace_back(first, count);
  }
  void give(bool quarantine) {
    if (slots.empty()) {
      return;
    }
    const size_t i = rng.below(slots.size());
    const auto [first, count] = slots[i];
    slots[i] = slots.back();
    slots.pop_back();
    if (quarantine) {
      pool.quarantine(first, count);
      return;  // its granules stay used for ever
    }
    pool.give(first, count);
    std::fill_n(used.begin() + first, count, 0);
  }
  SlotPool pool;
  std::vector<uint8_t> used;
  std::vector<std::pair<uint32_t, uint32_t>> slots;
  Rng rng;
};

}  // namespace

TEST_CASE("slots of several lengths never overlap, and are refused only when there is no run") {
  for (const uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    const uint32_t granules = seed == 1 ? 61 : 1000 + static_cast<uint32_t>(seed) * 37;
    Pair p(granules, seed);
    const std::vector<uint32_t> lengths =
        seed % 2 == 0 ? std::vector<uint32_t>{1, 4} : std::vector<uint32_t>{1, 3, 7, 70};
    for (int i = 0; i < 20000; ++i) {
      const bool fill = (i / 1500) % 2 == 0;
      const uint64_t dice = p.rng.below(100);
      if (dice < (fill ? 65U : 35U)) {
        p.take(lengths[p.rng.below(lengths.size())]);
      } else {
        p.give(dice == 99 && p.pool.quarantined() < granules / 4);
      }
      if (i % 1000 == 0) {
        const Status status = p.pool.check();
        INFO(status.to_string());
        REQUIRE(status.is_ok());
        const auto sum = static_cast<uint32_t>(std::count(p.used.begin(), p.used.end(), 1));
        REQUIRE(p.pool.used() + p.pool.quarantined() == sum);
      }
    }
    // The pool as saved goes on as the pool.
    StateSink first;
    p.pool.save(first);
    SlotPool copy(granules);
    StateSource source(first.data());
    REQUIRE(copy.load(source).is_ok());
    StateSink second;
    copy.save(second);
    REQUIRE(first.data() == second.data());
    for (int i = 0; i < 200; ++i) {
      const uint32_t count = lengths[static_cast<size_t>(i) % lengths.size()];
      REQUIRE(copy.take(count) == p.pool.take(count));
    }
  }
}

TEST_CASE("everything given back is one run again") {
  SlotPool pool(512);
  std::vector<uint32_t> small;
  for (uint32_t first = pool.take(1); first != SlotPool::kNone; first = pool.take(1)) {
    small.push_back(first);
  }
  REQUIRE(small.size() == 512);
  for (const uint32_t first : small) {
    pool.give(first, 1);
  }
  CHECK(pool.take(512) == 0);
  CHECK(pool.free() == 0);
}

TEST_CASE("a snapshot of a pool that is cut or altered is refused") {
  SlotPool pool(200);
  const uint32_t first = pool.take(5);
  pool.take(3);
  pool.give(first, 5);
  StateSink sink;
  pool.save(sink);
  for (size_t cut = 0; cut < sink.data().size(); ++cut) {
    SlotPool copy(200);
    StateSource source(std::span(sink.data()).first(cut));
    CHECK_FALSE(copy.load(source).is_ok());
  }
  for (size_t byte = 0; byte < sink.data().size(); ++byte) {
    std::vector<uint8_t> bytes = sink.data();
    bytes[byte] ^= 0x10U;
    SlotPool copy(200);
    StateSource source(bytes);
    if (copy.load(source).is_ok()) {
      CHECK(copy.check().is_ok());  // what is accepted is at least consistent
    }
  }
}

TEST_CASE("handles: the first free one at or behind the hint, whatever was given back") {
  for (const uint32_t count : {1U, 63U, 64U, 65U, 5000U}) {
    IdPool pool(count);
    std::vector<uint8_t> free(count, 1);
    Rng rng(count);
    for (int i = 0; i < 20000; ++i) {
      if (rng.chance(1, 2)) {
        const auto hint = static_cast<uint32_t>(rng.below(count + 2));
        auto expected = std::find(free.begin() + std::min(hint, count), free.end(), 1);
        if (expected == free.end()) {
          expected = std::find(free.begin(), free.end(), 1);
        }
        const uint32_t id = pool.take(hint);
        if (expected == free.end()) {
          REQUIRE(id == IdPool::kNone);
        } else {
          REQUIRE(id == static_cast<uint32_t>(expected - free.begin()));
          *expected = 0;
        }
      } else {
        const auto id = static_cast<uint32_t>(rng.below(count));
        REQUIRE(pool.is_free(id) == (free[id] != 0));
        if (free[id] == 0) {
          pool.give(id);
          free[id] = 1;
        }
      }
      REQUIRE(pool.free() == static_cast<uint32_t>(std::count(free.begin(), free.end(), 1)));
    }
  }
}

}  // namespace troupe
