// The disk store over memory: identity, visibility, restarts, damage. Names of public failures of
// other systems that a test guards against stand in brackets as T:name.
#include "tests/io/store_fixture.h"

#include <catch2/catch.hpp>

#include <cerrno>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

TEST_CASE("what was written comes back, under its identity only", "[store]") {
  for (const Durability durability :
       {Durability::kEphemeral, Durability::kClean, Durability::kCrash}) {
    MemoryStore at(64, durability);
    Payload memory;
    for (uint32_t i = 0; i < 16; ++i) {
      const TestBlock block = block_at(i, i * 4, 1 + i % 4);
      CHECK(write_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
    }
    for (uint32_t i = 0; i < 16; ++i) {
      const TestBlock block = block_at(i, i * 4, 1 + i % 4);
      const StoreCompletion done = read_block(*at.store, block, memory);
      CHECK(done.verdict == StoreVerdict::kOk);
      CHECK(done.user_data == i);
      CHECK(memory.holds(block));
    }
    CHECK(at.store->table().check().is_ok());
    CHECK(at.store->table().live_rows() == 16);
  }
}

TEST_CASE("every part of the identity makes a miss of its own name",
          "[store][T:swap_isolation]"
          "[T:key_domain_separation][T:layout_fingerprint]") {
  MemoryStore at;
  Payload memory;
  const TestBlock block = block_at(7, 8, 2);
  write_block(*at.store, block, memory);
  const auto fault_of = [&](auto change) {
    ReadBlock read{.expected = block.expected(), .payload = memory.empty(block), .user_data = 1};
    change(read);
    TROUPE_ASSERT(at.store->read({&read, 1}).is_ok());
    const StoreCompletion done = finish_one(*at.store);
    CHECK(done.verdict == StoreVerdict::kMissing);
    CHECK(!memory.holds(block));
    return done.fault;
  };
  CHECK(fault_of([](ReadBlock& r) { r.expected.key[0] ^= std::byte{1}; }) == RecordFault::kKey);
  CHECK(fault_of([](ReadBlock& r) { r.expected.domain = 9; }) == RecordFault::kDomain);
  CHECK(fault_of([](ReadBlock& r) { r.expected.namespace_fingerprint = 9; }) ==
        RecordFault::kNamespace);
  CHECK(fault_of([](ReadBlock& r) { r.expected.format = 9; }) == RecordFault::kFormat);
  CHECK(fault_of([](ReadBlock& r) { r.expected.slot.generation = 2; }) == RecordFault::kGeneration);
  CHECK(fault_of([](ReadBlock& r) { r.expected.slot.count = 1; }) == RecordFault::kSlot);
  CHECK(fault_of([](ReadBlock& r) {
          r.expected.slot.first.v = 9;
          r.expected.slot.count = 1;
        }) == RecordFault::kSlot);
  CHECK(fault_of([](ReadBlock& r) { r.payload = r.payload.first(4096); }) == RecordFault::kLength);
  CHECK(at.store->stats().missing == 8);
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
}

TEST_CASE("an overwritten or dropped place answers for its new content only",
          "[store][T:no_phantom_hit]") {
  MemoryStore at;
  Payload memory;
  const TestBlock old = block_at(1, 4, 4, 1);
  write_block(*at.store, old, memory);
  const TestBlock half = block_at(2, 6, 2, 2);  // over the old one's second half
  write_block(*at.store, half, memory);
  CHECK(read_block(*at.store, old, memory).verdict == StoreVerdict::kMissing);
  CHECK(read_block(*at.store, half, memory).verdict == StoreVerdict::kOk);
  CHECK(at.store->table().live_granules() == 2);
  REQUIRE(at.store->drop(half.slot).is_ok());
  CHECK(read_block(*at.store, half, memory).verdict == StoreVerdict::kMissing);
  CHECK(at.store->table().live_rows() == 0);
  CHECK(at.store->drop(half.slot).is_ok());
}

TEST_CASE("a failed store is never visible", "[store][T:failed_load_never_visible]") {
  for (const Fault fault : {Fault::kEio, Fault::kEnospc}) {
    MemoryStore at;
    Payload memory;
    const TestBlock block = block_at(3, 0);
    write_block(*at.store, block, memory);
    at.faults->add({.fault = fault, .op = IoOp::kWrite, .nth = 0, .period = 1});
    TestBlock next = block_at(4, 0, 1, 2);
    const StoreCompletion done = write_block(*at.store, next, memory);
    CHECK(done.verdict == (fault == Fault::kEio ? StoreVerdict::kIoError : StoreVerdict::kNoSpace));
    CHECK(done.error == (fault == Fault::kEio ? EIO : ENOSPC));
    at.faults->clear();
    CHECK(read_block(*at.store, next, memory).verdict == StoreVerdict::kMissing);
    CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kMissing);
    at.open();  // nor after a restart
    CHECK(at.store->table().live_rows() == 0);
  }
}

