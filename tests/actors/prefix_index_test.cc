// prefix_index: what a lookup finds, what a publish adds, what may leave; given, when, then.
#include "tests/actors/prefix_index_world.h"

namespace troupe {
namespace {

using namespace test;
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("a prompt of k blocks, one token less and one more: full blocks are found, no more") {
  for (const size_t k : {1UL, 2UL, 5UL}) {
    for (const size_t n : {k * kBlock - 1, k * kBlock, k * kBlock + 1}) {
      IndexWorld w(config());
      const Tokens tokens = prompt(n, 7);
      w.serve(ask(1, tokens));
      CHECK(w.probe(ask(2, tokens)) == n / kBlock * kBlock);
      w.match({2}, static_cast<uint32_t>(n));
      REQUIRE(w.hits.size() == 1);
      CHECK(w.hits[0].hits == n / kBlock);
      CHECK(w.hits[0].device == n / kBlock);
      CHECK(w.hits[0].compute == std::max<size_t>(1, n % kBlock));
    }
  }
}

TEST_CASE("a sealed partial tail is a block of its own and is hit like any other") {
  IndexWorld w(config());
  const Tokens tokens = prompt(10, 3);
  const auto path = w.serve(ask(1, tokens, true));
  REQUIRE(path.size() == 3);
  w.admit(ask(2, tokens, true));
  w.match({2}, 10);
  CHECK(w.hits[0].hits == 3);
  CHECK(w.hits[0].tokens == 10);
  CHECK(w.hits[0].last_partial == 2);
  CHECK(w.hits[0].compute == 1);  // one token is always computed
  // A longer prompt finds the full blocks, and the partial one as the source of a copy.
  w.admit(ask(3, prompt(12, 9, tokens)));
  w.match({3}, 12);
  CHECK(w.hits[0].hits == 2);
  CHECK(w.hits[0].partial_source == path[2]);
  CHECK(w.hits[0].partial_tokens == 2);
  CHECK(w.hits[0].compute == 2);
}

TEST_CASE("events tell a policy what is used: hits root first, releases deepest first") {
  IndexWorld w(config());
  const Tokens tokens = prompt(12, 1);
  w.admit(ask(1, tokens));
  CHECK(events_of(w.match({1}, 12)).empty());
  CHECK(events_of(w.publish({{1, 0, {0, 1}, wire::Ending::RUNNING}})) == Lines{"insert 0: 0 1"});
  CHECK(w.h.core.tree().leases(1) == 1);
  CHECK(events_of(w.publish({{1, 2, {2}}})) == Lines{"insert 0: 2", "release 0: 2 1 0"});
  CHECK(w.h.core.tree().live_leases() == 0);
  w.admit(ask(2, tokens));
  CHECK(events_of(w.match({2}, 12)) == Lines{"hit 0: 0 1 2"});
  CHECK(w.h.core.tree().leases(2) == 1);
  CHECK(events_of(w.publish({{2, 3, {}}})) == Lines{"release 0: 2 1 0"});
}

TEST_CASE("prompts that part within a run share what they have in common") {
  IndexWorld w(config());
  const Tokens base = prompt(16, 1);
  const auto a = w.serve(ask(1, base));
  const Tokens other = prompt(16, 2, Tokens(base.begin(), base.begin() + 8));
  const auto b = w.serve(ask(2, other));
  CHECK(b[0] == a[0]);
  CHECK(b[1] == a[1]);
  CHECK(b[2] != a[2]);
  CHECK(w.h.core.tree().runs() == 2);
  CHECK(w.h.core.tree().live_blocks() == 6);
  w.admit(ask(3, base));
  w.match({3}, 16);
  CHECK(w.hits[0].blocks == a);
}

TEST_CASE("the source of a copy is told to the policy as used, until it was copied") {
  IndexWorld w(config());
  const Tokens tokens = prompt(8, 1);
  const auto path = w.serve(ask(1, tokens));
  const Tokens parted = prompt(8, 2, Tokens(tokens.begin(), tokens.begin() + 6));
  w.admit(ask(2, parted));
  const std::string used = std::to_string(path[0]) + " " + std::to_string(path[1]);
  CHECK(events_of(w.match({2}, 8)) == Lines{"hit 0: " + used});
  REQUIRE(w.hits[0].partial_source == path[1]);
  const auto told = events_of(w.publish({{2, 1, {30}, wire::Ending::RUNNING}}));
  REQUIRE(told.size() == 2);
  CHECK(told[0] == "release 0: " + std::to_string(path[1]));
}

TEST_CASE("a key that stands for other tokens is no hit") {
  IndexWorld w(config());
  const Tokens tokens = prompt(8, 1);
  w.serve(ask(1, tokens));
  Ask liar = ask(2, prompt(8, 99));
  liar.keys = keys_of(tokens, kBlock);
  CHECK(w.probe(liar) == 0);
}

TEST_CASE("opaque keys work without any tokens") {
  IndexWorld w(config());
  Ask a = ask(1, prompt(12, 5));
  a.opaque = true;
  for (size_t i = 0; i < a.keys.size(); ++i) {
    a.keys[i] = BlockKey{{i + 1, 0, 0, 0}};  // an engine counts its blocks: no entropy to rely on
  }
  const auto path = w.serve(a);
  a.request = 2;
  CHECK(w.probe(a) == 12);
  w.match({2}, 12);
  CHECK(w.hits[0].blocks == path);
}

TEST_CASE("the same block computed twice is folded into the first") {
  IndexWorld w(config());
  const Tokens tokens = prompt(8, 1);
  w.admit(ask(1, tokens));
  w.admit(ask(2, tokens));
  w.match({1}, 8);
  w.match({2}, 8, true);  // does not wait, so it computes the same
  w.publish({{1, 0, {10, 11}}});
  const auto sent = w.publish({{2, 0, {20, 21}}});
  REQUIRE(sent[0].kind == Kind::FOLDED);
  sent[0].read([&](auto m) {
    const auto folds = m.getFolded().getFolds();
    REQUIRE(folds.size() == 2);
    CHECK(folds[0].getDuplicate() == 20);
    CHECK(folds[0].getCanonical() == 10);
    CHECK(folds[1].getIndex() == 1);
    CHECK(folds[1].getCanonical() == 11);
  });
  CHECK(events_of(sent) == Lines{"hit 0: 10 11", "release 0: 11 10"});
  CHECK(w.h.core.tree().live_blocks() == 2);
}

TEST_CASE("a block whose key is not known stays private") {
  IndexWorld w(config());
  w.admit(ask(1, prompt(6, 1)));  // the tail of two tokens has no key
  w.match({1}, 6);
  const auto sent = w.publish({{1, 0, {0, 1}, wire::Ending::FINISHED, 2}});
  sent[0].read([&](auto m) {
    const auto folds = m.getFolded().getFolds();
    REQUIRE(folds.size() == 1);
    CHECK(folds[0].getDuplicate() == 1);
    CHECK(folds[0].getCanonical() == kNoBlock);
  });
}

TEST_CASE("generated tokens are published under the keys that come with them") {
  IndexWorld w(config());
  const Tokens tokens = prompt(13, 1);
  Ask a = ask(1, Tokens(tokens.begin(), tokens.begin() + 6), true);
  a.prompt_only = false;
  w.admit(a);
  w.match({1}, 6);
  Published row{1, 0, {0, 1, 2}, wire::Ending::FINISHED};
  row.new_tokens = Tokens(tokens.begin() + 6, tokens.end());
  const auto keys = keys_of(tokens, kBlock);
  row.new_keys = {keys[1], keys[2]};  // the tail's key was replaced: that block is full now
  row.sealed = 12;
  w.publish({row});
  CHECK(w.probe(ask(2, tokens)) == 12);
  CHECK(w.probe(ask(3, Tokens(tokens.begin(), tokens.begin() + 6), true)) == 4);
}

TEST_CASE("a second request waits for the first that computes its prefix, and is called once") {
  IndexWorld w(config());
  const Tokens tokens = prompt(12, 1);
  w.admit(ask(1, tokens));
  w.admit(ask(2, tokens));
  auto sent = w.match({1, 2}, 12);
  REQUIRE(kinds(sent) == std::vector{Kind::HELD, Kind::RESERVE});
  sent[0].read([&](auto m) {
    const auto waiting = span_of<uint64_t>(m.getHeld().getWaiting());
    REQUIRE(waiting.size() == 1);
    CHECK(waiting[0] == 2);
    CHECK_FALSE(m.getHeld().getStepEmpty());
  });
  // The first goes on with what the second needs as well: no call yet.
  CHECK(kinds(w.publish({{1, 0, {0}, wire::Ending::RUNNING}})) == std::vector{Kind::EVENTS});
  sent = w.publish({{1, 1, {1, 2}}});
  CHECK(kinds(sent) == std::vector{Kind::EVENTS, Kind::READY});
  w.match({2}, 12);
  CHECK(w.hits[0].hits == 3);
}

TEST_CASE("victims are checked in order: a parent may follow its last child") {
  IndexWorld w(config());
  const auto path = w.serve(ask(1, prompt(12, 1)));
  auto sent = w.unlink(0, {path[1], path[2], path[1], path[0], path[0]});
  CHECK(events_of(sent) == Lines{"refused 0: 1 0"});
  sent[1].read([&](auto m) {
    const auto unlinked = m.getUnlinked();
    REQUIRE(unlinked.getBlocks().size() == 3);
    CHECK(unlinked.getBlocks()[0].getBlock() == path[2]);
    CHECK(unlinked.getBlocks()[0].getDepth() == 2);
    CHECK(unlinked.getBlocks()[2].getBlock() == path[0]);
    CHECK(unlinked.getRefused() == 2);
    CHECK(unlinked.getReclaim());
  });
  // Until it settles it is in the tree but no lookup uses it.
  CHECK(w.probe(ask(2, prompt(12, 1))) == 0);
  sent = w.settle({{2, 0, 4}, {1, 0, 4}, {0, 0, 4}}, true);
  CHECK(events_of(sent) == Lines{"remove 0: 2 1 0"});
  CHECK(releases_of(sent) == Lines{"2 0 gone", "1 0 gone", "0 0 gone"});
  CHECK(w.h.core.tree().live_blocks() == 0);
}

TEST_CASE("a block in use, or with a child in use, may not leave") {
  IndexWorld w(config());
  const Tokens tokens = prompt(12, 1);
  const auto path = w.serve(ask(1, tokens));
  w.admit(ask(2, Tokens(tokens.begin(), tokens.begin() + 8)));
  w.match({2}, 8);
  auto sent = w.unlink(0, {path[2], path[1], path[0]});
  CHECK(events_of(sent) == Lines{"refused 0: 1 0"});
  w.settle({{path[2], 0, 4}}, true);
  w.publish({{2, 2, {}}});
  CHECK(events_of(w.unlink(0, {path[1], path[0]})).empty());
}

TEST_CASE("demoted blocks stay matchable, are loaded, and only then count as on the device") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(12, 1);
  const auto path = w.serve(ask(1, tokens));
  w.unlink(0, {path[2], path[1]});
  auto sent = w.settle(
      {{path[2], 0, 1, wire::Outcome::MOVED}, {path[1], 0, 1, wire::Outcome::MOVED}}, true);
  CHECK(events_of(sent) == Lines{"remove 0: 2", "demoted 1: 2", "remove 0: 1", "demoted 1: 1"});
  CHECK(releases_of(sent) == Lines{"2 0", "1 0"});
  w.admit(ask(2, tokens));
  w.admit(ask(3, tokens));
  sent = w.match({2, 3}, 12);
  CHECK(kinds(sent) == std::vector{Kind::EVENTS, Kind::HELD, Kind::LOAD});
  CHECK(events_of(sent) == Lines{"hit 0: 0", "hit 1: 1 2"});
  CHECK(w.hits[0].hits == 3);
  CHECK(w.hits[0].device == 1);
  CHECK(events_of(w.unlink(1, {path[2]})) == Lines{"refused 1: 2"});
  sent = w.settle({{path[1], 1, 0, wire::Outcome::COPIED}, {path[2], 1, 0, wire::Outcome::COPIED}});
  CHECK(events_of(sent) == Lines{"promoted 0: 1 2"});
  CHECK(kinds(sent).back() == Kind::READY);
  sent = w.publish({{2, 3, {}}});
  CHECK(events_of(sent) == Lines{"release 0: 2 1 0"});
  w.match({3}, 12);
  CHECK(w.hits[0].device == 3);
}

TEST_CASE("a load that does not verify takes the block and what hangs on it") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(12, 1);
  const auto path = w.serve(ask(1, tokens));
  w.unlink(0, {path[2], path[1]});
  w.settle({{path[2], 0, 1, wire::Outcome::MOVED}, {path[1], 0, 1, wire::Outcome::MOVED}}, true);
  w.admit(ask(2, tokens));
  w.match({2}, 12);
  auto sent =
      w.settle({{path[1], 1, 0, wire::Outcome::LOST}, {path[2], 1, 0, wire::Outcome::COPIED}});
  CHECK(releases_of(sent) == Lines{"1 0", "1 1 gone quarantine", "2 0", "2 1 gone"});
  sent = w.publish({{2, 0, {}, wire::Ending::FAILED_LOAD}});
  CHECK(events_of(sent) == Lines{"release 0: 0"});
  w.match({2}, 12);
  CHECK(w.hits[0].hits == 1);
}

