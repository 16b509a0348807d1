// allocator: reservation all or nothing, copy on write, forks, folds, tiers; given, when, then.
#include "tests/actors/allocator_world.h"

namespace troupe {
namespace {

using namespace test;

constexpr uint32_t kBlock = 4;

AllocatorConfig config(uint32_t device, uint32_t host = 0) {
  AllocatorConfig c;
  c.granules = {device, host, 0, 0};
  c.class_granules = {1};
  c.class_tokens = {kBlock};
  c.capacity_blocks = device + host;
  c.max_sequences = 8;
  return c;
}

/// Serves one request of `blocks` blocks to its end; its blocks stay indexed and idle.
std::vector<uint32_t> serve(AllocatorWorld& w, uint64_t request, uint32_t blocks) {
  const auto view = run_of(w.reserve({}, {{request, 0, blocks * kBlock}}));
  REQUIRE(view.rows.size() == 1);
  w.commit({{request, 0, blocks * kBlock}});
  return view.rows[0].blocks;
}

}  // namespace

TEST_CASE("a new sequence gets slots for its whole prompt, a running one what it grows into") {
  AllocatorWorld w(config(8));
  auto view = run_of(w.reserve({}, {{1, 0, 9}}));
  REQUIRE(view.rows.size() == 1);
  CHECK(view.rows[0].entered);
  CHECK(view.rows[0].blocks == std::vector<uint32_t>{0, 1, 2});
  CHECK(view.rows[0].before == 0);
  CHECK(view.rows[0].tokens == 9);
  CHECK(w.h.core.pool(Tier::kDevice).free() == 5);
  view = run_of(w.reserve({{1, 0, 9, 3}}, {}));
  CHECK(view.rows[0].blocks.empty());  // the engine knows them
  view = run_of(w.reserve({{1, 0, 12, 1}}, {}));
  CHECK(view.rows[0].first == 3);
  CHECK(view.rows[0].blocks == std::vector<uint32_t>{3});
}

TEST_CASE("sealed blocks are named once; a partial tail only with the ending") {
  AllocatorWorld w(config(8));
  w.reserve({}, {{1, 0, 10}});
  auto sealed = sealed_of(w.commit({{1, 0, 8, wire::Ending::RUNNING}}));
  CHECK(sealed[0].blocks == std::vector<uint32_t>{0, 1});
  CHECK(sealed[0].last_tokens == kBlock);
  sealed = sealed_of(w.commit({{1, 0, 10}}));
  CHECK(sealed[0].first == 2);
  CHECK(sealed[0].blocks == std::vector<uint32_t>{2});
  CHECK(sealed[0].last_tokens == 2);
}

TEST_CASE("commit rows without a table pass through with what they carry") {
  AllocatorWorld w(config(8));
  const auto sent = w.commit({{7, kNoSequence, 0, wire::Ending::CANCELLED}});
  REQUIRE(kinds(sent) == std::vector{Kind::PUBLISH});
  sent[0].read([](auto m) {
    CHECK(m.getPublish().getNumber() == 1);
    CHECK(m.getPublish().getRows()[0].getRequest() == 7);
    CHECK(m.getPublish().getRows()[0].getBlocks() == 0);
  });
}

TEST_CASE("room is made for exactly what is short, and the step waits for it") {
  AllocatorWorld w(config(6));
  const auto old = serve(w, 1, 5);
  auto sent = w.reserve({}, {{2, 0, 3 * kBlock}});
  REQUIRE(kinds(sent) == std::vector{Kind::RECLAIM});
  CHECK(reclaim_of(sent) == 2);
  sent = w.released({{old[4]}, {old[3]}});
  const auto view = run_of(sent);
  REQUIRE(view.rows.size() == 1);
  CHECK(view.rows[0].blocks.size() == 3);
  CHECK(w.h.core.pool(Tier::kDevice).free() == 0);
}

TEST_CASE("eviction that frees too little is asked again while it makes progress") {
  AllocatorWorld w(config(6));
  const auto old = serve(w, 1, 6);
  CHECK(reclaim_of(w.reserve({}, {{2, 0, 3 * kBlock}})) == 3);
  CHECK(reclaim_of(w.released({{old[5]}})) == 2);
  CHECK(reclaim_of(w.released({{old[4]}})) == 1);
  // Nothing came free: the row is left out, and what runs goes on.
  const auto sent = w.released({});
  CHECK(short_of(sent).dropped == std::vector<uint64_t>{2});
  CHECK(run_of(sent).rows.empty());
}

TEST_CASE("running rows all or nothing: the step ends and new rows are named") {
  AllocatorWorld w(config(4));
  w.reserve({}, {{1, 0, 2 * kBlock}, {2, 1, 2 * kBlock}});
  const auto sent = w.reserve({{1, 0, 8, 1}, {2, 1, 8, 1}}, {{3, 2, kBlock}});
  REQUIRE(kinds(sent) == std::vector{Kind::SHORT});
  CHECK(short_of(sent).cancelled);
  CHECK(short_of(sent).missing == 2);
  CHECK(short_of(sent).dropped == std::vector<uint64_t>{3});
  // One leaves, the other goes on.
  w.commit({{2, 1, 8, wire::Ending::PREEMPT_RECOMPUTE}});
  CHECK(reclaim_of(w.reserve({{1, 0, 8, 1}}, {})) == 1);
}

TEST_CASE("a step waits for what is on its way down; nobody else is preempted for it") {
  for (const bool moved : {true, false}) {
    CAPTURE(moved);
    AllocatorWorld w(config(4, 4));
    w.reserve({}, {{1, 0, 2 * kBlock}, {2, 1, 2 * kBlock}});
    w.commit({{2, 1, 8, wire::Ending::PREEMPT_SWAP}});  // blocks 2 and 3 are to go to the host
    w.place(0, 1, {2, 3});
    CHECK(w.reserve({{1, 0, 8, 4}}, {}).empty());  // one more block: the copies will give it
    const auto sent = w.released({{2, 0, false, false, !moved}}, false);
    if (moved) {
      CHECK(run_of(sent).rows.at(0).blocks.size() == 1);
      CHECK(w.released({{3, 0, false}}, false).empty());
    } else {
      // The copy came to nothing: that block may be evicted as it is, if the index agrees.
      CHECK(reclaim_of(sent) == 1);
      CHECK(w.released({}).empty());  // it does not; the other one is still under way
      CHECK(short_of(w.released({{3, 0, false, false, true}}, false)).cancelled);
    }
  }
}

TEST_CASE("a new row fits wholly or not at all; those behind it do not pass it") {
  AllocatorWorld w(config(8));
  w.reserve({}, {{1, 0, 4 * kBlock}});
  const auto sent = w.reserve({{1, 0, 16, 1}}, {{2, 1, 4 * kBlock}, {3, 2, kBlock}});
  CHECK(short_of(sent).dropped == std::vector<uint64_t>{2, 3});
  CHECK_FALSE(short_of(sent).cancelled);
  REQUIRE(run_of(sent).rows.size() == 1);
  CHECK(run_of(sent).rows[0].request == 1);
}

TEST_CASE("a row that is left out takes none with it that stand before it",
          "[T:evictable_is_freeable]") {
  AllocatorWorld w(config(6));
  const auto old = serve(w, 1, 6);
  CHECK(reclaim_of(w.reserve({}, {{2, 0, 3 * kBlock}, {3, 1, 4 * kBlock}})) == 3);
  const auto sent = w.released({{old[5]}, {old[4]}, {old[3]}});
  CHECK(short_of(sent).dropped == std::vector<uint64_t>{3});
  REQUIRE(run_of(sent).rows.size() == 1);
  CHECK(run_of(sent).rows[0].request == 2);
}

TEST_CASE("hits of a waiting step are in use: they are not counted as room") {
  AllocatorWorld w(config(4));
  const auto old = serve(w, 1, 4);
  const auto sent = w.reserve({}, {{2, 0, 5 * kBlock, old}});
  CHECK(kinds(sent) == std::vector{Kind::SHORT, Kind::RUN});
  CHECK(short_of(sent).missing == 1);
}

TEST_CASE("a full hit needs no slot; growing past it copies the shared partial block") {
  AllocatorWorld w(config(8));
  w.reserve({}, {{1, 0, 6}});
  w.commit({{1, 0, 6}});
  NewIn in{2, 0, 6, {0, 1}};
  in.hit_tokens = 6;
  in.last_partial = 2;
  auto view = run_of(w.reserve({}, {in}));
  CHECK(view.rows[0].before == 5);  // one token is always computed
  CHECK(view.rows[0].tokens == 1);
  CHECK(view.cows.empty());
  CHECK(w.h.core.pool(Tier::kDevice).used() == 2);
  view = run_of(w.reserve({{2, 0, 6, 1}}, {}));
  REQUIRE(view.cows.size() == 1);
  CHECK(view.cows[0].block == 2);
  CHECK(view.rows[0].first == 1);
  CHECK(view.rows[0].blocks == std::vector<uint32_t>{2});
  CHECK(w.h.core.pool(Tier::kDevice).used() == 3);
  // Once it is its own, it is not copied again.
  CHECK(run_of(w.reserve({{2, 0, 7, 1}}, {})).cows.empty());
}

TEST_CASE("a prompt that goes on inside a hit partial block copies it at entry") {
  AllocatorWorld w(config(8));
  w.reserve({}, {{1, 0, 6}});
  w.commit({{1, 0, 6}});
  NewIn in{2, 0, 8, {0, 1}};
  in.hit_tokens = 6;
  in.last_partial = 2;
  const auto view = run_of(w.reserve({}, {in}));
  REQUIRE(view.cows.size() == 1);
  CHECK(view.rows[0].before == 6);
  CHECK(view.rows[0].tokens == 2);
  CHECK(view.rows[0].hits == 1);
  CHECK(view.rows[0].partial == 2);
  CHECK(view.rows[0].blocks == std::vector<uint32_t>{0, 2});
}

TEST_CASE("a partial source is copied into the block behind the hits") {
  AllocatorWorld w(config(8));
  serve(w, 1, 2);
  NewIn in{2, 0, 8, {0}};
  in.partial_source = 1;
  in.partial_tokens = 3;
  const auto view = run_of(w.reserve({}, {in}));
  REQUIRE(view.cows.size() == 1);
  CHECK(view.cows[0].source == 1);
  CHECK(view.rows[0].before == 7);
  CHECK(view.rows[0].partial == 3);
}

TEST_CASE(
    "the source of a copy stays while its step waits for room, whatever is purged meanwhile") {
  for (const bool tail : {false, true}) {
    AllocatorWorld w(config(4));
    w.reserve({}, {{1, 0, 7}});
    w.commit({{1, 0, 7}});  // blocks 0 and 1, the last one partial
    const auto idle = serve(w, 2, 2);
    NewIn in{3, 0, 12, {0}};
    if (tail) {
      in.hits = {0, 1};
      in.hit_tokens = 7;
      in.last_partial = 3;
    } else {
      in.partial_source = 1;
      in.partial_tokens = 3;
    }
    CHECK(reclaim_of(w.reserve({}, {in})) == 2);
    w.released({{1}, {0}}, false);  // a purge
    REQUIRE(w.h.core.check().is_ok());
    const auto view = run_of(w.released({{idle[1]}, {idle[0]}}));
    REQUIRE(view.rows.size() == 1);
    REQUIRE(view.cows.size() == 1);
    CHECK(view.cows[0].source == 1);
    CHECK(view.rows[0].slots[0] == 0);
    CHECK(view.rows[0].slots[1] != 1);
    REQUIRE(w.h.core.check().is_ok());
    CHECK(w.h.core.pool(Tier::kDevice).used() ==
          3);  // the source went when its copy was on its way
  }
}

TEST_CASE("a fork shares its parent's blocks; the one it writes into is copied") {
  AllocatorWorld w(config(16));
  w.reserve({}, {{1, 0, 10}});
  NewIn in{2, 1, 12};
  in.parent = 0;
  in.fork_tokens = 10;
  auto view = run_of(w.reserve({{1, 0, 10, 1}}, {in}));
  REQUIRE(view.rows.size() == 2);
  CHECK(view.rows[1].before == 10);
  CHECK(view.rows[1].blocks[0] == 0);
  CHECK(view.rows[1].blocks[1] == 1);
  CHECK(view.rows[1].blocks[2] != 2);
  REQUIRE(view.cows.size() == 1);
  CHECK(view.cows[0].row == 1);
  CHECK(w.h.core.pool(Tier::kDevice).used() == 4);
  // The parent ends; what the fork shares stays.
  w.commit({{1, 0, 10, wire::Ending::CANCELLED}});
  w.folded({{1, 0, 2, 2, kNoBlock}});
  CHECK(w.h.core.pool(Tier::kDevice).used() == 3);
}

TEST_CASE("a duplicate is folded: the canonical block takes its place in every fork's table") {
  AllocatorWorld w(config(16));
  const auto canonical = serve(w, 1, 1);
  w.reserve({}, {{2, 0, 8}});
  NewIn in{3, 1, 9};
  in.parent = 0;
  in.fork_tokens = 8;
  const auto fork = run_of(w.reserve({{2, 0, 8, 1}}, {in})).rows[1].blocks;
  w.commit({{2, 0, 8, wire::Ending::RUNNING}, {3, 1, 8, wire::Ending::RUNNING}});
  w.folded({{2, 0, 0, fork[0], canonical[0]}, {3, 1, 0, fork[0], canonical[0]}});
  const auto view = run_of(w.reserve({{2, 0, 9, 1}, {3, 1, 9, 1}}, {}));
  for (const PlanView& row : view.rows) {
    CHECK(row.first == 0);  // the engine is told of the change
    CHECK(row.blocks[0] == canonical[0]);
  }
}

TEST_CASE("a fold that comes late means the block of then, not the one that has its handle now") {
  AllocatorWorld w(config(16));
  const auto canonical = serve(w, 1, 1);
  w.reserve({}, {{2, 0, 8}});
  NewIn in{3, 1, 9};
  in.parent = 0;
  in.fork_tokens = 8;
  const uint32_t duplicate = run_of(w.reserve({{2, 0, 8, 1}}, {in})).rows[1].blocks[0];
  w.commit({{2, 0, 4, wire::Ending::RUNNING}});
  const uint64_t first = w.commits;
  w.commit({{3, 1, 4, wire::Ending::RUNNING}});
  const uint64_t second = w.commits;
  w.folded({{2, 0, 0, duplicate, canonical[0]}}, first);
  // The handle is given out again before the other fork's fold is here.
  std::vector<uint32_t> blocks;
  const auto view = run_of(w.reserve({}, {{4, 2, 12 * kBlock}}));
  const auto& table = view.rows.at(0).blocks;
  REQUIRE(std::find(table.begin(), table.end(), duplicate) != table.end());
  const auto index =
      static_cast<uint32_t>(std::find(table.begin(), table.end(), duplicate) - table.begin());
  w.folded({{3, 1, index, duplicate, canonical[0]}}, second);
  CHECK(run_of(w.reserve({{4, 2, 12 * kBlock - 1, 1}}, {})).rows[0].blocks.empty());
  REQUIRE(w.h.core.check().is_ok());
}

TEST_CASE("a purged block that a fork publishes again is the index's again") {
  for (const bool crossed : {false, true}) {
    AllocatorWorld w(config(16));
    w.reserve({}, {{1, 0, 8}});
    NewIn in{2, 1, 9};
    in.parent = 0;
    in.fork_tokens = 8;
    w.reserve({{1, 0, 8, 1}}, {in});
    w.commit({{1, 0, 4, wire::Ending::RUNNING}});
    const uint64_t before = w.commits;
    if (crossed) {  // the purge saw the first publish only
      w.commit({{2, 1, 4, wire::Ending::RUNNING}});
      w.released({{0}}, false, 0, before);
    } else {
      w.released({{0}}, false);
      w.commit({{2, 1, 4, wire::Ending::RUNNING}});
    }
    w.commit({{1, 0, 4, wire::Ending::CANCELLED}, {2, 1, 4, wire::Ending::CANCELLED}});
    CHECK(w.h.core.pool(Tier::kDevice).used() == 1);  // idle, for the next that hits it
    REQUIRE(w.h.core.check().is_ok());
  }
}

TEST_CASE("a fold onto a block that lies lower hands over the slot") {
  AllocatorWorld w(config(8, 8));
  const auto canonical = serve(w, 1, 1);
  w.place(0, 1, canonical);
  w.released({{canonical[0], 0, false}}, false);
  CHECK(w.h.core.pool(Tier::kDevice).used() == 0);
  const auto view = run_of(w.reserve({}, {{2, 0, 8}}));
  const uint32_t slot = view.rows[0].slots[0];
  w.commit({{2, 0, 4, wire::Ending::RUNNING}});
  w.folded({{2, 0, 0, view.rows[0].blocks[0], canonical[0]}});
  const auto next = run_of(w.reserve({{2, 0, 8, 1}}, {}));
  CHECK(next.rows[0].blocks[0] == canonical[0]);
  CHECK(next.rows[0].slots[0] == slot);
  CHECK(w.h.core.pool(Tier::kHost).used() == 1);
}

TEST_CASE("demotion: the slot below is taken, both are in use until it settles, then one is free") {
  AllocatorWorld w(config(4, 2));
  const auto old = serve(w, 1, 4);
  auto sent = w.reserve({}, {{2, 0, 2 * kBlock}});
  CHECK(reclaim_of(sent) == 2);
  sent = w.place(0, 1, {old[3], old[2]});
  REQUIRE(kinds(sent) == std::vector{Kind::PLACED});
  sent[0].read([&](auto m) {
    const auto copies = m.getPlaced().getCopies();
    REQUIRE(copies.size() == 2);
    CHECK(copies[0].getSource().getTier() == 0);
    CHECK(copies[0].getTarget().getTier() == 1);
    CHECK(copies[0].getTarget().getCount() == 1);
  });
  CHECK(w.h.core.pool(Tier::kDevice).used() == 4);
  const auto view = run_of(w.released({{old[3], 0, false}, {old[2], 0, false}}));
  CHECK(view.rows.size() == 1);
  // Now the lower ones are hit again: they are loaded.
  w.commit({{2, 0, 8}});
  w.released({{view.rows[0].blocks[1]}, {view.rows[0].blocks[0]}}, false);
  NewIn in{3, 0, 4 * kBlock, old};
  in.device = 2;
  const auto load = run_of(w.reserve({}, {in}));
  REQUIRE(load.loads.size() == 2);
  CHECK(load.loads[0].block == old[2]);
  CHECK(load.loads[0].from == 1);
  CHECK(w.h.core.pool(Tier::kHost).used() == 2);
}

TEST_CASE("a full lower tier is reclaimed in turn; without room the block is dropped") {
  AllocatorWorld w(config(4, 1));
  const auto old = serve(w, 1, 4);
  w.place(0, 1, {old[3]});
  w.released({{old[3], 0, false}}, false);
  auto sent = w.place(0, 1, {old[2]});
  CHECK(reclaim_of(sent, 1) == 1);
  sent = w.released({}, true, 1);
  REQUIRE(kinds(sent) == std::vector{Kind::PLACED});
  sent[0].read([](auto m) { CHECK(m.getPlaced().getCopies()[0].getTarget().getCount() == 0); });
}

TEST_CASE("a purge of blocks in use frees them when their users end") {
  AllocatorWorld w(config(8));
  const auto old = serve(w, 1, 2);
  w.reserve({}, {{2, 0, 3 * kBlock, old}});
  w.released({{old[1]}, {old[0]}}, false);
  CHECK(w.h.core.pool(Tier::kDevice).used() == 3);
  w.commit({{2, 0, 12, wire::Ending::CANCELLED}});
  CHECK(w.h.core.pool(Tier::kDevice).used() == 1);
}

TEST_CASE("a slot whose bytes are bad is not used again") {
  AllocatorWorld w(config(2));
  const auto old = serve(w, 1, 2);
  w.released({{old[1], 0, true, true}, {old[0]}}, false);
  CHECK(w.h.core.pool(Tier::kDevice).quarantined() == 1);
  CHECK(short_of(w.reserve({}, {{2, 0, 2 * kBlock}})).dropped.size() == 1);
  CHECK(run_of(w.reserve({}, {{3, 0, kBlock}})).rows[0].slots[0] == 0);
}

TEST_CASE("a reserve is kept by reclaiming ahead, one question at a time") {
  AllocatorConfig c = config(6, 6);
  c.free_reserve = 2;
  AllocatorWorld w(c);
  serve(w, 1, 4);
  auto sent = w.reserve({}, {{2, 0, kBlock}});
  REQUIRE(kinds(sent) == std::vector{Kind::RUN, Kind::RECLAIM});
  sent[1].read([](auto m) {
    CHECK(m.getReclaim().getAhead());
    CHECK(m.getReclaim().getBlocks() == 1);
  });
  CHECK(kinds(w.reserve({{2, 0, 4, 0}}, {})) == std::vector{Kind::RUN});
}

TEST_CASE("int4 blocks of one granule and f16 blocks of four share a pool") {
  AllocatorConfig c = config(16);
  c.class_granules = {1, 4};
  c.class_tokens = {kBlock, kBlock};
  AllocatorWorld w(c);
  w.class_tokens = {kBlock, kBlock};
  // Small blocks end up on every place, then every second one goes: six granules are free, no four
  // of them together.
  std::vector<NewIn> news;
  const auto small = run_of(w.reserve({}, {{1, 0, 16 * kBlock}})).rows[0];
  w.commit({{1, 0, 16 * kBlock}});
  std::vector<ReleaseIn> scattered;
  for (uint32_t i = 0; i < 12; i += 2) {
    scattered.push_back({small.blocks[i]});
  }
  w.released(scattered, false);
  NewIn wide{2, 1, kBlock};
  wide.block_class = 1;
  auto sent = w.reserve({}, {wide});
  CHECK(reclaim_of(sent) == 1);
  // One more goes at a time until four stand together.
  sent = w.released({{small.blocks[1]}});
  const auto view = run_of(sent.empty() ? sent : sent);
  if (!view.there) {
    CHECK(reclaim_of(sent) == 1);
    sent = w.released({{small.blocks[3]}});
  }
  REQUIRE(run_of(sent).rows.size() == 1);
  CHECK(run_of(sent).rows[0].slots[0] % 16 <= 12);
}

TEST_CASE("an allocator that was saved goes on as the one that saved") {
  AllocatorWorld w(config(8, 4));
  const auto old = serve(w, 1, 4);
  w.place(0, 1, {old[3]});
  w.released({{old[3], 0, false}}, false);
  w.reserve({}, {{2, 0, 9, {old[0], old[1]}}});
  StateSink first;
  REQUIRE(w.h.core.save(first).is_ok());
  AllocatorWorld copy(config(8, 4));
  StateSource source(first.data());
  const Status loaded = copy.h.core.load(source);
  INFO(loaded.to_string());
  REQUIRE(loaded.is_ok());
  StateSink second;
  REQUIRE(copy.h.core.save(second).is_ok());
  CHECK(first.data() == second.data());
  const auto a = run_of(w.reserve({{2, 0, 9, 8}}, {})).rows[0];
  const auto b = run_of(copy.reserve({{2, 0, 9, 8}}, {})).rows[0];
  CHECK(a.blocks == b.blocks);
  CHECK(a.slots == b.slots);
  CHECK(w.h.core.digest() == copy.h.core.digest());
}

}  // namespace troupe