TEST_CASE("a read that fails drops the block, and the next lookup is a miss at once",
          "[store][T:negative_verdict]") {
  MemoryStore at;
  Payload memory;
  const TestBlock block = block_at(3, 0);
  write_block(*at.store, block, memory);
  at.faults->add({.fault = Fault::kEio, .op = IoOp::kRead, .nth = 0, .period = 1});
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kIoError);
  at.faults->clear();
  const uint64_t chunks = at.store->device().stats().chunks;
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kMissing);
  CHECK(at.store->device().stats().chunks == chunks);
}

TEST_CASE("lies of the device end as misses: torn, lost, flipped, misdirected, stale",
          "[store][T:bitflip_on_disk]") {
  for (const Fault fault : {Fault::kTorn, Fault::kLost, Fault::kBitFlip, Fault::kMisdirect}) {
    for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
      INFO(fault_name(fault) << (op == IoOp::kWrite ? " write" : " read"));
      MemoryStore at;
      Payload memory;
      for (uint32_t i = 0; i < 8; ++i) {  // stale but whole records everywhere
        write_block(*at.store, block_at(i, i), memory);
      }
      const TestBlock block = block_at(20, 3, 1, 2);
      if (op == IoOp::kWrite) {
        at.faults->add({.fault = fault, .op = op, .nth = 0});
        CHECK(write_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
        const StoreCompletion done = read_block(*at.store, block, memory);
        // A flip in the trailer alone leaves the payload right: then it is served, rightly.
        if (done.verdict == StoreVerdict::kOk) {
          CHECK(fault == Fault::kBitFlip);
          CHECK(memory.holds(block));
        } else {
          CHECK(done.verdict == StoreVerdict::kCorrupt);
          CHECK(done.quarantined);
          CHECK(at.store->table().is_quarantined(block.slot));
          CHECK(!memory.holds(block));
        }
      } else {
        write_block(*at.store, block, memory);
        at.faults->add({.fault = fault, .op = op, .nth = 0});  // once: a second look heals it
        CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
        CHECK(memory.holds(block));
        CHECK(at.store->stats().healed == 1);
        at.faults->clear();
        at.faults->add({.fault = fault, .op = op, .nth = 0, .period = 1});  // for ever
        CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kCorrupt);
        CHECK(!memory.holds(block));
      }
      CHECK(at.store->table().check().is_ok());
    }
  }
}