TEST_CASE("what tiering does not load is computed again and becomes the device copy") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(8, 1);
  const auto path = w.serve(ask(1, tokens));
  w.unlink(0, {path[1]});
  w.settle({{path[1], 0, 1, wire::Outcome::MOVED}}, true);
  w.admit(ask(2, tokens));
  w.match({2}, 8);
  w.settle({{path[1], 1, 0, wire::Outcome::FAILED}});
  const auto sent = w.publish({{2, 1, {50}}});
  sent[0].read([&](auto m) { CHECK(m.getFolded().getFolds()[0].getCanonical() == path[1]); });
  CHECK(events_of(sent) == Lines{"promoted 0: 1", "release 0: 1 0"});
  CHECK(w.h.core.tree().mask(path[1]) == 3);
}

TEST_CASE("a preempted sequence's blocks are offered for demotion, its row stays") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(12, 1);
  w.admit(ask(1, tokens));
  w.match({1}, 12);
  auto sent = w.publish({{1, 0, {0, 1, 2}, wire::Ending::PREEMPT_SWAP}});
  REQUIRE(kinds(sent) == std::vector{Kind::EVENTS, Kind::UNLINKED});
  sent[1].read([&](auto m) {
    CHECK_FALSE(m.getUnlinked().getReclaim());
    REQUIRE(m.getUnlinked().getBlocks().size() == 3);
    CHECK(m.getUnlinked().getBlocks()[0].getBlock() == 2);
  });
  w.settle({{2, 0, 1, wire::Outcome::MOVED},
            {1, 0, 1, wire::Outcome::MOVED},
            {0, 0, 1, wire::Outcome::MOVED}});
  w.match({1}, 12);
  CHECK(w.hits[0].hits == 3);
  CHECK(w.hits[0].device == 0);
}

