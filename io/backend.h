// Backend: the narrow seam under BlockDevice. A backend starts single chunks and reports raw
// results, as the kernel does: short counts, negative errno, any order. Everything that makes a
// device trustworthy (continuation, retries, order, limits) is written once above it, in
// queued_device. Invariants: every started chunk gives at most one result with its tag; a chunk
// that `start` refused was not started. Backends never look at tags.
#pragma once

#include "io/block_device.h"

#include <cstdint>
#include <span>
#include <string>
#include <sys/uio.h>

namespace troupe::io {

/// One chunk: one or two pieces of memory, contiguous in the file.
struct RawOp {
  IoOp op = IoOp::kRead;
  uint32_t file = 0;
  uint64_t offset = 0;
  iovec pieces[2] = {};
  uint32_t piece_count = 0;
  uint64_t tag = 0;
  uint64_t bytes() const noexcept {
    return pieces[0].iov_len + (piece_count > 1 ? pieces[1].iov_len : 0);
  }
};

struct RawResult {
  uint64_t tag = 0;
  int64_t result = 0;  // bytes moved or -errno
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// False: no room now (reap first). The RawOp is copied; `pieces` memory stays valid until its
  /// result.
  virtual bool start(const RawOp& op) = 0;
  /// Hands started chunks to the kernel. Transient refusals (EAGAIN, EBUSY, EINTR) are not
  /// reported: the chunks stay queued. An error means that the backend is broken for good.
  virtual Status flush() = 0;
  /// Up to out.size() results. wait: sleep until one, a wake, or the timeout [ns; < 0: none].
  virtual size_t reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) = 0;
  virtual void wake() = 0;
  virtual Status register_buffers(std::span<const std::span<std::byte>> buffers) = 0;
  /// Fills backend, note, direct, fixed_* of the capabilities.
  virtual void describe(IoCapabilities& capabilities) const = 0;
  /// How often results outran the place for them (they are kept, not lost).
  virtual uint64_t overflows() const noexcept { return 0; }
};

}  // namespace troupe::io
