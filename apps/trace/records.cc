#include "apps/trace/records.h"

#include "runtime/core/routes.h"
#include "runtime/trace/divergence.h"

#include <algorithm>
#include <filesystem>

namespace troupe {
namespace {

using trace::LaneRecord;
using trace::RecordType;

/// Longest text of one message that is searched [bytes].
constexpr size_t kSearchedText = 1U << 20;

bool passes(const RecordFilter& filter, const LaneRecord& record) {
  if (record.seq < filter.from || record.seq > filter.to) {
    return false;
  }
  const std::string kind = kind_name(record.header.kind);
  if (!filter.kind.empty() && kind != filter.kind) {
    return false;
  }
  return filter.text.empty() || kind.find(filter.text) != std::string::npos ||
         (record.has_payload &&
          trace::message_text(record.payload, kSearchedText).find(filter.text) !=
              std::string::npos);
}

void add_notices(const trace::LaneReader& reader, std::vector<std::string>& notices) {
  const auto& more = reader.problems().notices;
  notices.insert(notices.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::string> walk_records(const std::vector<trace::LaneFiles>& lanes,
                                      const RecordFilter& filter,
                                      const std::function<bool(const Delivered&)>& visit) {
  std::vector<std::string> notices;
  for (const trace::LaneFiles& files : lanes) {
    if (!filter.actor.empty() && files.info.actor != filter.actor) {
      continue;
    }
    trace::LaneReader reader(files, {});
    LaneRecord record;
    while (reader.next(record)) {
      if (record.type != RecordType::kDelivery || !passes(filter, record)) {
        continue;
      }
      const Delivered delivered{&files.info, record.seq, record.header, record.has_payload,
                                record.payload};
      if (!visit(delivered)) {
        add_notices(reader, notices);
        return notices;
      }
      if (record.seq >= filter.to) {
        break;
      }
    }
    add_notices(reader, notices);
  }
  return notices;
}

LaneSummary summarize(const trace::LaneFiles& files) {
  LaneSummary sum;
  sum.info = files.info;
  sum.segments = files.paths.size();
  for (const std::string& path : files.paths) {
    std::error_code error;
    const auto bytes = std::filesystem::file_size(path, error);
    sum.file_bytes += error ? 0 : bytes;
  }
  trace::LaneReader reader(files, {});
  LaneRecord record;
  while (reader.next(record)) {
    if (record.type == RecordType::kStepped) {
      sum.sent += record.outputs.size();
    } else if (record.type == RecordType::kDelivery) {
      const int64_t tick = record.header.tick.ns;
      sum.first_tick = sum.deliveries == 0 ? tick : std::min(sum.first_tick, tick);
      sum.last_tick = std::max(sum.last_tick, tick);
      sum.payload_bytes += record.payload.size_bytes();
      ++sum.deliveries;
    }
  }
  sum.problems = reader.problems();
  return sum;
}

std::string actor_name(const std::vector<trace::LaneFiles>& lanes, Address address) {
  for (const trace::LaneFiles& files : lanes) {
    if (files.info.address == address) {
      return files.info.actor;
    }
  }
  return "actor " + std::to_string(address.v);
}

}  // namespace troupe
