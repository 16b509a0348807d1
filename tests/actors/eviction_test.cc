// eviction: one question a tier, events by tier, victims in the order the policy named them.
#include "actors/eviction/eviction.h"

#include "tests/actors/core_harness.h"

namespace troupe {
namespace {

using namespace test;
using Blocks = std::vector<uint32_t>;

std::vector<Sent> reclaim(CoreHarness<Eviction>& h, uint8_t tier, uint32_t blocks) {
  return h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto out = m.initReclaim();
    out.setTier(tier);
    out.setBlocks(blocks);
  });
}

uint64_t question_of(const std::vector<Sent>& sent, uint8_t tier, uint32_t blocks) {
  REQUIRE(kinds(sent) == std::vector{Kind::ASK});
  CHECK(sent[0].instance == tier);
  uint64_t question = 0;
  sent[0].read([&](auto m) {
    CHECK(m.getAsk().getTier() == tier);
    CHECK(m.getAsk().getBlocks() == blocks);
    question = m.getAsk().getQuestion();
  });
  return question;
}

std::vector<Sent> victims(CoreHarness<Eviction>& h, uint8_t tier, uint64_t question,
                          const Blocks& blocks) {
  return h.give(Tick{2}, [&](wire::Message::Builder m) {
    auto out = m.initVictims();
    out.setTier(tier);
    out.setQuestion(question);
    out.setVictims(data_of(blocks));
  });
}

}  // namespace

TEST_CASE("a reclaim becomes a question, and the answer an unlink in the policy's order") {
  CoreHarness<Eviction> h;
  const uint64_t device = question_of(reclaim(h, 0, 3), 0, 3);
  const uint64_t host = question_of(reclaim(h, 1, 5), 1, 5);  // tiers do not wait for each other
  CHECK(device != host);
  const Blocks order = {9, 2, 7};
  const auto sent = victims(h, 0, device, order);
  REQUIRE(kinds(sent) == std::vector{Kind::UNLINK});
  sent[0].read([&](auto m) {
    const auto named = span_of<uint32_t>(m.getUnlink().getVictims());
    CHECK(Blocks(named.begin(), named.end()) == order);
    CHECK(m.getUnlink().getTier() == 0);
  });
  CHECK(question_of(reclaim(h, 0, 1), 0, 1) > host);  // the question is closed, the next may come
}

TEST_CASE("an empty answer goes on too: the allocator waits for it") {
  CoreHarness<Eviction> h;
  const uint64_t question = question_of(reclaim(h, 2, 4), 2, 4);
  const auto sent = victims(h, 2, question, {});
  REQUIRE(kinds(sent) == std::vector{Kind::UNLINK});
  sent[0].read([](auto m) { CHECK(m.getUnlink().getVictims().size() == 0); });
}

TEST_CASE("events go to the slots of their tiers, in their order") {
  CoreHarness<Eviction> h;
  const auto sent = h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto batches = m.initEvents().initBatches(3);
    for (unsigned i = 0; i < 3; ++i) {
      const Blocks blocks = {10 + i};
      batches[i].setKind(wire::EventKind::INSERT);
      batches[i].setTier(i == 1 ? 1 : 0);
      batches[i].setBlocks(data_of(blocks));
    }
  });
  REQUIRE(kinds(sent) == std::vector{Kind::EVENTS, Kind::EVENTS});
  CHECK(sent[0].instance == 0);
  CHECK(sent[1].instance == 1);
  sent[0].read([](auto m) {
    const auto batches = m.getEvents().getBatches();
    REQUIRE(batches.size() == 2);
    CHECK(span_of<uint32_t>(batches[0].getBlocks())[0] == 10);
    CHECK(span_of<uint32_t>(batches[1].getBlocks())[0] == 12);
  });
  sent[1].read([](auto m) {
    REQUIRE(m.getEvents().getBatches().size() == 1);
    CHECK(span_of<uint32_t>(m.getEvents().getBatches()[0].getBlocks())[0] == 11);
  });
}

TEST_CASE("an open question outlives a save and a load") {
  CoreHarness<Eviction> a;
  const uint64_t question = question_of(reclaim(a, 1, 2), 1, 2);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  CoreHarness<Eviction> b;
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(b.core.digest() == a.core.digest());
  CHECK(kinds(victims(b, 1, question, {4, 5})) == std::vector{Kind::UNLINK});
}

}  // namespace troupe
