// One lane's segments: encodes records, rotates by size, and turns storage that fails, or is full,
// into gaps that are counted and written down once writing works again. Used by one thread.
#pragma once

#include "runtime/core/frame.h"
#include "runtime/trace/lane_format.h"
#include "runtime/trace/lane_storage.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::trace {

/// What every segment of a lane says of itself.
struct LaneInfo {
  uint16_t version = kLaneVersion;
  std::string build_id;
  uint64_t schema_id = 0;
  std::string config;  // effective configuration, text
  uint64_t seed = 0;
  std::string actor;
  Address address;
  uint32_t segment = 0;
  struct Plugin {
    std::string name;
    std::vector<uint8_t> sha256;
  };
  std::vector<Plugin> plugins;
  bool permuted = true;
  uint64_t recording = 0;
  bool edge = false;
  bool edges_mode = false;
  uint32_t digest_every = 0;
};

/// The header as file bytes, and back. A header from a file is hostile: kCorrupt or kUnsupported.
std::vector<uint64_t> encode_header(const LaneInfo& info);
Expected<LaneInfo> decode_header(std::span<const uint64_t> words);

struct SegmentLimits {
  uint64_t segment_bytes = 16ULL << 20;
  uint64_t lane_bytes = 4ULL << 30;  // of all segments of the lane, before compression
};

struct LaneStats {
  uint64_t records = 0;
  uint64_t bytes = 0;  // before compression
  uint64_t segments = 0;
  uint64_t gaps = 0;  // written into the lane
  uint64_t lost = 0;  // deliveries that are missing
  uint64_t storage_errors = 0;
};

class SegmentWriter {
 public:
  SegmentWriter(LaneStorage& storage, LaneInfo info, SegmentLimits limits);

  /// Appends one record; `body` [words]. Never fails: what can't be written becomes a gap.
  /// `head.words` and the checksum are filled in here.
  void append(RecordHead head, std::span<const uint64_t> body) { append(head, body, {}); }
  void append(RecordHead head, std::span<const uint64_t> body, std::span<const uint64_t> payload);
  /// Deliveries first … last are missing.
  void gap(uint64_t first, uint64_t last, GapReason reason);
  /// Writes out what is buffered.
  void flush();
  /// Ends the lane. `state`: digest of the actor's state now.
  void close(std::optional<uint64_t> state);
  const LaneStats& stats() const noexcept { return stats_; }
  const Status& last_error() const noexcept { return last_error_; }

 private:
  static constexpr size_t kBufferWords = 32 * 1024;   // written out when this much is waiting
  static constexpr uint64_t kRetryDeliveries = 1024;  // lost ones between two attempts
  bool open_segment();
  void end_segment(bool last, std::optional<uint64_t> state);
  void put(RecordHead head, std::span<const uint64_t> body, std::span<const uint64_t> payload);
  void put_gap();
  void lose(uint64_t first, uint64_t last, GapReason reason);
  void on_error(Status status);

  LaneStorage& storage_;
  LaneInfo info_;
  SegmentLimits limits_;
  std::unique_ptr<LaneFile> file_;
  std::string name_;
  std::vector<uint64_t> buffer_;  // whole records, not yet in the file
  uint64_t buffered_first_ = 0;   // deliveries that would be lost with the buffer; 0: none
  uint64_t buffered_last_ = 0;
  uint64_t seed_ = 0;
  uint64_t file_bytes_ = 0;  // whole records in the file
  uint64_t segment_records_ = 0;
  uint64_t last_seq_ = 0;
  // A gap that is not written yet; last 0: none.
  uint64_t gap_first_ = 0;
  uint64_t gap_last_ = 0;
  GapReason gap_reason_ = GapReason::kSlow;
  uint64_t retry_at_ = 0;  // delivery from which storage is tried again
  bool full_ = false;      // lane_bytes are reached, for good
  LaneStats stats_;
  Status last_error_;
};

}  // namespace troupe::trace
