// What a server and its troupe-policy-host say to each other, over one sealed piece of shared
// memory: a ring of records from server to helper, and a place for one answer. Events are written
// and not waited for; a question waits for its answer. Both sides sleep on futexes, none spins.
//   head: bytes ever written, tail: bytes ever read, modulo 2^32; tail ≤ head ≤ tail + ring_bytes
//   answered: number of the question whose answer lies there; the first, number 1, is the helper's
//   own
// The helper is not trusted: all that it writes is copied out once, and then judged.
#pragma once

#include "policies/abi/eviction.h"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace troupe::plugin::hosted {

constexpr uint32_t kWireMagic = 0x31485054;  // "TPH1"
constexpr uint32_t kRingBytes = 4U << 20;
constexpr uint32_t kRecordMax = kRingBytes / 4;
constexpr uint32_t kRingAt = 4096;
constexpr uint32_t kBlocksInRecord = 16384;      // of one event: at most 36 bytes each
constexpr uint32_t kStateBytesMax = 512U << 10;  // of one range of block records

enum Kind : uint32_t {
  kPad = 1,
  kEvents,
  kVictims,
  kDigest,
  kSaveBlocks,
  kSaveGlobal,
  kLoadBlocks,
  kLoadGlobal,
  kEnd,
};

struct Shared {
  uint32_t magic;
  uint32_t ring_bytes, answer_bytes, reserved;
  alignas(64) std::atomic<uint32_t> head;
  std::atomic<uint32_t> helper_sleeps;
  alignas(64) std::atomic<uint32_t> tail;
  std::atomic<uint32_t> server_waits;  // for room
  alignas(64) std::atomic<uint32_t> answered;
};
static_assert(sizeof(Shared) <= kRingAt);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

struct RecordHead {
  uint32_t bytes;  // with this head, a multiple of 16, so that a head never wraps
  uint32_t kind;
  uint32_t number;  // of a question
  uint32_t reserved;
};
struct EventHead {  // then blocks, parents, depths, tokens [u32], keys, costs [u64], those of `has`
  uint64_t ordinal, session;
  int64_t at;
  uint64_t block_bytes;
  uint32_t kind, tenant, hints, flags;
  uint32_t count, has;
};
constexpr uint32_t kHasParents = 1, kHasDepths = 2, kHasTokens = 4, kHasKeys = 8, kHasCosts = 16;
struct VictimsHead {  // then wanted keys [u64]
  uint32_t want, room, wanted_count, free_blocks;
};
struct RangeHead {  // of load: then the records
  uint32_t first, count, record_bytes, schema;
};
struct AnswerHead {  // then `bytes` bytes
  int32_t status;
  uint32_t bytes;
};
struct VictimsAnswer {  // then victims [u32, room], scores [i64, room]
  uint32_t named, scored;
};
struct Hello {  // what the policy says about itself
  uint32_t flags, state_schema, oldest_schema, block_state_bytes, kind, sandboxed;
  char id[64], version[64], paper[256];
};

inline uint32_t padded(uint64_t bytes) {
  return static_cast<uint32_t>((bytes + 7) & ~uint64_t{7});
}
inline uint32_t record_bytes_for(uint64_t body) {
  return static_cast<uint32_t>((sizeof(RecordHead) + body + 15) & ~uint64_t{15});
}
inline uint64_t answer_bytes_for(uint32_t capacity) {
  const uint64_t victims =
      sizeof(AnswerHead) + sizeof(VictimsAnswer) + 16 + uint64_t{capacity} * 12;
  const uint64_t state = sizeof(AnswerHead) + kStateBytesMax + TROUPE_GLOBAL_STATE_BYTES_MAX;
  return (victims > state ? victims : state) + 64;
}

/// Sleeps while `word` is `seen`, at most `ns` (0: no limit). May wake early.
inline void futex_sleep(std::atomic<uint32_t>& word, uint32_t seen, int64_t ns) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(ns / 1000000000);
  limit.tv_nsec = static_cast<long>(ns % 1000000000);
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, ns > 0 ? &limit : nullptr, nullptr, 0);
}
inline void futex_wake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace troupe::plugin::hosted
