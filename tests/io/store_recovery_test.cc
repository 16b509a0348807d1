// Recovery of the disk store from damaged, cut, foreign and unsynced metadata; full and failing
// disks.
#include "io/store/meta_names.h"
#include "runtime/base/log.h"
#include "tests/io/store_fixture.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <set>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

constexpr uint32_t kBlocks = 6;

/// A store with a snapshot and a journal: blocks 0 to 5 by snapshot, then 1 overwritten by 11, 2
/// dropped, 6 and 7 new.
void make_history(MemoryStore& at, Payload& memory) {
  for (uint32_t i = 0; i < kBlocks; ++i) {
    write_block(*at.store, block_at(i, i), memory);
  }
  TROUPE_ASSERT(at.store->close(std::vector<std::byte>(40, std::byte{3}), 1'000'000'000).is_ok());
  at.open();
  write_block(*at.store, block_at(11, 1, 1, 2), memory);
  TROUPE_ASSERT(at.store->drop(block_at(2, 2).slot).is_ok());
  write_block(*at.store, block_at(6, 6), memory);
  write_block(*at.store, block_at(7, 7), memory);
}

/// Everything that this history ever published, by granule: what a recovery may name.
bool was_published(const BlockRecord& record) {
  static const std::set<std::pair<uint32_t, uint64_t>> kAll = {
      {0, 0}, {1, 1}, {1, 11}, {2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 6}, {7, 7}};
  for (const auto& [granule, id] : kAll) {
    if (record.slot.first.v == granule && record.key == key_of(id)) {
      return true;
    }
  }
  return false;
}

/// Opens over damaged metadata and checks that nothing is invented and nothing wrong is served.
uint64_t check_recovered(MemoryStore& at, Payload& memory) {
  at.open();
  TROUPE_ASSERT(at.store->table().check().is_ok());
  std::vector<TestBlock> found;
  at.store->for_each([&](const BlockRecord& record) {
    if (!was_published(record)) {
      FAIL("an entry that nobody wrote");
    }
    for (const uint64_t id : std::initializer_list<uint64_t>{0, 1, 2, 3, 4, 5, 6, 7, 11}) {
      if (record.key == key_of(id)) {
        found.push_back(block_at(id, record.slot.first.v, 1, record.slot.generation));
      }
    }
  });
  for (const TestBlock& block : found) {
    const StoreCompletion done = read_block(*at.store, block, memory);
    if (done.verdict == StoreVerdict::kOk && !memory.holds(block)) {
      FAIL("a wrong byte was served");
    }
  }
  return found.size();
}

std::string newest_journal(const MemoryMeta& meta) {
  std::string newest;
  for (const auto& [name, file] : meta.files) {
    if (journal_index_of(name) > 0) {
      newest = name;
    }
  }
  return newest;
}

}  // namespace

TEST_CASE("a journal cut at every byte keeps its prefix", "[store][recovery]") {
  MemoryStore at;
  Payload memory;
  make_history(at, memory);
  const MemoryMeta whole = at.meta;
  const std::vector<std::byte> disk = at.disk.file(0);
  const std::string journal = newest_journal(whole);
  const size_t bytes = whole.files.at(journal).bytes.size();
  REQUIRE(bytes > 500);
  std::set<size_t> borders{0};
  const std::span<const std::byte> all = whole.files.at(journal).bytes;
  size_t border = 0;
  scan_entries(all, 0, [&](const Entry& entry) {
    borders.insert(border += kEntryOverhead + entry.payload.size());
    return true;
  });
  uint64_t last = 0;
  for (size_t cut = 0; cut <= bytes; ++cut) {
    at.meta = whole;
    at.disk.file(0) = disk;
    at.meta.files[journal].bytes.resize(cut);
    const uint64_t found = check_recovered(at, memory);
    CHECK(!at.store->recovery().cold);
    CHECK(found >= kBlocks - 1);
    // Only a cut between entries can't be told from a journal that ended there.
    CHECK(at.store->recovery().reason.empty() == (borders.count(cut) > 0));
    last = found;
    // And the store works on, over another restart.
    CHECK(write_block(*at.store, block_at(30, 20), memory).verdict == StoreVerdict::kOk);
    at.open();
    CHECK(at.store->table().live_rows() == at.store->recovery().rows);
    CHECK(read_block(*at.store, block_at(30, 20), memory).verdict == StoreVerdict::kOk);
  }
  CHECK(last == 7);
}

TEST_CASE("journal, snapshot and superblock flipped at every byte invent nothing",
          "[store][recovery]") {
  MemoryStore at;
  Payload memory;
  set_log_level(LogLevel::kError);
  make_history(at, memory);
  const MemoryMeta whole = at.meta;
  const std::vector<std::byte> disk = at.disk.file(0);
  Rng rng(1);
  uint64_t cold = 0, damaged = 0;
  for (const auto& [name, file] : whole.files) {
    for (size_t byte = 0; byte < file.bytes.size(); ++byte) {
      at.meta = whole;
      at.disk.file(0) = disk;
      at.meta.files[name].bytes[byte] ^= static_cast<std::byte>(1U << rng.below(8));
      if (name == kSuperblockName && byte >= 4 && byte < 8) {
        continue;  // the version: a refusal, below
      }
      check_recovered(at, memory);
      cold += at.store->recovery().cold ? 1 : 0;
      damaged += at.store->recovery().reason.empty() ? 0 : 1;
      if (at.store->recovery().reason.empty()) {
        FAIL("damage of " << name << " at " << byte << " went unseen");
      }
    }
  }
  set_log_level(LogLevel::kInfo);
  CHECK(cold > 0);
  CHECK(damaged > cold);
}

TEST_CASE("snapshot cut at every byte starts cold, and then works", "[store][recovery]") {
  MemoryStore at;
  Payload memory;
  set_log_level(LogLevel::kError);
  make_history(at, memory);
  const MemoryMeta whole = at.meta;
  for (size_t cut = 0; cut < whole.files.at(kSnapshotName).bytes.size(); cut += 7) {
    at.meta = whole;
    at.meta.files[kSnapshotName].bytes.resize(cut);
    at.open();
    CHECK(at.store->recovery().cold);
    CHECK(at.store->table().live_rows() == 0);
    CHECK(at.store->policy_state().empty());
  }
  set_log_level(LogLevel::kInfo);
  CHECK(write_block(*at.store, block_at(9, 9), memory).verdict == StoreVerdict::kOk);
  at.open();
  CHECK(at.store->table().live_rows() == 1);
}

TEST_CASE("another store's files and newer versions are not guessed at", "[store][recovery]") {
  MemoryStore one, two;
  Payload memory;
  make_history(one, memory);
  make_history(two, memory);
  SECTION("a foreign snapshot") {
    one.meta.files[kSnapshotName] = two.meta.files[kSnapshotName];
    one.open();
    CHECK(one.store->recovery().cold);
    CHECK(one.store->recovery().reason.find("another store") != std::string::npos);
  }
  SECTION("a foreign journal") {
    const std::string name = newest_journal(one.meta);
    one.meta.files[name] = two.meta.files[newest_journal(two.meta)];
    one.open();
    CHECK(one.store->table().live_rows() == kBlocks);
    CHECK(!one.store->recovery().reason.empty());
  }
  SECTION("a newer version is refused and left untouched") {
    one.store.reset();
    one.meta.files[kSuperblockName].bytes[4] = std::byte{2};
    const auto before = one.meta.files;
    auto device = open_memory_device(one.disk, {.alignment = 4096});
    auto opened = DiskStore::open_over(
        {.directory = "m", .classes = {{kGranule, 64}}, .durability = Durability::kCrash},
        {.device = std::move(device).value(), .meta = open_memory_meta(one.meta)});
    CHECK(opened.status().code() == Code::kUnsupported);
    CHECK(one.meta.files.size() == before.size());
    for (const auto& [name, file] : before) {
      CHECK(one.meta.files[name].bytes == file.bytes);
    }
  }
  SECTION("a missing snapshot is a cold start, not half a history") {
    one.meta.files.erase(kSnapshotName);
    one.open();
    CHECK(one.store->recovery().cold);
  }
}

TEST_CASE("power loss: unsynced tails vanish, nothing wrong is served", "[store][recovery]") {
  set_log_level(LogLevel::kError);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    MemoryStore at;
    Payload memory;
    make_history(at, memory);
    Rng rng(seed);
    at.meta.lose_unsynced(rng);
    // Of the data, one of the last slots is torn as well.
    auto& file = at.disk.file(0);
    const size_t torn = rng.below(8) * kGranule + 512 * rng.below(20);
    std::fill_n(file.begin() + static_cast<std::ptrdiff_t>(torn), 512, std::byte{0});
    check_recovered(at, memory);
  }
  set_log_level(LogLevel::kInfo);
}

