// The memory backend: files that are vectors, for tests and simulation. Completions come in the
// order the owner wants: at once in order, in a seeded order, or only when cranked by hand. Under
// queued_device. Invariants: nothing here sleeps or reads a clock; equal seeds and calls give equal
// completions; a write reaches the bytes when it completes, not when it starts (so a crash of the
// owner loses what is pending).
#pragma once

#include "io/backend.h"
#include "io/memory/faults.h"
#include "runtime/base/rng.h"

#include <memory>
#include <vector>

namespace troupe::io {

enum class CompletionOrder : uint8_t { kFirstCome = 0, kSeeded, kCranked };

/// The medium. It outlives devices over it, so a test can close, "crash" and open again.
class MemoryDisk {
 public:
  /// `bytes` of zeros per file.
  MemoryDisk(const std::vector<uint64_t>& file_bytes, CompletionOrder order, uint64_t seed = 1);

  /// Completes up to `count` pending operations, in the seeded order unless order is first come.
  /// Returns how many. [the device's thread]
  size_t crank(size_t count);
  /// Forgets what is pending: a crash. Devices over this disk must not be used afterwards.
  void crash() noexcept { pending_.clear(), results_.clear(); }
  std::vector<std::byte>& file(size_t i) { return files_[i]; }
  size_t file_count() const noexcept { return files_.size(); }
  size_t pending() const noexcept { return pending_.size(); }

 private:
  friend class MemoryBackend;
  int64_t perform(const RawOp& op);

  std::vector<std::vector<std::byte>> files_;
  CompletionOrder order_;
  Rng rng_;
  std::vector<RawOp> pending_;
  std::vector<RawResult> results_;
};

struct MemoryDeviceOptions {
  uint32_t depth = 32;
  uint32_t chunk_bytes = 1U << 20;
  uint32_t queue_limit = 8192;
  uint32_t alignment = 512;
  std::shared_ptr<FaultInjector> faults{};  // may be null
};

/// A device over `disk`, which must outlive it. Error: invalid_argument.
Expected<std::unique_ptr<BlockDevice>> open_memory_device(MemoryDisk& disk,
                                                          const MemoryDeviceOptions& options);

}  // namespace troupe::io
