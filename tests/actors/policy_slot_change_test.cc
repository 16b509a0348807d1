// policy_slot from one policy to another: the walk that tells a new policy of the resident set
// while events go on, probation, rollback, and what happens to a policy that fails.
#include "runtime/base/rng.h"
#include "tests/actors/policy_slot_world.h"

#include <map>

namespace troupe {

using namespace slot_test;

namespace {

/// A tier of chains with requests that come and go, told to several slots alike.
class LiveTier {
 public:
  explicit LiveTier(uint64_t seed) : rng_(seed) {}
  /// One step of the tier's life: a request enters, ends, or a victim leaves.
  void step(std::vector<Harness*> slots) {
    const uint64_t dice = rng_.below(10);
    if (dice < 4) {
      enter(slots);
    } else if (dice < 8 && !running_.empty()) {
      leave(slots);
    } else {
      evict(slots);
    }
  }
  const std::vector<uint32_t>& free() const { return free_; }

 private:
  void tell(const std::vector<Harness*>& slots, wire::EventKind kind,
            const std::vector<uint32_t>& blocks, const std::vector<uint32_t>& parents = {}) {
    for (Harness* h : slots) {
      if (!blocks.empty()) {
        events(*h, kind, blocks, parents);
      }
    }
  }
  void enter(const std::vector<Harness*>& slots) {
    std::vector<uint32_t> path;
    if (!ends_.empty() && rng_.below(3) != 0) {  // goes on from a block that is there
      auto at = ends_.begin();
      std::advance(at, static_cast<long>(rng_.below(ends_.size())));
      for (uint32_t b = at->first; b != kNoBlock; b = parent_.at(b)) {
        path.insert(path.begin(), b);
      }
    }
    tell(slots, wire::EventKind::HIT, path);
    std::vector<uint32_t> fresh;
    std::vector<uint32_t> parents;
    const size_t grow = std::min<size_t>(rng_.below(4), free_.size());
    for (size_t i = 0; i < grow; ++i) {
      const uint32_t block = free_.back();
      free_.pop_back();
      parent_[block] = path.empty() ? kNoBlock : path.back();
      parents.push_back(parent_[block]);
      ends_[block] = 0;
      fresh.push_back(block);
      path.push_back(block);
    }
    tell(slots, wire::EventKind::INSERT, fresh, parents);
    for (const uint32_t b : path) {
      ++uses_[b];
    }
    if (!path.empty()) {
      running_.push_back(path);
    }
  }
  void leave(const std::vector<Harness*>& slots) {
    const size_t i = rng_.below(running_.size());
    std::vector<uint32_t> path(running_[i].rbegin(), running_[i].rend());
    running_.erase(running_.begin() + static_cast<ptrdiff_t>(i));
    for (const uint32_t b : path) {
      --uses_[b];
    }
    tell(slots, wire::EventKind::RELEASE, path);
  }
  void evict(const std::vector<Harness*>& slots) {
    const std::vector<uint32_t> victims = ask(*slots.front(), 2);
    for (const uint32_t b : victims) {
      REQUIRE(uses_[b] == 0);
      tell(slots, wire::EventKind::REMOVE, {b});
      ends_.erase(b);
      parent_.erase(b);
      free_.push_back(b);
    }
  }

  Rng rng_;
  std::map<uint32_t, uint32_t> parent_;
  std::map<uint32_t, int> ends_;
  std::map<uint32_t, uint32_t> uses_;
  std::vector<std::vector<uint32_t>> running_;
  std::vector<uint32_t> free_ = [] {
    std::vector<uint32_t> all;
    for (uint32_t b = 0; b < kCapacity; ++b) {
      all.push_back(b);
    }
    return all;
  }();
};

PolicySlotConfig walking(uint32_t range) {
  PolicySlotConfig c = config("lru");
  c.range_blocks = range;
  c.whole_blocks = 0;  // every change walks
  return c;
}

std::vector<test::Sent> rollback(Harness& h) {
  return h.give(Tick{3}, [](wire::Message::Builder m) { m.initRollback().setControl(1); });
}

void check_changed(const test::Sent& sent, const char* to, wire::PolicyChanged::Cause cause) {
  REQUIRE(sent.kind == Kind::POLICY_CHANGED);
  sent.read([&](auto m) {
    CHECK(std::string(m.getPolicyChanged().getTo().cStr()) == to);
    CHECK(m.getPolicyChanged().getCause() == cause);
  });
}

}  // namespace

TEST_CASE("a policy told of the blocks in ranges, while events go on, ends as one that was there") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Registry registry;
    Harness always(config("lru"), registry);
    Harness changed(walking(1 + static_cast<uint32_t>(seed % 5)), registry);
    LiveTier tier(seed);
    for (uint64_t i = 0; i < 30 + seed % 40; ++i) {
      tier.step({&always, &changed});
    }
    auto sent = begin_swap(changed, "lru");
    for (int rounds = 0; sent.empty() || sent.back().kind != Kind::ANSWER; ++rounds) {
      REQUIRE(rounds < 500);  // it catches up, whatever happens meanwhile
      for (uint64_t i = 0; i < seed % 4; ++i) {
        tier.step({&always, &changed});
      }
      sent = changed.give(Tick{3}, [&](wire::Message::Builder m) {
        m.initTakeOver().setGeneration(changed.core.generation());
      });
    }
    CHECK(changed.core.generation() == 2);
    CHECK(ask(changed, kCapacity) == ask(always, kCapacity));
    for (int i = 0; i < 20; ++i) {
      tier.step({&always, &changed});
      CHECK(ask(changed, kCapacity) == ask(always, kCapacity));
    }
  }
}

