// The disk tier as the movers use it: block records in a DiskStore, moved in batches at the store's
// depth. On a request's way: step 8, for blocks that lie on disk. The store belongs to one thread
// at a time; device_stream (loads) and disk_mover (demotions) share it behind a lock, a batch each.
// Blocks prove themselves when they come back (record, checksum); what does not is a typed miss.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "io/store/disk_store.h"

namespace troupe {

struct DiskTierOptions {
  std::string directory;
  uint32_t granules = 0;
  uint32_t granule_bytes = 4096;  // real bytes, a multiple of 4096
  uint64_t namespace_fingerprint = 0;
};

/// One block to or from the disk. `payload`: granule_bytes * slot.count, aligned to 4096.
struct DiskOp {
  bool read = false;
  Slot slot;
  uint32_t block = 0;
  std::span<std::byte> payload;
  Code code = Code::kOk;  // result
  uint64_t checksum = 0;  // result: of the payload
};

class DiskTier {
 public:
  /// Ephemeral: the file is unlinked and dies with the process. Errors: as DiskStore::open.
  static Expected<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options);
  /// Does all of `ops` and waits for them; every op has its result. [any thread]
  void run(std::span<DiskOp> ops);

 private:
  explicit DiskTier(const DiskTierOptions& options) : options_(options) {}
  void submit(DiskOp& op, size_t index);
  void reap(std::span<DiskOp> ops);

  DiskTierOptions options_;
  std::mutex mutex_;
  std::unique_ptr<io::DiskStore> store_;
};

}  // namespace troupe