TEST_CASE("snapshots are taken in slices beside work and shorten the journal",
          "[store][recovery]") {
  MemoryStore at(8192);
  Payload memory(65536);
  Rng rng(4);
  std::map<uint32_t, TestBlock> model;
  uint64_t id = 0;
  set_log_level(LogLevel::kError);
  // 8192 granules make several slices; writes and drops go on between them.
  while (at.meta.files.count(kSnapshotName) == 0 || id < 30000) {
    const auto granule = static_cast<uint32_t>(rng.below(8192));
    if (rng.chance(1, 4)) {
      REQUIRE(at.store->drop({GranuleId(granule), 1, 1}).is_ok());
      model.erase(granule);
    } else {
      ++id;
      TestBlock block = block_at(id, granule, 1, static_cast<uint32_t>(id));
      block.payload_bytes = 4096;
      model[granule] = block;
      write_block(*at.store, block, memory);
    }
  }
  CHECK(at.store->table().live_rows() == model.size());
  for (int restart = 0; restart < 2; ++restart) {
    at.open();
    CHECK(at.store->table().live_rows() == model.size());
    for (const auto& [granule, block] : model) {
      const BlockRecord* row = at.store->find(block.slot);
      REQUIRE(row != nullptr);
      CHECK(row->key == key_of(block.id));
      CHECK(row->slot.generation == block.slot.generation);
    }
  }
  uint64_t journals = 0;
  for (const auto& [name, file] : at.meta.files) {
    journals += journal_index_of(name) > 0 ? 1 : 0;
  }
  CHECK(journals <= 8);
  set_log_level(LogLevel::kInfo);
}

