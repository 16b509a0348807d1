// kill -9 at named points and at random moments, then a restart without help: no wrong byte, the
// index says exactly what was acknowledged (but for what was in flight), capacity counted once. And
// 100,000 bit flips. The worker is this program again, in a child; what it meant to do and what was
// acknowledged stands in a shared mapping that survives it.
#include "io/crash_point.h"
#include "runtime/base/log.h"
#include "tests/io/store_fixture.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

constexpr uint32_t kGranules = 128;

/// Per granule: what may lie there. Written before an operation starts, and after it was
/// acknowledged.
struct Oracle {
  std::atomic<uint64_t> progress;
  std::atomic<uint64_t> next_id;
  std::atomic<uint64_t> intended[kGranules];  // block id, 0: nothing
  std::atomic<uint64_t> acknowledged[kGranules];
  std::atomic<uint64_t>
      previous[kGranules];  // whole until the intended one's first byte is written
};

Oracle* map_oracle(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  TROUPE_ASSERT(fd.is_open() && ftruncate(fd.get(), sizeof(Oracle)) == 0);
  void* map = mmap(nullptr, sizeof(Oracle), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  TROUPE_ASSERT(map != MAP_FAILED);
  return static_cast<Oracle*>(map);
}

TestBlock crash_block(uint64_t id, uint32_t granule) {
  TestBlock block = block_at(id, granule, 1, static_cast<uint32_t>(id));
  block.payload_bytes = 4096;
  return block;
}

StoreOptions crash_options(const std::string& directory, uint64_t seed) {
  StoreOptions options{.directory = directory,
                       .classes = {{kGranule / 2, kGranules}},
                       .durability = Durability::kCrash,
                       .backend = seed % 2 == 0 ? BackendChoice::kPosix : BackendChoice::kAuto,
                       .depth = 8,
                       .operations_max = 16,
                       .sync_bytes = 65536};
  return options;
}

/// Batches of eight writes and some drops, snapshots now and then, an orderly end.
void work(const std::string& directory, Oracle& oracle, uint64_t seed, int rounds) {
  auto opened = DiskStore::open(crash_options(directory, seed));
  TROUPE_ASSERT(opened.is_ok());
  DiskStore& store = **opened;
  auto arena = Arena::create(8 * 4096, {.alignment = 4096, .huge_pages = false});
  TROUPE_ASSERT(arena.is_ok());
  Rng rng(seed);
  for (int round = 0; round < rounds; ++round) {
    std::vector<WriteBlock> writes;
    std::map<uint64_t, uint32_t> granule_of;
    for (uint32_t k = 0; k < 8; ++k) {
      const uint32_t granule = k * 16 + static_cast<uint32_t>(rng.below(16));
      const TestBlock block = crash_block(++oracle.next_id, granule);
      const auto bytes = arena->slice(k * 4096, 4096);
      fill(bytes, block.seed());
      // What was dropped just before may lie there still: a drop is not synced when it returns.
      if (oracle.acknowledged[granule] != 0) {
        oracle.previous[granule] = oracle.acknowledged[granule].load();
      }
      oracle.intended[granule] = block.id;
      oracle.acknowledged[granule] = 0;
      granule_of[block.id] = granule;
      writes.push_back(
          {.slot = block.slot, .record = block.record(), .payload = bytes, .user_data = block.id});
    }
    TROUPE_ASSERT(store.write(writes).is_ok());
    StoreCompletion done[8];
    for (size_t left = writes.size(); left > 0;) {
      const size_t count = store.wait(done, -1);
      for (size_t i = 0; i < count; ++i) {
        TROUPE_ASSERT(done[i].verdict == StoreVerdict::kOk);
        oracle.acknowledged[granule_of.at(done[i].user_data)] = done[i].user_data;
        ++oracle.progress;
      }
      left -= count;
    }
    const auto victim = static_cast<uint32_t>(rng.below(kGranules));
    const uint64_t id = oracle.intended[victim];
    if (id != 0) {
      oracle.previous[victim] = id;
    }
    oracle.acknowledged[victim] = 0;
    if (id != 0) {
      TROUPE_ASSERT(store.drop(crash_block(id, victim).slot).is_ok());
      oracle.intended[victim] = 0;
    }
    if (round % 4 == 3) {
      store.checkpoint(std::vector<std::byte>(16, std::byte{7}));
    }
  }
  TROUPE_ASSERT(store.close(std::vector<std::byte>(16, std::byte{7}), 60'000'000'000).is_ok());
}

struct Verdict {
  uint64_t live = 0;
};

/// Restarts without help and compares with the oracle.
Verdict check_after(const std::string& directory, Oracle& oracle, uint64_t seed) {
  auto opened = DiskStore::open(crash_options(directory, seed));
  INFO(opened.status().to_string());
  REQUIRE(opened.is_ok());
  DiskStore& store = **opened;
  REQUIRE(store.table().check().is_ok());
  Payload memory(65536);
  Verdict verdict;
  for (uint32_t granule = 0; granule < kGranules; ++granule) {
    const uint64_t intended = oracle.intended[granule];
    const uint64_t acknowledged = oracle.acknowledged[granule];
    const BlockRecord* row = nullptr;
    store.for_each([&](const BlockRecord& r) { row = r.slot.first.v == granule ? &r : row; });
    if (acknowledged != 0 && row == nullptr) {
      FAIL("granule " << granule << " lost block " << acknowledged << ": "
                      << store.recovery().reason);
    }
    if (row == nullptr) {
      continue;
    }
    // The new block, or the old one when death came before its place was given up: then it must
    // still be whole, which the read below shows.
    const uint64_t previous = acknowledged == 0 ? oracle.previous[granule].load() : 0;
    const uint64_t id = row->key == key_of(intended) ? intended : previous;
    if (id == 0 || row->key != key_of(id)) {
      FAIL("granule " << granule << " claims neither block " << intended << " nor " << previous);
    }
    const TestBlock block = crash_block(id, granule);
    REQUIRE(read_block(store, block, memory).verdict == StoreVerdict::kOk);
    REQUIRE(memory.holds(block));
    ++verdict.live;
    oracle.intended[granule] = id;
    oracle.acknowledged[granule] = id;
  }
  for (uint32_t granule = 0; granule < kGranules; ++granule) {
    if (store.find({GranuleId(granule), 1, 0}) == nullptr) {
      oracle.intended[granule] = 0;
    }
  }
  CHECK(store.table().live_granules() == verdict.live);
  return verdict;
}

/// True when the child died by SIGKILL.
bool run_child(const std::string& directory, const std::string& oracle, uint64_t seed,
               const std::string& crash_at, uint64_t kill_at_progress) {
  Oracle& shared = *map_oracle(oracle);
  const uint64_t target = shared.progress + kill_at_progress;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    setenv("TROUPE_CRASH_AT", crash_at.c_str(), 1);
    setenv("TROUPE_TEST_DIRECTORY", directory.c_str(), 1);
    setenv("TROUPE_TEST_ORACLE", oracle.c_str(), 1);
    setenv("TROUPE_TEST_SEED", std::to_string(seed).c_str(), 1);
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, 1);
    execl(self.c_str(), self.c_str(), "[.crash-child]", nullptr);
    _exit(99);
  }
  int status = 0;
  if (kill_at_progress > 0) {
    while (shared.progress < target && waitpid(child, &status, WNOHANG) == 0) {
    }
    kill(child, SIGKILL);
  }
  const pid_t waited = waitpid(child, &status, 0);
  munmap(&shared, sizeof(Oracle));
  if (waited < 0) {
    return false;  // it had ended before
  }
  if (WIFEXITED(status)) {
    CHECK(WEXITSTATUS(status) == 0);
    return false;
  }
  return WTERMSIG(status) == SIGKILL;
}

/// `runs` runs for each named point, at its first, second, ... visit, and from the first again when
/// a run ends without coming that far. Returns the number of kills.
uint64_t kill_at_named_points(uint64_t runs) {
  uint64_t kills = 0, seed = 0;
  for (const std::string_view name : crash_point_names()) {
    ScratchDir dir;  // a store lives through all runs of one point; points of creation get new ones
    const bool creation = name.rfind("superblock", 0) == 0;
    uint64_t of_name = 0, visit = 1;
    for (uint64_t run = 0; run < runs; ++run) {
      const std::string root =
          dir.path() + "/" + (creation ? std::to_string(run) : std::string("store"));
      std::filesystem::create_directories(root);
      const std::string oracle = root + "-oracle";
      const std::string at = std::string(name) + ":" + std::to_string(visit);
      INFO(at);
      const bool killed = run_child(root, oracle, ++seed, at, 0);
      of_name += killed ? 1 : 0;
      visit = killed ? visit + 1 : 1;
      Oracle& shared = *map_oracle(oracle);
      check_after(root, shared, seed);
      munmap(&shared, sizeof(Oracle));
    }
    INFO(name);
    CHECK(of_name > 0);
    kills += of_name;
  }
  return kills;
}

}  // namespace

