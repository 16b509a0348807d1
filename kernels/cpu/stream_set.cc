#include "kernels/cpu/stream_set.h"

#include <algorithm>
#include <string>

namespace troupe::kernels {

StreamSet::StreamSet(const StreamLimits& limits)
    : limits_(limits), completions_(limits.batches_max) {}

Expected<StreamId> StreamSet::create_stream() {
  if (streams_.size() >= limits_.streams_max) {
    return {Code::kNoCapacity, "all " + std::to_string(limits_.streams_max) + " streams are used"};
  }
  streams_.emplace_back(limits_.commands_max);
  return StreamId(static_cast<uint32_t>(streams_.size() - 1));
}

Expected<EventId> StreamSet::create_event() {
  if (events_.size() >= limits_.events_max) {
    return {Code::kNoCapacity, "all " + std::to_string(limits_.events_max) + " events are used"};
  }
  events_.emplace_back();
  return EventId(static_cast<uint32_t>(events_.size() - 1));
}

Status StreamSet::check_stream(StreamId stream) const {
  if (!known(stream)) {
    return {Code::kInvalidArgument, "stream " + std::to_string(stream.v) + " of " +
                                        std::to_string(streams_.size()) + " created"};
  }
  return Status::ok();
}

Status StreamSet::check_event(EventId event) const {
  if (event.v >= events_.size()) {
    return {Code::kInvalidArgument, "event " + std::to_string(event.v) + " of " +
                                        std::to_string(events_.size()) + " created"};
  }
  return Status::ok();
}

Status StreamSet::submit(StreamId stream, const Batch& batch, uint64_t user_data) {
  TROUPE_TRY(check_stream(stream));
  if (batches_open_ >= limits_.batches_max) {
    return {Code::kNoCapacity, std::to_string(limits_.batches_max) +
                                   " batches were accepted and not polled: poll first"};
  }
  Command command;
  command.batch = batch;
  command.user_data = user_data;
  for (const Op& op : batch.ops) {
    command.bytes += op.bytes;
  }
  Stream& target = streams_[stream.v];
  if (!target.queue.push(std::move(command))) {
    return {Code::kNoCapacity, "stream " + std::to_string(stream.v) + " already holds " +
                                   std::to_string(limits_.commands_max) + " commands"};
  }
  ++target.submitted;
  ++batches_open_;
  return Status::ok();
}

Status StreamSet::record(StreamId stream, EventId event) {
  TROUPE_TRY(check_stream(stream));
  TROUPE_TRY(check_event(event));
  events_[event.v] = Event{stream, streams_[stream.v].submitted};
  return Status::ok();
}

Status StreamSet::wait(StreamId stream, EventId event) {
  TROUPE_TRY(check_stream(stream));
  TROUPE_TRY(check_event(event));
  const Event& marker = events_[event.v];
  if (marker.stream.is_none()) {
    return {Code::kFailedPrecondition, "stream " + std::to_string(stream.v) + " waits for event " +
                                           std::to_string(event.v) + ", which was never recorded"};
  }
  Command command;
  command.wait_stream = marker.stream;
  command.wait_position = marker.position;
  Stream& target = streams_[stream.v];
  if (!target.queue.push(std::move(command))) {
    return {Code::kNoCapacity, "stream " + std::to_string(stream.v) + " already holds " +
                                   std::to_string(limits_.commands_max) + " commands"};
  }
  ++target.submitted;
  ++waits_open_;
  pass_waits();
  return Status::ok();
}

bool StreamSet::has_claimable_head(const Stream& stream) const noexcept {
  if (stream.queue.empty()) {
    return false;
  }
  const Command& head = stream.queue.front();
  return head.claimed < head.batch.ops.size();
}

size_t StreamSet::claimable() const noexcept {
  return static_cast<size_t>(std::count_if(
      streams_.begin(), streams_.end(), [this](const Stream& s) { return has_claimable_head(s); }));
}

std::optional<Claim> StreamSet::claim(uint64_t bytes_max, uint64_t choice) {
  const size_t ready = claimable();
  if (ready == 0) {
    return std::nullopt;
  }
  size_t skip = static_cast<size_t>(choice % ready);
  size_t at = 0;
  while (!has_claimable_head(streams_[at]) || skip-- != 0) {
    ++at;
  }
  Command& head = streams_[at].queue.front();
  const size_t begin = head.claimed;
  uint64_t bytes = 0;
  while (head.claimed < head.batch.ops.size() && (head.claimed == begin || bytes < bytes_max)) {
    bytes += head.batch.ops[head.claimed++].bytes;
  }
  const size_t count = head.claimed - begin;
  return Claim{StreamId(static_cast<uint32_t>(at)), head.batch.ops.subspan(begin, count),
               head.batch.results.subspan(begin, count), head.bytes};
}

bool StreamSet::finish(const Claim& claim) {
  Stream& stream = streams_[claim.stream.v];
  TROUPE_ASSERT(!stream.queue.empty());
  Command& head = stream.queue.front();
  head.done += claim.ops.size();
  TROUPE_ASSERT(head.done <= head.claimed);
  if (head.done < head.batch.ops.size()) {
    return false;
  }
  Completion completion{claim.stream, head.user_data, Code::kOk, 0};
  for (const OpResult& result : head.batch.results) {
    completion.failed += result.code == Code::kOk ? 0U : 1U;
  }
  TROUPE_ASSERT(completions_.push(completion));
  pop_head(stream);
  if (waits_open_ != 0) {
    pass_waits();
  }
  return true;
}

void StreamSet::pop_head(Stream& stream) {
  stream.queue.pop();
  ++stream.finished;
}

void StreamSet::pass_waits() {
  bool moved = true;
  while (moved && waits_open_ != 0) {  // a passed wait may be what another stream waits for
    moved = false;
    for (Stream& stream : streams_) {
      while (!stream.queue.empty() && stream.queue.front().batch.ops.empty()) {
        const Command& head = stream.queue.front();
        if (streams_[head.wait_stream.v].finished < head.wait_position) {
          break;
        }
        pop_head(stream);
        --waits_open_;
        moved = true;
      }
    }
  }
}

size_t StreamSet::poll(std::span<Completion> out) noexcept {
  size_t count = 0;
  while (count < out.size() && !completions_.empty()) {
    out[count++] = completions_.pop();
  }
  batches_open_ -= count;
  return count;
}

bool StreamSet::idle(StreamId stream) const noexcept {
  return streams_[stream.v].finished == streams_[stream.v].submitted;
}

}  // namespace troupe::kernels
