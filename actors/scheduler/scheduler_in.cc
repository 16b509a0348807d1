// What comes in: admissions, answers about the step in flight, its completion, cancels and
// wake-ups.
#include <algorithm>

#include "actors/scheduler/scheduler.h"

namespace troupe {

Scheduler::Scheduler(SchedulerConfig config) : config_(std::move(config)) {
  sequences_.resize(config_.max_running);
  window_ = config_.max_running;
  for (uint32_t i = config_.max_running; i > 0; --i) {
    free_sequences_.push_back(i - 1);
  }
}

void Scheduler::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::QUEUED: on_queued(in.message.getQueued()); break;
    case Kind::CANCEL: on_cancel(in.message.getCancel().getRequest()); break;
    case Kind::TRIM: on_trim(in.message.getTrim()); break;
    case Kind::HELD: on_held(in.message.getHeld(), cx); break;
    case Kind::READY: on_ready(in.message.getReady()); break;
    case Kind::SHORT: on_short(in.message.getShort()); break;
    case Kind::STEP_DONE: on_step_done(in.message.getStepDone(), cx); break;
    case Kind::ORDERED: on_ordered(in.message.getOrdered()); break;
    case Kind::WAKE: on_wake(cx); break;
    case Kind::STATUS_ASK: answer_status(in.message.getStatusAsk().getControl(), cx); return;
    default: unexpected_.note(in.message.which()); return;
  }
  if (in_flight_ == 0) {
    expire_queued(cx.now);
    send_commit(cx);
    start_step(cx);
  }
  ask_order(cx);
}

void Scheduler::on_queued(wire::Queued::Reader queued) {
  RequestRow row;
  row.request = queued.getRequest();
  row.tenant = queued.getTenant();
  row.priority = queued.getPriority();
  row.prompt = queued.getPromptTokens();
  row.max_new = queued.getMaxNewTokens();
  row.probe = queued.getProbeTokens();
  row.arrival = Tick{queued.getArrival()};
  row.deadline = Tick{queued.getDeadline()};
  row.parent = queued.getParent();
  row.block_class = queued.getBlockClass();
  row.prompt_only = queued.getPromptOnly();
  row.seal_partial = queued.getSealPartial();
  const uint64_t request = row.request;
  const bool has_deadline = row.deadline.ns != 0;
  if (!requests_.emplace(request, std::move(row)).second) {
    ++stray_;
    return;
  }
  deadlines_ += has_deadline ? 1 : 0;
  last_queued_ = std::max(last_queued_, request);
  enqueue(request, false);
  if (early_cancels_.erase(request) > 0) {
    on_cancel(request);
  }
}

void Scheduler::enqueue(uint64_t request, bool front) {
  RequestRow& row = requests_.at(request);
  row.phase = Phase::kQueued;
  if (front) {
    queue_.insert(queue_.begin(), request);
  } else {
    // Priority first, then arrival: behind all that are at least as urgent.
    const auto place = std::find_if(queue_.rbegin(), queue_.rend(), [&](uint64_t other) {
      return requests_.at(other).priority >= row.priority;
    });
    queue_.insert(place.base(), request);
  }
  order_stale_ = true;
}

void Scheduler::unqueue(uint64_t request) {
  queue_.erase(std::find(queue_.begin(), queue_.end(), request));
}

void Scheduler::on_cancel(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) {
    if (request > last_queued_) {
      early_cancels_.insert(request);  // it is still on its way; credits bound how many
    } else {
      ++stray_;  // it ended before the cancel came
    }
    return;
  }
  RequestRow& row = found->second;
  row.cancelled = true;
  // In a step: ends when the step is done, since its blocks are in use until then.
  if (row.phase == Phase::kQueued || row.phase == Phase::kWaiting) {
    leave(row, wire::Ending::CANCELLED, wire::Refusal::NONE);
  }
}

void Scheduler::on_trim(wire::Trim::Reader trim) {
  const auto found = requests_.find(trim.getRequest());
  if (found == requests_.end() || found->second.phase != Phase::kRunning) {
    ++stray_;
    return;
  }
  // Its step is under way: withdrawn when that is done, before anything is sealed.
  found->second.trim = std::min(found->second.generated, found->second.trim + trim.getTokens());
}

void Scheduler::apply_trim(RequestRow& row, SequenceRow& sequence) {
  // Tokens that were handed to the index stay: what is published is immutable.
  const auto n = static_cast<uint32_t>(std::min<size_t>(row.trim, sequence.new_tokens.size()));
  row.trim = 0;
  if (n == 0) {
    return;
  }
  row.generated -= n;
  sequence.new_tokens.resize(sequence.new_tokens.size() - n);
  const uint32_t block = config_.class_tokens[row.block_class];
  const uint32_t first_new = target(row) - static_cast<uint32_t>(sequence.new_tokens.size());
  const uint32_t keys = target(row) / block - first_new / block;
  sequence.new_keys.resize(std::min<size_t>(sequence.new_keys.size(), keys));
  sequence.computed = std::min(sequence.computed, target(row) - 1);  // the next token needs a step
}

