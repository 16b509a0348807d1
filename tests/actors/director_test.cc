// director: every command gets one answer, a refusal with its reason included.
#include "actors/director/director.h"

#include "tests/actors/core_harness.h"

namespace troupe {
namespace {

using namespace test;

DirectorConfig config() {
  DirectorConfig c;
  c.answering = {0, 3};
  c.policy_slots = 2;
  c.max_open = 2;
  return c;
}

template <class Fill>
std::vector<Sent> control(CoreHarness<Director>& h, uint64_t id, Fill&& fill) {
  return h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto out = m.initControl();
    out.setControl(id);
    fill(out);
  });
}
std::vector<Sent> status(CoreHarness<Director>& h, uint64_t id) {
  return control(h, id, [](auto c) { c.setStatus(); });
}

std::vector<Sent> answer(CoreHarness<Director>& h, uint64_t id, const char* gauge, int64_t value) {
  return h.give(Tick{2}, [&](wire::Message::Builder m) {
    auto out = m.initAnswer();
    out.setControl(id);
    auto list = out.initGauges(1);
    list[0].setName(gauge);
    list[0].setValue(value);
  });
}

/// Status code and text of the only answer in `sent`.
std::pair<Code, std::string> answered(const std::vector<Sent>& sent) {
  REQUIRE(kinds(sent) == std::vector{Kind::ANSWER});
  std::pair<Code, std::string> out;
  sent[0].read([&](auto m) {
    out = {static_cast<Code>(m.getAnswer().getStatus()), m.getAnswer().getText().cStr()};
  });
  return out;
}

}  // namespace

TEST_CASE("status asks all who have something to tell, and answers once with all of it") {
  CoreHarness<Director> h(config());
  const auto asked = status(h, 5);
  REQUIRE(kinds(asked) == std::vector{Kind::STATUS_ASK, Kind::STATUS_ASK});
  CHECK(asked[0].instance == 0);
  CHECK(asked[1].instance == 3);
  CHECK(answer(h, 5, "a", 1).empty());
  const auto sent = answer(h, 5, "b", 2);
  CHECK(answered(sent).first == Code::kOk);
  sent[0].read([](auto m) {
    const auto gauges = m.getAnswer().getGauges();
    REQUIRE(gauges.size() == 2);
    CHECK(std::string(gauges[0].getName().cStr()) == "a");
    CHECK(gauges[1].getValue() == 2);
  });
  CHECK(kinds(status(h, 5)).size() == 2);  // the number is free again
}

TEST_CASE("purge, swap and drain go to whom they concern, and the answer comes back") {
  CoreHarness<Director> h(config());
  auto sent = control(h, 1, [](auto c) { c.initPurge().setId(7); });
  REQUIRE(kinds(sent) == std::vector{Kind::PURGE});
  sent[0].read([](auto m) {
    CHECK(m.getPurge().getControl() == 1);
    CHECK(m.getPurge().getId() == 7);
  });
  CHECK(answered(answer(h, 1, "purged.blocks", 3)).first == Code::kOk);
  sent = control(h, 2, [](auto c) {
    c.initSwapPolicy().setSlot(1);
    c.getSwapPolicy().initSwap();
  });
  REQUIRE(kinds(sent) == std::vector{Kind::SWAP_POLICY});
  sent[0].read([](auto m) { CHECK(m.getSwapPolicy().getSlot() == 1); });
  CHECK(answered(answer(h, 2, "generation", 1)).first == Code::kOk);
  CHECK(kinds(control(h, 3, [](auto c) { c.setDrain(); })) == std::vector{Kind::DRAIN});
}

TEST_CASE("what can't be carried out is answered at once, with the value and the limit") {
  CoreHarness<Director> h(config());
  const auto slot = answered(control(h, 1, [](auto c) {
    c.initSwapPolicy().setSlot(2);
    c.getSwapPolicy().initSwap();
  }));
  CHECK(slot.first == Code::kOutOfRange);
  CHECK(slot.second == "policy slot 2, there are 2");
  CHECK(answered(status(h, 0)).first == Code::kInvalidArgument);
  status(h, 7);
  CHECK(answered(status(h, 7)).first == Code::kInvalidArgument);  // still open
  status(h, 8);
  const auto full = answered(status(h, 9));
  CHECK(full.first == Code::kNoCapacity);
  CHECK(full.second == "2 commands are open, the limit is 2");
  const auto version = answered(control(h, 10, [](auto c) {
    c.setVersion(9);
    c.setStatus();
  }));
  CHECK(version.first == Code::kUnsupported);
}

TEST_CASE("an open command outlives a save and a load") {
  CoreHarness<Director> a(config());
  status(a, 5);
  answer(a, 5, "a", 1);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  CoreHarness<Director> b(config());
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(b.core.digest() == a.core.digest());
  CHECK(answered(answer(b, 5, "b", 2)).first == Code::kOk);
}

}  // namespace troupe
