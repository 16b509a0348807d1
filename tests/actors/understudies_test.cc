// understudies: lookups by message give what the lab's host counts over the same lookups; what is
// missed is told, what is wrong is refused, and state goes out and in.
#include "actors/understudies/understudies.h"

#include "runtime/base/rng.h"
#include "runtime/plugin/ghost_cache.h"
#include "runtime/plugin/registry.h"
#include "tests/actors/core_harness.h"

#include <map>

namespace troupe {
namespace {

using test::CoreHarness;
using test::kinds;
using Harness = CoreHarness<Understudies>;

const plugin::Registry& registry() {
  static const plugin::Registry made(TROUPE_POLICIES, {});
  return made;
}

UnderstudiesConfig config() {
  UnderstudiesConfig c;
  c.device_blocks = 40;
  c.ack_every = 4;
  return c;
}

std::pair<Code, std::string> shadow(Harness& h, const char* name, const char* policy,
                                    uint64_t blocks = 0, uint32_t one_in = 1) {
  const auto sent = h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto s = m.initShadow();
    s.setControl(9);
    s.setName(name);
    s.setPolicy(policy);
    s.setBlocks(blocks);
    s.setOneIn(one_in);
    s.setRemove(*policy == '\0');
  });
  REQUIRE(!sent.empty());
  REQUIRE(sent.back().kind == Kind::ANSWER);
  std::pair<Code, std::string> out;
  sent.back().read([&](auto m) {
    out = {static_cast<Code>(m.getAnswer().getStatus()), m.getAnswer().getText().cStr()};
  });
  return out;
}

std::vector<test::Sent> lookup(Harness& h, const std::vector<uint64_t>& keys, uint64_t session = 0,
                               uint64_t skipped = 0) {
  return h.give(Tick{2}, [&](wire::Message::Builder m) {
    auto l = m.initLookup();
    l.setSession(session);
    l.setBlockTokens(16);
    l.setKeys(data_of(keys));
    l.setSkipped(skipped);
  });
}

std::map<std::string, int64_t> status(Harness& h) {
  std::map<std::string, int64_t> out;
  const auto sent =
      h.give(Tick{3}, [](wire::Message::Builder m) { m.initStatusAsk().setControl(1); });
  REQUIRE(kinds(sent) == std::vector{Kind::ANSWER});
  sent[0].read([&](auto m) {
    for (const auto gauge : m.getAnswer().getGauges()) {
      out[gauge.getName().cStr()] = gauge.getValue();
    }
  });
  return out;
}

/// Paths of a random tree, as content keys.
std::vector<std::vector<uint64_t>> workload(uint64_t seed, size_t requests) {
  Rng rng(seed);
  std::vector<std::vector<uint64_t>> out;
  for (size_t r = 0; r < requests; ++r) {
    std::vector<uint64_t> keys;
    uint64_t at = 1 + rng.below(4);
    for (uint64_t depth = 0; depth < 2 + rng.below(8); ++depth) {
      at = at * 31 + rng.below(3) * (depth > 2 ? 7 : 1) + 1;
      keys.push_back(at * 0x9E3779B97F4A7C15ULL);
    }
    out.push_back(keys);
  }
  return out;
}

}  // namespace

TEST_CASE("an understudy counts what the lab's host counts over the same lookups, at any moment") {
  for (const char* policy : {"vllm_lru", "s3fifo_leaf", "wtinylfu", "troupe", "lirs"}) {
    CAPTURE(policy);
    Harness h(config(), registry());
    REQUIRE(shadow(h, "one", policy).first == Code::kOk);
    auto instance = registry().make_instance(policy, {40, 1, ""});
    REQUIRE(instance);
    plugin::GhostCache lab(40, 100000, *instance);
    std::map<uint64_t, uint32_t> ids;
    uint64_t ordinal = 0;
    for (const auto& keys : workload(7, 400)) {
      lookup(h, keys);
      std::vector<uint32_t> path;
      for (const uint64_t key : keys) {
        path.push_back(ids.try_emplace(key, static_cast<uint32_t>(ids.size())).first->second);
      }
      const auto entered = lab.begin({path, {}, ordinal, ~0ULL, 16});
      lab.end(std::span<const uint32_t>(path).first(entered.cached), ordinal++, ~0ULL);
      if (ordinal % 50 == 0) {
        auto now = status(h);
        CHECK(now.at("understudy.one.hits") == static_cast<int64_t>(lab.counts().hits));
        CHECK(now.at("understudy.one.accesses") == static_cast<int64_t>(lab.counts().accesses));
        CHECK(now.at("understudy.one.evictions") == static_cast<int64_t>(lab.counts().evictions));
      }
    }
    CHECK(lab.counts().evictions > 100);
    CHECK(lab.counts().hits > 100);
  }
}

TEST_CASE(
    "the index is asked to tell of lookups while somebody watches, and is told what was read") {
  Harness h(config(), registry());
  const auto first = h.give(Tick{1}, [](wire::Message::Builder m) {
    m.initShadow().setName("a");
    m.getShadow().setPolicy("vllm_lru");
  });
  CHECK(kinds(first) == std::vector{Kind::WATCH, Kind::ANSWER});
  CHECK(shadow(h, "b", "lirs").first == Code::kOk);
  for (int i = 0; i < 3; ++i) {
    CHECK(lookup(h, {1, 2}).empty());
  }
  const auto seen = lookup(h, {1, 2});
  REQUIRE(kinds(seen) == std::vector{Kind::LOOKUPS_SEEN});
  seen[0].read([](auto m) { CHECK(m.getLookupsSeen().getCount() == 4); });
  CHECK(shadow(h, "a", "").first == Code::kOk);
  const auto last = h.give(Tick{1}, [](wire::Message::Builder m) {
    m.initShadow().setName("b");
    m.getShadow().setRemove(true);
  });
  CHECK(kinds(last) == std::vector{Kind::WATCH, Kind::ANSWER});
}

