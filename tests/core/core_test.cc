// runtime/core: frames are flat, exact and repeatable; snapshots never read past their end.
#include <catch2/catch.hpp>

#include "runtime/core/actor_core.h"
#include "runtime/core/wire.h"

namespace troupe {

namespace {
Frame cancel_frame(FrameScratch& scratch, uint64_t ticket) {
  return scratch.build(FrameHeader{}, 64, [&](wire::Message::Builder m) {
    auto cancel = m.initCancel();
    cancel.setTicket(ticket);
    cancel.setRequest(7);
  });
}
}  // namespace

TEST_CASE("equal content gives equal bytes, also after other messages used the scratch") {
  FrameScratch scratch;
  const Frame a = cancel_frame(scratch, 5);
  const Frame other = scratch.build(FrameHeader{}, 600, [&](wire::Message::Builder m) {
    const std::vector<uint64_t> requests(500, ~0ULL);
    m.initReady().setRequests(data_of(requests));
  });
  const Frame b = cancel_frame(scratch, 5);
  REQUIRE(a.words().size() == b.words().size());
  CHECK(std::memcmp(a.words().data(), b.words().data(), a.words().size_bytes()) == 0);
  FrameReader reader(other.words());
  CHECK(span_of<uint64_t>(reader.message().getReady().getRequests()).size() == 500);
}

TEST_CASE("a zeroed message is invalid, never some first kind") {
  const std::vector<uint64_t> zero(4, 0);
  FrameReader reader({reinterpret_cast<const capnp::word*>(zero.data()), zero.size()});
  CHECK(reader.message().which() == Kind::INVALID);
}

TEST_CASE("an outbox stamps sequence, cause and tick") {
  Outbox out;
  out.begin(Address(3), 41, Tick{99});
  out.send(Kind::DRAIN, 0, [](auto m) { m.initDrain().setControl(1); });
  out.send(Kind::DRAIN, 0, [](auto m) { m.initDrain().setControl(2); }, 2);
  REQUIRE(out.items().size() == 2);
  CHECK(out.items()[1].instance == 2);
  CHECK(out.items()[0].frame.header().seq == 1);
  CHECK(out.items()[1].frame.header().seq == 2);
  CHECK(out.items()[1].frame.header().cause == 41);
  CHECK(out.items()[1].frame.header().tick == Tick{99});
}

TEST_CASE("a snapshot cut anywhere is an error, not a guess") {
  StateSink sink;
  sink.u32(7);
  sink.array(std::vector<uint64_t>{1, 2, 3});
  sink.text("lru");
  for (size_t cut = 0; cut <= sink.data().size(); ++cut) {
    StateSource source(std::span(sink.data()).first(cut));
    (void)source.u32();
    const auto words = source.array<uint64_t>();
    const std::string text = source.text();
    CHECK(source.status().is_ok() == (cut == sink.data().size()));
    if (source.status().is_ok()) {
      CHECK(words == std::vector<uint64_t>{1, 2, 3});
      CHECK(text == "lru");
    }
  }
}

}  // namespace troupe
