// The pread/pwrite backend: worker threads over blocking calls, an equal citizen where io_uring is
// blocked (many containers) or absent. Under queued_device.
// Invariants: workers touch only chunks they took; results are handed over under the lock; the
// destructor lets running calls end (they can't be interrupted) and drops chunks nobody took.
#pragma once

#include "io/backend.h"

#include <memory>
#include <vector>

namespace troupe::io {

/// Starts `threads` workers over `files` (owned from then on). Error: no_capacity (no thread to be
/// had).
Expected<std::unique_ptr<Backend>> open_posix_backend(std::vector<Fd>& files, uint32_t depth,
                                                      uint32_t threads);

}  // namespace troupe::io
