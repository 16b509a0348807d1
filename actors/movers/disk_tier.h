// The disk tier as the movers use it: block records in a DiskStore, moved at the store's depth. On
// a request's way: step 8, for blocks that lie on disk. The store, and the ring under it, belong to
// one thread: it is opened, used and closed there. device_stream (loads) and disk_mover (demotions)
// hand batches over and wait; batches of both are under way together, and the store puts reads
// before writes. Blocks prove themselves when they come back (record, checksum); what does not is a
// typed miss.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

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
  /// Waits for the batches at hand; none may come any more.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;
  /// Does all of `ops` and waits for them; every op has its result. [any thread]
  void run(std::span<DiskOp> ops);

 private:
  struct Batch {
    std::span<DiskOp> ops;
    size_t submitted = 0;
    size_t open = 0;  // without a result
  };
  explicit DiskTier(const DiskTierOptions& options) : options_(options) {}
  Status open_store();
  void serve();
  void submit(uint64_t tag);
  void submit_what_fits();
  void reap();
  void end(DiskOp& op, Code code, uint64_t tag);
  DiskOp& op_of(uint64_t tag) { return active_[tag >> 32]->ops[tag & 0xFFFFFFFFU]; }

  DiskTierOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch*> arrived_;  // under mutex_
  bool stopping_ = false;       // under mutex_

  // Of the I/O thread alone.
  std::unique_ptr<io::DiskStore> store_;
  std::vector<Batch*> active_;  // by the upper half of a tag; nullptr: free
  std::thread thread_;
};

}  // namespace troupe
