// Operations of the disk store: from a batch of blocks to transfers, and from their results to
// verdicts.
#include "io/store/disk_store.h"

#include "io/crash_point.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace troupe::io {

const char* store_verdict_name(StoreVerdict verdict) noexcept {
  switch (verdict) {
    case StoreVerdict::kOk:
      return "ok";
    case StoreVerdict::kMissing:
      return "missing";
    case StoreVerdict::kCorrupt:
      return "corrupt";
    case StoreVerdict::kIoError:
      return "io error";
    case StoreVerdict::kNoSpace:
      return "no space";
  }
  return "unknown";
}

std::span<std::byte> DiskStore::trailer_of(uint32_t index) noexcept {
  return trailers_.slice(size_t{index} * kRecordTrailerBytes, kRecordTrailerBytes);
}

bool DiskStore::is_busy(const Slot& slot, bool writers_only) const noexcept {
  for (uint32_t i = 0; i < slot.count; ++i) {
    const uint16_t busy = busy_[slot.first.v + i];
    if (writers_only ? busy == kWriting : busy != 0) {
      return true;
    }
  }
  return false;
}

void DiskStore::mark(const Slot& slot, bool write, int change) noexcept {
  for (uint32_t i = 0; i < slot.count; ++i) {
    uint16_t& busy = busy_[slot.first.v + i];
    if (write) {
      busy = change > 0 ? kWriting : 0;
    } else {
      busy = static_cast<uint16_t>(busy + change);
    }
  }
}

uint64_t DiskStore::next_sequence() noexcept {
  return meta_ != nullptr ? meta_->take_sequence() : ephemeral_sequence_++;
}

Status DiskStore::check_write(const WriteBlock& block) const {
  auto place = layout_.locate(block.slot);
  if (!place) {
    return place.status();
  }
  const std::string name = slot_text(block.slot);
  if (block.payload.empty() || block.payload.size() % device_->capabilities().alignment != 0 ||
      reinterpret_cast<uintptr_t>(block.payload.data()) % device_->capabilities().alignment != 0) {
    return {Code::kInvalidArgument, name + ": payload of " + std::to_string(block.payload.size()) +
                                        " bytes must be a positive, aligned multiple of " +
                                        std::to_string(device_->capabilities().alignment)};
  }
  if (block.payload.size() + kRecordTrailerBytes > place->bytes) {
    return {Code::kInvalidArgument, name + ": payload of " + std::to_string(block.payload.size()) +
                                        " bytes and its record do not fit into " +
                                        std::to_string(place->bytes)};
  }
  if (block.record.extra.size() > kRecordExtraMax || block.priority >= kPriorityCount) {
    return {Code::kInvalidArgument, name + ": " + std::to_string(block.record.extra.size()) +
                                        " bytes of tokens or opaque key (at most " +
                                        std::to_string(kRecordExtraMax) + "), priority " +
                                        std::to_string(block.priority) + " (below 3)"};
  }
  if (is_busy(block.slot, false)) {
    return {Code::kFailedPrecondition, name + " still has a transfer in flight"};
  }
  if (table_.is_quarantined(block.slot)) {
    return {Code::kFailedPrecondition, name + " is quarantined"};
  }
  return Status::ok();
}

Status DiskStore::check_read(const ReadBlock& block) const {
  auto place = layout_.locate(block.expected.slot);
  if (!place) {
    return place.status();
  }
  const std::string name = slot_text(block.expected.slot);
  if (block.payload.empty() || block.payload.size() % device_->capabilities().alignment != 0 ||
      reinterpret_cast<uintptr_t>(block.payload.data()) % device_->capabilities().alignment != 0) {
    return {Code::kInvalidArgument, name + ": payload of " + std::to_string(block.payload.size()) +
                                        " bytes must be a positive, aligned multiple of " +
                                        std::to_string(device_->capabilities().alignment)};
  }
  if (block.priority >= kPriorityCount) {
    return {Code::kInvalidArgument, name + ": priority must be below 3"};
  }
  if (is_busy(block.expected.slot, true)) {
    return {Code::kFailedPrecondition, name + " is being written"};
  }
  return Status::ok();
}

