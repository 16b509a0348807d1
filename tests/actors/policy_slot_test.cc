// policy_slot: answers are validated, short answers are filled, a swap by message carries state
// over.
#include <algorithm>

#include "actors/policy_slot/lru.h"
#include "actors/policy_slot/policy_slot.h"
#include "tests/actors/core_harness.h"

namespace troupe {
namespace {

using test::CoreHarness;
using test::kinds;
using Harness = CoreHarness<PolicySlot>;

constexpr uint32_t kCapacity = 16;

/// Answers every question with the same list, right or wrong.
class Scripted final : public policy::EvictionPolicy {
 public:
  explicit Scripted(std::vector<uint32_t> answer) : answer_(std::move(answer)) {}
  std::string_view name() const noexcept override { return "scripted"; }
  void on_events(const policy::Events&) noexcept override {}
  void victims(uint32_t, const policy::HostView&, std::vector<uint32_t>& victims,
               std::vector<int64_t>&) noexcept override {
    victims = answer_;
  }
  Status save(StateSink&) const override { return Status::ok(); }
  Status load(StateSource&) override { return Status::ok(); }
  uint64_t digest() const noexcept override { return 0; }

 private:
  std::vector<uint32_t> answer_;
};

class Registry final : public policy::Registry {
 public:
  std::vector<uint32_t> script;
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t, std::string_view) const override {
    if (name == "lru") {
      return std::unique_ptr<policy::EvictionPolicy>(new LruPolicy(capacity));
    }
    if (name == "scripted") {
      return std::unique_ptr<policy::EvictionPolicy>(new Scripted(script));
    }
    return Status(Code::kNotFound, "no policy " + std::string(name));
  }
};

void events(Harness& h, wire::EventKind kind, std::vector<uint32_t> blocks,
            std::vector<uint32_t> parents = {}) {
  h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto e = m.initEvents().initBatches(1)[0];
    e.setKind(kind);
    e.setBlocks(data_of(blocks));
    e.setParents(data_of(parents));
    std::vector<uint32_t> depths(parents.size());
    for (size_t i = 0; i < depths.size(); ++i) {
      depths[i] = static_cast<uint32_t>(i);
    }
    e.setDepths(data_of(depths));
  });
}

std::vector<uint32_t> ask(Harness& h, uint32_t blocks, uint32_t* rejected = nullptr) {
  const auto sent = h.give(Tick{2}, [&](wire::Message::Builder m) {
    auto a = m.initAsk();
    a.setBlocks(blocks);
    a.setQuestion(7);
  });
  REQUIRE(kinds(sent) == std::vector{Kind::VICTIMS});
  std::vector<uint32_t> out;
  sent[0].read([&](auto m) {
    CHECK(m.getVictims().getQuestion() == 7);
    const auto list = span_of<uint32_t>(m.getVictims().getVictims());
    out.assign(list.begin(), list.end());
    if (rejected != nullptr) {
      *rejected = m.getVictims().getRejected();
    }
  });
  return out;
}

/// Two chains 0-1-2 and 3-4, released in this order, then 0-1 used again.
void two_chains(Harness& h) {
  events(h, wire::EventKind::INSERT, {0, 1, 2}, {kNoBlock, 0, 1});
  events(h, wire::EventKind::RELEASE, {2, 1, 0});
  events(h, wire::EventKind::INSERT, {3, 4}, {kNoBlock, 3});
  events(h, wire::EventKind::RELEASE, {4, 3});
  events(h, wire::EventKind::HIT, {0, 1});
  events(h, wire::EventKind::RELEASE, {1, 0});
}

}  // namespace

TEST_CASE("the built-in names the oldest first, the deepest first within a request") {
  Registry registry;
  Harness h(PolicySlotConfig{"lru", "", kCapacity, 1, false}, registry);
  two_chains(h);
  CHECK(ask(h, 5) == std::vector<uint32_t>{2, 4, 3, 1, 0});
  CHECK(ask(h, 2) == std::vector<uint32_t>{2, 4});
}

TEST_CASE("a block in use, and what stands above it, is never named") {
  Registry registry;
  Harness h(PolicySlotConfig{"lru", "", kCapacity, 1, false}, registry);
  two_chains(h);
  events(h, wire::EventKind::HIT, {0, 1});
  CHECK(ask(h, 9) == std::vector<uint32_t>{2, 4, 3});
}

TEST_CASE("wrong answers are dropped and what the policy owes is filled") {
  Registry registry;
  uint32_t rejected = 0;
  // unknown, not resident, a parent with its child there, twice, in use
  registry.script = {999, 9, 0, 4, 4};
  Harness h(PolicySlotConfig{"scripted", "", kCapacity, 1, false}, registry);
  two_chains(h);
  const auto victims = ask(h, 3, &rejected);
  CHECK(rejected == 4);
  CHECK(victims == std::vector<uint32_t>{4, 2, 3});
}

TEST_CASE("a policy swapped by message takes the state over and keeps the resident set") {
  Registry registry;
  Harness h(PolicySlotConfig{"lru", "", kCapacity, 1, false}, registry);
  two_chains(h);
  const auto before = ask(h, 5);
  const auto swap = [&](const char* name, uint64_t generation) {
    uint16_t status = 99;
    const auto sent = h.give(Tick{3}, [&](wire::Message::Builder m) {
      auto s = m.initSwapPolicy();
      s.setControl(1);
      s.setName(name);
      s.setGeneration(generation);
    });
    REQUIRE(kinds(sent) == std::vector{Kind::ANSWER});
    sent[0].read([&](auto m) { status = m.getAnswer().getStatus(); });
    return static_cast<Code>(status);
  };
  SECTION("to the same policy: its own state") {
    CHECK(swap("lru", 1) == Code::kOk);
    CHECK(ask(h, 5) == before);
    CHECK(h.core.generation() == 2);
  }
  SECTION("through another policy and back: rebuilt from the resident set") {
    registry.script = {};
    CHECK(swap("scripted", 0) == Code::kOk);
    CHECK(swap("lru", 0) == Code::kOk);
    CHECK(ask(h, 5) == before);
  }
  SECTION("an unknown policy, or another generation than expected, changes nothing") {
    CHECK(swap("nonsense", 0) == Code::kNotFound);
    CHECK(swap("lru", 9) == Code::kFailedPrecondition);
    CHECK(h.core.generation() == 1);
    CHECK(ask(h, 5) == before);
  }
}

TEST_CASE("in a lower tier a hit is a touch that no release follows") {
  Registry registry;
  Harness h(PolicySlotConfig{"lru", "", kCapacity, 1, true}, registry);
  events(h, wire::EventKind::DEMOTED, {5, 6}, {kNoBlock, kNoBlock});
  events(h, wire::EventKind::HIT, {5});
  CHECK(ask(h, 2) == std::vector<uint32_t>{6, 5});
}

TEST_CASE("a slot saved and loaded answers the same") {
  Registry registry;
  Harness a(PolicySlotConfig{"lru", "", kCapacity, 1, false}, registry);
  two_chains(a);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  Harness b(PolicySlotConfig{"lru", "", kCapacity, 1, false}, registry);
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(a.core.digest() == b.core.digest());
  CHECK(ask(a, 5) == ask(b, 5));
}

}  // namespace troupe
