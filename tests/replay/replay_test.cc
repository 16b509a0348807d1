// runtime/replay: what was recorded under either dispatcher comes out of fresh cores again, bit for
// bit; what was not is named, down to the field.
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/replay/compare.h"
#include "runtime/replay/system_replay.h"
#include "runtime/shell/shell.h"
#include "runtime/trace/recorder.h"
#include "tests/replay/ledger.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <thread>
#include <xxhash.h>

namespace troupe {
namespace {

using test::LedgerClient;
using test::LedgerOptions;
using test::make_ledger;
using test::TempDir;
using trace::RecorderOptions;

struct Recording {
  TempDir dir;
  uint64_t digest = 0;  // of the cores at the end
};

struct RecordOptions {
  bool with_caf = false;
  bool edges = false;
  uint64_t requests = 600;
  LedgerOptions ledger;
  uint32_t first_token = 100;
};

void record(Recording& recording, const RecordOptions& options) {
  auto storage = trace::open_directory({recording.dir.path(), options.requests > 1000, 1});
  REQUIRE(storage);
  Troupe troupe = make_ledger(options.ledger);
  LedgerClient client;
  RecorderOptions recorder_options;
  recorder_options.lossless = true;
  recorder_options.digest_every = 50;
  recorder_options.digest_rest = 0;
  recorder_options.mode =
      options.edges ? RecorderOptions::Mode::kEdges : RecorderOptions::Mode::kFull;
  trace::Recorder recorder(troupe, **storage, recorder_options);
  {
    std::unique_ptr<Dispatcher> dispatcher;
    if (options.with_caf) {
      dispatcher = std::make_unique<CafDispatcher>(troupe, client, CafDispatcher::Options{});
    } else {
      dispatcher = std::make_unique<InlineDispatcher>(troupe, client, InlineDispatcher::Options{});
    }
    recorder.attach(*dispatcher);
    std::vector<std::thread> threads;
    const uint64_t workers = options.with_caf ? 3 : 1;
    for (uint64_t t = 0; t < workers; ++t) {
      threads.emplace_back([&, t] {
        for (uint64_t i = t; i < options.requests; i += workers) {
          client.submit(*dispatcher, i + 1, options.first_token);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    REQUIRE(dispatcher->run());
  }
  recording.digest = replay::system_digest(troupe);
  REQUIRE(recorder.close().is_ok());
  REQUIRE((*storage)->finish().is_ok());
}

std::vector<trace::LaneFiles> lanes_of(const Recording& recording) {
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(recording.dir.path(), {}, notices);
  REQUIRE(lanes);
  return std::move(lanes).value();
}

replay::SystemReport replay_all(const Recording& recording, LedgerOptions ledger = {}) {
  ledger.with_mover = false;
  Troupe fresh = make_ledger(ledger);
  auto report = replay::replay_system(lanes_of(recording), {}, fresh);
  REQUIRE(report);
  return std::move(report).value();
}

replay::LaneReport replay_one(const Recording& recording, Address address,
                              LedgerOptions ledger = {}, replay::LaneReplayOptions options = {}) {
  Troupe fresh = make_ledger(ledger);
  const auto lanes = lanes_of(recording);
  const replay::LaneSearch search(lanes, {});
  trace::LaneReader reader(lanes[address.v], {});
  return replay::replay_lane(reader, *fresh.members[address.v - size_t{1}].actor, search, options);
}

TEST_CASE("each lane alone, and the whole system, come out as recorded") {
  for (const bool with_caf : {false, true}) {
    for (const bool edges : {false, true}) {
      Recording recording;
      RecordOptions options;
      options.with_caf = with_caf;
      options.edges = edges;
      record(recording, options);
      const replay::SystemReport report = replay_all(recording);
      CHECK(report.complete);
      CHECK_FALSE(report.divergence);
      CHECK(report.digest == recording.digest);
      CHECK(report.deliveries == 600 + 200 + 200);
      CHECK(report.outputs == 200 * 2 + 600);
      CHECK(report.not_replayed == 0);
      CHECK(report.in_flight == 0);
      for (const Address address : {test::kDesk, test::kBook}) {
        const replay::LaneReport lane = replay_one(recording, address);
        CHECK(lane.complete == (!edges || address == test::kDesk));  // desk hears the client only
        CHECK_FALSE(lane.divergence);
        if (lane.complete) {
          CHECK(lane.counts.states == lane.counts.deliveries / 50 + 1);
        }
      }
    }
  }
}

TEST_CASE("a changed core is found at its first different message, by field") {
  Recording recording;
  record(recording, {});
  LedgerOptions changed;
  changed.fee = 6;
  const replay::LaneReport lane = replay_one(recording, test::kBook, changed);
  REQUIRE(lane.divergence);
  CHECK(lane.divergence->actor == "book");
  CHECK(lane.divergence->seq == 201);  // after 200 cancels
  CHECK(lane.divergence->kind == Kind::TRANSFER_DONE);
  CHECK(lane.divergence->field.field == "reply.value");
  CHECK(std::stoull(lane.divergence->field.got) ==
        std::stoull(lane.divergence->field.expected) + 1);
  const replay::SystemReport system = replay_all(recording, changed);
  REQUIRE(system.divergence);
  CHECK(system.divergence->text() == lane.divergence->text());
  CHECK_FALSE(system.complete);
  changed = {};
  changed.batch = 4;
  const replay::LaneReport desk = replay_one(recording, test::kDesk, changed);
  REQUIRE(desk.divergence);
  CHECK(desk.divergence->seq == 3);
  CHECK(desk.divergence->field.field == "messages");
}

TEST_CASE("a core that only drifts in its state is found by the state digest") {
  Recording recording;
  record(recording, {});
  struct Drifting final : Actor {
    explicit Drifting(Actor& under_in) : under(under_in) {}
    std::string_view name() const noexcept override { return under.name(); }
    void step(const Envelope& in, StepContext& cx) noexcept override { under.step(in, cx); }
    Digest digest() const noexcept override { return Digest().add(under.digest().value()); }
    Status check_quick() const override { return Status::ok(); }
    Status check() const override { return Status::ok(); }
    Status save(StateSink& sink) const override { return under.save(sink); }
    Status load(StateSource& source) override { return under.load(source); }
    Actor& under;
  };
  Troupe fresh = make_ledger({});
  Drifting drifting(*fresh.members[0].actor);
  const auto lanes = lanes_of(recording);
  trace::LaneReader reader(lanes[1], {});
  const replay::LaneReport lane =
      replay::replay_lane(reader, drifting, replay::LaneSearch(lanes, {}), {});
  REQUIRE(lane.divergence);
  CHECK(lane.divergence->seq == 50);
  CHECK(lane.divergence->field.field == "state digest");
}

TEST_CASE("a replay stops where it is told, and shows the step") {
  Recording recording;
  record(recording, {});
  replay::LaneReplayOptions options;
  options.until = 6;
  uint64_t shown = 0;
  options.on_step = [&](uint64_t seq, const Frame& in, const std::vector<Outgoing>& out) {
    shown = seq;
    CHECK(in.header().kind == Kind::SUBMIT);
    CHECK(out.size() == (seq % 3 == 0 ? 2U : 0U));
  };
  const replay::LaneReport lane = replay_one(recording, test::kDesk, {}, options);
  CHECK(shown == 6);
  CHECK(lane.counts.deliveries == 6);
  CHECK_FALSE(lane.complete);
  CHECK(lane.stopped == "asked to stop after delivery 6");
}

TEST_CASE(
    "a damaged or cut lane is replayed as far as it goes, and nothing is called a divergence") {
  Recording recording;
  record(recording, {});
  const std::string path = lanes_of(recording)[1].paths[0];
  const std::vector<char> whole = test::bytes_of(path);
  for (const bool cut : {false, true}) {
    std::vector<char> bytes = whole;
    const size_t middle = bytes.size() / 2;
    if (cut) {
      bytes.resize(middle);
    } else {
      for (size_t i = 0; i < 400; ++i) {  // longer than a delivery and its outcome
        bytes[middle + i] = static_cast<char>(bytes[middle + i] ^ 1);
      }
    }
    test::write_bytes(path, bytes);
    const replay::SystemReport report = replay_all(recording);
    CHECK_FALSE(report.complete);
    CHECK_FALSE(report.divergence);
    CHECK(report.deliveries > 300);
    CHECK(report.deliveries < 1000);
    CHECK_FALSE(report.notices.empty());
    const replay::LaneReport lane = replay_one(recording, test::kDesk);
    CHECK_FALSE(lane.divergence);
    CHECK_FALSE(lane.complete);
    CHECK(lane.counts.deliveries > 200);
    CHECK(lane.counts.deliveries < 400);
    CHECK(replay_one(recording, test::kBook).complete);
  }
}

/// Adds 1 to `nanos` of the first result of the `n`th transferDone in the lane at `path`, and makes
/// all checksums right again, as somebody with an editor and the format's page would. Returns the
/// delivery.
uint64_t edit_nanos(const std::string& path, int n) {
  std::vector<char> bytes = test::bytes_of(path);
  trace::FileHead file;
  trace::load_from(file, bytes.data());
  for (size_t at = sizeof(file) + file.header_words * 8UL; at < bytes.size();) {
    trace::RecordHead head;
    trace::load_from(head, bytes.data() + at);
    const size_t whole = sizeof(head) + head.words * 8UL;
    const bool wanted = head.type == static_cast<uint16_t>(trace::RecordType::kDelivery) &&
                        head.kind == static_cast<uint16_t>(Kind::TRANSFER_DONE);
    if (wanted && --n == 0) {
      char* payload = bytes.data() + at + sizeof(head) + sizeof(trace::DeliveryBody);
      FrameReader reader({reinterpret_cast<const capnp::word*>(payload),
                          head.words - sizeof(trace::DeliveryBody) / 8});
      const auto result = reader.message().getTransferDone().getResults()[0];
      const uint64_t nanos = result.getNanos();
      char* field =
          std::search(payload, bytes.data() + at + whole, reinterpret_cast<const char*>(&nanos),
                      reinterpret_cast<const char*>(&nanos) + sizeof(nanos));
      REQUIRE(field != bytes.data() + at + whole);
      const uint64_t changed = nanos + 1;
      std::memcpy(field, &changed, sizeof(changed));
      const uint64_t sum = XXH3_64bits_withSeed(bytes.data() + at + 16, whole - 16, file.checksum);
      std::memcpy(bytes.data() + at + 8, &sum, sizeof(sum));
      test::write_bytes(path, bytes);
      return head.seq;
    }
    at += whole;
  }
  return 0;
}

TEST_CASE("one field of one message, changed by hand under right checksums, is found and named") {
  Recording recording;
  record(recording, {});
  const uint64_t edited = edit_nanos(lanes_of(recording)[2].paths[0], 77);
  REQUIRE(edited != 0);
  const replay::SystemReport report = replay_all(recording);
  REQUIRE(report.divergence);
  CHECK_FALSE(report.complete);
  CHECK(report.divergence->actor == "book");
  CHECK(report.divergence->seq == edited);
  CHECK(report.divergence->kind == Kind::TRANSFER_DONE);
  CHECK(report.divergence->field.field == "reply.value");
  CHECK(std::stoull(report.divergence->field.got) ==
        std::stoull(report.divergence->field.expected) + 1);
}

TEST_CASE("a recording of other actors than this build makes is refused") {
  Recording recording;
  record(recording, {});
  Troupe other;
  other.client = Address(0);
  other.members.push_back(
      {test::kDesk, std::make_unique<ActorOf<test::Desk>>("counter", 3U), false});
  const auto report = replay::replay_system(lanes_of(recording), {}, other);
  REQUIRE_FALSE(report);
  CHECK(report.status().text() ==
        "the recording has actor desk at address 1, which this build does not make");
}

TEST_CASE("two recordings compare equal under different permutations, and differ where they do") {
  Recording first;
  Recording same;
  Recording other_tokens;
  Recording other_times;
  record(first, {});
  record(same, {});
  RecordOptions options;
  options.first_token = 101;  // other text, but the same pattern of equal tokens
  record(other_tokens, options);
  options = {};
  options.ledger.seed = 2;
  record(other_times, options);
  for (const Recording* other : {&same, &other_tokens}) {
    for (const auto& row : replay::compare_recordings(lanes_of(first), lanes_of(*other), {})) {
      INFO(row.actor);
      CHECK_FALSE(row.divergence);
      CHECK(row.note.empty());
      CHECK(row.same > 0);
    }
  }
  const auto rows = replay::compare_recordings(lanes_of(first), lanes_of(other_times), {});
  REQUIRE(rows.size() == 4);
  CHECK_FALSE(rows[1].divergence);
  REQUIRE(rows[2].divergence);
  CHECK(rows[2].divergence->field.field == "transferDone.results[0].nanos");
}

TEST_CASE("a thousand random runs replay to their digests") {
  const uint64_t seed = 20240607;
  CAPTURE(seed);
  Rng rng(seed);
  uint64_t same = 0;
  for (int run = 0; run < 1000; ++run) {
    Recording recording;
    RecordOptions options;
    options.requests = 1 + rng.below(20);
    options.ledger.batch = 1 + static_cast<uint32_t>(rng.below(4));
    options.ledger.fee = rng.below(9);
    options.ledger.seed = rng.next();
    options.edges = rng.chance(1, 2);
    options.with_caf = run % 50 == 0;
    record(recording, options);
    const replay::SystemReport report = replay_all(recording, options.ledger);
    same += report.complete && report.digest == recording.digest ? 1 : 0;
  }
  CHECK(same == 1000);
}

}  // namespace
}  // namespace troupe
