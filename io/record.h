// The block record: what a block carries on a lower tier, so that it proves itself when it comes
// back. On a request's way: written behind each payload by the disk store, journalled, and compared
// on every load.
//
//   payload [payload_bytes, a multiple of 4096] | trailer [kRecordTrailerBytes]
//
// The trailer follows the payload: a reader that knows what it expects fetches the payload alone,
// in one transfer of its own size; a scan finds trailers by their magic, at any page. Invariants:
// zeros never verify (magic, and a checksum over a non-zero header); every field is covered by the
// header checksum; a record with an unknown version is not interpreted; nothing is read out of
// bounds.
#pragma once

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace troupe::io {

constexpr size_t kRecordTrailerBytes = 4096;
constexpr size_t kRecordHeaderBytes = 224;                                        // fixed fields
constexpr size_t kRecordExtraMax = kRecordTrailerBytes - kRecordHeaderBytes - 8;  // 966 tokens
constexpr uint16_t kRecordVersion = 1;

using KeyDigest = std::array<std::byte, 32>;

enum RecordFlag : uint32_t {
  kRecordOpaqueKey = 1U << 0,  // extra holds an engine's opaque key, else little-endian u32 tokens
  kRecordEncrypted = 1U << 1,  // payload is AES-256-GCM, tag and nonce below
  kRecordPreRope = 1U << 2,    // keys are stored before rotation, `position` is theirs
};

struct BlockRecord {
  uint16_t format = 0;
  uint32_t flags = 0;
  uint64_t namespace_fingerprint = 0;
  uint32_t domain = 0;
  uint32_t payload_bytes = 0;
  KeyDigest key{};
  KeyDigest parent{};  // zeros: a root
  uint32_t depth = 0;  // blocks before it in its chain
  uint32_t position = 0;
  uint64_t payload_checksum = 0;             // of the plain payload
  std::array<std::byte, 16> content_hash{};  // position-independent, zeros: not computed
  std::array<std::byte, 16> tag{};
  std::array<std::byte, 12> nonce{};
  uint64_t sequence =
      0;      // grows with every write of the store: of two claims on a place the later wins
  Slot slot;  // where it was meant to lie: a misdirected write shows
  std::vector<std::byte> extra;

  friend bool operator==(const BlockRecord&, const BlockRecord&) = default;
};

/// Why a record is not what was expected. Order of checks.
enum class RecordFault : uint8_t {
  kNone = 0,
  kMagic,
  kVersion,
  kHeaderChecksum,
  kLength,  // payload or extra bytes out of range
  kSlot,
  kNamespace,
  kDomain,
  kKey,
  kGeneration,
  kFormat,
  kPayload,  // checksum or tag
};
const char* record_fault_name(RecordFault fault) noexcept;

/// 64 bits over a payload; XXH3 unless the mover brings the one it copied with.
using ChecksumFn = uint64_t (*)(std::span<const std::byte>);
uint64_t default_checksum(std::span<const std::byte> bytes) noexcept;

/// Fills `out` [kRecordTrailerBytes]. extra.size() <= kRecordExtraMax.
void encode_trailer(const BlockRecord& record, std::span<std::byte> out);
/// kNone and a record, or the first fault found. `bytes` [kRecordTrailerBytes].
RecordFault decode_trailer(std::span<const std::byte> bytes, BlockRecord& record);

/// The same fields without padding, for the journal (which has its own checksum): header | extra.
void append_compact(const BlockRecord& record, std::vector<std::byte>& out);
RecordFault decode_compact(std::span<const std::byte> bytes, BlockRecord& record);

/// What a reader expects; empty fields are not compared.
struct RecordExpectation {
  KeyDigest key{};
  std::optional<uint64_t> namespace_fingerprint{};
  std::optional<uint32_t> domain{};
  std::optional<uint16_t> format{};
  Slot slot;
};
RecordFault match(const BlockRecord& record, const RecordExpectation& expected) noexcept;

}  // namespace troupe::io
