#include "io/store/journal.h"

#include "io/wire.h"

namespace troupe::io {
namespace {

constexpr uint32_t kEntryMagic = 0x314A5254;  // "TRJ1"
constexpr uint16_t kEntryVersion = 1;

}  // namespace

void append_entry(EntryKind kind, uint64_t number, std::span<const std::byte> payload,
                  std::vector<std::byte>& out) {
  TROUPE_ASSERT(payload.size() <= kEntryPayloadMax);
  const size_t at = out.size();
  out.resize(at + kEntryHeaderBytes);
  const auto header = std::span(out).subspan(at);
  put_le(header, 0, kEntryMagic);
  put_le(header, 4, static_cast<uint32_t>(payload.size()));
  put_le(header, 8, number);
  put_le(header, 16, static_cast<uint16_t>(kind));
  put_le(header, 18, kEntryVersion);
  put_le(header, 20, uint32_t{0});
  out.insert(out.end(), payload.begin(), payload.end());
  const uint64_t checksum = default_checksum(std::span(out).subspan(at));
  out.resize(out.size() + 8);
  put_le(std::span(out), out.size() - 8, checksum);
}

ScanEnd scan_entries(std::span<const std::byte> bytes, uint64_t first_number,
                     const std::function<bool(const Entry&)>& take) {
  ScanEnd end;
  end.next = first_number;
  const auto stop = [&](const char* why) {
    end.whole = false;
    end.reason = std::string(why) + " at byte " + std::to_string(end.bytes);
    return end;
  };
  while (end.bytes < bytes.size()) {
    const auto rest = bytes.subspan(end.bytes);
    if (rest.size() < kEntryOverhead) {
      return stop("cut short");
    }
    if (get_le<uint32_t>(rest, 0) != kEntryMagic) {
      return stop("no entry");
    }
    const auto payload_bytes = get_le<uint32_t>(rest, 4);
    if (payload_bytes > kEntryPayloadMax || payload_bytes > rest.size() - kEntryOverhead) {
      return stop("cut short or a wrong length");
    }
    const size_t covered = kEntryHeaderBytes + payload_bytes;
    if (get_le<uint64_t>(rest, covered) != default_checksum(rest.first(covered))) {
      return stop("checksum does not fit");
    }
    if (get_le<uint16_t>(rest, 18) != kEntryVersion) {
      return stop("unknown entry version");
    }
    Entry entry{.kind = static_cast<EntryKind>(get_le<uint16_t>(rest, 16)),
                .number = get_le<uint64_t>(rest, 8),
                .payload = rest.subspan(kEntryHeaderBytes, payload_bytes)};
    if (end.next != 0 && entry.number != end.next) {
      return stop("entry out of order");
    }
    if (!take(entry)) {
      return stop("entry without sense");
    }
    end.next = entry.number + 1;
    end.bytes += covered + 8;
    ++end.entries;
  }
  return end;
}

std::vector<std::byte> encode_slot(const Slot& slot) {
  std::vector<std::byte> bytes(12);
  put_le(std::span(bytes), 0, slot.first.v);
  put_le(std::span(bytes), 4, slot.count);
  put_le(std::span(bytes), 8, slot.generation);
  return bytes;
}

bool decode_slot(std::span<const std::byte> payload, Slot& slot) {
  if (payload.size() != 12) {
    return false;
  }
  slot = {GranuleId(get_le<uint32_t>(payload, 0)), get_le<uint32_t>(payload, 4),
          get_le<uint32_t>(payload, 8)};
  return true;
}

}  // namespace troupe::io