TEST_CASE("a quarantined slot is refused until it is reinstated, over restarts too", "[store]") {
  MemoryStore at;
  Payload memory;
  const TestBlock block = block_at(1, 5, 2);
  write_block(*at.store, block, memory);
  at.disk.file(0)[5 * kGranule + 100] ^= std::byte{4};
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kCorrupt);
  for (int restart = 0; restart < 3; ++restart) {
    const WriteBlock write{
        .slot = {GranuleId(6), 1, 9}, .record = {}, .payload = memory.of(block_at(2, 6))};
    CHECK(at.store->write({&write, 1}).code() == Code::kFailedPrecondition);
    CHECK(at.store->table().quarantined_granules() == 2);
    if (restart == 1) {
      REQUIRE(at.store->close({}, 1'000'000'000).is_ok());
    }
    at.open();
  }
  at.store->reinstate(block.slot);
  CHECK(write_block(*at.store, block_at(2, 6), memory).verdict == StoreVerdict::kOk);
  at.open();
  CHECK(at.store->table().quarantined_granules() == 0);
  CHECK(read_block(*at.store, block_at(2, 6), memory).verdict == StoreVerdict::kOk);
}

TEST_CASE("slots in flight are not reused", "[store]") {
  MemoryStore at;
  at.disk = MemoryDisk({uint64_t{64} * kGranule}, CompletionOrder::kCranked);
  at.open();
  Payload memory, other;
  const TestBlock block = block_at(1, 0, 2);
  const WriteBlock write{.slot = block.slot, .record = block.record(), .payload = memory.of(block)};
  REQUIRE(at.store->write({&write, 1}).is_ok());
  CHECK(at.store->write({&write, 1}).code() == Code::kFailedPrecondition);
  const WriteBlock twice[] = {
      {.slot = {GranuleId(8), 1, 1}, .record = {}, .payload = other.of(block_at(2, 8))},
      {.slot = {GranuleId(8), 1, 2}, .record = {}, .payload = other.of(block_at(2, 8))}};
  CHECK(at.store->write(twice).code() == Code::kFailedPrecondition);
  const ReadBlock read{.expected = block.expected(), .payload = other.empty(block)};
  CHECK(at.store->read({&read, 1}).code() == Code::kFailedPrecondition);
  CHECK(at.store->drop(block.slot).code() == Code::kFailedPrecondition);
  CHECK(finish_one(*at.store).verdict == StoreVerdict::kOk);
  REQUIRE(at.store->read({&read, 1}).is_ok());
  CHECK(at.store->write({&write, 1}).code() == Code::kFailedPrecondition);
  // The owner may give it up while it is read: the reader gets a miss, not somebody's bytes.
  REQUIRE(at.store->drop(block.slot).is_ok());
  CHECK(finish_one(*at.store).verdict == StoreVerdict::kMissing);
  CHECK(!other.holds(block));
  CHECK(at.store->room() == 1024);
}

TEST_CASE("wrong requests are refused by name, whole batches at a time", "[store]") {
  MemoryStore at;
  Payload memory;
  const TestBlock block = block_at(1, 0, 2);
  const WriteBlock good{.slot = block.slot, .record = block.record(), .payload = memory.of(block)};
  const auto refused = [&](auto change) {
    WriteBlock wrong = good;
    wrong.slot.first.v = 10;
    change(wrong);
    const WriteBlock batch[] = {good, wrong};
    return at.store->write(batch).code();
  };
  CHECK(refused([](WriteBlock& w) { w.slot.first.v = 63; }) == Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.slot.count = 0; }) == Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.slot.count = 1; }) == Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.payload = w.payload.first(100); }) == Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.payload = {}; }) == Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.record.extra.resize(kRecordExtraMax + 1); }) ==
        Code::kInvalidArgument);
  CHECK(refused([](WriteBlock& w) { w.priority = 7; }) == Code::kInvalidArgument);
  CHECK(at.store->outstanding() == 0);
  CHECK(at.store->room() == 1024);
  CHECK(at.store->device().stats().chunks == 0);
  CHECK(write_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
}

