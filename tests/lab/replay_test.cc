// The lab's hosts and the offline bound on traces small enough to check by hand, and the bound
// against exhaustive search.
#include "apps/lab/replay.h"

#include "apps/lab/opt.h"
#include "apps/lab/report.h"
#include "apps/lab/runner.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <unistd.h>

using namespace troupe;
using namespace troupe::lab;

namespace {

Trace trace_of(const std::vector<std::vector<uint32_t>>& requests) {
  Trace t;
  t.path = "made by hand";
  t.offsets.push_back(0);
  for (const auto& r : requests) {
    t.ids.insert(t.ids.end(), r.begin(), r.end());
    t.offsets.push_back(t.ids.size());
    t.input_tokens.push_back(static_cast<uint32_t>(r.size()) * 16);
    t.output_tokens.push_back(10);
    t.sessions.push_back(-1);
    t.arrival_ms.push_back(0);
  }
  t.block_tokens = 16;
  t.unique = t.ids.empty() ? 0 : 1 + *std::max_element(t.ids.begin(), t.ids.end());
  return t;
}

plugin::Registry& registry() {
  static plugin::Registry r(TROUPE_POLICIES, {});
  return r;
}

Counts prefix(const Trace& t, const char* name, uint32_t capacity) {
  plugin::InstanceOptions options;
  options.capacity = capacity;
  auto policy = registry().make_instance(name, options);
  REQUIRE(policy);
  auto counts = replay_prefix(t, capacity, *policy);
  REQUIRE(counts);
  return *counts;
}

// The most hits that any choice of victims and of how far to insert can give, by trying them all.
uint64_t best_hits(const Trace& t, uint32_t capacity) {
  using Cache = std::set<std::vector<uint32_t>>;  // resident blocks as whole prefixes
  std::function<uint64_t(size_t, const Cache&)> best = [&](size_t r,
                                                           const Cache& cache) -> uint64_t {
    if (r == t.requests()) {
      return 0;
    }
    const auto ids = t.blocks(r);
    std::vector<std::vector<uint32_t>> path;
    for (size_t i = 1; i <= ids.size(); ++i) {
      path.emplace_back(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i));
    }
    size_t hits = 0;
    while (hits < path.size() && cache.count(path[hits]) != 0) {
      ++hits;
    }
    uint64_t most = 0;
    std::function<void(size_t, const Cache&)> grow = [&](size_t i, const Cache& c) {
      most = std::max(most, best(r + 1, c));
      if (i == path.size()) {
        return;
      }
      if (c.size() < capacity) {
        Cache next = c;
        next.insert(path[i]);
        grow(i + 1, next);
        return;
      }
      for (const auto& victim : c) {
        const bool pinned =
            victim.size() <= i && std::equal(victim.begin(), victim.end(), ids.begin());
        const bool leaf = std::none_of(c.begin(), c.end(), [&](const auto& other) {
          return other.size() == victim.size() + 1 &&
                 std::equal(victim.begin(), victim.end(), other.begin());
        });
        if (leaf && !pinned) {
          Cache next = c;
          next.erase(victim);
          next.insert(path[i]);
          grow(i + 1, next);
        }
      }
    };
    grow(hits, cache);
    return hits + most;
  };
  return best(0, {});
}

}  // namespace

TEST_CASE("a request hits its leading resident run only, and pins it") {
  const Trace t = trace_of({{0, 1, 2}, {0, 1, 3}, {0, 1, 2}, {4, 5}, {0, 1}});
  const Counts c = prefix(t, "vllm_lru", 4);
  CHECK(c.hits_of == std::vector<uint32_t>{0, 2, 3, 0, 2});
  CHECK(c.accesses == 13);
  CHECK(c.evictions == 2);
}

TEST_CASE("what finds no room is not cached, and evictions stop at pinned blocks") {
  const Trace t = trace_of({{0, 1, 2, 3, 4}, {0, 1, 2, 3, 4}});
  for (const char* name :
       {"vllm_lru", "leaf_lru", "sglang_lru", "s3fifo_leaf", "sieve_leaf", "lru"}) {
    INFO(name);
    const Counts c = prefix(t, name, 3);
    CHECK(c.hits == 3);
    CHECK(c.uncached == 4);
    CHECK(c.evictions == 0);
  }
}