void Scheduler::on_held(wire::Held::Reader held, StepContext& cx) {
  if (held.getStep() != in_flight_) {
    ++stray_;
    return;
  }
  for (const uint64_t request : span_of<uint64_t>(held.getWaiting())) {
    RequestRow& row = requests_.at(request);
    release_sequence(row.sequence);
    row.sequence = kNoSequence;
    std::erase(entering_, request);
    row.phase = Phase::kWaiting;
    row.wait_until = cx.now + config_.pending_deadline;
    if (row.cancelled) {
      leave(row, wire::Ending::CANCELLED, wire::Refusal::NONE);
      continue;
    }
    if (row.wait_until < wake_at_) {
      wake_at_ = row.wait_until;
      cx.out.send(Kind::WAKE_AT, 0, [&](wire::Message::Builder m) {
        m.initWakeAt().setTick(wake_at_.ns);
      });
    }
  }
  for (const uint64_t request : span_of<uint64_t>(held.getGone())) {
    RequestRow& row = requests_.at(request);
    std::erase(entering_, request);
    leave(row, wire::Ending::CANCELLED, wire::Refusal::UNKNOWN_REQUEST);
  }
  if (held.getStepEmpty()) {
    in_flight_ = 0;
  }
}

void Scheduler::on_ready(wire::Ready::Reader ready) {
  for (const uint64_t request : span_of<uint64_t>(ready.getRequests())) {
    const auto found = requests_.find(request);
    if (found != requests_.end() && found->second.phase == Phase::kWaiting) {
      enqueue(request, true);
    }
  }
}

void Scheduler::on_wake(StepContext& cx) {
  wake_at_ = kNever;
  for (auto& [request, row] : requests_) {
    if (row.phase != Phase::kWaiting) {
      continue;
    }
    if (row.wait_until <= cx.now) {
      row.force = true;
      enqueue(request, true);
    } else {
      wake_at_ = std::min(wake_at_, row.wait_until);
    }
  }
  if (wake_at_ < kNever) {
    cx.out.send(Kind::WAKE_AT, 0,
                [&](wire::Message::Builder m) { m.initWakeAt().setTick(wake_at_.ns); });
  }
}

void Scheduler::on_short(wire::Short::Reader shortage) {
  if (shortage.getStep() != in_flight_) {
    ++stray_;
    return;
  }
  const auto dropped = span_of<uint64_t>(shortage.getDropped());
  progress_ = entering_.size() > dropped.size();
  // From the last to the first, so that they stand in the queue as they stood before.
  for (size_t i = dropped.size(); i > 0; --i) {
    RequestRow& row = requests_.at(dropped[i - 1]);
    std::erase(entering_, row.request);
    release_sequence(row.sequence);
    row.sequence = kNoSequence;
    commit_.push_back({row.request, kNoSequence, 0, wire::Ending::PREEMPT_RECOMPUTE,
                       wire::Refusal::NONE, {}, {}, false});
    row.phase = Phase::kQueued;
    if (row.cancelled) {
      enqueue(row.request, true);
      leave(row, wire::Ending::CANCELLED, wire::Refusal::NONE);
    } else if (running_.empty() && entering_.empty() && !progress_ && ++row.drops > 2) {
      // Nothing else runs and it was tried again after all that was in flight had settled.
      enqueue(row.request, true);
      leave(row, wire::Ending::CANCELLED, wire::Refusal::TOO_LONG);
    } else {
      enqueue(row.request, true);
    }
  }
  if (!dropped.empty()) {
    // Each try costs a lookup: as many are tried next time as got in this time.
    short_ = true;
    window_ = std::max<uint32_t>(1, static_cast<uint32_t>(entering_.size()));
  }
  blocked_ = !running_.empty();
  if (shortage.getCancelled()) {
    in_flight_ = 0;
    for (const uint32_t handle : running_) {
      sequences_[handle].in_step = 0;
    }
    preempt_one();
  }
}

void Scheduler::on_step_done(wire::StepDone::Reader done, StepContext& cx) {
  if (done.getStep() != in_flight_ || in_flight_ == 0) {
    ++stray_;
    return;
  }
  in_flight_ = 0;
  if (!short_ && entering_.size() >= window_) {
    window_ = std::min(config_.max_running, window_ * 2);
  }
  short_ = false;
  auto tokens = span_of<uint32_t>(done.getTokens());
  auto keys = span_of<BlockKey>(done.getKeys());
  for (const auto row : done.getRows()) {
    const size_t n = std::min<size_t>(row.getGenerated(), tokens.size());
    const size_t k = std::min<size_t>(row.getKeys(), keys.size());
    finish_row(row, tokens.first(n), keys.first(k), cx.now);
    tokens = tokens.subspan(n);
    keys = keys.subspan(k);
  }
  // A new row that the engine left out has its table all the same: given back, and matched again.
  const std::vector<uint64_t> left_out = std::move(entering_);
  entering_.clear();
  for (const uint64_t request : left_out) {
    RequestRow& row = requests_.at(request);
    running_.push_back(row.sequence);
    row.phase = Phase::kRunning;
    fail_load(row);
  }
  for (const uint32_t handle : running_) {
    sequences_[handle].in_step = 0;
  }
}

