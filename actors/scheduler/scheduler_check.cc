// Digest, invariants, save and load of the scheduler.
#include <algorithm>

#include "actors/scheduler/scheduler.h"

namespace troupe {

Digest Scheduler::digest() const noexcept {
  Digest d;
  for (const auto& [id, row] : requests_) {
    d.add(id).add(static_cast<uint64_t>(row.phase)).add(row.generated).add(row.computed);
    d.add(row.sequence).add(row.preemptions).add(row.reused).add_signed(row.first_token.ns);
  }
  for (const uint64_t id : queue_) {
    d.add(id);
  }
  for (const uint32_t handle : running_) {
    const SequenceRow& sequence = sequences_[handle];
    d.add(handle).add(sequence.computed).add(sequence.sealed).add(sequence.in_step);
  }
  return d.add(next_step_).add(in_flight_).add(blocked_ ? 1 : 0).add(window_).add(preemptions_);
}

Status Scheduler::check_quick() const {
  if (running_.size() + entering_.size() + free_sequences_.size() != sequences_.size()) {
    return Status(Code::kInternal, "scheduler: running " + std::to_string(running_.size()) +
                                       " + entering " + std::to_string(entering_.size()) +
                                       " + free " + std::to_string(free_sequences_.size()) +
                                       " is not " + std::to_string(sequences_.size()));
  }
  return unexpected_.count == 0 ? Status::ok()
                                : Status(Code::kInternal, "scheduler: unexpected message " +
                                                              kind_text(unexpected_.last));
}

std::string Scheduler::kind_text(Kind kind) {
  return "kind " + std::to_string(static_cast<unsigned>(kind));
}

Status Scheduler::check() const {
  TROUPE_TRY(check_quick());
  size_t queued = 0;
  size_t with_sequence = 0;
  for (const auto& [id, row] : requests_) {
    queued += row.phase == Phase::kQueued ? 1 : 0;
    with_sequence += row.sequence != kNoSequence ? 1 : 0;
    if (row.sequence != kNoSequence && sequences_[row.sequence].request != id) {
      return Status(Code::kInternal, "scheduler: request " + std::to_string(id) +
                                         " and sequence " + std::to_string(row.sequence) +
                                         " do not name each other");
    }
    if (row.sequence != kNoSequence && sequences_[row.sequence].computed > target(row)) {
      return Status(Code::kInternal, "scheduler: request " + std::to_string(id) +
                                         " computed more tokens than it has");
    }
  }
  if (queued != queue_.size() || with_sequence != running_.size() + entering_.size()) {
    return Status(Code::kInternal, "scheduler: " + std::to_string(queued) +
                                       " requests are queued, the queue holds " +
                                       std::to_string(queue_.size()));
  }
  return Status::ok();
}

Status Scheduler::save(StateSink& sink) const {
  sink.u32(1);
  sink.u64(requests_.size());
  for (const auto& [id, r] : requests_) {
    sink.u64(id);
    for (const uint32_t v : {r.tenant, static_cast<uint32_t>(r.priority), r.prompt, r.max_new,
                             r.probe, r.generated, r.sequence, r.drops, r.reused, r.computed,
                             r.preemptions, r.trim, r.failed_loads}) {
      sink.u32(v);
    }
    for (const int64_t v : {r.arrival.ns, r.deadline.ns, r.wait_until.ns, r.scheduled.ns,
                            r.first_token.ns}) {
      sink.i64(v);
    }
    sink.u64(r.parent);
    sink.u8(r.block_class);
    sink.u8(static_cast<uint8_t>((r.prompt_only ? 1 : 0) | (r.seal_partial ? 2 : 0) |
                                 (r.force ? 4 : 0) | (r.cancelled ? 8 : 0)));
    sink.u8(static_cast<uint8_t>(r.phase));
  }
  sink.array(queue_);
  sink.array(running_);
  sink.array(entering_);
  sink.array(free_sequences_);
  for (const SequenceRow& s : sequences_) {
    sink.u64(s.request);
    sink.u32(s.computed);
    sink.u32(s.sealed);
    sink.u32(s.in_step);
    sink.u8(s.entered ? 1 : 0);
    sink.array(s.new_tokens);
    sink.array(s.new_keys);
  }
  sink.u64(commit_.size());
  for (const Ended& e : commit_) {
    sink.u64(e.request);
    sink.u32(e.sequence);
    sink.u32(e.sealed);
    sink.u32(static_cast<uint32_t>(e.ending));
    sink.u32(static_cast<uint32_t>(e.refusal));
    sink.array(e.tokens);
    sink.array(e.keys);
    sink.u8(e.gives_up ? 1 : 0);
  }
  for (const uint64_t v :
       {next_step_, in_flight_, next_question_, open_question_, preemptions_, commits_}) {
    sink.u64(v);
  }
  sink.u8(static_cast<uint8_t>((blocked_ ? 1 : 0) | (short_ ? 2 : 0)));
  sink.u32(window_);
  sink.u64(deadlines_);
  sink.u8(progress_ ? 1 : 0);
  sink.u64(last_queued_);
  sink.array(std::vector<uint64_t>(early_cancels_.begin(), early_cancels_.end()));
  sink.u8(order_stale_ ? 1 : 0);
  sink.i64(wake_at_.ns);
  return Status::ok();
}

namespace {
RequestRow load_request(StateSource& source) {
  RequestRow r;
  r.request = source.u64();
  r.tenant = source.u32();
  r.priority = static_cast<int32_t>(source.u32());
  for (uint32_t* v : {&r.prompt, &r.max_new, &r.probe, &r.generated, &r.sequence, &r.drops,
                      &r.reused, &r.computed, &r.preemptions, &r.trim, &r.failed_loads}) {
    *v = source.u32();
  }
  for (Tick* v : {&r.arrival, &r.deadline, &r.wait_until, &r.scheduled, &r.first_token}) {
    v->ns = source.i64();
  }
  r.parent = source.u64();
  r.block_class = source.u8();
  const uint8_t flags = source.u8();
  r.prompt_only = (flags & 1) != 0;
  r.seal_partial = (flags & 2) != 0;
  r.force = (flags & 4) != 0;
  r.cancelled = (flags & 8) != 0;
  r.phase = static_cast<Phase>(source.u8());
  return r;
}
}  // namespace

Status Scheduler::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "scheduler: state schema " + std::to_string(schema) + ", not 1");
  }
  requests_.clear();
  const uint64_t rows = source.u64();
  for (uint64_t i = 0; i < rows && source.status(); ++i) {
    RequestRow r = load_request(source);
    requests_.emplace(r.request, r);
  }
  queue_ = source.array<uint64_t>();
  running_ = source.array<uint32_t>();
  entering_ = source.array<uint64_t>();
  free_sequences_ = source.array<uint32_t>();
  for (SequenceRow& s : sequences_) {
    s.request = source.u64();
    s.computed = source.u32();
    s.sealed = source.u32();
    s.in_step = source.u32();
    s.entered = source.u8() != 0;
    s.new_tokens = source.array<uint32_t>();
    s.new_keys = source.array<BlockKey>();
    const auto found = requests_.find(s.request);
    s.row = found == requests_.end() ? nullptr : &found->second;
    if (s.request != 0 && s.row == nullptr) {
      return Status(Code::kCorrupt, "scheduler: a sequence of request " +
                                        std::to_string(s.request) + ", which is not known");
    }
  }
  commit_.clear();
  const uint64_t ended = source.u64();
  for (uint64_t i = 0; i < ended && source.status(); ++i) {
    Ended e;
    e.request = source.u64();
    e.sequence = source.u32();
    e.sealed = source.u32();
    e.ending = static_cast<wire::Ending>(source.u32());
    e.refusal = static_cast<wire::Refusal>(source.u32());
    e.tokens = source.array<uint32_t>();
    e.keys = source.array<BlockKey>();
    e.gives_up = source.u8() != 0;
    commit_.push_back(std::move(e));
  }
  for (uint64_t* v : {&next_step_, &in_flight_, &next_question_, &open_question_, &preemptions_,
                      &commits_}) {
    *v = source.u64();
  }
  const uint8_t flags = source.u8();
  blocked_ = (flags & 1) != 0;
  short_ = (flags & 2) != 0;
  window_ = source.u32();
  deadlines_ = source.u64();
  progress_ = source.u8() != 0;
  last_queued_ = source.u64();
  const auto early = source.array<uint64_t>();
  early_cancels_ = std::set<uint64_t>(early.begin(), early.end());
  order_stale_ = source.u8() != 0;
  wake_at_.ns = source.i64();
  TROUPE_TRY(source.status());
  TROUPE_TRY(check_ranges());
  return check();
}

Status Scheduler::check_ranges() const {
  const auto bad = [](const char* what) {
    return Status(Code::kCorrupt, std::string("scheduler: a damaged snapshot: ") + what);
  };
  for (const auto& [id, row] : requests_) {
    if (row.block_class >= config_.class_tokens.size() ||
        (row.sequence != kNoSequence && row.sequence >= sequences_.size())) {
      return bad("a request's class or sequence is out of range");
    }
  }
  for (const auto* handles : {&running_, &free_sequences_}) {
    for (const uint32_t handle : *handles) {
      if (handle >= sequences_.size()) {
        return bad("a sequence handle is out of range");
      }
    }
  }
  for (const uint32_t handle : running_) {
    if (sequences_[handle].row == nullptr) {
      return bad("a running sequence has no request");
    }
  }
  for (const auto* ids : {&queue_, &entering_}) {
    for (const uint64_t id : *ids) {
      if (!requests_.contains(id)) {
        return bad("a queued request is not known");
      }
    }
  }
  return Status::ok();
}

}  // namespace troupe
