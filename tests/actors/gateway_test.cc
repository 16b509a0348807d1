// gateway: what is refused and why, credits, ids, one reply a request, drain; given, when, then.
#include "actors/gateway/gateway.h"

#include "tests/actors/core_harness.h"

namespace troupe {
namespace {

using namespace test;

GatewayConfig config() {
  GatewayConfig c;
  c.max_live = 2;
  c.max_new_tokens = 100;
  c.device_granules = 8;
  c.class_granules = {1, 4};
  c.class_tokens = {16, 16};
  c.tenants = 2;
  return c;
}

struct Ask {
  uint64_t ticket = 1;
  uint32_t prompt = 32;
  uint32_t max_new = 16;
  uint32_t tenant = 0;
  uint8_t block_class = 0;
  uint16_t version = 1;
  uint8_t rope = 0;
  uint32_t tokens = 32;  // sent
  uint32_t keys = 2;     // sent
  uint64_t parent = 0;
};

std::vector<Sent> submit(CoreHarness<Gateway>& h, const Ask& ask) {
  return h.give(Tick{7}, [&](wire::Message::Builder m) {
    auto spec = m.initSubmit().initSpec();
    spec.setTicket(ask.ticket);
    spec.setTenant(ask.tenant);
    spec.setPromptTokens(ask.prompt);
    spec.setMaxNewTokens(ask.max_new);
    spec.setBlockClass(ask.block_class);
    spec.setVersion(ask.version);
    spec.setRope(ask.rope);
    spec.setParent(ask.parent);
    spec.initTokens(ask.tokens * 4);
    spec.initKeys(ask.keys * 32);
  });
}

struct Refused {
  wire::Refusal why = wire::Refusal::NONE;
  uint64_t value = 0;
  uint64_t limit = 0;
  friend bool operator==(const Refused&, const Refused&) = default;
};

Refused refused(const std::vector<Sent>& sent) {
  REQUIRE(kinds(sent) == std::vector{Kind::REPLY});
  Refused out;
  sent[0].read([&](auto m) {
    out = {m.getReply().getRefusal(), m.getReply().getValue(), m.getReply().getLimit()};
  });
  return out;
}

uint64_t accepted(const std::vector<Sent>& sent) {
  REQUIRE(kinds(sent) == std::vector{Kind::ACCEPTED, Kind::ADMIT});
  uint64_t request = 0;
  sent[0].read([&](auto m) { request = m.getAccepted().getRequest(); });
  sent[1].read([&](auto m) { CHECK(m.getAdmit().getRequest() == request); });
  return request;
}

std::vector<Sent> reply(CoreHarness<Gateway>& h, uint64_t request) {
  return h.give(Tick{9}, [&](wire::Message::Builder m) { m.initReply().setRequest(request); });
}

}  // namespace

TEST_CASE("what can't be served is refused at once, with the value and the limit it broke") {
  CoreHarness<Gateway> h(config());
  using wire::Refusal;
  CHECK(refused(submit(h, {.version = 2})) == Refused{Refusal::UNSUPPORTED, 2, 1});
  CHECK(refused(submit(h, {.rope = 1})).why == Refusal::UNSUPPORTED);
  CHECK(refused(submit(h, {.ticket = 0})).why == Refusal::INVALID_REQUEST);
  CHECK(refused(submit(h, {.tenant = 2})) == Refused{Refusal::INVALID_REQUEST, 2, 2});
  CHECK(refused(submit(h, {.block_class = 2})) == Refused{Refusal::INVALID_REQUEST, 2, 2});
  CHECK(refused(submit(h, {.prompt = 0, .tokens = 0, .keys = 0})).why == Refusal::INVALID_REQUEST);
  CHECK(refused(submit(h, {.tokens = 31})) == Refused{Refusal::INVALID_REQUEST, 31, 32});
  CHECK(refused(submit(h, {.keys = 3})) == Refused{Refusal::INVALID_REQUEST, 3, 2});
  CHECK(refused(submit(h, {.max_new = 0})) == Refused{Refusal::INVALID_REQUEST, 0, 1});
  CHECK(refused(submit(h, {.max_new = 101})) == Refused{Refusal::INVALID_REQUEST, 101, 100});
  // 8 granules: 3 blocks and one for a copy on write fit, 8 and one do not; nor 4 of class 1.
  CHECK(refused(submit(h, {.max_new = 96})) == Refused{Refusal::TOO_LONG, 9, 8});
  CHECK(refused(submit(h, {.block_class = 1})) == Refused{Refusal::TOO_LONG, 16, 8});
  CHECK(refused(submit(h, {.prompt = 1U << 31, .tokens = 0, .keys = 0})).why == Refusal::TOO_LONG);
  CHECK(h.core.live() == 0);
  CHECK(accepted(submit(h, {})) == 1);
}

TEST_CASE("credits bound what is live; each reply gives one back and names the ticket") {
  CoreHarness<Gateway> h(config());
  CHECK(accepted(submit(h, {.ticket = 11})) == 1);
  CHECK(refused(submit(h, {.ticket = 11})) == Refused{wire::Refusal::DUPLICATE_TICKET, 11, 0});
  CHECK(accepted(submit(h, {.ticket = 12})) == 2);
  CHECK(refused(submit(h, {.ticket = 13})) == Refused{wire::Refusal::QUEUE_FULL, 3, 2});
  const auto sent = reply(h, 1);
  REQUIRE(kinds(sent) == std::vector{Kind::REPLY});
  sent[0].read([](auto m) { CHECK(m.getReply().getTicket() == 11); });
  CHECK(reply(h, 1).empty());                       // a second one has no ticket to go to
  CHECK(accepted(submit(h, {.ticket = 11})) == 3);  // the ticket is free, the id is new
}

TEST_CASE("cancel, trim and fork name requests by ticket; of unknown tickets nothing comes") {
  CoreHarness<Gateway> h(config());
  accepted(submit(h, {.ticket = 11}));
  const auto by_ticket = [&](uint64_t ticket, bool trim) {
    return h.give(Tick{8}, [&](wire::Message::Builder m) {
      if (trim) {
        auto t = m.initTrim();
        t.setTicket(ticket);
        t.setTokens(3);
      } else {
        m.initCancel().setTicket(ticket);
      }
    });
  };
  auto sent = by_ticket(11, false);
  REQUIRE(kinds(sent) == std::vector{Kind::CANCEL});
  sent[0].read([](auto m) { CHECK(m.getCancel().getRequest() == 1); });
  sent = by_ticket(11, true);
  REQUIRE(kinds(sent) == std::vector{Kind::TRIM});
  sent[0].read([](auto m) {
    CHECK(m.getTrim().getRequest() == 1);
    CHECK(m.getTrim().getTokens() == 3);
  });
  CHECK(by_ticket(99, false).empty());
  CHECK(by_ticket(99, true).empty());
  sent = submit(h, {.ticket = 12, .parent = 11});
  REQUIRE(sent.size() == 2);
  sent[1].read([](auto m) { CHECK(m.getAdmit().getSpec().getParent() == 1); });
}

TEST_CASE("a drain refuses what is new and answers when the last live request has its reply") {
  CoreHarness<Gateway> h(config());
  accepted(submit(h, {.ticket = 11}));
  const auto drain = [&](uint64_t control) {
    return h.give(Tick{8}, [&](wire::Message::Builder m) { m.initDrain().setControl(control); });
  };
  CHECK(drain(5).empty());
  CHECK(drain(6).empty());
  CHECK(refused(submit(h, {.ticket = 12})).why == wire::Refusal::DRAINING);
  CHECK(kinds(reply(h, 1)) == std::vector{Kind::REPLY, Kind::ANSWER, Kind::ANSWER});
  CHECK(kinds(drain(7)) == std::vector{Kind::ANSWER});  // nothing is live
}

TEST_CASE("saved and loaded it goes on with the same tickets and ids") {
  CoreHarness<Gateway> a(config());
  accepted(submit(a, {.ticket = 11}));
  accepted(submit(a, {.ticket = 12}));
  reply(a, 1);
  StateSink sink;
  REQUIRE(a.core.save(sink).is_ok());
  CoreHarness<Gateway> b(config());
  StateSource source(sink.data());
  REQUIRE(b.core.load(source).is_ok());
  CHECK(b.core.digest() == a.core.digest());
  CHECK(accepted(submit(b, {.ticket = 11})) == 3);
  StateSource cut(std::span(sink.data()).first(sink.data().size() - 3));
  CHECK_FALSE(b.core.load(cut).is_ok());
}

}  // namespace troupe
