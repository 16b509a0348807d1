// How a lane lies on disk. A lane is a row of segments, each a file; a segment is a file head, the
// header (schemas/trace.capnp LaneHeader, one flat segment) and records. Everything is a whole
// number of 8-byte little-endian words, so that payloads can be read in place.
//   file     := FileHead header-words record*
//   record   := RecordHead body
//   delivery := DeliveryBody payload-words         one message of the inbox, before its step
//   stepped  := SteppedBody OutputMark*            what the step led to; same seq as its delivery
//   gap      := GapBody                            messages that were not recorded
//   end      := EndBody                            the segment was closed in order
// Every record carries the XXH3-64 of itself, seeded by the checksum of the file head: a record of
// another segment or recording does not verify here. Sequence numbers count up by one within a
// lane, so that order and completeness are checked too.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace troupe::trace {

static_assert(std::endian::native == std::endian::little,
              "lanes are little-endian and read in place");

constexpr uint64_t kFileMagic = 0x31454E414C505254ULL;  // "TRPLANE1"
constexpr uint32_t kRecordMagic = 0x52505254U;          // "TRPR"
constexpr uint16_t kLaneVersion = 1;
/// Copies a struct of this page out of raw words.
template <class T>
void load_from(T& to, const void* words) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(static_cast<void*>(&to), words, sizeof(T));
}

/// Largest body of a record [words]: 64 MiB, four times the largest frame that ingress lets in.
constexpr uint32_t kRecordWordsMax = 8U << 20;
/// Largest header [words]: 4 MiB of configuration text and plug-in hashes.
constexpr uint32_t kHeaderWordsMax = 512U << 10;

struct FileHead {
  uint64_t magic = kFileMagic;
  uint32_t header_words = 0;
  uint32_t reserved = 0;
  uint64_t checksum = 0;  // of the header's words; the seed of every record's checksum
};

enum class RecordType : uint16_t { kInvalid = 0, kDelivery = 1, kStepped = 2, kGap = 3, kEnd = 4 };

/// Delivery without its payload (edges mode): it is made again at replay.
constexpr uint16_t kFlagNoPayload = 1;
/// Stepped, and the last end: with a digest of the actor's state.
constexpr uint16_t kFlagState = 2;

struct RecordHead {
  uint32_t magic = kRecordMagic;
  uint32_t words = 0;     // of the body
  uint64_t checksum = 0;  // of all that follows in this record, from `seq` to the end of the body
  uint64_t seq = 0;       // inbox sequence of the actor; end: the last one
  uint16_t type = 0;
  uint16_t kind = 0;  // delivery: member of the Message union
  uint16_t from = 0;  // delivery: address of the sender
  uint16_t flags = 0;
};

struct DeliveryBody {
  uint64_t from_seq = 0;  // of the sender's outbox
  uint64_t cause = 0;
  int64_t tick = 0;
};

/// One message that a step sent.
struct OutputMark {
  uint64_t digest = 0;  // XXH3-64 of its payload, tokens permuted
  uint32_t words = 0;   // of its payload
  uint16_t kind = 0;
  uint16_t instance = 0;
  friend bool operator==(const OutputMark&, const OutputMark&) noexcept = default;
};

struct SteppedBody {
  uint64_t first_seq = 0;  // of the actor's outbox: sequence of the first of the outputs
  uint64_t state = 0;      // with kFlagState
};

struct GapBody {
  uint64_t first_seq = 0;  // deliveries first … last are missing, or what they led to is
  uint64_t last_seq = 0;
  uint64_t reason = 0;  // GapReason
};
enum class GapReason : uint64_t { kSlow = 1, kStorage = 2, kSizeCap = 3 };

struct EndBody {
  uint64_t records = 0;  // of the segment, this one not counted
  uint64_t last = 0;     // 1: the recording ended here; 0: another segment follows
  uint64_t state = 0;    // with kFlagState: digest of the actor\'s state at the very end
};

static_assert(sizeof(FileHead) == 24 && sizeof(RecordHead) == 32 && sizeof(DeliveryBody) == 24);
static_assert(sizeof(OutputMark) == 16 && sizeof(SteppedBody) == 16 && sizeof(GapBody) == 24);
static_assert(sizeof(EndBody) == 24);

}  // namespace troupe::trace