TEST_CASE("one change at a time, and no snapshot in the middle of one") {
  Registry registry;
  Harness h(walking(1), registry);
  two_chains(h);
  auto first = begin_swap(h, "lru");
  CHECK(code_of(begin_swap(h, "lru").back()) == Code::kFailedPrecondition);
  CHECK(code_of(rollback(h).back()) == Code::kFailedPrecondition);
  StateSink sink;
  CHECK(h.core.save(sink).code() == Code::kFailedPrecondition);
  CHECK(finish_change(h, std::move(first)) == Code::kOk);
  CHECK(h.core.save(sink).is_ok());
}

TEST_CASE("a rollback in the probation is at once, later it walks; both decide as before") {
  Registry registry;
  registry.script = {};
  PolicySlotConfig c = walking(2);
  c.probation = 3;
  Harness h(c, registry);
  two_chains(h);
  const auto before = ask(h, 5);
  CHECK(swap(h, "scripted") == Code::kOk);
  SECTION("in the probation") {
    events(h, wire::EventKind::HIT, {3, 4});
    events(h, wire::EventKind::RELEASE, {4, 3});
    const auto sent = rollback(h);
    REQUIRE(kinds(sent) == std::vector{Kind::POLICY_CHANGED, Kind::ANSWER});
    check_changed(sent[0], "lru", wire::PolicyChanged::Cause::ROLLBACK);
    CHECK(ask(h, 5) == std::vector<uint32_t>{2, 1, 0, 4, 3});  // it followed all the while
  }
  SECTION("after it") {
    for (int i = 0; i < 3; ++i) {
      events(h, wire::EventKind::HIT, {0, 1});
      events(h, wire::EventKind::RELEASE, {1, 0});
    }
    CHECK(finish_change(h, rollback(h)) == Code::kOk);
    CHECK(ask(h, 5) == before);
  }
  CHECK(h.core.live().name() == "lru");
  CHECK(finish_change(h, rollback(h)) == Code::kOk);  // forward again
  CHECK(h.core.live().name() == "scripted");
}

TEST_CASE(
    "a policy whose answers are wrong gives way, and every question is answered all the same") {
  Registry registry;
  PolicySlotConfig c = walking(1);
  c.strikes = 4;
  Harness h(c, registry);
  two_chains(h);
  const auto good = ask(h, 5);
  const auto ask_again = [&] {
    return h.give(Tick{2}, [](wire::Message::Builder m) { m.initAsk().setBlocks(5); });
  };
  SECTION("in its probation to the one before") {
    CHECK(swap(h, "wrong") == Code::kOk);
    for (int i = 0; i < 3; ++i) {
      CHECK(ask(h, 5) == good);  // the mirror fills in
    }
    const auto last = ask_again();
    REQUIRE(kinds(last) == std::vector{Kind::VICTIMS, Kind::POLICY_CHANGED});
    check_changed(last[1], "lru", wire::PolicyChanged::Cause::FAILING);
  }
  SECTION("later to the built-in") {
    c.policy = "wrong";
    Harness w(c, registry);
    two_chains(w);
    std::vector<test::Sent> sent;
    for (int i = 0; i < 4; ++i) {
      sent = w.give(Tick{2}, [](wire::Message::Builder m) { m.initAsk().setBlocks(5); });
    }
    REQUIRE(kinds(sent) == std::vector{Kind::VICTIMS, Kind::TAKE_OVER});
    while (sent.back().kind != Kind::POLICY_CHANGED) {
      sent = w.give(Tick{3}, [&](wire::Message::Builder m) {
        m.initTakeOver().setGeneration(w.core.generation());
      });
      REQUIRE(sent.size() == 1);
    }
    check_changed(sent[0], "lru", wire::PolicyChanged::Cause::FAILING);
    CHECK(ask(w, 5) == good);
  }
}

TEST_CASE("a slot in a probation is saved and loaded with both policies") {
  Registry registry;
  registry.script = {};
  Harness a(walking(4), registry);
  two_chains(a);
  CHECK(swap(a, "scripted") == Code::kOk);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  Harness b(walking(4), registry);
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(a.core.digest() == b.core.digest());
  CHECK(kinds(rollback(b)) == kinds(rollback(a)));
  CHECK(ask(a, 5) == ask(b, 5));
}

}  // namespace troupe