TEST_CASE("late word of a load leaves alone what moves the block since") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(12, 1);
  const auto path = w.serve(ask(1, tokens));
  w.unlink(0, {path[2]});
  w.settle({{path[2], 0, 1, wire::Outcome::MOVED}}, true);
  w.admit(ask(2, tokens));
  w.match({2}, 12);
  w.publish({{2, 3, {40}, wire::Ending::PREEMPT_SWAP, 0, {}, {}, 0, 0}});
  REQUIRE(w.h.core.tree().on(path[2], 0));
  REQUIRE(w.h.core.tree().motion(path[2]) == prefix::leaving(0));
  const auto sent = w.settle({{path[2], 1, 0, wire::Outcome::COPIED}});
  CHECK(releases_of(sent).empty());
  CHECK(events_of(sent).empty());
  CHECK(w.h.core.tree().motion(path[2]) == prefix::leaving(0));
  CHECK(events_of(w.settle({{path[2], 0, 1, wire::Outcome::MOVED}})) == Lines{"remove 0: 2"});
}

TEST_CASE("a lookup waits for the publish that was sent before it") {
  IndexWorld w(config());
  const Tokens tokens = prompt(8, 1);
  w.admit(ask(1, tokens));
  w.admit(ask(2, tokens));
  w.match({1}, 8);
  CHECK(w.match({2}, 8, false, 1).empty());
  const auto sent = w.publish({{1, 0, {0, 1}}}, 1);
  CHECK(kinds(sent) == std::vector{Kind::EVENTS, Kind::EVENTS, Kind::RESERVE});
}

TEST_CASE("save, load, save: the same bytes, and the loaded index goes on the same way") {
  IndexWorld w(config(3));
  const Tokens tokens = prompt(14, 1);
  w.serve(ask(1, tokens, true));
  w.serve(ask(2, prompt(14, 2, Tokens(tokens.begin(), tokens.begin() + 6))));
  w.unlink(0, {3});
  w.settle({{3, 0, 1, wire::Outcome::MOVED}}, true);
  w.admit(ask(3, tokens));
  w.admit(ask(4, tokens));
  w.match({3, 4}, 14);
  StateSink first;
  REQUIRE(w.h.core.save(first).is_ok());
  IndexWorld copy(config(3));
  StateSource source(first.data());
  const Status loaded = copy.h.core.load(source);
  INFO(loaded.to_string());
  REQUIRE(loaded.is_ok());
  StateSink second;
  REQUIRE(copy.h.core.save(second).is_ok());
  CHECK(first.data() == second.data());
  CHECK(copy.h.core.digest() == w.h.core.digest());
  CHECK(events_of(copy.publish({{3, 3, {}}})) == events_of(w.publish({{3, 3, {}}})));
  CHECK(copy.h.core.digest() == w.h.core.digest());
}

}  // namespace troupe
