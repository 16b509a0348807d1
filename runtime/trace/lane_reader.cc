#include "runtime/trace/lane_reader.h"

#include "runtime/trace/frame_check.h"
#include "runtime/trace/segment_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <xxhash.h>

namespace troupe::trace {
namespace {

constexpr size_t kHeadWords = sizeof(RecordHead) / sizeof(uint64_t);
constexpr size_t kNoticesMax = 20;

/// "x.lane" and "x.lane.zst" are the same segment; the plain one is complete when both are there.
std::map<std::string, std::string> segment_paths(
    const std::filesystem::directory_iterator& entries) {
  std::map<std::string, std::string> paths;  // by plain name, so in order
  for (const auto& entry : entries) {
    std::string name = entry.path().filename().string();
    const auto ends_with = [&name](const std::string& end) {
      return name.size() > end.size() &&
             name.compare(name.size() - end.size(), end.size(), end) == 0;
    };
    const bool packed = ends_with(std::string(kLaneSuffix) + ".zst");
    if (packed) {
      name.resize(name.size() - 4);
    } else if (!ends_with(kLaneSuffix)) {
      continue;
    }
    if (!packed || paths.count(name) == 0) {
      paths[name] = entry.path().string();
    }
  }
  return paths;
}

}  // namespace

Expected<std::vector<LaneFiles>> list_lanes(const std::string& directory, const ReadLimits& limits,
                                            std::vector<std::string>& notices) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(directory, error);
  if (error) {
    return Status(Code::kNotFound, "can't read directory " + directory + ": " + error.message());
  }
  const std::map<std::string, std::string> paths = segment_paths(entries);
  if (paths.size() > limits.segments) {
    return Status(Code::kNoCapacity, directory + " holds " + std::to_string(paths.size()) +
                                         " segments, more than " + std::to_string(limits.segments));
  }
  std::map<uint16_t, std::map<uint32_t, std::string>> by_address;
  std::map<uint16_t, LaneInfo> infos;
  std::optional<uint64_t> recording;
  for (const auto& [name, path] : paths) {
    Expected<LaneInfo> info = peek_header(path);
    if (!info) {
      notices.push_back(path + ": left out: " + info.status().text());
      continue;
    }
    if (recording && *recording != info->recording) {
      return Status(Code::kInvalidArgument, directory + " holds segments of two recordings (" +
                                                path + " is of another one)");
    }
    recording = info->recording;
    if (!by_address[info->address.v].emplace(info->segment, path).second) {
      return Status(Code::kInvalidArgument,
                    path + ": this segment of " + info->actor + " is there twice");
    }
    const auto known = infos.find(info->address.v);
    if (known == infos.end() || info->segment < known->second.segment) {
      infos[info->address.v] = std::move(info).value();
    }
  }
  if (by_address.empty()) {
    return Status(Code::kNotFound, directory + " holds no lane that can be read");
  }
  std::vector<LaneFiles> lanes;
  for (auto& [address, segments] : by_address) {
    LaneFiles files;
    files.info = std::move(infos[address]);
    for (auto& [number, path] : segments) {
      files.paths.push_back(path);
    }
    lanes.push_back(std::move(files));
  }
  return lanes;
}

LaneReader::LaneReader(LaneFiles files, ReadLimits limits)
    : files_(std::move(files)), limits_(limits) {}
LaneReader::~LaneReader() = default;
LaneReader::LaneReader(LaneReader&&) noexcept = default;
LaneReader& LaneReader::operator=(LaneReader&&) noexcept = default;

void LaneReader::notice(const std::string& text) {
  if (problems_.notices.size() < kNoticesMax) {
    problems_.notices.push_back(files_.info.actor + ": " + text);
  }
}

bool LaneReader::open_next() {
  while (next_path_ < files_.paths.size()) {
    const std::string& path = files_.paths[next_path_++];
    ended_ = false;
    resync_words_ = 0;
    words_ = {};
    const Expected<SegmentCut> cut = read_segment(path, limits_.segment_bytes, false, buffer_);
    Expected<LaneInfo> info =
        cut ? read_header(buffer_.words(), at_, seed_) : Expected<LaneInfo>(cut.status());
    if (!info) {
      ++problems_.damaged;
      notice(path + ": left out: " + info.status().text());
      continue;
    }
    if (info->address != files_.info.address || info->recording != files_.info.recording) {
      ++problems_.damaged;
      notice(path + ": left out: it belongs to another lane");
      continue;
    }
    if (!cut->notice.empty()) {
      notice(path + ": " + cut->notice);
    }
    words_ = buffer_.words();
    return true;
  }
  return false;
}

bool LaneReader::next(LaneRecord& record) {
  for (;;) {
    if (at_ >= words_.size()) {
      if (!words_.empty() && !ended_) {
        const bool last = next_path_ == files_.paths.size();
        problems_.cut = problems_.cut || last;
        notice(files_.paths[next_path_ - 1] +
               " has no end: it was cut off, its disk was full, or it "
               "is still being written; records up to delivery " +
               std::to_string(delivered_) + " are valid");
      }
      words_ = {};
      at_ = 0;
      if (!open_next()) {
        if (files_.paths.empty() || (!finished_ && ended_)) {
          problems_.cut = true;
          notice("its last segment is missing");
        }
        ended_ = finished_ = true;
        return false;
      }
      continue;
    }
    if (read_record(record)) {
      return true;
    }
  }
}

bool LaneReader::verified(size_t at, RecordHead& head) const {
  if (words_.size() - at < kHeadWords) {
    return false;
  }
  load_from(head, &words_[at]);
  if (head.magic != kRecordMagic || head.words > kRecordWordsMax ||
      head.words > words_.size() - at - kHeadWords) {
    return false;
  }
  return XXH3_64bits_withSeed(&words_[at + 2], (kHeadWords - 2 + head.words) * sizeof(uint64_t),
                              seed_) == head.checksum;
}

