// BlockDevice: asynchronous reads and writes at offsets of a few open files. On a request's way:
// the disk mover hands batches of block records to one of these and turns completions into
// messages.
//
//   queue (reads before writes, by priority, bounded) -> chunks (<= chunk_bytes) -> at most depth
//   in flight
//
// Invariants: every accepted request completes exactly once, and is matched by user_data alone;
// until then its buffer belongs to the device; a completion without error moved every byte; a big
// transfer is cut in chunks, so a read waits for at most the chunks already in flight. No order
// holds between requests: whoever needs one waits for the completion. Threads: one device belongs
// to one thread, the one of its first submit (rings are bound to it); `wake` alone may come from
// any thread. One device per I/O thread.
#pragma once

#include "io/os.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::io {

enum class IoOp : uint8_t { kRead = 1, kWrite = 2, kSync = 3 };

/// 0 is served first. Among equals: reads before writes, then first come.
constexpr uint8_t kPriorityUrgent = 0;
constexpr uint8_t kPriorityNormal = 1;
constexpr uint8_t kPriorityBackground = 2;
constexpr uint8_t kPriorityCount = 3;

/// One transfer of `length + tail_length` bytes at `offset` of file number `file`. The tail is a
/// second piece of memory that follows on disk (a record's trailer), so that payloads need no copy
/// to be framed. Offsets, lengths and addresses are multiples of capabilities().alignment. kSync
/// ignores all but `file`: it makes durable what had completed before it was submitted (fdatasync).
struct IoRequest {
  IoOp op = IoOp::kRead;
  uint8_t priority = kPriorityNormal;
  uint32_t file = 0;
  uint64_t offset = 0;
  std::byte* buffer = nullptr;
  uint64_t length = 0;
  std::byte* tail = nullptr;
  uint64_t tail_length = 0;
  uint64_t user_data = 0;
};

struct IoCompletion {
  uint64_t user_data = 0;
  uint64_t bytes = 0;  // moved without a hole from the start of the request
  int error = 0;       // errno, 0 when all bytes moved; ENODATA: the file ends inside the range
};

struct IoCapabilities {
  std::string backend;        // "io_uring", "posix" or "memory"
  std::string note;           // what was asked for and is missing, and why; empty when nothing is
  uint32_t alignment = 4096;  // of offsets, lengths and addresses
  uint32_t depth = 0;         // chunks in flight at most
  uint32_t chunk_bytes = 0;
  bool direct = false;  // all files bypass the page cache
  bool fixed_buffers = false;
  bool fixed_files = false;
};

/// Counters since the device opened, for metrics and tests.
struct IoStats {
  uint64_t reads = 0, writes = 0, syncs = 0;  // requests completed
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t chunks = 0;           // handed to the backend, continuations and retries included
  uint64_t continued = 0;        // short transfers continued
  uint64_t retried = 0;          // EINTR, EAGAIN, ECANCELED, and the one retry of a failed read
  uint64_t failed = 0;           // requests completed with an error
  uint64_t unknown_results = 0;  // backend results that match nothing in flight: ignored
  uint64_t in_flight_max = 0;
  uint64_t overflows = 0;  // of the completion ring: results the kernel had to keep for us
};

class BlockDevice {
 public:
  virtual ~BlockDevice() = default;

  /// Takes the whole batch or none of it. Errors: invalid_argument (names the request and field),
  /// no_capacity (queue limit; `room` says how many fit), unavailable (closed or broken backend).
  virtual Status submit(std::span<const IoRequest> batch) = 0;
  /// Moves work along without blocking and takes up to out.size() completions. Returns how many.
  virtual size_t poll(std::span<IoCompletion> out) = 0;
  /// As poll, but sleeps until at least one completion, `wake`, or the timeout [ns; < 0: none].
  /// Returns at once when nothing is outstanding.
  virtual size_t wait(std::span<IoCompletion> out, int64_t timeout_ns) = 0;
  /// Makes a current or the next `wait` return. [any thread]
  virtual void wake() = 0;
  /// Gives long-lived memory to the backend, once, before the first submit: transfers inside it are
  /// cheaper. A refusal (small RLIMIT_MEMLOCK) is no error: capabilities().fixed_buffers stays
  /// false and the note says why. The spans must outlive the device.
  virtual Status register_buffers(std::span<const std::span<std::byte>> buffers) = 0;

  virtual size_t room() const noexcept = 0;
  virtual size_t outstanding()
      const noexcept = 0;  // accepted and not yet handed out as completions
  virtual const IoCapabilities& capabilities() const noexcept = 0;
  virtual const IoStats& stats() const noexcept = 0;

  /// Refuses new work, waits for all in flight (the kernel still writes into buffers until then)
  /// and closes the files. Completions not yet taken are lost. Error: deadline when something hangs
  /// beyond the timeout; its buffers must then never be reused, and the device stays open for
  /// another try.
  virtual Status close(int64_t timeout_ns) = 0;
};

class FaultInjector;  // memory/faults.h

enum class BackendChoice : uint8_t { kAuto = 0, kUring, kPosix };

struct BlockDeviceOptions {
  std::vector<Fd> files;  // owned by the device from then on; file numbers are positions here
  BackendChoice backend = BackendChoice::kAuto;
  uint32_t depth = 32;                      // 1 to 1024
  uint32_t chunk_bytes = 1U << 20;          // 4 KiB to 1 MiB
  uint32_t queue_limit = 8192;              // requests accepted and not completed
  uint32_t alignment = 4096;                // power of two, 512 to 65536
  uint32_t posix_threads = 0;               // 0: min(depth, 16)
  uint32_t uring_entries = 0;               // submission ring; 0: one place per chunk in flight
  bool uring_plain = false;                 // no task-work flags: what kernels before 5.19 give
  std::shared_ptr<FaultInjector> faults{};  // for tests; null in production
};

/// Opens the asked-for backend; kAuto probes io_uring and falls back to the pread pool, which is
/// logged and kept in capabilities().note. Errors: invalid_argument, or why the chosen backend
/// can't work.
Expected<std::unique_ptr<BlockDevice>> open_block_device(BlockDeviceOptions options);

struct DataFileOptions {
  std::string directory;
  std::string name;    // empty: unlinked from the start (O_TMPFILE), gone with the process
  uint64_t bytes = 0;  // reserved on the file system at once
  bool direct = true;  // O_DIRECT where the file system knows it, else the page cache
};

struct DataFile {
  Fd fd;
  bool direct = false;
  uint32_t alignment = 4096;  // what the file system asks for direct I/O
  uint64_t bytes = 0;
  std::string note;
};

/// Opens (creates) a data file of exactly `bytes`, reserved, mode 0600. Errors: no_capacity with
/// the free space, unavailable, not_found (no such directory), io.
Expected<DataFile> open_data_file(const DataFileOptions& options);

}  // namespace troupe::io