Status DiskStore::write(std::span<const WriteBlock> batch) {
  if (closed_) {
    return {Code::kUnavailable, "disk tier " + options_.directory + " is closed"};
  }
  if (batch.size() > room()) {
    return {Code::kNoCapacity, std::to_string(batch.size()) + " writes: room for " +
                                   std::to_string(room()) + " of " +
                                   std::to_string(options_.operations_max) + " operations"};
  }
  if (meta_ != nullptr && !meta_->broken() && meta_->meta_bytes() > meta_limit_) {
    meta_->begin_snapshot(false);
    return {Code::kNoCapacity, "disk tier " + options_.directory + ": metadata of " +
                                   std::to_string(meta_->meta_bytes()) + " bytes at its limit of " +
                                   std::to_string(meta_limit_) + ", a snapshot will shrink it"};
  }
  std::vector<IoRequest> requests;
  Status wrong;
  for (const WriteBlock& block : batch) {
    wrong = check_write(block);
    if (wrong) {
      IoRequest request;
      wrong = prepare_write(block, request);
      if (wrong) {
        requests.push_back(request);
        continue;
      }
    }
    break;
  }
  if (!wrong) {  // none of the batch: give back what was taken (nothing was started or journalled)
    for (const IoRequest& request : requests) {
      const auto index = static_cast<uint32_t>(request.user_data);
      mark(operations_[index].record.slot, true, -1);
      operations_[index] = Operation{};
      free_operations_.push_back(index);
      --outstanding_;
    }
    return wrong;
  }
  // The index forgets what lay there before a byte of it is overwritten.
  for (const IoRequest& request : requests) {
    const Slot& slot = operations_[request.user_data].record.slot;
    const std::vector<Slot> old = table_.overlapping(slot);
    for (const Slot& over : old) {
      table_.drop(over, UINT64_MAX);
    }
    if (meta_ != nullptr && !old.empty()) {
      meta_->drop(slot);
    }
  }
  if (meta_ != nullptr) {
    meta_->flush();
  }
  crash_point("data.write.before");
  const Status submitted = device_->submit(requests);
  if (!submitted) {
    for (const IoRequest& request : requests) {
      on_io({.user_data = request.user_data, .bytes = 0, .error = EIO});
    }
    TROUPE_LOG_ERROR("disk tier %s: %s", options_.directory.c_str(), submitted.to_string().c_str());
  }
  return Status::ok();
}

uint32_t DiskStore::take_operation() {
  const uint32_t index = free_operations_.back();
  free_operations_.pop_back();
  ++outstanding_;
  return index;
}

Status DiskStore::prepare_write(const WriteBlock& block, IoRequest& request) {
  const Place place = layout_.locate(block.slot).value();
  BlockRecord record = block.record;
  record.slot = block.slot;
  record.payload_bytes = static_cast<uint32_t>(block.payload.size());
  record.flags &= ~static_cast<uint32_t>(kRecordEncrypted);
  record.payload_checksum = block.checksum ? *block.checksum : options_.checksum(block.payload);
  record.sequence = next_sequence();
  Arena sealed;
  std::byte* bytes = block.payload.data();
  if (cipher_ != nullptr) {
    auto staging = Arena::create(block.payload.size(), {.alignment = 4096, .huge_pages = false});
    if (!staging) {
      return staging.status();
    }
    sealed = std::move(staging).value();
    bytes = sealed.data();
    TROUPE_TRY(cipher_->seal(record, block.payload, sealed.slice(0, block.payload.size())));
  }
  const uint32_t index = take_operation();
  request = {.op = IoOp::kWrite,
             .priority = block.priority,
             .file = place.file,
             .offset = place.offset,
             .buffer = bytes,
             .length = block.payload.size(),
             .tail = trailer_of(index).data(),
             .tail_length = kRecordTrailerBytes,
             .user_data = index};
  encode_trailer(record, trailer_of(index));
  mark(block.slot, true, 1);
  operations_[index] = {.write = true,
                        .user_data = block.user_data,
                        .priority = block.priority,
                        .record = std::move(record),
                        .payload = block.payload,
                        .sealed = std::move(sealed),
                        .request = request};
  return Status::ok();
}

