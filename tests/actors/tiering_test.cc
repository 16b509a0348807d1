// tiering without a dispatcher: keys travel with the bytes, failures cost a block and never block a
// reclaim, a failing tier is left alone and tried again, and load or recompute asks by the tier in
// which each block lies.
#include "actors/tiering/tiering.h"

#include "tests/actors/core_harness.h"

#include <algorithm>

namespace troupe::test {
namespace {

constexpr uint8_t kDevice = 0, kHost = 1, kDisk = 2;

struct Move {
  uint64_t id = 0;
  uint32_t block = 0;
  uint8_t from = 0, to = 0;
  BlockKey key;
};

struct TieringWorld {
  CoreHarness<Tiering> h;
  Tick now{1};

  static TieringConfig config() {
    TieringConfig c;
    c.enabled = {true, true, true, false};
    c.block_bytes = 1000;
    c.prefill_tokens_per_s = 1000;            // a block of 16 tokens: 16 ms
    c.bytes_per_s = {0, 1000000, 100000, 0};  // a block: 1 ms from the host, 10 ms from disk
    return c;
  }
  explicit TieringWorld(TieringConfig c = config(),
                        std::unique_ptr<policy::TieringPolicy> policy = make_measured_tiering())
      : h(std::move(c), std::move(policy)) {}

