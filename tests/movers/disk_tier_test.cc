// DiskTier: batches of several threads at once, each with its own bytes back.
#include "actors/movers/disk_tier.h"

#include "io/arena.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace troupe {
namespace {

constexpr uint32_t kGranule = 4096;

struct Folder {
  std::string path = std::filesystem::temp_directory_path() / "troupe-test-XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

io::KeyDigest key_of(uint32_t block) {
  io::KeyDigest key{};
  std::memcpy(key.data(), &block, sizeof(block));
  key[31] = std::byte{1};  // all zeros are no key
  return key;
}

/// Writes `count` blocks from slot `first` on, reads them back in batches of seven, many times;
/// returns how many came back wrong.
uint64_t write_and_read(DiskTier& tier, uint32_t first, uint32_t count, int rounds) {
  auto arena = io::Arena::create(size_t{count} * kGranule, io::ArenaOptions{});
  if (!arena) {
    return UINT64_MAX;
  }
  const std::span<std::byte> bytes = arena->bytes();
  const auto ops = [&](bool read, uint32_t generation) {
    std::vector<DiskOp> list(count);
    for (uint32_t i = 0; i < count; ++i) {
      list[i].read = read;
      list[i].key = key_of(first + i);
      list[i].slot = Slot{GranuleId{first + i}, 1, generation};
      list[i].payload = bytes.subspan(size_t{i} * kGranule, kGranule);
    }
    return list;
  };
  uint64_t wrong = 0;
  for (int round = 1; round <= rounds; ++round) {
    const auto generation = static_cast<uint32_t>(round);
    const auto value = static_cast<int>((first + generation) & 0xFF);
    std::memset(bytes.data(), value, bytes.size());
    auto writes = ops(false, generation);
    tier.run(writes);
    std::memset(bytes.data(), 0, bytes.size());
    auto reads = ops(true, generation);
    for (size_t at = 0; at < reads.size(); at += 7) {
      tier.run(std::span(reads).subspan(at, std::min<size_t>(7, reads.size() - at)));
    }
    for (uint32_t i = 0; i < count; ++i) {
      const bool good = writes[i].code == Code::kOk && reads[i].code == Code::kOk &&
                        bytes[size_t{i} * kGranule] == static_cast<std::byte>(value) &&
                        bytes[size_t{i + 1} * kGranule - 1] == static_cast<std::byte>(value);
      wrong += good ? 0 : 1;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("two movers use one disk tier from threads of their own") {
  const Folder folder;
  auto tier = DiskTier::open({folder.path, 256, kGranule, 1});
  REQUIRE(tier);
  uint64_t wrong[2] = {1, 1};
  std::thread other([&] { wrong[0] = write_and_read(**tier, 0, 100, 20); });
  wrong[1] = write_and_read(**tier, 128, 100, 20);
  other.join();
  CHECK(wrong[0] == 0);
  CHECK(wrong[1] == 0);
}

TEST_CASE("a slot of another generation, or one that was never written, is a typed miss") {
  const Folder folder;
  auto tier = DiskTier::open({folder.path, 8, kGranule, 1});
  REQUIRE(tier);
  auto arena = io::Arena::create(kGranule, io::ArenaOptions{});
  REQUIRE(arena);
  DiskOp write{
      .read = false, .slot = Slot{GranuleId{2}, 1, 5}, .key = key_of(1), .payload = arena->bytes()};
  (*tier)->run({&write, 1});
  REQUIRE(write.code == Code::kOk);
  for (const Slot slot : {Slot{GranuleId{2}, 1, 6}, Slot{GranuleId{3}, 1, 5}}) {
    DiskOp read{.read = true, .slot = slot, .key = key_of(1), .payload = arena->bytes()};
    (*tier)->run({&read, 1});
    CHECK(read.code != Code::kOk);
  }
}

TEST_CASE("a directory that cannot be made is an error that names it") {
  const auto tier = DiskTier::open({"/proc/no-such/place", 8, kGranule, 1});
  REQUIRE_FALSE(tier);
  CHECK(tier.status().text().find("/proc/no-such/place") != std::string::npos);
}

}  // namespace troupe
