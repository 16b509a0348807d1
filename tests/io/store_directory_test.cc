// The disk store in a real directory, over both backends: lock, limits, left-overs, files that
// vanish.
#include "io/store/directory_lock.h"
#include "runtime/base/log.h"
#include "tests/io/store_fixture.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

std::vector<BackendChoice> choices() {
  std::vector<BackendChoice> list{BackendChoice::kPosix};
  if (uring_works()) {
    list.push_back(BackendChoice::kUring);
  }
  return list;
}

StoreOptions options_for(const std::string& directory, BackendChoice backend,
                         Durability durability = Durability::kCrash) {
  return {.directory = directory,
          .classes = {{kGranule, 256}},
          .durability = durability,
          .backend = backend,
          .operations_max = 64};
}

uint64_t bytes_in(const std::string& directory) {
  uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    struct stat info {};
    TROUPE_ASSERT(lstat(entry.path().c_str(), &info) == 0);
    sum += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return sum;
}

}  // namespace

TEST_CASE("a warm restart serves its first requests",
          "[store][T:warm_restart_ttft][T:restore_then_hit]") {
  for (const BackendChoice backend : choices()) {
    for (const bool orderly : {true, false}) {
      ScratchDir dir;
      Payload memory;
      for (int run = 0; run < 3; ++run) {
        auto store = DiskStore::open(options_for(dir.path(), backend));
        REQUIRE(store.is_ok());
        CHECK((*store)->recovery().cold == (run == 0));
        for (uint32_t i = 0; i < 20; ++i) {
          const StoreCompletion done = read_block(**store, block_at(i, i * 3, 3), memory);
          CHECK(done.verdict == (run == 0 ? StoreVerdict::kMissing : StoreVerdict::kOk));
          CHECK(memory.holds(block_at(i, i * 3, 3)) == (run > 0));
          if (run == 0) {
            CHECK(write_block(**store, block_at(i, i * 3, 3), memory).verdict == StoreVerdict::kOk);
          }
        }
        if (orderly) {
          REQUIRE((*store)->close({}, 10'000'000'000).is_ok());
        }
      }
    }
  }
}

TEST_CASE("a second process is refused with the owner's pid, and let in when it died",
          "[store][T:kill9_restart]") {
  ScratchDir dir;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto lock = lock_directory(dir.path());
    const char ok = lock.is_ok() ? 'y' : 'n';
    [[maybe_unused]] const ssize_t written = write(ready[1], &ok, 1);
    pause();
    _exit(0);
  }
  char ok = 0;
  REQUIRE(read(ready[0], &ok, 1) == 1);
  REQUIRE(ok == 'y');
  const auto refused = DiskStore::open(options_for(dir.path(), BackendChoice::kPosix));
  CHECK(refused.status().code() == Code::kFailedPrecondition);
  CHECK(refused.status().text().find("process " + std::to_string(owner)) != std::string::npos);
  CHECK(refused.status().text().find(dir.path()) != std::string::npos);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  CHECK(DiskStore::open(options_for(dir.path(), BackendChoice::kPosix)).is_ok());
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("the limit is hard and counts what lies there already",
          "[store][T:disk_hard_cap][T:disk_bound_after_restart]") {
  ScratchDir dir;
  constexpr uint64_t kData = uint64_t{256} * kGranule;
  StoreOptions options = options_for(dir.path(), BackendChoice::kPosix);
  options.capacity_bytes = kData - 1;
  const auto small = DiskStore::open(options);
  CHECK(small.status().code() == Code::kNoCapacity);
  CHECK(small.status().text().find(std::to_string(kData - 1)) != std::string::npos);
  // Another program's megabyte leaves too little; so does an earlier run's under another level.
  options.capacity_bytes = kData + (512 << 10);
  std::ofstream(dir.path() + "/other") << std::string(1 << 20, 'x');
  CHECK(DiskStore::open(options).status().code() == Code::kNoCapacity);
  std::filesystem::remove(dir.path() + "/other");
  Payload memory;
  {
    auto store = DiskStore::open(options);
    REQUIRE(store.is_ok());
    for (uint32_t i = 0; i < 256; ++i) {
      CHECK(write_block(**store, block_at(i, i), memory).verdict == StoreVerdict::kOk);
    }
    CHECK((*store)->disk_bytes() <= options.capacity_bytes);
  }
  CHECK(bytes_in(dir.path()) <= options.capacity_bytes);
  StoreOptions ephemeral = options;
  ephemeral.durability = Durability::kEphemeral;
  CHECK(DiskStore::open(ephemeral).status().code() == Code::kNoCapacity);
  for (int restart = 0; restart < 3; ++restart) {
    auto store = DiskStore::open(options);
    REQUIRE(store.is_ok());
    CHECK((*store)->table().live_rows() == 256);
    CHECK((*store)->table().live_granules() == 256);
    CHECK(bytes_in(dir.path()) <= options.capacity_bytes);
  }
}

TEST_CASE("metadata at its limit refuses writes until a snapshot has shrunk it",
          "[store][T:disk_hard_cap]") {
  ScratchDir dir;
  StoreOptions options = options_for(dir.path(), BackendChoice::kPosix);
  options.capacity_bytes = uint64_t{256} * kGranule + (192 << 10);
  auto store = DiskStore::open(options);
  REQUIRE(store.is_ok());
  Payload memory;
  uint64_t refused = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    const TestBlock block = block_at(i, i % 16, 1, i);
    const WriteBlock write{
        .slot = block.slot, .record = block.record(), .payload = memory.of(block)};
    Status status = (*store)->write({&write, 1});
    while (!status) {
      REQUIRE(status.code() == Code::kNoCapacity);
      ++refused;
      StoreCompletion none[1];
      (*store)->poll(none);
      status = (*store)->write({&write, 1});
    }
    REQUIRE(finish_one(**store).verdict == StoreVerdict::kOk);
    // One batch of entries and the snapshot being written may lie above it for a moment.
    REQUIRE((*store)->disk_bytes() <= options.capacity_bytes + 4096);
  }
  CHECK(refused > 0);
  CHECK((*store)->table().live_rows() == 16);
}

TEST_CASE("an ephemeral store leaves nothing behind", "[store]") {
  for (const BackendChoice backend : choices()) {
    ScratchDir dir;
    Payload memory;
    {
      StoreOptions options = options_for(dir.path(), backend, Durability::kEphemeral);
      options.encrypt = true;
      auto store = DiskStore::open(options);
      REQUIRE(store.is_ok());
      CHECK(write_block(**store, block_at(1, 1), memory).verdict == StoreVerdict::kOk);
      CHECK(read_block(**store, block_at(1, 1), memory).verdict == StoreVerdict::kOk);
      CHECK(memory.holds(block_at(1, 1)));
    }
    CHECK(bytes_in(dir.path()) <= 4096);  // the lock
  }
}

TEST_CASE("data files cut, emptied or deleted between runs cost blocks, nothing else", "[store]") {
  set_log_level(LogLevel::kError);
  for (const BackendChoice backend : choices()) {
    for (const int damage : {0, 1, 2}) {
      ScratchDir dir;
      Payload memory;
      {
        auto store = DiskStore::open(options_for(dir.path(), backend));
        REQUIRE(store.is_ok());
        for (uint32_t i = 0; i < 64; ++i) {
          write_block(**store, block_at(i, i), memory);
        }
      }
      const std::string data = dir.path() + "/data.0";
      if (damage == 0) {
        std::filesystem::resize_file(data, 32 * kGranule);
      } else if (damage == 1) {
        std::filesystem::remove(data);
      } else {
        std::filesystem::remove(dir.path() + "/snapshot");
        std::filesystem::remove(dir.path() + "/store");
      }
      auto store = DiskStore::open(options_for(dir.path(), backend));
      REQUIRE(store.is_ok());
      uint64_t good = 0;
      for (uint32_t i = 0; i < 64; ++i) {
        const StoreCompletion done = read_block(**store, block_at(i, i), memory);
        good += done.verdict == StoreVerdict::kOk ? 1 : 0;
        CHECK(memory.holds(block_at(i, i)) == (done.verdict == StoreVerdict::kOk));
      }
      CHECK(good == (damage == 0 ? 32 : 0));
      CHECK((*store)->table().check().is_ok());
      CHECK(write_block(**store, block_at(99, 200), memory).verdict == StoreVerdict::kOk);
    }
  }
  set_log_level(LogLevel::kInfo);
}

TEST_CASE("a file truncated while the store runs gives misses", "[store]") {
  for (const BackendChoice backend : choices()) {
    ScratchDir dir;
    Payload memory;
    auto store = DiskStore::open(options_for(dir.path(), backend));
    REQUIRE(store.is_ok());
    write_block(**store, block_at(1, 100), memory);
    REQUIRE(truncate((dir.path() + "/data.0").c_str(), 100 * kGranule + 4096) == 0);
    const StoreCompletion done = read_block(**store, block_at(1, 100), memory);
    CHECK(done.verdict == StoreVerdict::kIoError);
    CHECK(done.error == ENODATA);
    CHECK(!memory.holds(block_at(1, 100)));
  }
}

TEST_CASE("many blocks in flight over a faulty device: each answered once, none wrong",
          "[store][T:offload_equals_baseline]") {
  set_log_level(LogLevel::kError);
  for (const BackendChoice backend : choices()) {
    ScratchDir dir;
    auto faults = std::make_shared<FaultInjector>(17);
    for (const Fault fault : {Fault::kEio, Fault::kShort, Fault::kTorn, Fault::kLost,
                              Fault::kBitFlip, Fault::kMisdirect, Fault::kEagain, Fault::kEintr,
                              Fault::kDelay, Fault::kEnospc, Fault::kDuplicate, Fault::kStranger}) {
      faults->add({.fault = fault, .num = 1, .den = 120});
    }
    StoreOptions options = options_for(dir.path(), backend);
    options.faults = faults;
    auto store = DiskStore::open(options);
    REQUIRE(store.is_ok());
    auto arena = Arena::create(size_t{64} * kGranule, {.alignment = 4096});
    REQUIRE(arena.is_ok());
    Rng rng(3);
    std::map<uint32_t, TestBlock> model;
    uint64_t served = 0, missed = 0;
    for (uint64_t round = 1; round <= 60; ++round) {
      std::vector<WriteBlock> writes;
      std::map<uint64_t, TestBlock> by_id;
      for (uint32_t k = 0; k < 32; ++k) {
        const uint32_t granule = k * 8 + static_cast<uint32_t>(rng.below(8));
        const TestBlock block = block_at(round * 100 + k, granule, 1, static_cast<uint32_t>(round));
        const auto bytes = arena->slice(size_t{k} * kGranule, block.payload_bytes);
        fill(bytes, block.seed());
        (*store)->reinstate(block.slot);
        by_id[block.id] = block;
        model.erase(granule);
        writes.push_back({.slot = block.slot,
                          .record = block.record(),
                          .payload = bytes,
                          .user_data = block.id});
      }
      REQUIRE((*store)->write(writes).is_ok());
      StoreCompletion done[16];
      for (size_t left = writes.size(); left > 0;) {
        const size_t count = (*store)->wait(done, -1);
        for (size_t i = 0; i < count; ++i) {
          if (done[i].verdict == StoreVerdict::kOk) {
            const TestBlock& block = by_id.at(done[i].user_data);
            model[block.slot.first.v] = block;
          }
          REQUIRE(by_id.erase(done[i].user_data) == 1);
        }
        left -= count;
      }
      std::vector<ReadBlock> reads;
      std::map<uint64_t, std::pair<TestBlock, std::span<std::byte>>> reading;
      for (const auto& [granule, block] : model) {
        if (reads.size() < 64 && rng.chance(1, 2)) {
          const auto bytes = arena->slice(reads.size() * kGranule, block.payload_bytes);
          reads.push_back({.expected = block.expected(), .payload = bytes, .user_data = block.id});
          reading[block.id] = {block, bytes};
        }
      }
      REQUIRE((*store)->read(reads).is_ok());
      for (size_t left = reads.size(); left > 0;) {
        const size_t count = (*store)->wait(done, -1);
        for (size_t i = 0; i < count; ++i) {
          const auto& [block, bytes] = reading.at(done[i].user_data);
          if (done[i].verdict == StoreVerdict::kOk) {
            std::vector<std::byte> right(block.payload_bytes);
            fill(right, block.seed());
            REQUIRE(std::memcmp(bytes.data(), right.data(), right.size()) == 0);
            ++served;
          } else {
            model.erase(block.slot.first.v);
            ++missed;
          }
          reading.erase(done[i].user_data);
        }
        left -= count;
      }
      REQUIRE(reading.empty());
      REQUIRE((*store)->table().check().is_ok());
    }
    CHECK(served > 500);
    CHECK(missed > 20);
    CHECK((*store)->outstanding() == 0);
  }
  set_log_level(LogLevel::kInfo);
}
