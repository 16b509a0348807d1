// The SDK's containers against plain models, with seeded random operations.
#include "policies/sdk/fixed.h"
#include "policies/sdk/ghosts.h"
#include "policies/sdk/heap.h"
#include "policies/sdk/lists.h"
#include "policies/sdk/memory.h"
#include "policies/sdk/params.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
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

TEST_CASE("a memory keeps the newest keys with their values, and comes back from its record") {
  constexpr uint32_t kMax = 16;
  Memory memory(kMax);
  std::deque<std::pair<uint64_t, int64_t>> model;  // newest first
  Rng rng(11);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t key = rng.below(40);
    const auto value = static_cast<int64_t>(rng.below(1000)) - 500;
    const auto at =
        std::find_if(model.begin(), model.end(), [&](auto& e) { return e.first == key; });
    if (rng.chance(1, 2)) {
      memory.put(key, value);
      if (at != model.end()) {
        model.erase(at);
      }
      model.emplace_front(key, value);
      if (model.size() > kMax) {
        model.pop_back();
      }
    } else {
      int64_t got = 0;
      REQUIRE(memory.take(key, got) == (at != model.end()));
      if (at != model.end()) {
        REQUIRE(got == at->second);
        model.erase(at);
      }
    }
    REQUIRE(memory.size() == model.size());
  }
  GlobalWriter out;
  memory.save(out, 1);
  Memory moved(kMax);
  GlobalReader in(out.bytes().data(), out.bytes().size());
  moved.load(in);
  CHECK(in.ok());
  GlobalWriter again;
  moved.save(again, 1);
  CHECK(again.bytes() == out.bytes());
  GlobalReader cut(out.bytes().data(), out.bytes().size() - 8);
  Memory damaged(kMax);
  damaged.load(cut);
  CHECK_FALSE(cut.ok());
  Memory none(0);
  none.put(1, 1);
  CHECK_FALSE(none.holds(1));
}

TEST_CASE("fixed-point exponentials are close to the true ones") {
  for (double x = 0; x < 24; x += 0.037) {
    INFO(x);
    const auto fixed = static_cast<int64_t>(x * static_cast<double>(kOne));
    const double got = static_cast<double>(exp_minus(fixed)) / static_cast<double>(kOne);
    CHECK(std::abs(got - std::exp(-x)) < 2e-9);
  }
  CHECK(exp_minus(-5) == kOne);
  CHECK(exp_minus(INT64_MAX) == 0);
}
