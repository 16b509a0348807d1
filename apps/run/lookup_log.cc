#include "apps/run/lookup_log.h"

#include "actors/roles.h"
#include "runtime/core/wire.h"

namespace troupe {

Expected<std::unique_ptr<LookupLog>> LookupLog::open(const std::string& path) {
  auto log = std::make_unique<LookupLog>();
  log->path_ = path;
  log->file_.open(path, std::ios::trunc);
  if (!log->file_) {
    return Status(Code::kIo, "cannot write " + path);
  }
  return log;
}

void LookupLog::attach(Dispatcher& dispatcher) {
  dispatcher.observe(address_of(Role::kUnderstudies), this);
}

void LookupLog::on_deliver(Address, uint64_t, const Frame& frame) {
  FrameReader reader(frame.words());
  const auto message = reader.message();
  if (message.which() != wire::Message::LOOKUP) {
    return;
  }
  const auto lookup = message.getLookup();
  skipped_ += lookup.getSkipped();
  const auto keys = span_of<uint64_t>(lookup.getKeys());
  file_ << R"({"timestamp":0,"input_length":)" << keys.size() * lookup.getBlockTokens()
        << R"(,"output_length":0,"block_size":)" << lookup.getBlockTokens();
  if (lookup.getSession() != 0) {
    file_ << R"(,"session_id":)" << lookup.getSession();
  }
  file_ << R"(,"hash_ids":[)";
  const char* comma = "";
  for (const uint64_t key : keys) {
    file_ << comma << numbers_.try_emplace(key, numbers_.size()).first->second;
    comma = ",";
  }
  file_ << "]}\n";
}

Status LookupLog::close() {
  if (!file_.flush()) {
    return Status(Code::kIo, "cannot write " + path_);
  }
  return skipped_ == 0 ? Status::ok()
                       : Status(Code::kNoCapacity,
                                path_ + ": " + std::to_string(skipped_) +
                                    " lookups are missing, the understudies could not follow");
}

}  // namespace troupe