Status DiskStore::read(std::span<const ReadBlock> batch) {
  if (closed_) {
    return {Code::kUnavailable, "disk tier " + options_.directory + " is closed"};
  }
  if (batch.size() > room()) {
    return {Code::kNoCapacity, std::to_string(batch.size()) + " reads: room for " +
                                   std::to_string(room()) + " of " +
                                   std::to_string(options_.operations_max) + " operations"};
  }
  for (const ReadBlock& block : batch) {
    TROUPE_TRY(check_read(block));
  }
  std::vector<IoRequest> requests;
  for (const ReadBlock& block : batch) {
    IoRequest request;
    if (prepare_read(block, request)) {
      requests.push_back(request);
    }
  }
  const Status submitted = device_->submit(requests);
  if (!submitted) {
    for (const IoRequest& request : requests) {
      on_io({.user_data = request.user_data, .bytes = 0, .error = EIO});
    }
  }
  return Status::ok();
}

bool DiskStore::prepare_read(const ReadBlock& block, IoRequest& request) {
  const Slot& slot = block.expected.slot;
  const BlockRecord* row = table_.find(slot);
  RecordFault fault = row == nullptr ? RecordFault::kSlot : match(*row, block.expected);
  if (fault == RecordFault::kNone && row->payload_bytes != block.payload.size()) {
    fault = RecordFault::kLength;
  }
  if (fault != RecordFault::kNone) {
    ++stats_.missing;
    ++outstanding_;
    completed_.push_back({.user_data = block.user_data,
                          .verdict = StoreVerdict::kMissing,
                          .fault = fault,
                          .slot = slot});
    return false;
  }
  const Place place = layout_.locate(slot).value();
  const uint32_t index = take_operation();
  request = {.op = IoOp::kRead,
             .priority = block.priority,
             .file = place.file,
             .offset = place.offset,
             .buffer = block.payload.data(),
             .length = block.payload.size(),
             .user_data = index};
  mark(slot, false, 1);
  operations_[index] = {.write = false,
                        .user_data = block.user_data,
                        .priority = block.priority,
                        .record = *row,
                        .payload = block.payload,
                        .request = request};
  return true;
}

Status DiskStore::drop(const Slot& slot) {
  auto place = layout_.locate(slot);
  if (!place) {
    return place.status();
  }
  if (is_busy(slot, true)) {
    return {Code::kFailedPrecondition, slot_text(slot) + " is being written"};
  }
  const std::vector<Slot> old = table_.overlapping(slot);
  for (const Slot& over : old) {
    table_.drop(over, UINT64_MAX);
  }
  if (meta_ != nullptr && !old.empty()) {
    meta_->drop(slot);
    meta_->flush();
  }
  return Status::ok();
}

bool DiskStore::adopt(const BlockRecord& record) {
  const auto place = layout_.locate(record.slot);
  if (!place || record.payload_bytes + kRecordTrailerBytes > place->bytes ||
      is_busy(record.slot, false) || !table_.put(record)) {
    return false;
  }
  if (meta_ != nullptr) {
    meta_->saw_sequence(record.sequence);
    meta_->put(record);
    meta_->flush();
  }
  return true;
}

void DiskStore::reinstate(const Slot& slot) {
  table_.reinstate(slot);
  if (meta_ != nullptr) {
    meta_->reinstate(slot);
    meta_->flush();
  }
}

void DiskStore::on_io(const IoCompletion& done) {
  if (done.user_data == kSyncTag) {
    --syncs_flying_;
    sync_failed_ = sync_failed_ || done.error != 0;
    if (syncs_flying_ == 0 && meta_ != nullptr) {
      if (sync_failed_) {
        meta_->data_sync_failed();
      } else {
        meta_->flush();
        meta_->start_sync(syncing_sequence_);
      }
      sync_failed_ = false;
    }
    return;
  }
  const auto index = static_cast<uint32_t>(done.user_data);
  if (operations_[index].write) {
    on_written(index, done);
  } else {
    on_read(index, done);
  }
}

