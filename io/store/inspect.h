// A look into a store directory that changes nothing in it: for `troupe tiers` and `troupe fsck`.
// Metadata are copied into memory and recovered there, by the code that a start runs. Invariant: no
// file is created, written or removed (the lock file's text apart).
#pragma once

#include "io/store/meta_log.h"

#include <functional>
#include <memory>
#include <string>

namespace troupe::io {

struct Inspection {
  Fd lock;  // held: no store can open while we look
  StoreLayout layout;
  SlotTable table{0};
  RecoveryReport report;
  uint64_t policy_bytes = 0;
  uint64_t meta_bytes = 0;  // on disk
  uint64_t data_bytes = 0;
};

/// not_found (no store there), failed_precondition (in use, with the pid), unsupported, corrupt
/// (the superblock), io.
Expected<Inspection> inspect_store(const std::string& directory);

/// Checks of one record on the disk against its row.
struct RecordCheck {
  BlockRecord row;
  RecordFault fault = RecordFault::kNone;  // first difference
  int error = 0;                           // errno of the read
};

/// Reads every live record, payload and trailer, and verifies it. Calls `visit` for each.
Status verify_store(const std::string& directory, const Inspection& store,
                    const std::function<void(const RecordCheck&)>& visit);

/// Looks at every page of the data files for whole records (trailer and payload verify) in places
/// that `store` does not know. Calls `visit` for each, in file order.
Status scan_store(const std::string& directory, const Inspection& store,
                  const std::function<void(const BlockRecord&)>& visit);

}  // namespace troupe::io
