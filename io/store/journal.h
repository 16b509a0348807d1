// Entries of journals and snapshots: framed, numbered, checksummed. A reader takes the longest
// prefix that is whole and in order, and says why it stopped; nothing after damage is looked at.
//
//   magic u32 | payload bytes u32 | number u64 | kind u16 | version u16 | zero u32 | payload |
//   checksum u64
//
// Invariants: numbers grow by one inside a file; no length is trusted before it is compared with
// what is left; the checksum covers everything before it.
#pragma once

#include "io/record.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace troupe::io {

enum class EntryKind : uint16_t {
  kInvalid = 0,
  kPut = 1,         // a compact record: this block lies in record.slot, claims over it end
  kDrop = 2,        // slot, number of the put it ends or later
  kQuarantine = 3,  // slot: not to be used
  kReinstate = 4,   // slot: may be used again
  kBegin = 5,       // first entry of a file: store id 16, journal index u64
  kPolicy = 6,      // the policies' own state, opaque
  kEnd = 7,         // last entry of a snapshot: count of entries before it u64, clean u32
};

struct Entry {
  EntryKind kind = EntryKind::kInvalid;
  uint64_t number = 0;
  std::span<const std::byte> payload;  // into the bytes given to scan_entries
};

constexpr size_t kEntryHeaderBytes = 24;
constexpr size_t kEntryOverhead = kEntryHeaderBytes + 8;
constexpr uint32_t kEntryPayloadMax = 1U << 20;

void append_entry(EntryKind kind, uint64_t number, std::span<const std::byte> payload,
                  std::vector<std::byte>& out);

struct ScanEnd {
  uint64_t entries = 0;
  uint64_t bytes = 0;  // of the good prefix
  uint64_t next = 0;   // number that the next entry would have had
  bool whole = true;   // the file ends with the prefix
  std::string reason;  // why it stopped before the end
};

/// Calls `take` for each entry; take returns false for one that it can't make sense of, which ends
/// the prefix before it. `first_number` of 0 accepts any first number.
ScanEnd scan_entries(std::span<const std::byte> bytes, uint64_t first_number,
                     const std::function<bool(const Entry&)>& take);

/// Slot payloads of kDrop, kQuarantine and kReinstate.
std::vector<std::byte> encode_slot(const Slot& slot);
bool decode_slot(std::span<const std::byte> payload, Slot& slot);

}  // namespace troupe::io
