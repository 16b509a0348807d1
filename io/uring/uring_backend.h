// The io_uring backend: one ring, registered files, registered buffers where memory locking allows.
// Under queued_device; the only file that knows liburing. Set-up asks for the best ring first and
// takes what the kernel grants: SINGLE_ISSUER + DEFER_TASKRUN (6.1), COOP_TASKRUN (5.19), plain
// (5.11 is the oldest supported: EXT_ARG timeouts). The ring starts disabled and restricted to
// reads, writes and syncs, since a ring passes by seccomp filters; the first submit enables it and
// so binds it to that thread. Invariants: an SQE that a failed io_uring_enter left behind is handed
// over by the next one; CQEs are always advanced; nothing is lost on overflow (NODROP).
#pragma once

#include "io/backend.h"

#include <memory>
#include <span>

namespace troupe::io {

struct UringOptions {
  uint32_t depth = 32;
  uint32_t entries = 0;  // of the submission ring; 0: depth + 1
  bool plain = false;    // leave the first set-ups out
};

/// Opens a ring over `files` (owned from then on, in any outcome of later calls; on error they are
/// returned untouched). Errors: unavailable with the reason (ENOSYS, EPERM, io_uring_disabled,
/// missing features or operations), no_capacity.
Expected<std::unique_ptr<Backend>> open_uring_backend(std::vector<Fd>& files,
                                                      const UringOptions& options);

}  // namespace troupe::io