void DiskStore::on_written(uint32_t index, const IoCompletion& done) {
  crash_point("data.write.after");
  Operation& operation = operations_[index];
  StoreCompletion completion{
      .error = done.error, .write = true, .checksum = operation.record.payload_checksum};
  if (done.error != 0) {
    const bool full = done.error == ENOSPC || done.error == EDQUOT || done.error == EFBIG;
    completion.verdict = full ? StoreVerdict::kNoSpace : StoreVerdict::kIoError;
    ++(full ? stats_.no_space : stats_.io_errors);
  } else {
    ++stats_.writes;
    stats_.write_bytes += operation.record.payload_bytes;
    unsynced_bytes_ += operation.record.payload_bytes + kRecordTrailerBytes;
    TROUPE_ASSERT(table_.put(operation.record));
    if (meta_ != nullptr) {
      meta_->put(operation.record);
    }
  }
  finish(index, completion);
}

bool DiskStore::verify(const Operation& operation) {
  if ((operation.record.flags & kRecordEncrypted) != 0) {
    return cipher_ != nullptr && cipher_->open(operation.record, operation.payload).is_ok();
  }
  return options_.checksum(operation.payload) == operation.record.payload_checksum;
}

void DiskStore::on_read(uint32_t index, const IoCompletion& done) {
  Operation& operation = operations_[index];
  StoreCompletion completion{.error = done.error, .checksum = operation.record.payload_checksum};
  // The row may have been dropped meanwhile (by its owner, or since a sync failed): then it is a
  // miss.
  const BlockRecord* row = table_.find(operation.record.slot);
  const bool same = row != nullptr && row->sequence == operation.record.sequence;
  if (done.error != 0) {
    completion.verdict = StoreVerdict::kIoError;
    ++stats_.io_errors;
    if (same) {
      static_cast<void>(drop(operation.record.slot));
    }
  } else if (!same) {
    completion.verdict = StoreVerdict::kMissing;
    completion.fault = RecordFault::kSlot;
    ++stats_.missing;
  } else if (verify(operation)) {
    ++stats_.reads;
    stats_.read_bytes += operation.record.payload_bytes;
    stats_.healed += operation.reread ? 1 : 0;
  } else if (!operation.reread) {
    // Once more: a flip on the way is seen in the field, and costs a read, not a slot.
    operation.reread = true;
    ++stats_.reread;
    if (device_->submit({&operation.request, 1})) {
      return;
    }
    completion.verdict = StoreVerdict::kIoError;
    ++stats_.io_errors;
  } else {
    completion.verdict = StoreVerdict::kCorrupt;
    completion.fault = RecordFault::kPayload;
    completion.quarantined = true;
    ++stats_.corrupt;
    table_.quarantine(operation.record.slot);
    if (meta_ != nullptr) {
      meta_->quarantine(operation.record.slot);
    }
    TROUPE_LOG_WARN("disk tier %s: %s does not verify: quarantined", options_.directory.c_str(),
                    slot_text(operation.record.slot).c_str());
  }
  if (completion.verdict != StoreVerdict::kOk) {
    // Bytes that must not be used are not left lying in the caller's buffer.
    std::memset(operation.payload.data(), 0, operation.payload.size());
  }
  finish(index, completion);
}

void DiskStore::finish(uint32_t index, StoreCompletion completion) {
  Operation& operation = operations_[index];
  completion.user_data = operation.user_data;
  completion.slot = operation.record.slot;
  mark(operation.record.slot, operation.write, -1);
  completed_.push_back(completion);
  operation = Operation{};
  free_operations_.push_back(index);
}

void DiskStore::pump(bool wait, int64_t timeout_ns) {
  IoCompletion done[64];
  const size_t count = wait ? device_->wait(done, timeout_ns) : device_->poll(done);
  for (size_t i = 0; i < count; ++i) {
    on_io(done[i]);
  }
  background();
}

size_t DiskStore::poll(std::span<StoreCompletion> out) {
  pump(false, 0);
  const size_t count = std::min(out.size(), completed_.size());
  std::copy_n(completed_.begin(), count, out.begin());
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  outstanding_ -= count;
  return count;
}

size_t DiskStore::wait(std::span<StoreCompletion> out, int64_t timeout_ns) {
  if (completed_.empty() && device_->outstanding() > 0) {
    pump(true, timeout_ns);
  }
  return poll(out);
}

}  // namespace troupe::io
