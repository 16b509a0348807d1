#include "runtime/trace/segment_writer.h"

#include <cstdio>
#include <cstring>
#include <xxhash.h>

namespace troupe::trace {
namespace {

constexpr size_t kHeadWords = sizeof(RecordHead) / sizeof(uint64_t);
/// Words of a record head that its checksum covers: all but magic, length and checksum.
constexpr size_t kHeadCovered = kHeadWords - 2;

std::string segment_name(const LaneInfo& info) {
  std::string safe;
  for (const char c : info.actor) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '.';
    safe += plain ? c : '_';
  }
  // "005.allocator.000000.lane": a listing shows actors in the order of their addresses
  char address[16];
  char segment[16];
  std::snprintf(address, sizeof(address), "%03u.", info.address.v);
  std::snprintf(segment, sizeof(segment), ".%06u", info.segment);
  return address + safe + segment + kLaneSuffix;
}

}  // namespace

SegmentWriter::SegmentWriter(LaneStorage& storage, LaneInfo info, SegmentLimits limits)
    : storage_(storage), info_(std::move(info)), limits_(limits) {}

bool SegmentWriter::open_segment() {
  name_ = segment_name(info_);
  Expected<std::unique_ptr<LaneFile>> file = storage_.create(name_);
  ++info_.segment;  // a name is never tried twice
  if (!file) {
    on_error(file.status());
    return false;
  }
  file_ = std::move(file).value();
  LaneInfo header_info = info_;
  --header_info.segment;
  const std::vector<uint64_t> header = encode_header(header_info);
  TROUPE_ASSERT(header.size() <= kHeaderWordsMax);
  FileHead head;
  head.header_words = static_cast<uint32_t>(header.size());
  head.checksum = XXH3_64bits(header.data(), header.size() * sizeof(uint64_t));
  seed_ = head.checksum;
  buffer_.resize(sizeof(head) / sizeof(uint64_t));
  std::memcpy(buffer_.data(), &head, sizeof(head));
  buffer_.insert(buffer_.end(), header.begin(), header.end());
  file_bytes_ = 0;
  segment_records_ = 0;
  ++stats_.segments;
  return true;
}

void SegmentWriter::append(RecordHead head, std::span<const uint64_t> body,
                           std::span<const uint64_t> payload) {
  last_seq_ = head.seq;
  const uint64_t bytes = (kHeadWords + body.size() + payload.size()) * sizeof(uint64_t);
  if (!full_ && stats_.bytes + bytes > limits_.lane_bytes) {
    full_ = true;
  }
  if (full_ || head.seq < retry_at_) {
    lose(head.seq, head.seq, full_ ? GapReason::kSizeCap : GapReason::kStorage);
    return;
  }
  if (file_ != nullptr &&
      file_bytes_ + buffer_.size() * sizeof(uint64_t) + bytes > limits_.segment_bytes &&
      segment_records_ > 0) {
    end_segment(false, std::nullopt);
  }
  if (file_ == nullptr && !open_segment()) {
    lose(head.seq, head.seq, GapReason::kStorage);
    return;
  }
  put_gap();
  put(head, body, payload);
  ++stats_.records;
  if (buffered_first_ == 0) {
    buffered_first_ = head.seq;
  }
  buffered_last_ = head.seq;
  if (buffer_.size() >= kBufferWords) {
    flush();
  }
}

void SegmentWriter::put(RecordHead head, std::span<const uint64_t> body,
                        std::span<const uint64_t> payload) {
  head.words = static_cast<uint32_t>(body.size() + payload.size());
  const size_t at = buffer_.size();
  buffer_.resize(at + kHeadWords + head.words);
  uint64_t* record = buffer_.data() + at;
  std::memcpy(record, &head, sizeof(head));
  if (!body.empty()) {
    std::memcpy(record + kHeadWords, body.data(), body.size_bytes());
  }
  if (!payload.empty()) {
    std::memcpy(record + kHeadWords + body.size(), payload.data(), payload.size_bytes());
  }
  record[1] =
      XXH3_64bits_withSeed(record + 2, (kHeadCovered + head.words) * sizeof(uint64_t), seed_);
  stats_.bytes += (kHeadWords + head.words) * sizeof(uint64_t);
  ++segment_records_;
}

void SegmentWriter::put_gap() {
  if (gap_last_ == 0) {
    return;
  }
  const uint64_t body[] = {gap_first_, gap_last_, static_cast<uint64_t>(gap_reason_)};
  RecordHead head;
  head.type = static_cast<uint16_t>(RecordType::kGap);
  head.seq = gap_last_;
  put(head, body, {});
  ++stats_.gaps;
  gap_first_ = gap_last_ = 0;
}

void SegmentWriter::gap(uint64_t first, uint64_t last, GapReason reason) {
  last_seq_ = last;
  lose(first, last, reason);
}

void SegmentWriter::lose(uint64_t first, uint64_t last, GapReason reason) {
  if (gap_last_ == 0) {
    gap_first_ = first;
    gap_reason_ = reason;
    stats_.lost += last - first + 1;
  } else if (last > gap_last_) {
    stats_.lost += last - gap_last_;
  }
  gap_last_ = std::max(gap_last_, last);
}

void SegmentWriter::flush() {
  if (file_ == nullptr || buffer_.empty()) {
    return;
  }
  const size_t bytes = buffer_.size() * sizeof(uint64_t);
  const Status status = file_->append({reinterpret_cast<const uint8_t*>(buffer_.data()), bytes});
  if (!status) {
    on_error(status);
    return;
  }
  file_bytes_ += bytes;
  buffer_.clear();
  buffered_first_ = buffered_last_ = 0;
}

/// Leaves the segment as it was before the last, failed append; what was buffered is lost. The next
/// attempt is made with a new segment, some deliveries later, so that a full disk costs next to
/// nothing.
void SegmentWriter::on_error(Status status) {
  ++stats_.storage_errors;
  last_error_ = std::move(status);
  if (file_ != nullptr) {
    if (Status cut = file_->truncate(file_bytes_); !cut) {
      last_error_ = std::move(cut);  // the reader finds a damaged end, and says so
    }
    file_.reset();
    storage_.sealed(name_);
  }
  buffer_.clear();
  if (buffered_first_ != 0) {
    lose(buffered_first_, buffered_last_, GapReason::kStorage);
  }
  buffered_first_ = buffered_last_ = 0;
  retry_at_ = last_seq_ + kRetryDeliveries;
}

void SegmentWriter::end_segment(bool last, std::optional<uint64_t> state) {
  const uint64_t body[] = {segment_records_, last ? uint64_t{1} : uint64_t{0}, state.value_or(0)};
  RecordHead head;
  head.type = static_cast<uint16_t>(RecordType::kEnd);
  head.flags = state ? kFlagState : uint16_t{0};
  head.seq = last_seq_;
  put(head, body, {});
  flush();
  if (file_ != nullptr) {
    file_.reset();
    storage_.sealed(name_);
  }
}

void SegmentWriter::close(std::optional<uint64_t> state) {
  if (file_ == nullptr && (gap_last_ != 0 || stats_.segments == 0)) {
    retry_at_ = 0;
    open_segment();  // an empty lane, or its missing end, is told too, if storage lets us
  }
  if (file_ != nullptr) {
    put_gap();
    end_segment(true, state);
  }
}

}  // namespace troupe::trace