TEST_CASE("hidden: the worker that gets killed", "[.crash-child]") {
  const char* directory = std::getenv("TROUPE_TEST_DIRECTORY");
  REQUIRE(directory != nullptr);
  set_log_level(LogLevel::kError);
  work(directory, *map_oracle(std::getenv("TROUPE_TEST_ORACLE")),
       std::strtoull(std::getenv("TROUPE_TEST_SEED"), nullptr, 10), 24);
}

TEST_CASE("kill -9 at every named point, first visit", "[store][crash][T:kill9_restart]") {
  set_log_level(LogLevel::kError);
  const uint64_t kills = kill_at_named_points(1);
  std::printf("killed %lu times\n", static_cast<unsigned long>(kills));
  CHECK(kills == crash_point_names().size());
}

TEST_CASE("kill -9 at 300 named visits", "[.slow][crash-slow]") {
  set_log_level(LogLevel::kError);
  const uint64_t kills = kill_at_named_points(20);
  std::printf("killed %lu times at named points\n", static_cast<unsigned long>(kills));
  CHECK(kills >= 300);
}

TEST_CASE("kill -9 at 500 random moments under load", "[.slow][crash-slow]") {
  set_log_level(LogLevel::kError);
  ScratchDir dir;
  const std::string root = dir.path() + "/store", oracle = dir.path() + "/oracle";
  std::filesystem::create_directories(root);
  Rng rng(2024);
  uint64_t kills = 0;
  for (uint64_t i = 0; i < 540; ++i) {
    kills += run_child(root, oracle, i, "", 1 + rng.below(180)) ? 1 : 0;
    Oracle& shared = *map_oracle(oracle);
    check_after(root, shared, i);
    munmap(&shared, sizeof(Oracle));
  }
  std::printf("killed %lu times at random moments\n", static_cast<unsigned long>(kills));
  CHECK(kills >= 500);
}