TEST_CASE("an understudy that missed lookups gives no figure, one that comes later does") {
  Harness h(config(), registry());
  REQUIRE(shadow(h, "early", "vllm_lru").first == Code::kOk);
  lookup(h, {1, 2, 3}, 0, 5);
  REQUIRE(shadow(h, "late", "vllm_lru").first == Code::kOk);
  lookup(h, {1, 2, 3});
  const auto now = status(h);
  CHECK(now.at("understudy.early.complete") == 0);
  CHECK(!now.contains("understudy.early.hits"));
  CHECK(now.at("understudy.late.complete") == 1);
  CHECK(now.at("understudy.late.accesses") == 3);
}

TEST_CASE("what cannot be is refused with the value and the limit") {
  UnderstudiesConfig c = config();
  c.max_understudies = 2;
  Harness h(c, registry());
  CHECK(shadow(h, "", "vllm_lru").first == Code::kInvalidArgument);
  CHECK(shadow(h, "x", "nonsense").first == Code::kNotFound);
  CHECK(shadow(h, "x", "vllm_lru", 4, 8).first == Code::kOutOfRange);
  CHECK(shadow(h, "x", "").first == Code::kNotFound);
  CHECK(shadow(h, "x", "vllm_lru").first == Code::kOk);
  CHECK(shadow(h, "x", "vllm_lru").first == Code::kInvalidArgument);  // there already
  CHECK(shadow(h, "y", "vllm_lru").first == Code::kOk);
  const auto full = shadow(h, "z", "vllm_lru");
  CHECK(full.first == Code::kNoCapacity);
  CHECK(full.second == "2 understudies watch, the limit is 2");
}

TEST_CASE("a promotion asks the loader for the understudy's policy with its parameters") {
  Harness h(config(), registry());
  REQUIRE(shadow(h, "new", "s3fifo_leaf").first == Code::kOk);
  const auto ask = [&](const char* name) {
    return h.give(Tick{1}, [&](wire::Message::Builder m) {
      auto p = m.initPromote();
      p.setControl(5);
      p.setName(name);
      p.setSlot(1);
    });
  };
  const auto sent = ask("new");
  REQUIRE(kinds(sent) == std::vector{Kind::SWAP_POLICY});
  sent[0].read([](auto m) {
    CHECK(std::string(m.getSwapPolicy().getName().cStr()) == "s3fifo_leaf");
    CHECK(m.getSwapPolicy().getControl() == 5);
    CHECK(m.getSwapPolicy().getSlot() == 1);
  });
  CHECK(kinds(ask("old")) == std::vector{Kind::ANSWER});
}

TEST_CASE("a sample takes whole sessions") {
  Harness h(config(), registry());
  REQUIRE(shadow(h, "all", "vllm_lru", 40).first == Code::kOk);
  REQUIRE(shadow(h, "some", "vllm_lru", 40, 4).first == Code::kOk);
  for (uint64_t session = 1; session <= 400; ++session) {
    lookup(h, {session * 100, session * 100 + 1}, session);
    lookup(h, {session * 100, session * 100 + 1}, session);
  }
  const auto now = status(h);
  const int64_t sampled = now.at("understudy.some.lookups");
  CHECK(sampled % 2 == 0);  // both or none of a session
  CHECK(sampled > 120);     // of 800, a quarter expected
  CHECK(sampled < 280);
  CHECK(2 * now.at("understudy.some.hits") == now.at("understudy.some.accesses"));
}

TEST_CASE("names beyond the limit are forgotten, the resident ones never") {
  UnderstudiesConfig c = config();
  c.least_keys = 200;
  c.keys_per_block = 1;
  Harness h(c, registry());
  REQUIRE(shadow(h, "one", "vllm_lru", 40).first == Code::kOk);
  for (uint64_t r = 0; r < 500; ++r) {
    lookup(h, {1, 2, 1000 + 2 * r, 1001 + 2 * r});
  }
  const auto now = status(h);
  CHECK(now.at("understudies.keys_forgotten") > 500);
  CHECK(now.at("understudy.one.hits") == 2 * 499);  // the hot prefix, each time but the first
}

TEST_CASE("understudies saved and loaded go on as before") {
  Harness a(config(), registry());
  REQUIRE(shadow(a, "one", "vllm_lru").first == Code::kOk);
  REQUIRE(shadow(a, "two", "leaf_lru", 20).first == Code::kOk);
  const auto work = workload(3, 300);
  for (size_t i = 0; i < 200; ++i) {
    lookup(a, work[i]);
  }
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  Harness b(config(), registry());
  StateSource source(sink.data());
  const Status loaded = b.core.load(source);
  INFO(loaded.to_string());
  REQUIRE(loaded.is_ok());
  CHECK(a.core.digest() == b.core.digest());
  for (size_t i = 200; i < work.size(); ++i) {
    lookup(a, work[i]);
    lookup(b, work[i]);
  }
  CHECK(status(a) == status(b));
}

}  // namespace troupe
