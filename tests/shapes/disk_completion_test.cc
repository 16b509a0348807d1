// Shape: a disk completion is a message, in order. A disk that finishes two batches in the other
// order than they were asked for says so by two messages; tiering settles in that order, the lane
// has them in that order, and its replay needs no disk.
#include "actors/roles.h"
#include "actors/tiering/tiering.h"
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/replay/lane_replay.h"
#include "runtime/trace/recorder.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

/// What cores of this test do not need.
struct Stateless {
  Digest digest() const noexcept { return {}; }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }
};

/// Stands for prefix_index: lets blocks leave the device when told, and notes how they settle.
struct Index : Stateless {
  void step(const Envelope& in, StepContext& cx) noexcept {
    if (in.message.which() == Kind::READY) {
      const auto blocks = span_of<uint64_t>(in.message.getReady().getRequests());
      cx.out.send(Kind::UNLINKED, blocks.size() * 4, [&](wire::Message::Builder m) {
        auto unlinked = m.initUnlinked();
        unlinked.setTier(static_cast<uint8_t>(Tier::kDevice));
        unlinked.setReclaim(true);
        auto leaving = unlinked.initBlocks(static_cast<capnp::uint>(blocks.size()));
        for (capnp::uint i = 0; i < leaving.size(); ++i) {
          leaving[i].setBlock(static_cast<uint32_t>(blocks[i]));
          leaving[i].setUses(1);
        }
      });
      return;
    }
    for (const auto item : in.message.getSettle().getItems()) {
      settled.emplace_back(item.getBlock(), item.getOutcome());
    }
  }
  std::vector<std::pair<uint32_t, wire::Outcome>> settled;
};

/// Stands for allocator: there is always room.
struct Places : Stateless {
  void step(const Envelope& in, StepContext& cx) noexcept {
    const auto place = in.message.getPlace();
    const auto blocks = span_of<uint32_t>(place.getBlocks());
    cx.out.send(Kind::PLACED, blocks.size() * 12, [&](wire::Message::Builder m) {
      auto placed = m.initPlaced();
      placed.setTo(place.getTo());
      placed.setFrom(place.getFrom());
      auto copies = placed.initCopies(static_cast<capnp::uint>(blocks.size()));
      for (capnp::uint i = 0; i < copies.size(); ++i) {
        copies[i].setBlock(blocks[i]);
        auto target = copies[i].initTarget();
        target.setCount(1);
        target.setFirst(blocks[i]);
        target.setTier(place.getTo());
      }
    });
  }
};

/// A disk with a queue: what was asked last is done first. Effects, so replay does not run it.
struct LastFirstDisk : Stateless {
  struct Write {
    uint64_t id;
    uint32_t block;
  };
  void step(const Envelope& in, StepContext& cx) noexcept {
    if (in.message.which() == Kind::TRANSFER) {
      queue.emplace_back();
      for (const auto copy : in.message.getTransfer().getCopies()) {
        queue.back().push_back({copy.getId(), copy.getBlock()});
      }
      return;
    }
    while (!queue.empty()) {  // the completions come: one message a batch
      const std::vector<Write> batch = std::move(queue.back());
      queue.pop_back();
      cx.out.send(Kind::TRANSFER_DONE, batch.size() * 8, [&](wire::Message::Builder m) {
        auto results = m.initTransferDone().initResults(static_cast<capnp::uint>(batch.size()));
        for (capnp::uint i = 0; i < results.size(); ++i) {
          results[i].setId(batch[i].id);
          results[i].setBlock(batch[i].block);
          results[i].setFrom(static_cast<uint8_t>(Tier::kDevice));
          results[i].setTo(static_cast<uint8_t>(Tier::kDisk));
          const bool bad = batch[i].block == 13;
          results[i].setStatus(static_cast<uint16_t>(bad ? Code::kIo : Code::kOk));
        }
      });
    }
  }
  std::vector<std::vector<Write>> queue;
};

