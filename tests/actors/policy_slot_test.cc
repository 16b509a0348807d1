// policy_slot: answers are validated, short answers are filled, a swap by message carries state
// over.
#include "tests/actors/policy_slot_world.h"

namespace troupe {

using namespace slot_test;

TEST_CASE("the built-in names the oldest first, the deepest first within a request") {
  Registry registry;
  Harness h(config("lru"), registry);
  two_chains(h);
  CHECK(ask(h, 5) == std::vector<uint32_t>{2, 4, 3, 1, 0});
  CHECK(ask(h, 2) == std::vector<uint32_t>{2, 4});
}

TEST_CASE("a block in use, and what stands above it, is never named") {
  Registry registry;
  Harness h(config("lru"), registry);
  two_chains(h);
  events(h, wire::EventKind::HIT, {0, 1});
  CHECK(ask(h, 9) == std::vector<uint32_t>{2, 4, 3});
}

TEST_CASE("wrong answers are dropped and what the policy owes is filled") {
  Registry registry;
  uint32_t rejected = 0;
  // unknown, not resident, a parent with its child there, twice, in use
  registry.script = {999, 9, 0, 4, 4};
  Harness h(config("scripted"), registry);
  two_chains(h);
  const auto victims = ask(h, 3, &rejected);
  CHECK(rejected == 4);
  CHECK(victims == std::vector<uint32_t>{4, 2, 3});
}

TEST_CASE("a policy swapped by message takes the state over and keeps the resident set") {
  Registry registry;
  Harness h(config("lru"), registry);
  two_chains(h);
  const auto before = ask(h, 5);
  SECTION("to the same policy: its own state") {
    CHECK(swap(h, "lru", 1) == Code::kOk);
    CHECK(ask(h, 5) == before);
    CHECK(h.core.generation() == 2);
  }
  SECTION("through another policy and back: told of the resident set") {
    registry.script = {};
    CHECK(swap(h, "scripted") == Code::kOk);
    CHECK(swap(h, "lru") == Code::kOk);
    CHECK(ask(h, 5) == before);
  }
  SECTION("an unknown policy, or another generation than expected, changes nothing") {
    CHECK(swap(h, "nonsense") == Code::kNotFound);
    CHECK(swap(h, "lru", 9) == Code::kFailedPrecondition);
    CHECK(h.core.generation() == 1);
    CHECK(ask(h, 5) == before);
  }
}

TEST_CASE("in a lower tier a hit is a touch that no release follows") {
  Registry registry;
  PolicySlotConfig touching = config("lru");
  touching.touch_only = true;
  Harness h(touching, registry);
  events(h, wire::EventKind::DEMOTED, {5, 6}, {kNoBlock, kNoBlock});
  events(h, wire::EventKind::HIT, {5});
  CHECK(ask(h, 2) == std::vector<uint32_t>{6, 5});
}

TEST_CASE("a slot saved and loaded answers the same") {
  Registry registry;
  Harness a(config("lru"), registry);
  two_chains(a);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  Harness b(config("lru"), registry);
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(a.core.digest() == b.core.digest());
  CHECK(ask(a, 5) == ask(b, 5));
}

}  // namespace troupe
