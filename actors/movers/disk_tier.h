// The disk tier as the movers use it: block records in a DiskStore, moved at the store's depth. On
// a request's way: step 8, for blocks that lie on disk. The store, and the ring under it, belong to
// one thread: it is opened, used and closed there. device_stream (loads) and disk_mover (demotions)
// hand batches over and wait; batches of both are under way together, and the store puts reads
// before writes. Bytes go through staging memory, checksummed as they are copied, so that a batch
// can leave at its deadline: what a device that hangs still writes, it writes into staging, which
// is not used again before the late completion. Blocks prove themselves when they come back
// (record, checksum); what does not is a typed miss.
#pragma once

#include "io/arena.h"
#include "io/store/disk_store.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace troupe {

/// What lies under the tier, and how long it may take.
struct DiskUnder {
  io::BackendChoice backend = io::BackendChoice::kAuto;
  int64_t deadline_ns =
      0;  // of a batch, from when it was handed over; 0: waits as long as it takes
  std::shared_ptr<io::FaultInjector> faults{};  // for tests; null in production
  uint32_t uring_entries = 0;                   // as io::BlockDeviceOptions
  bool uring_plain = false;
};

/// What the tier's store and device did so far.
struct DiskCounts {
  std::string backend;  // "io_uring" or "posix"
  std::string note;     // what the machine did not grant, and why; empty when nothing is missing
  io::StoreStats store;
  io::IoStats device;
};

struct DiskTierOptions {
  std::string directory;
  uint32_t granules = 0;
  uint32_t granule_bytes = 4096;  // real bytes, a multiple of 4096
  uint64_t namespace_fingerprint = 0;
  DiskUnder under{};
};

/// One block to or from the disk. `payload`: granule_bytes * slot.count, at most kStagingMax.
struct DiskOp {
  bool read = false;
  Slot slot;
  io::KeyDigest key{};  // of the content; not all zeros
  std::span<std::byte> payload;
  Code code = Code::kOk;  // result
  uint64_t checksum = 0;  // result: of the payload
};

class DiskTier {
 public:
  /// Ephemeral: the file is unlinked and dies with the process. Errors: as DiskStore::open.
  static Expected<std::unique_ptr<DiskTier>> open(const DiskTierOptions& options);
  static constexpr size_t kStagingMax = size_t{64} << 20;
  /// Waits for the batches at hand; none may come any more.
  ~DiskTier();
  DiskTier(const DiskTier&) = delete;
  DiskTier& operator=(const DiskTier&) = delete;
  /// Does all of `ops` and waits for them, until the deadline at most; every op has its result.
  /// [any thread]
  void run(std::span<DiskOp> ops);
  /// As of the last batch that ended. [any thread]
  DiskCounts counts() const;

 private:
  struct Batch {
    std::span<DiskOp> ops;
    int64_t deadline_ns = 0;  // on the steady clock
    size_t submitted = 0;
    size_t open = 0;  // without a result
  };
  /// One operation of the store. It may outlive its batch, the staging with it.
  struct Flight {
    Batch* batch = nullptr;  // null: nobody waits for it (any more)
    size_t op = 0;
    std::span<std::byte> staging;
  };
  explicit DiskTier(const DiskTierOptions& options) : options_(options) {}
  Status open_store();
  void serve();
  void close_store();
  bool take_arrived();
  void submit_what_fits();
  void submit(Batch& batch, uint32_t flight);
  void reap();
  void expire();
  void end(Batch& batch, DiskOp& op, Code code);
  int64_t patience_ns() const;

  DiskTierOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch*> arrived_;  // under mutex_
  bool stopping_ = false;       // under mutex_
  DiskCounts counts_;           // under mutex_

  // Of the I/O thread alone, but for the store's wake.
  io::Arena staging_;
  std::unique_ptr<io::DiskStore> store_;
  std::vector<Batch*> active_;  // in the order of their coming, so of their deadlines
  std::vector<Flight> flights_;
  std::vector<uint32_t> free_flights_;
  std::thread thread_;
};

}  // namespace troupe
