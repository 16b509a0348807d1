// prefix_index: who may share what (domains, engines' own keys, forks), and purges of it.
#include "tests/actors/prefix_index_world.h"

namespace troupe {
namespace {

using namespace test;
using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("equal tokens of two domains, classes or opaque makes never meet") {
  IndexWorld w(config());
  const Tokens tokens = prompt(8, 1);
  w.serve(ask(1, tokens, false, 1));
  CHECK(w.probe(ask(2, tokens, false, 2)) == 0);
  Ask forged = ask(3, tokens, false, 1);
  forged.opaque = true;  // an engine's key that equals a hashed one would skip the token compare
  CHECK(w.probe(forged) == 0);
  Ask wide = ask(4, tokens, false, 1);
  wide.block_class = 1;
  CHECK(w.probe(wide) == 0);
  CHECK(w.probe(ask(5, tokens, false, 1)) == 8);
}

TEST_CASE("an engine's own keys are told apart by domain, matched, waited for and purged") {
  IndexWorld w(config());
  Ask first = ask(1, prompt(8, 1));
  first.opaque = true;
  first.domain = 1;
  w.serve(first);
  Ask other = first;  // the same keys in another domain: another content
  other.request = 2;
  other.domain = 2;
  CHECK(w.probe(other) == 0);
  w.match({2}, 8);
  REQUIRE(w.hits.size() == 1);  // nor does it wait for the other domain's computation
  CHECK(w.hits[0].hits == 0);
  w.publish({{2, 0, {40, 41}}});
  CHECK(w.h.core.tree().live_blocks() == 4);
  Ask again = first;
  again.request = 3;
  CHECK(w.probe(again) == 8);
  again.request = 4;
  again.domain = 2;
  CHECK(w.probe(again) == 8);
  w.purge_prefix({first.keys[0]});
  CHECK(w.h.core.tree().live_blocks() == 0);
}

TEST_CASE("an engine's key of a partial block is no hit for a full one") {
  IndexWorld w(config());
  Ask part = ask(1, prompt(6, 1), true);
  part.opaque = true;
  w.serve(part);
  Ask full = ask(2, prompt(8, 1));
  full.opaque = true;
  full.keys = part.keys;  // the engine gives the partial block's key to a full one
  CHECK(w.probe(full) == 4);
}

TEST_CASE("a fork shares tokens only where keys vouch for what tokens do not tell") {
  IndexWorld w(config());
  const Tokens tokens = prompt(14, 1);
  w.admit(ask(1, tokens));
  w.match({1}, 14);
  const auto shared = [&](uint64_t id, const Tokens& prompt_tokens, uint32_t keys_domain,
                          uint32_t domain) {
    Ask child = ask(id, prompt_tokens);
    child.keys = keys_of(prompt_tokens, 4, false, keys_domain);
    child.domain = domain;
    child.parent = 1;
    w.admit(child);
    w.match({id}, static_cast<uint32_t>(prompt_tokens.size()), true);
    return w.hits.at(0).fork_tokens;
  };
  CHECK(shared(2, tokens, 0, 0) == 14);
  const Tokens parted = prompt(14, 2, Tokens(tokens.begin(), tokens.begin() + 6));
  CHECK(shared(3, parted, 0, 0) == 6);   // the first block's key is the same, then tokens decide
  CHECK(shared(4, tokens, 7, 0) == 0);   // another adapter: equal tokens under other keys
  CHECK(shared(5, tokens, 0, 1) == 0);   // another domain
  const Tokens brief(tokens.begin(), tokens.begin() + 3);
  CHECK(shared(6, brief, 0, 0) == 0);    // no full block, nothing vouches
}

TEST_CASE("purge takes a tenant's blocks from all tiers, leaves users their bytes, and says so") {
  IndexWorld w(config(3));
  Ask a = ask(1, prompt(12, 1));
  a.tenant = 7;
  const auto path = w.serve(a);
  w.serve(ask(2, prompt(8, 2)));
  w.unlink(0, {path[2]});
  w.settle({{path[2], 0, 1, wire::Outcome::MOVED}}, true);
  a.request = 3;
  a.tokens.resize(8);
  a.keys.resize(2);
  w.admit(a);
  w.match({3}, 8);
  auto sent = w.h.give(Tick{9}, [](wire::Message::Builder m) {
    auto purge = m.initPurge();
    purge.setScope(wire::PurgeScope::TENANT);
    purge.setId(7);
    purge.setControl(5);
  });
  CHECK(releases_of(sent) == Lines{"2 1 gone", "1 0 gone", "0 0 gone"});
  sent.back().read([](auto m) {
    REQUIRE(m.which() == Kind::ANSWER);
    CHECK(m.getAnswer().getControl() == 5);
    const auto gauges = m.getAnswer().getGauges();
    CHECK(gauges[0].getValue() == 3);
    CHECK(gauges[1].getValue() == 2);
    CHECK(gauges[2].getValue() == 1);
  });
  CHECK(w.h.core.tree().live_blocks() == 2);
  // The user goes on with what it has, publishes nothing more, and leaves in peace.
  CHECK(events_of(w.publish({{3, 2, {}}})).empty());
}

TEST_CASE("a purge keeps back what a step with loads names until the step has come back") {
  const auto purge_all = [](IndexWorld& w) {
    return w.h.give(
        Tick{9}, [](wire::Message::Builder m) { m.initPurge().setScope(wire::PurgeScope::ALL); });
  };
  for (const bool dropped : {false, true}) {
    IndexWorld w(config(3));
    const Tokens tokens = prompt(12, 1);
    const auto path = w.serve(ask(1, tokens));
    const auto other = w.serve(ask(2, prompt(8, 2)));
    w.unlink(0, {path[2]});
    w.settle({{path[2], 0, 1, wire::Outcome::MOVED}}, true);
    w.admit(ask(3, tokens));
    REQUIRE(kinds(w.match({3}, 12)).back() == Kind::LOAD);  // travels by way of tiering
    CHECK(releases_of(purge_all(w)) ==
          Lines{std::to_string(other[1]) + " 0 gone", std::to_string(other[0]) + " 0 gone"});
    if (dropped) {  // nothing was loaded: no word of it comes from tiering
      const auto sent = w.publish({{3, 0, {}, wire::Ending::CANCELLED, 0, {}, {}, 0, kNoSequence}});
      CHECK(releases_of(sent) == Lines{"2 1 gone", "1 0 gone", "0 0 gone"});
    } else {
      CHECK(releases_of(w.settle({{path[2], 1, 0, wire::Outcome::COPIED}})) ==
            Lines{"2 0", "2 1 gone"});
      CHECK(releases_of(w.publish({{3, 3, {}}})) == Lines{"1 0 gone", "0 0 gone"});
    }
    REQUIRE(w.h.core.check().is_ok());
  }
  // A step without loads goes to the allocator on the same way as the release behind it.
  IndexWorld w(config(3));
  w.serve(ask(1, prompt(8, 1)));
  w.admit(ask(2, prompt(8, 1)));
  REQUIRE(kinds(w.match({2}, 8)).back() == Kind::RESERVE);
  CHECK(releases_of(purge_all(w)) == Lines{"1 0 gone", "0 0 gone"});
}

TEST_CASE("a fork carries the tokens that it has in common with its parent") {
  IndexWorld w(config());
  const Tokens tokens = prompt(10, 1);
  w.admit(ask(1, tokens));
  w.match({1}, 10);
  Ask child = ask(2, prompt(12, 5, Tokens(tokens.begin(), tokens.begin() + 7)));
  child.parent = 1;
  w.admit(child);
  w.match({2}, 12, true);
  CHECK(w.hits[0].fork_tokens == 7);
}

}  // namespace troupe