TEST_CASE("100,000 bit flips, none served", "[.slow][crash-slow][T:bitflip_on_disk]") {
  set_log_level(LogLevel::kError);
  MemoryStore at(32);
  Payload memory;
  for (uint32_t i = 0; i < 32; ++i) {
    write_block(*at.store, block_at(i, i), memory);
  }
  Rng rng(77);
  uint64_t refused = 0, right = 0;
  for (int flip = 0; flip < 100000; ++flip) {
    const auto granule = static_cast<uint32_t>(rng.below(32));
    const uint64_t bit = rng.below(uint64_t{kGranule} * 8);
    std::byte& victim = at.disk.file(0)[granule * kGranule + bit / 8];
    victim ^= static_cast<std::byte>(1U << (bit % 8));
    const TestBlock block = block_at(granule, granule);
    const StoreCompletion done = read_block(*at.store, block, memory);
    if (done.verdict == StoreVerdict::kOk) {
      REQUIRE(memory.holds(block));
      ++right;  // the flip hit the trailer, which is not read on this path
      BlockRecord record;
      const auto trailer =
          std::span(at.disk.file(0)).subspan(granule * kGranule + block.payload_bytes, 4096);
      REQUIRE(decode_trailer(trailer, record) != RecordFault::kNone);
    } else {
      REQUIRE(!memory.holds(block));
      ++refused;
      at.store->reinstate(block.slot);
    }
    write_block(*at.store, block, memory);
  }
  std::printf("refused %lu, right all the same %lu, wrong bytes served 0\n",
              static_cast<unsigned long>(refused), static_cast<unsigned long>(right));
  CHECK(refused > 60000);
}