void Scheduler::fail_load(RequestRow& row) {
  if (row.cancelled) {
    leave(row, wire::Ending::CANCELLED, wire::Refusal::NONE);
  } else if (++row.failed_loads > kFailedLoadsMax) {
    leave(row, wire::Ending::FAILED_LOAD, wire::Refusal::NONE, true);
  } else {
    leave(row, wire::Ending::FAILED_LOAD, wire::Refusal::NONE);
  }
}

void Scheduler::finish_row(wire::DoneRow::Reader done, std::span<const uint32_t> tokens,
                           std::span<const BlockKey> keys, Tick now) {
  if (done.getSequence() >= sequences_.size() ||
      sequences_[done.getSequence()].request != done.getRequest() || done.getRequest() == 0) {
    ++stray_;
    return;
  }
  SequenceRow& sequence = sequences_[done.getSequence()];
  RequestRow& row = *sequence.row;
  if (row.phase == Phase::kEntering) {
    std::erase(entering_, row.request);
    running_.push_back(done.getSequence());
    row.phase = Phase::kRunning;
  }
  if (done.getFailed()) {
    fail_load(row);
    return;
  }
  row.failed_loads = 0;
  if (!advance(done, row, sequence)) {
    ++stray_;  // it claims more than was planned: nothing of it counts, the row is planned again
    return;
  }
  take_generated(row, sequence, tokens, keys, now);
  apply_trim(row, sequence);
  const bool prompt_done = row.prompt_only && sequence.computed == row.prompt;
  if (prompt_done && row.first_token.ns == 0) {
    row.first_token = now;
  }
  if (row.cancelled) {
    leave(row, wire::Ending::CANCELLED, wire::Refusal::NONE);
  } else if (prompt_done || done.getStop() || (!row.prompt_only && row.generated >= row.max_new)) {
    leave(row, wire::Ending::FINISHED, wire::Refusal::NONE);
  } else if (row.deadline.ns != 0 && row.deadline <= now) {
    leave(row, wire::Ending::EXPIRED, wire::Refusal::NONE);
  } else {
    // Without a new token the last one is computed again: a row always has something to do.
    sequence.computed = std::min(sequence.computed, target(row) - 1);
    const uint32_t block = config_.class_tokens[row.block_class];
    if (sequence.computed / block > sequence.sealed / block) {
      commit_.push_back({row.request, row.sequence, sequence.computed, wire::Ending::RUNNING,
                         wire::Refusal::NONE, std::move(sequence.new_tokens),
                         std::move(sequence.new_keys), false});
      sequence.new_tokens.clear();
      sequence.new_keys.clear();
      sequence.sealed = sequence.computed;
    }
  }
}

bool Scheduler::advance(wire::DoneRow::Reader done, RequestRow& row, SequenceRow& sequence) {
  if (done.getComputed() > sequence.in_step ||
      (!sequence.entered && done.getBefore() >= target(row))) {
    return false;
  }
  if (!sequence.entered) {
    sequence.entered = true;
    sequence.computed = done.getBefore();
    sequence.sealed = 0;
    if (row.preemptions == 0) {
      row.reused = sequence.computed;
    }
  }
  const uint32_t computed = std::min(done.getComputed(), target(row) - sequence.computed);
  sequence.computed += computed;
  row.computed += computed;
  row.drops = 0;
  return true;
}

void Scheduler::take_generated(RequestRow& row, SequenceRow& sequence,
                               std::span<const uint32_t> tokens, std::span<const BlockKey> keys,
                               Tick now) {
  if (row.prompt_only || sequence.computed != target(row) || tokens.empty()) {
    return;
  }
  if (row.generated == 0) {
    row.first_token = now;
  }
  const auto n = std::min<size_t>(tokens.size(), row.max_new - row.generated);
  row.generated += static_cast<uint32_t>(n);
  sequence.new_tokens.insert(sequence.new_tokens.end(), tokens.begin(),
                             tokens.begin() + static_cast<ptrdiff_t>(n));
  sequence.new_keys.insert(sequence.new_keys.end(), keys.begin(), keys.end());
}

void Scheduler::on_ordered(wire::Ordered::Reader ordered) {
  if (ordered.getQuestion() != open_question_) {
    ++stray_;
    return;
  }
  open_question_ = 0;
  // Those still queued take the places that they hold together, in the order of the answer.
  std::vector<uint64_t> wanted;
  for (const uint64_t request : span_of<uint64_t>(ordered.getRequests())) {
    const auto found = requests_.find(request);
    if (found != requests_.end() && found->second.phase == Phase::kQueued) {
      wanted.push_back(request);
    }
  }
  std::vector<uint64_t> sorted = wanted;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    ++stray_;  // an answer that names a request twice changes nothing
    return;
  }
  size_t next = 0;
  for (uint64_t& place : queue_) {
    if (std::binary_search(sorted.begin(), sorted.end(), place)) {
      place = wanted[next++];
    }
  }
}

}  // namespace troupe