TEST_CASE("a restart finds every published block and the policy's state",
          "[store][T:restore_then_hit][T:checkpoint_rebuild][T:restart_epoch]") {
  for (const bool orderly : {true, false}) {
    MemoryStore at;
    Payload memory;
    for (uint32_t i = 0; i < 30; ++i) {
      write_block(*at.store, block_at(i, i * 2, 2), memory);
    }
    for (uint32_t i = 0; i < 30; i += 3) {
      REQUIRE(at.store->drop(block_at(i, i * 2, 2).slot).is_ok());
    }
    const std::vector<std::byte> policy(1000, std::byte{42});
    if (orderly) {
      REQUIRE(at.store->close(policy, 1'000'000'000).is_ok());
    } else {
      at.store->checkpoint(policy);
      while (at.store->table().live_rows() != 20 || at.meta.files.count("snapshot") == 0) {
        StoreCompletion none[1];
        at.store->poll(none);
      }
    }
    at.open();
    CHECK(!at.store->recovery().cold);
    CHECK(at.store->recovery().rows == 20);
    CHECK(at.store->policy_state() == policy);
    uint64_t seen = 0;
    at.store->for_each([&](const BlockRecord& record) {
      const TestBlock block = block_at(record.slot.first.v / 2, record.slot.first.v, 2);
      CHECK(record.key == key_of(block.id));
      CHECK(record.parent == block.record().parent);
      CHECK(record.depth == block.id);
      CHECK(record.extra == block.record().extra);
      CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
      CHECK(memory.holds(block));
      ++seen;
    });
    CHECK(seen == 20);
  }
}

TEST_CASE("durability levels keep what they promise, no more", "[store]") {
  for (const Durability durability :
       {Durability::kEphemeral, Durability::kClean, Durability::kCrash}) {
    for (const bool orderly : {true, false}) {
      MemoryStore at(64, durability);
      Payload memory;
      write_block(*at.store, block_at(1, 0), memory);
      if (orderly) {
        REQUIRE(at.store->close({}, 1'000'000'000).is_ok());
      }
      at.open();
      const bool kept =
          durability == Durability::kCrash || (durability == Durability::kClean && orderly);
      CHECK(at.store->table().live_rows() == (kept ? 1 : 0));
      at.open();  // a clean snapshot is used up by the start before
      CHECK(at.store->table().live_rows() == (durability == Durability::kCrash ? 1 : 0));
    }
  }
}

TEST_CASE("a smaller tier keeps what still fits, other size classes start cold", "[store]") {
  MemoryStore at(64);
  Payload memory;
  for (uint32_t i = 0; i < 60; ++i) {
    write_block(*at.store, block_at(i, i), memory);
  }
  at.granules = 32;
  at.open();
  CHECK(at.store->table().live_rows() == 32);
  CHECK(at.store->recovery().outside == 28);
  CHECK(read_block(*at.store, block_at(31, 31), memory).verdict == StoreVerdict::kOk);
  at.granules = 64;
  at.open();
  CHECK(at.store->table().live_rows() == 32);
  StoreOptions options;
  auto device = open_memory_device(at.disk, {.alignment = 4096});
  REQUIRE(device.is_ok());
  at.store.reset();
  auto other = DiskStore::open_over(
      {.directory = "memory", .classes = {{kGranule * 2, 32}}, .durability = Durability::kCrash},
      {.device = std::move(device).value(), .meta = open_memory_meta(at.meta)});
  REQUIRE(other.is_ok());
  CHECK((*other)->recovery().cold);
  CHECK((*other)->recovery().reason.find("size classes") != std::string::npos);
}

TEST_CASE("several size classes are several files with numbers of their own",
          "[store][T:hetero_pages_roundtrip]") {
  MemoryDisk disk({16 * 16384, 8 * 65536}, CompletionOrder::kSeeded);
  MemoryMeta meta;
  auto device = open_memory_device(disk, {.alignment = 4096});
  REQUIRE(device.is_ok());
  auto store = DiskStore::open_over(
      {.directory = "m", .classes = {{16384, 16}, {65536, 8}}, .durability = Durability::kCrash},
      {.device = std::move(device).value(), .meta = open_memory_meta(meta)});
  REQUIRE(store.is_ok());
  Payload memory;
  CHECK((*store)->layout().granules_for(0, 65536) == 5);
  CHECK((*store)->layout().granules_for(1, 61440) == 1);
  TestBlock small = block_at(1, 15);
  TestBlock big = block_at(2, 16);
  big.payload_bytes = 61440;
  CHECK(write_block(**store, small, memory).verdict == StoreVerdict::kOk);
  CHECK(write_block(**store, big, memory).verdict == StoreVerdict::kOk);
  CHECK(read_block(**store, small, memory).verdict == StoreVerdict::kOk);
  CHECK(memory.holds(small));
  CHECK(read_block(**store, big, memory).verdict == StoreVerdict::kOk);
  CHECK(memory.holds(big));
  const WriteBlock across{.slot = {GranuleId(15), 2, 1}, .record = {}, .payload = memory.of(small)};
  CHECK((*store)->write({&across, 1}).code() == Code::kInvalidArgument);
}

TEST_CASE("an encrypted store keeps nothing readable, and finds every change", "[store]") {
  MemoryStore at(64, Durability::kEphemeral);
  StoreOptions options;
  options.encrypt = true;
  at.open(options);
  Payload memory;
  const TestBlock block = block_at(1, 4, 2);
  CHECK(write_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
  CHECK(memory.holds(block));  // the caller's bytes stay as they are
  std::vector<std::byte> plain(block.payload_bytes);
  fill(plain, block.seed());
  const auto& raw = at.disk.file(0);
  CHECK(std::search(raw.begin(), raw.end(), plain.begin(), plain.begin() + 16) == raw.end());
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kOk);
  CHECK(memory.holds(block));
  at.disk.file(0)[4 * kGranule + 77] ^= std::byte{1};
  CHECK(read_block(*at.store, block, memory).verdict == StoreVerdict::kCorrupt);
  StoreOptions persistent{.directory = "x",
                          .classes = {{kGranule, 4}},
                          .durability = Durability::kCrash,
                          .encrypt = true};
  CHECK(DiskStore::open(persistent).status().code() == Code::kUnsupported);
}
