// The movers' memory below the device: bytes come back only under the content key with which they
// went down, on the host tier as on disk, and a disk under a deadline answers in time.
#include "actors/movers/tier_memory.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/core/frame.h"
#include "runtime/core/wire.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace troupe {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr uint32_t kBlocks = 8;

struct Folder {
  std::string path = "/tmp/troupe-movers-XXXXXX";
  Folder() { REQUIRE(mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

struct Tiers {
  Folder folder;
  io::Arena device_arena, host_arena;
  std::unique_ptr<kernels::CpuDevice> device;
  std::unique_ptr<DiskTier> disk;
  std::unique_ptr<TierMemory> memory;
  kernels::StreamId stream;
  FrameScratch scratch;

  explicit Tiers(DiskUnder under = {}) {
    auto arena = io::Arena::create(kBlocks * kBytes, {});
    auto lower = io::Arena::create(kBlocks * kBytes, {});
    REQUIRE(arena.is_ok());
    REQUIRE(lower.is_ok());
    device_arena = std::move(*arena);
    host_arena = std::move(*lower);
    kernels::CpuDeviceOptions options;
    options.memory = device_arena.bytes();
    options.execution = kernels::CpuExecution::kInline;
    auto made = kernels::CpuDevice::create(options);
    REQUIRE(made.is_ok());
    device = std::move(*made);
    const auto region = device->add_region(host_arena.bytes());
    REQUIRE(region.is_ok());
    stream = *device->create_stream();
    auto opened = DiskTier::open({folder.path, kBlocks, kBytes, 1, std::move(under)});
    INFO(opened.status().to_string());
    REQUIRE(opened.is_ok());
    disk = std::move(*opened);
    memory = std::make_unique<TierMemory>(*device, kBytes, ModelledLinks{});
    memory->add_tier(Tier::kDevice, kernels::kDeviceRegion, kBlocks, device_arena.bytes());
    memory->add_tier(Tier::kHost, *region, kBlocks, host_arena.bytes());
    memory->add_disk(*disk, kBlocks);
  }
  std::span<std::byte> device_block(uint32_t slot) {
    return device_arena.bytes().subspan(slot * kBytes, kBytes);
  }
  /// Moves slot `slot` of tier `from` to the same slot of `to`.
  Code move(Tier from, Tier to, uint32_t slot, const BlockKey& key) {
    const Frame frame = scratch.build(FrameHeader{}, 256, [&](wire::Message::Builder m) {
      auto copy = m.initTransfer().initCopies(1)[0];
      copy.setBlock(slot);
      copy.setKey(data_of(std::span(&key, 1)));
      for (auto [ref, tier] :
           {std::pair(copy.initSource(), from), std::pair(copy.initTarget(), to)}) {
        ref.setTier(static_cast<uint8_t>(tier));
        ref.setFirst(slot);
        ref.setCount(1);
        ref.setGeneration(tier == Tier::kDevice ? 1 : 9);
      }
    });
    FrameReader reader(frame.words());
    return move_blocks(*memory, stream, reader.message().getTransfer().getCopies())[0].code;
  }
};

BlockKey key_of(uint64_t n) {
  return {{n, 1, 2, 3}};
}

}  // namespace

TEST_CASE("bytes come back under their own content key only", "[T:swap_isolation]") {
  Tiers t;
  for (const Tier tier : {Tier::kHost, Tier::kDisk}) {
    INFO("tier " << static_cast<int>(tier));
    std::memset(t.device_block(2).data(), 0x5A, kBytes);
    REQUIRE(t.move(Tier::kDevice, tier, 2, key_of(1)) == Code::kOk);
    std::memset(t.device_block(2).data(), 0, kBytes);
    CHECK(t.move(tier, Tier::kDevice, 2, key_of(1)) == Code::kOk);
    CHECK(t.device_block(2)[kBytes - 1] == std::byte{0x5A});
    CHECK(t.move(tier, Tier::kDevice, 2, key_of(7)) != Code::kOk);
    CHECK(t.move(tier, Tier::kDevice, 3, key_of(1)) != Code::kOk);  // nothing was written there
  }
}

TEST_CASE("nothing goes to disk without a key", "[T:key_domain_separation]") {
  Tiers t;
  CHECK(t.move(Tier::kDevice, Tier::kDisk, 1, BlockKey{}) == Code::kInvalidArgument);
}

TEST_CASE("a batch over a disk that hangs ends at its deadline, and others go on",
          "[T:pending_deadline][T:staging_lifetime]") {
  DiskUnder under;
  under.deadline_ns = 1'000'000'000;
  under.faults = std::make_shared<io::FaultInjector>(1);
  auto faults = under.faults;
  faults->add({.fault = io::Fault::kHang, .op = io::IoOp::kRead, .nth = 0});
  Tiers t(std::move(under));
  std::memset(t.device_block(2).data(), 0x11, kBytes);
  REQUIRE(t.move(Tier::kDevice, Tier::kDisk, 2, key_of(2)) == Code::kOk);
  std::memset(t.device_block(2).data(), 0x22, kBytes);
  CHECK(t.move(Tier::kDisk, Tier::kDevice, 2, key_of(2)) == Code::kDeadline);
  // The hanging read may end at any time: what it brings lands in staging, not here.
  faults->release_hangs();
  CHECK(t.move(Tier::kDisk, Tier::kDevice, 2, key_of(2)) == Code::kOk);
  CHECK(t.device_block(2)[0] == std::byte{0x11});
}

}  // namespace troupe
