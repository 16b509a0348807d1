// Reads one lane back. A lane is hostile input: sizes are bounded before they are believed, every
// record is checksummed, every payload is checked against the schema before anybody opens it, and
// nothing that a lane names is opened. Damaged records are skipped and counted; a cut file is its
// valid prefix, with a notice. Order is checked too: deliveries count up by one, and what is
// missing is told.
#pragma once

#include "runtime/core/frame.h"
#include "runtime/trace/lane_format.h"
#include "runtime/trace/segment_file.h"
#include "runtime/trace/segment_writer.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::trace {

struct ReadLimits {
  uint64_t segment_bytes = 1ULL << 30;  // of one segment, uncompressed
  uint32_t segments = 100000;           // of one directory
};

/// One record. Spans live until the next call of the reader.
struct LaneRecord {
  RecordType type = RecordType::kInvalid;
  uint64_t seq = 0;
  // delivery:
  FrameHeader header;  // `to` is the lane's actor
  bool has_payload = false;
  std::span<const capnp::word> payload;
  // stepped:
  uint64_t first_seq = 0;
  std::span<const OutputMark> outputs;
  std::optional<uint64_t> state;
  // gap: deliveries first_seq … seq are missing, or what they led to is
  GapReason reason = GapReason::kSlow;
};

/// What was wrong with a lane so far. `notices` are sentences for people, the first 20 of them.
struct LaneProblems {
  uint64_t damaged = 0;  // records, or runs of bytes, that did not verify
  uint64_t missing = 0;  // deliveries that are not there
  uint64_t gaps = 0;     // of these, told by the recorder itself
  bool cut = false;      // the last segment has no end: it was cut, or is still being written
  std::vector<std::string> notices;
  bool clean() const noexcept { return damaged == 0 && missing == 0 && !cut; }
};

/// The files of one lane, in order.
struct LaneFiles {
  LaneInfo info;  // of the first segment
  std::vector<std::string> paths;
};

/// Finds the lanes of a directory, by ascending address. Files that are no segments are named in
/// `notices` and left out. An error when there is no lane at all, or when two recordings are mixed.
Expected<std::vector<LaneFiles>> list_lanes(const std::string& directory, const ReadLimits& limits,
                                            std::vector<std::string>& notices);

class LaneReader {
 public:
  LaneReader(LaneFiles files, ReadLimits limits);
  ~LaneReader();
  LaneReader(LaneReader&&) noexcept;
  LaneReader& operator=(LaneReader&&) noexcept;

  const LaneInfo& info() const noexcept { return files_.info; }
  /// Next record; false at the end of the lane. Skips what is damaged.
  bool next(LaneRecord& record);
  /// Digest of the actor's state when the recording was closed. [after the last record]
  std::optional<uint64_t> final_state() const noexcept { return final_state_; }
  const LaneProblems& problems() const noexcept { return problems_; }

 private:
  bool open_next();
  bool read_record(LaneRecord& record);
  bool verified(size_t at, RecordHead& head) const;
  bool decode(const RecordHead& head, std::span<const uint64_t> body, LaneRecord& record);
  bool in_order(const LaneRecord& record);
  void resync(size_t at);
  void notice(const std::string& text);

  LaneFiles files_;
  ReadLimits limits_;
  LaneProblems problems_;
  size_t next_path_ = 0;
  WordBuffer buffer_;
  std::span<const uint64_t> words_;  // of the open segment, in buffer_
  size_t at_ = 0;                    // next record
  uint64_t seed_ = 0;
  bool ended_ = false;     // the open segment's end record was seen
  bool finished_ = false;  // and it was the lane's
  std::optional<uint64_t> final_state_;
  uint64_t delivered_ = 0;  // sequence of the last delivery
  uint64_t stepped_ = 0;
  uint64_t resync_words_ = 0;  // hashed while looking for the next whole record, of this segment
};

}  // namespace troupe::trace
