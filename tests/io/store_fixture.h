// Shared by the store tests: a model of what was written (payload and record from a seed), a store
// over memory that survives its "process", and helpers that run one operation to its end.
#pragma once

#include "io/store/disk_store.h"
#include "tests/io/io_fixture.h"

#include <map>

namespace troupe::io::test {

constexpr uint32_t kGranule = 16384;

inline KeyDigest key_of(uint64_t id) {
  KeyDigest key{};
  Rng rng(id + 1);
  for (size_t i = 0; i < 4; ++i) {
    const uint64_t word = rng.next();
    std::memcpy(key.data() + 8 * i, &word, 8);
  }
  return key;
}

/// Everything about block `id` of content version `version`, from the two numbers.
struct TestBlock {
  uint64_t id = 0;
  uint64_t version = 0;
  Slot slot;
  uint32_t payload_bytes = 12288;
  uint64_t seed() const { return id * 1000003 + version; }
  BlockRecord record() const {
    BlockRecord record;
    record.format = static_cast<uint16_t>(id % 5);
    record.namespace_fingerprint = 0xABCD;
    record.domain = static_cast<uint32_t>(id % 3);
    record.key = key_of(id);
    record.parent = id == 0 ? KeyDigest{} : key_of(id - 1);
    record.depth = static_cast<uint32_t>(id);
    record.extra.assign(64, static_cast<std::byte>(id & 0xFF));
    return record;
  }
  RecordExpectation expected() const {
    const BlockRecord r = record();
    return {.key = r.key,
            .namespace_fingerprint = r.namespace_fingerprint,
            .domain = r.domain,
            .format = r.format,
            .slot = slot};
  }
};

inline StoreCompletion finish_one(DiskStore& store) {
  StoreCompletion done[1];
  size_t count = 0;
  while (count == 0) {
    count = store.wait(done, -1);
  }
  return done[0];
}

/// One block of scratch memory for payloads.
class Payload {
 public:
  explicit Payload(size_t bytes = 1 << 20) {
    auto arena = Arena::create(bytes, {.alignment = 4096, .huge_pages = false});
    TROUPE_ASSERT(arena.is_ok());
    arena_ = std::move(arena).value();
  }
  std::span<std::byte> of(const TestBlock& block) {
    const auto bytes = arena_.slice(0, block.payload_bytes);
    fill(bytes, block.seed());
    return bytes;
  }
  std::span<std::byte> empty(const TestBlock& block) {
    const auto bytes = arena_.slice(0, block.payload_bytes);
    std::memset(bytes.data(), 0xEE, bytes.size());
    return bytes;
  }
  bool holds(const TestBlock& block) {
    std::vector<std::byte> right(block.payload_bytes);
    fill(right, block.seed());
    return std::memcmp(arena_.data(), right.data(), right.size()) == 0;
  }

 private:
  Arena arena_;
};

inline StoreCompletion write_block(DiskStore& store, const TestBlock& block, Payload& memory) {
  const WriteBlock write{.slot = block.slot,
                         .record = block.record(),
                         .payload = memory.of(block),
                         .user_data = block.id};
  const Status status = store.write({&write, 1});
  if (!status) {
    std::fprintf(stderr, "%s\n", status.to_string().c_str());
  }
  TROUPE_ASSERT(status.is_ok());
  return finish_one(store);
}

inline StoreCompletion read_block(DiskStore& store, const TestBlock& block, Payload& memory) {
  const ReadBlock read{
      .expected = block.expected(), .payload = memory.empty(block), .user_data = block.id};
  TROUPE_ASSERT(store.read({&read, 1}).is_ok());
  return finish_one(store);
}

/// A store whose disk and metadata outlive it.
struct MemoryStore {
  uint32_t granules;
  Durability durability = Durability::kCrash;
  std::shared_ptr<FaultInjector> faults = std::make_shared<FaultInjector>(5);
  MemoryDisk disk;
  MemoryMeta meta;
  std::unique_ptr<DiskStore> store;

  explicit MemoryStore(uint32_t granule_count = 64, Durability level = Durability::kCrash)
      : granules(granule_count),
        durability(level),
        disk({uint64_t{granule_count} * kGranule}, CompletionOrder::kFirstCome) {
    open();
  }
  void open(StoreOptions options = {}) {
    store.reset();
    disk.crash();
    options.directory = "memory";
    options.classes = {{kGranule, granules}};
    options.durability = durability;
    auto device = open_memory_device(disk, {.alignment = 4096, .faults = faults});
    TROUPE_ASSERT(device.is_ok());
    auto opened = DiskStore::open_over(
        std::move(options),
        {.device = std::move(device).value(),
         .meta = durability == Durability::kEphemeral ? nullptr : open_memory_meta(meta)});
    if (!opened) {
      std::fprintf(stderr, "%s\n", opened.status().to_string().c_str());
    }
    TROUPE_ASSERT(opened.is_ok());
    store = std::move(opened).value();
  }
};

inline TestBlock block_at(uint64_t id, uint32_t granule, uint32_t count = 1,
                          uint32_t generation = 1) {
  return {.id = id,
          .version = generation,
          .slot = {GranuleId(granule), count, generation},
          .payload_bytes = count * kGranule - 4096};
}

}  // namespace troupe::io::test
