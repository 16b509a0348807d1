#include "io/record.h"

#include "io/wire.h"

#include <algorithm>
#include <xxhash.h>

namespace troupe::io {
namespace {

constexpr uint64_t kMagic = 0x3152424550554F52ULL;  // "ROUPEBR1"
constexpr uint32_t kPayloadMax = 1U << 30;

// Offsets of the fixed fields.
constexpr size_t kAtMagic = 0, kAtVersion = 8, kAtFormat = 10, kAtFlags = 12, kAtNamespace = 16,
                 kAtDomain = 24, kAtPayloadBytes = 28, kAtKey = 32, kAtParent = 64, kAtDepth = 96,
                 kAtPosition = 100, kAtChecksum = 104, kAtContent = 112, kAtTag = 128,
                 kAtNonce = 144, kAtExtraBytes = 156, kAtSequence = 160, kAtSlotFirst = 168,
                 kAtSlotCount = 172, kAtGeneration = 176;  // 180 to 223: zero, for later
constexpr size_t kAtHeaderChecksum = kRecordTrailerBytes - 8;

void encode_header(const BlockRecord& record, std::span<std::byte> out) {
  std::fill_n(out.begin(), kRecordHeaderBytes, std::byte{0});
  put_le(out, kAtMagic, kMagic);
  put_le(out, kAtVersion, kRecordVersion);
  put_le(out, kAtFormat, record.format);
  put_le(out, kAtFlags, record.flags);
  put_le(out, kAtNamespace, record.namespace_fingerprint);
  put_le(out, kAtDomain, record.domain);
  put_le(out, kAtPayloadBytes, record.payload_bytes);
  put_le(out, kAtKey, record.key);
  put_le(out, kAtParent, record.parent);
  put_le(out, kAtDepth, record.depth);
  put_le(out, kAtPosition, record.position);
  put_le(out, kAtChecksum, record.payload_checksum);
  put_le(out, kAtContent, record.content_hash);
  put_le(out, kAtTag, record.tag);
  put_le(out, kAtNonce, record.nonce);
  put_le(out, kAtExtraBytes, static_cast<uint32_t>(record.extra.size()));
  put_le(out, kAtSequence, record.sequence);
  put_le(out, kAtSlotFirst, record.slot.first.v);
  put_le(out, kAtSlotCount, record.slot.count);
  put_le(out, kAtGeneration, record.slot.generation);
}

/// Everything but the magic, version and checksum, which the caller has checked.
RecordFault decode_fields(std::span<const std::byte> in, size_t extra_room, BlockRecord& record) {
  record.format = get_le<uint16_t>(in, kAtFormat);
  record.flags = get_le<uint32_t>(in, kAtFlags);
  record.namespace_fingerprint = get_le<uint64_t>(in, kAtNamespace);
  record.domain = get_le<uint32_t>(in, kAtDomain);
  record.payload_bytes = get_le<uint32_t>(in, kAtPayloadBytes);
  record.key = get_le<KeyDigest>(in, kAtKey);
  record.parent = get_le<KeyDigest>(in, kAtParent);
  record.depth = get_le<uint32_t>(in, kAtDepth);
  record.position = get_le<uint32_t>(in, kAtPosition);
  record.payload_checksum = get_le<uint64_t>(in, kAtChecksum);
  record.content_hash = get_le<std::array<std::byte, 16>>(in, kAtContent);
  record.tag = get_le<std::array<std::byte, 16>>(in, kAtTag);
  record.nonce = get_le<std::array<std::byte, 12>>(in, kAtNonce);
  record.sequence = get_le<uint64_t>(in, kAtSequence);
  record.slot = {GranuleId(get_le<uint32_t>(in, kAtSlotFirst)), get_le<uint32_t>(in, kAtSlotCount),
                 get_le<uint32_t>(in, kAtGeneration)};
  const auto extra = get_le<uint32_t>(in, kAtExtraBytes);
  if (extra > extra_room || record.payload_bytes == 0 || record.payload_bytes > kPayloadMax) {
    return RecordFault::kLength;
  }
  const auto begin = in.begin() + kRecordHeaderBytes;
  record.extra.assign(begin, begin + extra);
  return RecordFault::kNone;
}

RecordFault check_start(std::span<const std::byte> bytes) {
  if (get_le<uint64_t>(bytes, kAtMagic) != kMagic) {
    return RecordFault::kMagic;
  }
  // Another version may keep its checksum elsewhere, so this comes first.
  return get_le<uint16_t>(bytes, kAtVersion) == kRecordVersion ? RecordFault::kNone
                                                               : RecordFault::kVersion;
}

}  // namespace

const char* record_fault_name(RecordFault fault) noexcept {
  switch (fault) {
    case RecordFault::kNone:
      return "none";
    case RecordFault::kMagic:
      return "magic";
    case RecordFault::kVersion:
      return "version";
    case RecordFault::kHeaderChecksum:
      return "header checksum";
    case RecordFault::kLength:
      return "length";
    case RecordFault::kSlot:
      return "slot";
    case RecordFault::kNamespace:
      return "namespace";
    case RecordFault::kDomain:
      return "domain";
    case RecordFault::kKey:
      return "key";
    case RecordFault::kGeneration:
      return "generation";
    case RecordFault::kFormat:
      return "format";
    case RecordFault::kPayload:
      return "payload";
  }
  return "unknown";
}

uint64_t default_checksum(std::span<const std::byte> bytes) noexcept {
  return XXH3_64bits(bytes.data(), bytes.size());
}

void encode_trailer(const BlockRecord& record, std::span<std::byte> out) {
  TROUPE_ASSERT(out.size() == kRecordTrailerBytes);
  TROUPE_ASSERT(record.extra.size() <= kRecordExtraMax);
  encode_header(record, out);
  const auto after =
      std::copy(record.extra.begin(), record.extra.end(), out.begin() + kRecordHeaderBytes);
  std::fill(after, out.end(), std::byte{0});
  put_le(out, kAtHeaderChecksum, default_checksum(out.first(kAtHeaderChecksum)));
}

RecordFault decode_trailer(std::span<const std::byte> bytes, BlockRecord& record) {
  TROUPE_ASSERT(bytes.size() == kRecordTrailerBytes);
  if (const RecordFault fault = check_start(bytes); fault != RecordFault::kNone) {
    return fault;
  }
  if (get_le<uint64_t>(bytes, kAtHeaderChecksum) !=
      default_checksum(bytes.first(kAtHeaderChecksum))) {
    return RecordFault::kHeaderChecksum;
  }
  return decode_fields(bytes, kRecordExtraMax, record);
}

void append_compact(const BlockRecord& record, std::vector<std::byte>& out) {
  TROUPE_ASSERT(record.extra.size() <= kRecordExtraMax);
  const size_t at = out.size();
  out.resize(at + kRecordHeaderBytes);
  encode_header(record, std::span(out).subspan(at));
  out.insert(out.end(), record.extra.begin(), record.extra.end());
}

RecordFault decode_compact(std::span<const std::byte> bytes, BlockRecord& record) {
  if (bytes.size() < kRecordHeaderBytes) {
    return RecordFault::kLength;
  }
  if (const RecordFault fault = check_start(bytes); fault != RecordFault::kNone) {
    return fault;
  }
  const size_t room = std::min(kRecordExtraMax, bytes.size() - kRecordHeaderBytes);
  if (const RecordFault fault = decode_fields(bytes, room, record); fault != RecordFault::kNone) {
    return fault;
  }
  return record.extra.size() == bytes.size() - kRecordHeaderBytes ? RecordFault::kNone
                                                                  : RecordFault::kLength;
}

RecordFault match(const BlockRecord& record, const RecordExpectation& expected) noexcept {
  if (record.slot.first != expected.slot.first || record.slot.count != expected.slot.count) {
    return RecordFault::kSlot;
  }
  if (expected.namespace_fingerprint &&
      *expected.namespace_fingerprint != record.namespace_fingerprint) {
    return RecordFault::kNamespace;
  }
  if (expected.domain && *expected.domain != record.domain) {
    return RecordFault::kDomain;
  }
  if (expected.key != record.key) {
    return RecordFault::kKey;
  }
  if (expected.slot.generation != record.slot.generation) {
    return RecordFault::kGeneration;
  }
  if (expected.format && *expected.format != record.format) {
    return RecordFault::kFormat;
  }
  return RecordFault::kNone;
}

}  // namespace troupe::io