  std::vector<Sent> unlink(uint8_t tier, const std::vector<uint32_t>& blocks, uint32_t uses = 0,
                           bool ahead = false, uint8_t also_in = 0) {
    return h.give(now, [&](wire::Message::Builder m) {
      auto unlinked = m.initUnlinked();
      unlinked.setTier(tier);
      unlinked.setReclaim(true);
      unlinked.setAhead(ahead);
      auto list = unlinked.initBlocks(static_cast<unsigned>(blocks.size()));
      for (unsigned i = 0; i < blocks.size(); ++i) {
        list[i].setBlock(blocks[i]);
        list[i].setUses(uses);
        list[i].setAlsoIn(also_in);
        const BlockKey key{{blocks[i], 7, 7, 7}};
        list[i].setKey(data_of(std::span(&key, 1)));
      }
    });
  }
  /// Every place asked for by `place` is there.
  std::vector<Move> place(const Sent& asked) {
    std::vector<Move> moves;
    asked.read([&](auto message) {
      const auto place = message.getPlace();
      const auto blocks = span_of<uint32_t>(place.getBlocks());
      const auto sent = h.give(now, [&](wire::Message::Builder m) {
        auto placed = m.initPlaced();
        placed.setFrom(place.getFrom());
        placed.setTo(place.getTo());
        auto copies = placed.initCopies(static_cast<unsigned>(blocks.size()));
        for (unsigned i = 0; i < blocks.size(); ++i) {
          copies[i].setBlock(blocks[i]);
          copies[i].initSource().setTier(place.getFrom());
          auto target = copies[i].initTarget();
          target.setTier(place.getTo());
          target.setCount(1);
        }
      });
      REQUIRE(sent.size() == 1);
      sent[0].read([&](auto out) {
        for (const auto copy : out.getTransfer().getCopies()) {
          REQUIRE(copy.getKey().size() == sizeof(BlockKey));
          moves.push_back({copy.getId(), copy.getBlock(), copy.getSource().getTier(),
                           copy.getTarget().getTier(), span_of<BlockKey>(copy.getKey())[0]});
        }
      });
    });
    return moves;
  }
  std::vector<Sent> stage(const std::vector<uint32_t>& blocks) {
    return h.give(now, [&](wire::Message::Builder m) {
      auto list = m.initStage().initBlocks(static_cast<unsigned>(blocks.size()));
      for (unsigned i = 0; i < blocks.size(); ++i) {
        list[i].setBlock(blocks[i]);
        const BlockKey key{{blocks[i], 7, 7, 7}};
        list[i].setKey(data_of(std::span(&key, 1)));
      }
    });
  }
  std::vector<Sent> done(const Move& move, Code code, uint64_t nanos = 0) {
    return h.give(now, [&](wire::Message::Builder m) {
      auto result = m.initTransferDone().initResults(1)[0];
      result.setId(move.id);
      result.setBlock(move.block);
      result.setFrom(move.from);
      result.setTo(move.to);
      result.setStatus(static_cast<uint16_t>(code));
      result.setNanos(nanos);
      result.setBytes(nanos == 0 ? 0 : 1000);
    });
  }
  /// One block from `tier`, to the end; where it went, or kTierCount, and how it was settled.
  std::pair<uint8_t, wire::Outcome> leave(uint8_t tier, Code code) {
    const auto asked = unlink(tier, {5});
    REQUIRE(asked.size() == 1);
    if (asked[0].kind == Kind::SETTLE) {
      return {static_cast<uint8_t>(kTierCount), settled(asked[0])};
    }
    const auto moves = place(asked[0]);
    REQUIRE(moves.size() == 1);
    const auto sent = done(moves[0], code);
    REQUIRE(sent.size() == 1);
    return {moves[0].to, settled(sent[0])};
  }
  static wire::Outcome settled(const Sent& sent) {
    auto outcome = wire::Outcome::UNKNOWN;
    sent.read([&](auto message) {
      REQUIRE(message.which() == Kind::SETTLE);
      REQUIRE(message.getSettle().getReclaim());
      REQUIRE(message.getSettle().getItems().size() == 1);
      outcome = message.getSettle().getItems()[0].getOutcome();
    });
    return outcome;
  }
  /// How many of the row's lower blocks are loaded.
  uint32_t load(const std::vector<uint8_t>& tiers) {
    const auto count = static_cast<uint32_t>(tiers.size());
    const auto sent = h.give(now, [&](wire::Message::Builder m) {
      auto step = m.initLoad();
      const std::vector<uint32_t> blocks(count, 3);
      step.setBlocks(data_of(blocks));
      step.setTiers(data_of(tiers));
      auto row = step.initNews(1)[0];
      row.setHitBlocks(count);
      row.setHitTokens(count * 16);
      row.setTotal(count * 16 + 1);
      row.setBudget(100);
    });
    uint32_t hits = 0;
    sent[0].read([&](auto message) { hits = message.getReserve().getNews()[0].getHitBlocks(); });
    return hits;
  }
};

}  // namespace

TEST_CASE("the content key of a victim goes down with its bytes") {
  TieringWorld w;
  const auto moves = w.place(w.unlink(kDevice, {4, 9})[0]);
  REQUIRE(moves.size() == 2);
  CHECK(moves[0].key == BlockKey{{4, 7, 7, 7}});
  CHECK(moves[1].key == BlockKey{{9, 7, 7, 7}});
}

TEST_CASE("a demotion that fails drops the block; a source that lies is lost with its slot",
          "[T:store_down_degrades]") {
  TieringWorld w;
  CHECK(w.leave(kDevice, Code::kOk) == std::pair(kHost, wire::Outcome::MOVED));
  CHECK(w.leave(kHost, Code::kIo) == std::pair(kDisk, wire::Outcome::DROPPED));
  CHECK(w.leave(kHost, Code::kCorrupt) == std::pair(kDisk, wire::Outcome::LOST));
  CHECK(w.leave(kDevice, Code::kCorrupt).second == wire::Outcome::DROPPED);
  CHECK(w.h.core.check().is_ok());
}

TEST_CASE("a tier that fails is left alone, tried again, and used again when it answers",
          "[T:store_down_degrades]") {
  TieringWorld w;
  const uint8_t none = kTierCount;
  for (int i = 0; i < 8; ++i) {
    CHECK(w.leave(kHost, Code::kDeadline).first == kDisk);
  }
  CHECK(w.leave(kHost, Code::kOk).first == none);  // dropped at once
  CHECK(w.load({kHost, kDisk, kHost}) == 1);       // what lies above is still loaded
  w.now = w.now + from_ms(30001);
  CHECK(w.leave(kHost, Code::kIo).first == kDisk);  // the trial fails: shut again
  CHECK(w.leave(kHost, Code::kOk).first == none);
  w.now = w.now + from_ms(30001);
  CHECK(w.leave(kHost, Code::kOk) == std::pair(kDisk, wire::Outcome::MOVED));
  for (int i = 0; i < 7; ++i) {
    CHECK(w.leave(kHost, Code::kIo).first == kDisk);  // it takes as many again
  }
  CHECK(w.load({kHost, kDisk, kHost}) == 3);
  // Errors far apart never shut it, nor do bytes that do not verify.
  for (int i = 0; i < 20; ++i) {
    w.now = w.now + from_ms(60001);
    CHECK(w.leave(kHost, Code::kIo).first == kDisk);
    CHECK(w.leave(kHost, Code::kCorrupt).first == kDisk);
  }
}

TEST_CASE("load or recompute goes by the tiers in which the blocks lie", "[T:load_or_recompute]") {
  TieringConfig config = TieringWorld::config();
  CHECK(TieringWorld(config).load({kHost, kHost}) == 2);
  CHECK(TieringWorld(config).load({kDisk, kDisk}) == 2);
  config.bytes_per_s[kDisk] = 50000;  // 20 ms a block, 16 ms to compute it
  CHECK(TieringWorld(config).load({kHost, kHost}) == 2);
  CHECK(TieringWorld(config).load({kDisk, kDisk}) == 0);
  CHECK(TieringWorld(config).load({kHost, kDisk}) == 2);  // 21 ms against 32
}

TEST_CASE("with reuse admission only what was looked up again is written to disk") {
  TieringWorld w(TieringWorld::config(), make_reuse_admission(make_measured_tiering()));
  CHECK(w.unlink(kHost, {5}, 1)[0].kind == Kind::SETTLE);
  CHECK(w.unlink(kDevice, {6}, 1)[0].kind == Kind::PLACE);  // the host tier does not wear
  CHECK(w.unlink(kHost, {7}, 2)[0].kind == Kind::PLACE);
}

TEST_CASE("what is written further down, however slowly, says nothing of loads from here",
          "[T:load_or_recompute][T:slow_tier_leaves_dram_alone]") {
  TieringWorld w;
  // A write that takes ten seconds, and many that are under way: host hits are loaded all the same.
  const auto slow = w.place(w.unlink(kHost, {5})[0]);
  w.done(slow[0], Code::kOk, 10'000'000'000);
  std::vector<uint32_t> many(200);
  for (uint32_t i = 0; i < many.size(); ++i) {
    many[i] = 100 + i;
  }
  w.place(w.unlink(kHost, many)[0]);
  CHECK(w.load({kHost, kHost}) == 2);
  CHECK(w.load({kDisk, kDisk}) == 0);  // these would stand behind them
}

TEST_CASE("no step waits for a disk: what is wanted now is dropped, what is ahead is written",
          "[T:slow_tier_leaves_dram_alone]") {
  TieringConfig config = TieringWorld::config();
  config.drop_for_step = true;
  TieringWorld w(config);
  CHECK(TieringWorld::settled(w.unlink(kHost, {5})[0]) == wire::Outcome::DROPPED);
  CHECK(w.unlink(kHost, {6}, 0, true)[0].kind == Kind::PLACE);
  CHECK(w.unlink(kDevice, {7})[0].kind == Kind::PLACE);  // to host memory
}

TEST_CASE("a block that has a copy elsewhere leaves for free, at once") {
  TieringWorld w;
  for (const uint8_t also_in : {uint8_t{1}, uint8_t{4}}) {  // on the device, on disk
    CHECK(TieringWorld::settled(w.unlink(kHost, {5}, 2, true, also_in)[0]) ==
          wire::Outcome::DROPPED);
  }
  CHECK(w.unlink(kHost, {6}, 2, true, 0)[0].kind == Kind::PLACE);
}

TEST_CASE("the day's bytes to disk are a limit, and come back with time") {
  TieringConfig config = TieringWorld::config();
  config.disk_bytes_per_day = 240'000;  // 10 blocks an hour
  TieringWorld w(config);
  const auto written = [&](int tries) {
    int count = 0;
    for (int i = 0; i < tries; ++i) {
      count += w.leave(kHost, Code::kOk).first == kDisk ? 1 : 0;
    }
    return count;
  };
  CHECK(written(30) == 10);
  w.now = w.now + from_ms(3600 * 1000 / 2);
  CHECK(written(30) == 5);
  w.now = w.now + from_ms(3600.0 * 1000 * 100);  // no more than an hour's share is saved up
  CHECK(written(30) == 10);
  // Steps of less than a block's share are not lost.
  int sum = 0;
  for (int i = 0; i < 3600; ++i) {
    w.now = w.now + from_ms(1000);
    sum += written(1);
  }
  CHECK(sum == 10);
}

TEST_CASE("staged blocks are copied to host memory; failures leave them on disk, lies lose them",
          "[T:failed_load_never_visible]") {
  const std::pair<Code, wire::Outcome> cases[] = {{Code::kOk, wire::Outcome::COPIED},
                                                  {Code::kIo, wire::Outcome::FAILED},
                                                  {Code::kDeadline, wire::Outcome::FAILED},
                                                  {Code::kCorrupt, wire::Outcome::LOST}};
  for (const auto& [code, outcome] : cases) {
    TieringWorld w;
    const auto moves = w.place(w.stage({9})[0]);
    REQUIRE(moves.size() == 1);
    CHECK(moves[0].from == kDisk);
    CHECK(moves[0].to == kHost);
    CHECK(moves[0].key == BlockKey{{9, 7, 7, 7}});
    w.done(moves[0], code)[0].read([&, want = outcome](auto message) {
      const auto item = message.getSettle().getItems()[0];
      CHECK(item.getOutcome() == want);
      CHECK(item.getFrom() == kDisk);
      CHECK(item.getTo() == kHost);
    });
  }
}

TEST_CASE("a tier too slow to load from is tried again after a pause, where nobody waits",
          "[T:load_or_recompute]") {
  TieringConfig config = TieringWorld::config();
  config.bytes_per_s[kDisk] = 100;
  TieringWorld w(config);
  CHECK(w.stage({1})[0].kind == Kind::PLACE);  // the first one measures
  CHECK(w.stage({2})[0].kind == Kind::SETTLE);
  w.now = w.now + from_ms(29000);
  CHECK(w.stage({3})[0].kind == Kind::SETTLE);
  w.now = w.now + from_ms(2000);
  CHECK(w.stage({4})[0].kind == Kind::PLACE);
}

TEST_CASE("a failing tier's state survives save and load") {
  TieringWorld w;
  for (int i = 0; i < 8; ++i) {
    w.leave(kHost, Code::kIo);
  }
  StateSink sink;
  REQUIRE(w.h.core.save(sink).is_ok());
  TieringWorld other;
  StateSource source(sink.data());
  REQUIRE(other.h.core.load(source).is_ok());
  CHECK(other.h.core.digest().value() == w.h.core.digest().value());
  CHECK(other.leave(kHost, Code::kOk).first == kTierCount);
}

}  // namespace troupe::test