TEST_CASE("the offline bound equals exhaustive search, and nobody passes it") {
  Rng rng(17);
  for (int round = 0; round < 40; ++round) {
    // Ids of a small tree, so that an id means one prefix: root a, children 2a + 1, 2a + 2.
    std::vector<std::vector<uint32_t>> requests;
    for (int r = 0; r < 6; ++r) {
      std::vector<uint32_t> path = {static_cast<uint32_t>(rng.below(2))};
      while (path.size() < 3 && rng.chance(2, 3)) {
        path.push_back(2 * path.back() + 2 + static_cast<uint32_t>(rng.below(2)));
      }
      requests.push_back(path);
    }
    const Trace t = trace_of(requests);
    for (const uint32_t capacity : {1U, 2U, 3U}) {
      INFO("round " << round << " capacity " << capacity);
      const uint64_t bound = opt_prefix(t, capacity).hits;
      CHECK(bound == best_hits(t, capacity));
      for (const char* name : {"vllm_lru", "leaf_lfu", "s3fifo_leaf", "arc", "lirs"}) {
        CHECK(prefix(t, name, capacity).hits <= bound);
      }
    }
  }
}

TEST_CASE("one request at a time, the overlapping host counts what the serial one counts") {
  const Trace t = trace_of({{0, 1, 2}, {0, 1, 3}, {4, 5}, {0, 1, 2}, {4, 5, 6}, {0, 1, 3}});
  plugin::InstanceOptions options;
  options.capacity = 4;
  auto policy = registry().make_instance("vllm_lru", options);
  REQUIRE(policy);
  ServingModel model;
  const auto p99 = ttft_p99_ms(t, 4, 1, model, *policy);
  REQUIRE(p99);
  const Counts serial = prefix(t, "vllm_lru", 4);
  double slowest = 0;
  for (size_t r = 0; r < t.requests(); ++r) {
    const double tokens = 16.0 * static_cast<double>(t.blocks(r).size());
    const double cached = std::min(16.0 * serial.hits_of[r], tokens - 1);
    slowest = std::max(slowest, model.prefill_ms(tokens, cached));
  }
  CHECK(*p99 == Approx(slowest));
}

TEST_CASE("sizes are shares or counts, and wrong ones are refused with the value") {
  CHECK(parse_size("10%", 15788).value().blocks == 1579);
  CHECK(parse_size("0.1%", 9967).value().blocks == 10);
  CHECK(parse_size("0.0001%", 100).value().blocks == 1);
  CHECK(parse_size("4096", 100).value().blocks == 4096);
  for (const char* wrong : {"", "%", "0", "-1", "1.5", "101%", "x", "9999999999", "3 %"}) {
    INFO(wrong);
    CHECK_FALSE(parse_size(wrong, 100));
  }
}

TEST_CASE(
    "results come in the order of the plan whatever the threads do, with the documented keys") {
  const Trace t = trace_of({{0, 1, 2}, {0, 1, 3}, {0, 1, 2}});
  Plan plan;
  plan.policies = {"lru", "opt", "vllm_lru"};
  plan.sizes = {parse_size("2", t.unique).value(), parse_size("4", t.unique).value()};
  plan.jobs = 3;
  const auto results = run(t, plan, registry(), [](size_t, size_t) {});
  REQUIRE(results.size() == 6);
  CHECK(results[0].policy == "lru");
  CHECK(results[3].policy == "opt");
  CHECK(results[3].size.blocks == 4);
  const std::string text = json(t, plan, results);
  for (const char* key : {"\"policy\"", "\"size_blocks\"", "\"accesses\"", "\"hits\"", "\"misses\"",
                          "\"ns_per_access\"", "\"semantics\"", "\"results\""}) {
    CHECK(text.find(key) != std::string::npos);
  }
  CHECK(html(t, plan, results).find("<svg") != std::string::npos);
  CHECK(table(t, plan, results).find("vllm_lru") != std::string::npos);
}
