// Order of work on the CPU device: streams as bounded queues, events as positions in them. Pure
// state, no threads and no locks: cpu_device.h holds one under its mutex, and tests crank one by
// hand through every legal order. Invariants: 0 <= finished <= submitted per stream; only the head
// of a stream is ever claimed; unpolled completions + queued batches <= batches_max. An event is
// (stream, how many commands were submitted to it before the record): it is reached once the stream
// has finished as many. Recording again moves the meaning and does not disturb waits that were
// queued before, as on a GPU.
#pragma once

#include "kernels/device.h"
#include "runtime/base/bounded.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::kernels {

struct StreamLimits {
  uint32_t streams_max = 64;
  uint32_t events_max = 65536;
  uint32_t commands_max = 4096;  // batches and waits queued in one stream
  uint32_t batches_max = 16384;  // accepted and not yet polled, all streams together
};

/// A piece of one batch, given to one worker.
struct Claim {
  StreamId stream;
  std::span<const Op> ops;
  std::span<OpResult> results;
  uint64_t batch_bytes = 0;  // of the whole batch: decides how stores meet the cache
};

class StreamSet {
 public:
  explicit StreamSet(const StreamLimits& limits);

  Expected<StreamId> create_stream();
  Expected<EventId> create_event();
  Status submit(StreamId stream, const Batch& batch, uint64_t user_data);
  Status record(StreamId stream, EventId event);
  Status wait(StreamId stream, EventId event);

  /// Streams whose head has ops that nobody claimed yet.
  size_t claimable() const noexcept;
  /// Takes consecutive ops, at least one, until `bytes_max` is reached, from the `choice`-th
  /// (modulo) claimable stream. Empty when nothing is claimable.
  std::optional<Claim> claim(uint64_t bytes_max, uint64_t choice);
  /// Returns a claim whose ops have run. True: a completion was added.
  bool finish(const Claim& claim);

  size_t poll(std::span<Completion> out) noexcept;
  size_t completions() const noexcept { return completions_.size(); }
  bool known(StreamId stream) const noexcept { return stream.v < streams_.size(); }
  bool idle(StreamId stream) const noexcept;

 private:
  struct Command {
    Batch batch;  // no ops: a wait
    uint64_t user_data = 0;
    uint64_t bytes = 0;
    size_t claimed = 0;
    size_t done = 0;
    StreamId wait_stream;
    uint64_t wait_position = 0;
  };
  struct Stream {
    explicit Stream(size_t limit) : queue(limit) {}
    BoundedQueue<Command> queue;
    uint64_t submitted = 0;
    uint64_t finished = 0;
  };
  struct Event {
    StreamId stream;  // none: never recorded
    uint64_t position = 0;
  };

  Status check_stream(StreamId stream) const;
  Status check_event(EventId event) const;
  bool has_claimable_head(const Stream& stream) const noexcept;
  void pop_head(Stream& stream);
  void pass_waits();

  StreamLimits limits_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  BoundedQueue<Completion> completions_;
  size_t batches_open_ = 0;  // queued or completed, not yet polled
  size_t waits_open_ = 0;
};

}  // namespace troupe::kernels
