// `troupe tiers` and `troupe fsck` over real directories with good, damaged and lost records.
#include "apps/tiers/tiers.h"

#include "io/store/inspect.h"
#include "runtime/base/log.h"
#include "tests/io/store_fixture.h"

#include <catch2/catch.hpp>

#include <fstream>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

StoreOptions options_for(const std::string& directory) {
  return {.directory = directory, .classes = {{kGranule, 64}}, .durability = Durability::kCrash};
}

void fill_store(const std::string& directory, uint32_t blocks) {
  auto store = DiskStore::open(options_for(directory));
  REQUIRE(store.is_ok());
  Payload memory;
  for (uint32_t i = 0; i < blocks; ++i) {
    write_block(**store, block_at(i, i * 2, 2), memory);
  }
  REQUIRE((*store)->close(std::vector<std::byte>(10), 10'000'000'000).is_ok());
}

void flip(const std::string& path, uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const auto byte = static_cast<char>(file.get() ^ 1);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

int call(int (*program)(int, char**), std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  return program(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("inspection counts and changes nothing", "[tiers]") {
  ScratchDir dir;
  fill_store(dir.path(), 20);
  std::map<std::string, std::pair<uint64_t, std::filesystem::file_time_type>> before;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().filename() != "lock") {
      before[entry.path()] = {entry.file_size(), entry.last_write_time()};
    }
  }
  {
    const auto store = inspect_store(dir.path());
    REQUIRE(store.is_ok());
    CHECK(store->table.live_rows() == 20);
    CHECK(store->table.live_granules() == 40);
    CHECK(store->policy_bytes == 10);
    CHECK(!store->report.cold);
    CHECK(call(apps::tiers_main, {"tiers", dir.path()}) == 3);  // in use: by us
  }
  CHECK(call(apps::tiers_main, {"tiers", dir.path()}) == 0);
  CHECK(call(apps::tiers_main, {"tiers", dir.path(), "--json"}) == 0);
  CHECK(call(apps::fsck_main, {"fsck", dir.path()}) == 0);
  for (const auto& [path, was] : before) {
    CHECK(std::filesystem::file_size(path) == was.first);
    CHECK(std::filesystem::last_write_time(path) == was.second);
  }
  CHECK(call(apps::tiers_main, {"tiers"}) == 2);
  CHECK(call(apps::tiers_main, {"tiers", dir.path() + "/no"}) == 1);
}

TEST_CASE("fsck finds a flip in payload or trailer, and repair drops just that", "[tiers]") {
  for (const uint64_t at : {uint64_t{4 * kGranule + 99}, uint64_t{6 * kGranule - 4096 + 40}}) {
    ScratchDir dir;
    fill_store(dir.path(), 20);
    flip(dir.path() + "/data.0", at);
    CHECK(call(apps::fsck_main, {"fsck", dir.path()}) == 1);
    CHECK(call(apps::fsck_main, {"fsck", dir.path(), "--repair"}) == 0);
    CHECK(call(apps::fsck_main, {"fsck", dir.path(), "--json"}) == 0);
    auto store = DiskStore::open(options_for(dir.path()));
    REQUIRE(store.is_ok());
    CHECK((*store)->table().live_rows() == 19);
    CHECK((*store)->find(block_at(2, 4, 2).slot) == nullptr);
  }
}

TEST_CASE("a repair brings nothing back that was dropped", "[tiers]") {
  ScratchDir dir;
  fill_store(dir.path(), 20);
  {
    auto store = DiskStore::open(options_for(dir.path()));
    REQUIRE(store.is_ok());
    REQUIRE((*store)->drop(block_at(3, 6, 2).slot).is_ok());
  }
  CHECK(call(apps::fsck_main, {"fsck", dir.path(), "--repair"}) == 0);
  const auto store = inspect_store(dir.path());
  REQUIRE(store.is_ok());
  CHECK(store->table.live_rows() == 19);
}

TEST_CASE("rebuild finds every record again when the index is lost",
          "[tiers][T:checkpoint_rebuild]") {
  set_log_level(LogLevel::kError);
  ScratchDir dir;
  fill_store(dir.path(), 20);
  flip(dir.path() + "/snapshot", 200);
  flip(dir.path() + "/data.0", 8 * kGranule + 5);  // one record is damaged: it must not come back
  CHECK(call(apps::fsck_main, {"fsck", dir.path(), "--rebuild"}) == 2);
  CHECK(call(apps::fsck_main, {"fsck", dir.path(), "--repair", "--rebuild"}) == 0);
  auto store = DiskStore::open(options_for(dir.path()));
  REQUIRE(store.is_ok());
  CHECK((*store)->table().live_rows() == 19);
  Payload memory;
  for (uint32_t i = 0; i < 20; ++i) {
    const StoreCompletion done = read_block(**store, block_at(i, i * 2, 2), memory);
    CHECK(done.verdict == (i == 4 ? StoreVerdict::kMissing : StoreVerdict::kOk));
    CHECK(memory.holds(block_at(i, i * 2, 2)) == (i != 4));
  }
  CHECK(write_block(**store, block_at(50, 0, 2, 9), memory).verdict == StoreVerdict::kOk);
  set_log_level(LogLevel::kInfo);
}
