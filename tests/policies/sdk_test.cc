// The SDK's containers against plain models, with seeded random operations.
#include "policies/sdk/ghosts.h"
#include "policies/sdk/heap.h"
#include "policies/sdk/lists.h"
#include "policies/sdk/params.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <deque>
#include <map>

using namespace troupe;
using namespace troupe::sdk;

TEST_CASE("lists behave like deques and come back from their saved places") {
  constexpr uint32_t kNodes = 64;
  Lists lists(kNodes, 2);
  std::deque<uint32_t> model[2];
  Rng rng(3);
  const auto remove = [&](uint32_t n) {
    for (auto& m : model) {
      m.erase(std::remove(m.begin(), m.end(), n), m.end());
    }
  };
  for (int step = 0; step < 20000; ++step) {
    const auto n = static_cast<uint32_t>(rng.below(kNodes));
    const auto list = static_cast<uint8_t>(rng.below(2));
    switch (rng.below(3)) {
      case 0:
        remove(n);
        lists.move_front(list, n);
        model[list].push_front(n);
        break;
      case 1:
        remove(n);
        lists.drop(n);
        lists.push_back(list, n);
        model[list].push_back(n);
        break;
      default:
        remove(n);
        lists.drop(n);
    }
    REQUIRE(lists.size(0) == model[0].size());
    REQUIRE(lists.front(list) == (model[list].empty() ? kNone : model[list].front()));
    REQUIRE(lists.back(list) == (model[list].empty() ? kNone : model[list].back()));
  }
  Lists moved(kNodes, 2);
  for (uint32_t n = kNodes; n > 0; --n) {  // in another order than they were linked
    REQUIRE(moved.load(n - 1, lists.save(n - 1)));
  }
  moved.finish_load();
  for (const uint8_t list : {uint8_t{0}, uint8_t{1}}) {
    std::deque<uint32_t> order;
    for (uint32_t n = moved.front(list); n != kNone; n = moved.toward_back(n)) {
      order.push_back(n);
    }
    CHECK(order == model[list]);
  }
  CHECK_FALSE(moved.load(0, Lists::Place{0, 9}));
}

TEST_CASE("the heap gives blocks by rank, then by handle") {
  constexpr uint32_t kBlocks = 50;
  Heap heap(kBlocks);
  std::map<uint32_t, std::pair<int64_t, int64_t>> model;
  Rng rng(5);
  for (int step = 0; step < 20000; ++step) {
    const auto b = static_cast<uint32_t>(rng.below(kBlocks));
    if (rng.chance(2, 3)) {
      const auto major = static_cast<int64_t>(rng.below(8));
      const auto minor = static_cast<int64_t>(rng.below(4));
      heap.push(b, {major, minor});
      model[b] = {major, minor};
    } else {
      heap.erase(b);
      model.erase(b);
    }
    REQUIRE(heap.size() == model.size());
    if (!model.empty()) {
      const auto least = std::min_element(model.begin(), model.end(), [](auto& x, auto& y) {
        return std::pair(x.second, x.first) < std::pair(y.second, y.first);
      });
      REQUIRE(heap.top() == least->first);
    }
  }
}

TEST_CASE("ghosts keep the newest keys and find them after any removals") {
  constexpr uint32_t kMax = 32;
  Ghosts ghosts(kMax);
  std::deque<uint64_t> model;  // newest first
  Rng rng(9);
  for (int step = 0; step < 50000; ++step) {
    const uint64_t key = rng.below(80) * 0x1000000000ULL;
    const auto at = std::find(model.begin(), model.end(), key);
    if (rng.chance(1, 2)) {
      ghosts.push(key);
      if (at == model.end()) {
        model.push_front(key);
        if (model.size() > kMax) {
          model.pop_back();
        }
      }
    } else {
      REQUIRE(ghosts.take(key) == (at != model.end()));
      if (at != model.end()) {
        model.erase(at);
      }
    }
    REQUIRE(ghosts.size() == model.size());
  }
  CHECK(ghosts.newest(kMax) == std::vector<uint64_t>(model.begin(), model.end()));
  Ghosts none(0);
  none.push(1);
  CHECK_FALSE(none.holds(1));
}

TEST_CASE("parameters are checked against what the policy declares") {
  const troupe_param_desc known[] = {{"share", "of the cache", 0, 1, 0.25},
                                     {"n", "count", 1, 9, 3}};
  Params p;
  REQUIRE(p.parse("share=0.5", known, 2));
  CHECK(p["share"] == 0.5);
  CHECK(p["n"] == 3);
  for (const char* wrong :
       {"share=2", "share=", "share", "other=1", "n=x", "n=nan", "share=0.5,"}) {
    INFO(wrong);
    Params q;
    CHECK(q.parse(wrong, known, 2) == (std::string(wrong) == "share=0.5,"));
  }
}