TEST_CASE("restarts without end do not pile up journals", "[store][recovery]") {
  MemoryStore at;
  Payload memory;
  write_block(*at.store, block_at(1, 1), memory);
  for (int i = 0; i < 40; ++i) {
    at.open();
    StoreCompletion none[1];
    for (int k = 0; k < 5; ++k) {
      at.store->poll(none);
    }
  }
  CHECK(at.store->table().live_rows() == 1);
  CHECK(at.meta.files.size() < 16);
}

TEST_CASE("a disk full at snapshot time keeps the old snapshot and goes on", "[store][recovery]") {
  for (const int step : {1, 2}) {
    MemoryStore at;
    Payload memory;
    make_history(at, memory);
    at.meta.error = ENOSPC;
    at.meta.fail_append_in = step;
    at.store->checkpoint({});
    StoreCompletion none[1];
    at.store->poll(none);
    at.meta.fail_append_in = 0;
    CHECK(at.store->persistent());
    CHECK(write_block(*at.store, block_at(8, 8), memory).verdict == StoreVerdict::kOk);
    at.open();
    CHECK(at.store->table().live_rows() == 8);
    CHECK(at.store->policy_state().size() == 40);
    CHECK(read_block(*at.store, block_at(8, 8), memory).verdict == StoreVerdict::kOk);
  }
  MemoryStore at;
  Payload memory;
  make_history(at, memory);
  at.meta.fail_rename_in = 1;
  at.store->checkpoint({});
  StoreCompletion none[1];
  for (int i = 0; i < 4; ++i) {
    at.store->poll(none);
  }
  CHECK(at.store->persistent());
  at.open();
  CHECK(at.store->table().live_rows() == 7);
}

TEST_CASE("a journal that can't be written is replaced by a snapshot", "[store][recovery]") {
  MemoryStore at;
  Payload memory;
  make_history(at, memory);
  at.meta.fail_append_in = 1;
  CHECK(write_block(*at.store, block_at(8, 8), memory).verdict == StoreVerdict::kOk);
  for (int i = 0; i < 4; ++i) {
    StoreCompletion none[1];
    at.store->poll(none);
  }
  CHECK(at.store->persistent());
  CHECK(write_block(*at.store, block_at(9, 9), memory).verdict == StoreVerdict::kOk);
  at.open();
  CHECK(at.store->table().live_rows() == 9);
  CHECK(read_block(*at.store, block_at(8, 8), memory).verdict == StoreVerdict::kOk);
}

TEST_CASE("a failed sync drops what was written since the last good one", "[store][recovery]") {
  for (const bool data : {true, false}) {
    MemoryStore at;
    StoreOptions options;
    options.sync_bytes = 4 * kGranule;
    at.open(options);
    Payload memory;
    for (uint32_t i = 0; i < 4; ++i) {
      write_block(*at.store, block_at(i, i), memory);
    }
    StoreCompletion none[1];
    for (int i = 0; i < 6; ++i) {
      at.store->poll(none);  // the good sync
    }
    REQUIRE(at.store->device().stats().syncs == 1);
    if (data) {
      at.faults->add({.fault = Fault::kEio, .op = IoOp::kSync, .nth = 0});
    } else {
      at.meta.fail_sync_in = 1;
    }
    for (uint32_t i = 4; i < 8; ++i) {
      write_block(*at.store, block_at(i, i), memory);
    }
    for (int i = 0; i < 6; ++i) {
      at.store->poll(none);
    }
    CHECK(at.store->stats().lost_rows == 4);
    CHECK(at.store->table().live_rows() == 4);
    CHECK(read_block(*at.store, block_at(2, 2), memory).verdict == StoreVerdict::kOk);
    CHECK(read_block(*at.store, block_at(6, 6), memory).verdict == StoreVerdict::kMissing);
    at.open();
    CHECK(at.store->table().live_rows() == 4);
  }
}