struct KeepAll final : policy::TieringPolicy {
  std::string_view name() const noexcept override { return "keep_all"; }
  uint32_t load(const policy::LoadQuestion& question) noexcept override { return question.blocks; }
  bool demote(const policy::LeavingBlock&) noexcept override { return true; }
};

struct Nobody final : ClientPort {
  void on_frame(const Frame&) override {}
};

std::unique_ptr<Actor> make_tiering() {
  TieringConfig config;
  config.enabled = {true, false, true, false};  // device and disk
  return std::make_unique<ActorOf<Tiering>>("tiering", config, std::make_unique<KeepAll>());
}

}  // namespace

TEST_CASE("disk completions are messages, in the order in which the disk finished") {
  constexpr Address kIndex = address_of(Role::kPrefixIndex);
  constexpr Address kTiering = address_of(Role::kTiering);
  constexpr Address kAllocator = address_of(Role::kAllocator);
  constexpr Address kDisk = address_of(Role::kDiskMover);
  Troupe troupe;
  troupe.client = address_of(Role::kClient);
  auto index = std::make_unique<ActorOf<Index>>("prefix_index");
  const Index& seen = index->core();
  troupe.members.push_back({kIndex, std::move(index), false});
  troupe.members.push_back({kTiering, make_tiering(), false});
  troupe.members.push_back({kAllocator, std::make_unique<ActorOf<Places>>("allocator"), false});
  troupe.members.push_back({kDisk, std::make_unique<ActorOf<LastFirstDisk>>("disk_mover"), true});
  troupe.routes.add({troupe.client, Kind::READY, 0, kIndex});
  troupe.routes.add({troupe.client, Kind::WAKE, 0, kDisk});
  troupe.routes.add({kIndex, Kind::UNLINKED, 0, kTiering});
  troupe.routes.add({kTiering, Kind::PLACE, 0, kAllocator});
  troupe.routes.add({kAllocator, Kind::PLACED, 0, kTiering});
  troupe.routes.add({kTiering, Kind::TRANSFER, 1, kDisk});
  troupe.routes.add({kDisk, Kind::TRANSFER_DONE, 0, kTiering});
  troupe.routes.add({kTiering, Kind::SETTLE, 0, kIndex});

  test::TempDir dir;
  auto storage = trace::open_directory({dir.file("lanes"), false, 1});
  REQUIRE(storage);
  trace::RecorderOptions options;
  options.lossless = true;
  trace::Recorder recorder(troupe, **storage, options);
  uint64_t digest = 0;
  {
    Nobody client;
    InlineDispatcher dispatcher(troupe, client, {});
    recorder.attach(dispatcher);
    for (const std::vector<uint64_t>& blocks :
         {std::vector<uint64_t>{11, 12}, std::vector<uint64_t>{13, 14}}) {
      dispatcher.post(Kind::READY, Tick{1}, 8,
                      [&](auto m) { m.initReady().setRequests(data_of(blocks)); });
    }
    REQUIRE(dispatcher.run());
    CHECK(seen.settled.empty());  // nothing is settled before the disk says so
    dispatcher.post(Kind::WAKE, Tick{2}, 0, [](auto m) { m.initWake(); });
    REQUIRE(dispatcher.run());
    digest = troupe.members[1].actor->digest().value();
  }
  using O = wire::Outcome;
  CHECK(seen.settled == std::vector<std::pair<uint32_t, O>>{
                            {13, O::DROPPED}, {14, O::MOVED}, {11, O::MOVED}, {12, O::MOVED}});
  REQUIRE(recorder.close().is_ok());

  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(dir.file("lanes"), {}, notices);
  REQUIRE(lanes);
  for (const trace::LaneFiles& files : *lanes) {
    if (files.info.address == kTiering) {
      trace::LaneReader lane(files, {});
      const auto fresh = make_tiering();
      const auto replayed = replay::replay_lane(lane, *fresh, replay::LaneSearch(*lanes, {}), {});
      CHECK(replayed.complete);
      CHECK(replayed.counts.deliveries == 6);  // two leave, two places, two completions
      CHECK(replayed.digest == digest);
      return;
    }
  }
  FAIL("the recording has no lane of tiering");
}

}  // namespace troupe