/// Reads the record at at_ and moves on. False: nothing for the caller (damaged, or the end
/// record).
bool LaneReader::read_record(LaneRecord& record) {
  RecordHead head;
  if (!verified(at_, head)) {
    const size_t from = at_;
    resync(at_ + 1);
    if (at_ < words_.size()) {
      ++problems_.damaged;
      notice(files_.paths[next_path_ - 1] + ": bytes " + std::to_string(from * 8) + " to " +
             std::to_string(at_ * 8) + " do not verify and were skipped");
    }
    return false;
  }
  const std::span<const uint64_t> body(words_.data() + at_ + kHeadWords, head.words);
  const size_t here = at_;
  at_ += kHeadWords + head.words;
  if (static_cast<RecordType>(head.type) == RecordType::kEnd) {
    ended_ = true;
    finished_ = body.size() >= 3 && body[1] == 1;
    if (finished_ && (head.flags & kFlagState) != 0) {
      final_state_ = body[2];
    }
    at_ = words_.size();
    return false;
  }
  if (!decode(head, body, record)) {
    ++problems_.damaged;
    notice(files_.paths[next_path_ - 1] + ": the record at byte " + std::to_string(here * 8) +
           " is malformed and was skipped");
    return false;
  }
  return in_order(record);
}

/// Moves at_ to the next whole record, or to the end. The bytes hashed on the way are bounded, or a
/// file full of record heads could keep the reader busy for as long as it likes.
void LaneReader::resync(size_t at) {
  const uint64_t budget = 4 * uint64_t{words_.size()};
  for (at_ = at; at_ + kHeadWords <= words_.size(); ++at_) {
    if (static_cast<uint32_t>(words_[at_]) != kRecordMagic) {
      continue;
    }
    resync_words_ += std::min<uint64_t>(words_[at_] >> 32, words_.size() - at_);
    RecordHead head;
    if (verified(at_, head)) {
      return;
    }
    if (resync_words_ > budget) {
      notice(files_.paths[next_path_ - 1] + ": too damaged to be searched further");
      break;
    }
  }
  at_ = words_.size();
}

bool LaneReader::decode(const RecordHead& head, std::span<const uint64_t> body,
                        LaneRecord& record) {
  record = LaneRecord{};
  record.type = static_cast<RecordType>(head.type);
  record.seq = head.seq;
  switch (record.type) {
    case RecordType::kDelivery: {
      constexpr size_t kBody = sizeof(DeliveryBody) / sizeof(uint64_t);
      if (body.size() < kBody) {
        return false;
      }
      DeliveryBody fields;
      load_from(fields, body.data());
      record.header = {Address(head.from), files_.info.address, fields.from_seq,
                       fields.cause,       Tick{fields.tick},   static_cast<Kind>(head.kind)};
      record.has_payload = (head.flags & kFlagNoPayload) == 0;
      record.payload = {reinterpret_cast<const capnp::word*>(body.data() + kBody),
                        body.size() - kBody};
      return record.has_payload ? check_frame(record.payload).is_ok() : record.payload.empty();
    }
    case RecordType::kStepped: {
      constexpr size_t kBody = sizeof(SteppedBody) / sizeof(uint64_t);
      constexpr size_t kMark = sizeof(OutputMark) / sizeof(uint64_t);
      if (body.size() < kBody || (body.size() - kBody) % kMark != 0) {
        return false;
      }
      record.first_seq = body[0];
      if ((head.flags & kFlagState) != 0) {
        record.state = body[1];
      }
      record.outputs = {reinterpret_cast<const OutputMark*>(body.data() + kBody),
                        (body.size() - kBody) / kMark};
      return true;
    }
    case RecordType::kGap:
      if (body.size() < 3 || body[0] > body[1] || body[1] != head.seq) {
        return false;
      }
      record.first_seq = body[0];
      record.reason = static_cast<GapReason>(body[2]);
      return true;
    default:
      return false;
  }
}

/// Deliveries count up by one, each followed by its step. What does not fit is skipped as damaged;
/// what is missing is counted.
bool LaneReader::in_order(const LaneRecord& record) {
  if (record.type == RecordType::kStepped) {
    if (record.seq != delivered_ || record.seq <= stepped_) {
      ++problems_.damaged;
      notice("the outcome of delivery " + std::to_string(record.seq) + " stands without it");
      return false;
    }
    stepped_ = record.seq;
    return true;
  }
  if (record.seq <= delivered_ && record.type == RecordType::kDelivery) {
    ++problems_.damaged;
    notice("delivery " + std::to_string(record.seq) + " comes after " + std::to_string(delivered_));
    return false;
  }
  const uint64_t next = record.type == RecordType::kGap ? record.first_seq : record.seq;
  if (next > delivered_ + 1) {
    problems_.missing += next - delivered_ - 1;
    notice("deliveries " + std::to_string(delivered_ + 1) + " to " + std::to_string(next - 1) +
           " are missing");
  }
  if (record.type == RecordType::kGap) {
    ++problems_.gaps;
    problems_.missing += record.seq - record.first_seq + 1;
    notice("the recorder left out deliveries " + std::to_string(record.first_seq) + " to " +
           std::to_string(record.seq) +
           (record.reason == GapReason::kSlow      ? ": storage was too slow"
            : record.reason == GapReason::kStorage ? ": storage failed"
                                                   : ": the lane reached its size limit"));
    stepped_ = std::max(stepped_, record.seq);
  }
  delivered_ = std::max(delivered_, record.seq);
  return true;
}

}  // namespace troupe::trace
