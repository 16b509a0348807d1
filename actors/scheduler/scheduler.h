// scheduler: continuous batching with chunked prefill. One step is in flight at a time; each forms
// a batch of running sequences (one token, or the next chunk of a prompt) and of new ones, and
// sends it down the line (schemas/block.capnp). What a step completed is committed at once, so that
// blocks are published before the next batch matches. Invariants: every request known here is in
// exactly one phase; running rows = used sequences; a request leaves by exactly one commit row with
// `reply`. After Orca (Yu et al., OSDI 2022), Sarathi-Serve (Agrawal et al., OSDI 2024) and vLLM
// (SOSP 2023).
#pragma once

#include <map>
#include <set>
#include <string>

#include "actors/scheduler/scheduler_state.h"
#include "runtime/core/actor_core.h"

namespace troupe {

class Scheduler {
 public:
  explicit Scheduler(SchedulerConfig config);

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check_quick() const;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  uint64_t steps() const noexcept { return next_step_ - 1; }
  uint64_t preemptions() const noexcept { return preemptions_; }

 private:
  /// One row of the commit being collected.
  struct Ended {
    uint64_t request = 0;
    uint32_t sequence = kNoSequence;
    uint32_t sealed = 0;
    wire::Ending ending = wire::Ending::RUNNING;
    wire::Refusal refusal = wire::Refusal::NONE;
    std::vector<uint32_t> tokens;
    std::vector<BlockKey> keys;
    bool gives_up = false;  // a failed load that is not tried again: the terminal reply
    bool terminal() const noexcept {
      return gives_up || ending == wire::Ending::FINISHED || ending == wire::Ending::CANCELLED ||
             ending == wire::Ending::EXPIRED;
    }
  };
  static constexpr uint32_t kFailedLoadsMax = 8;  // in a row; then the request ends with an error

  // scheduler_in.cc: what comes in
  void on_queued(wire::Queued::Reader queued);
  void on_cancel(uint64_t request);
  void on_trim(wire::Trim::Reader trim);
  void on_held(wire::Held::Reader held, StepContext& cx);
  void on_ready(wire::Ready::Reader ready);
  void on_short(wire::Short::Reader shortage);
  void on_step_done(wire::StepDone::Reader done, StepContext& cx);
  void on_ordered(wire::Ordered::Reader ordered);
  void on_wake(StepContext& cx);
  void apply_trim(RequestRow& row, SequenceRow& sequence);
  bool advance(wire::DoneRow::Reader done, RequestRow& row, SequenceRow& sequence);
  void take_generated(RequestRow& row, SequenceRow& sequence, std::span<const uint32_t> tokens,
                      std::span<const BlockKey> keys, Tick now);
  void finish_row(wire::DoneRow::Reader row, std::span<const uint32_t> tokens,
                  std::span<const BlockKey> keys, Tick now);
  // scheduler_out.cc: what goes out
  void start_step(StepContext& cx);
  void send_batch(StepContext& cx);
  void ask_order(StepContext& cx);
  void send_commit(StepContext& cx);
  void answer_status(uint64_t control, StepContext& cx);

  void enqueue(uint64_t request, bool front);
  void unqueue(uint64_t request);
  /// Takes the sequence away; the request comes back (preemption, failed load) or ends.
  void leave(RequestRow& row, wire::Ending ending, wire::Refusal refusal, bool gives_up = false);
  void fail_load(RequestRow& row);
  void preempt_one();
  void expire_queued(Tick now);
  void release_sequence(uint32_t sequence);
  Status check_ranges() const;
  static std::string kind_text(Kind kind);
  uint32_t target(const RequestRow& row) const noexcept { return row.prompt + row.generated; }

  SchedulerConfig config_;
  std::map<uint64_t, RequestRow> requests_;
  std::vector<uint64_t> queue_;  // requests in phase kQueued, best first
  std::vector<SequenceRow> sequences_;
  std::vector<uint32_t> free_sequences_;  // stack
  std::vector<uint32_t> running_;         // sequence handles in admission order
  std::vector<uint64_t> entering_;        // new rows of the step in flight
  std::vector<Ended> commit_;             // collected for the next commit
  uint64_t next_step_ = 1;
  uint64_t in_flight_ = 0;  // step, 0: none
  uint64_t commits_ = 0;    // sent so far
  bool blocked_ = false;    // no room for new rows until something leaves
  uint32_t window_ = 1;  // new rows that a step tries: halved by want of room, doubled by success
  bool short_ = false;      // the step in flight left rows out
  bool progress_ = false;   // something got into the step in flight
  uint64_t last_queued_ = 0;            // highest request seen: ids come in order
  std::set<uint64_t> early_cancels_;    // cancels that overtook their request on its way here
  uint64_t deadlines_ = 0;  // requests known that have one
  uint64_t next_question_ = 1;
  uint64_t open_question_ = 0;
  bool order_stale_ = false;
  Tick wake_at_ = kNever;
  uint64_t preemptions_ = 0;
  uint64_t stray_ = 0;
  Unexpected unexpected_;
};

}  // namespace troupe
