// The movers: actors with effects. They move bytes through the device interface and tell what
// happened by messages, in order, so that a replay, which does not run them, can put their messages
// back.
//   device_stream  loads and copies on write of a step, then the plan to the engine
//   host_mover     demotions from the device to host memory
//   disk_mover     demotions to the disk; the same work on another target
//   clock          timers on the runtime's clock, which `advance` moves
#pragma once

#include <deque>
#include <map>

#include "actors/movers/tier_memory.h"
#include "runtime/core/actor_core.h"

namespace troupe {

class DeviceStream {
 public:
  DeviceStream(TierMemory& memory, kernels::StreamId stream) : memory_(memory), stream_(stream) {}
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept { return Digest().add(runs_); }
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  void on_run(wire::Run::Reader run, StepContext& cx);
  TierMemory& memory_;
  kernels::StreamId stream_;
  uint64_t runs_ = 0;
  Unexpected unexpected_;
};

/// Demotions, and from disk to host memory: host_mover and disk_mover are one class each on a
/// thread of its own. On a virtual clock a batch with the disk takes its modelled time: its results
/// are kept until then. Reads and writes are a queue each, as the store puts reads first.
class DemotionMover {
 public:
  DemotionMover(TierMemory& memory, kernels::StreamId stream) : memory_(memory), stream_(stream) {}
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept { return Digest().add(transfers_); }
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  struct Held {
    int64_t due = 0;
    std::vector<MovedBlock> moved;
  };
  /// When a batch that begins now has ended on the modelled disk; 0: it is not modelled.
  int64_t due_at(const std::vector<MovedBlock>& moved, Tick now);
  void send(const std::vector<MovedBlock>& moved, StepContext& cx);

  TierMemory& memory_;
  kernels::StreamId stream_;
  uint64_t transfers_ = 0;
  std::vector<Held> held_;
  std::array<int64_t, 2> busy_until_{};  // modelled: of reads, of writes
  Unexpected unexpected_;
};

/// Keeps at most max_timers timers; one more fires at once, which is early but never lost.
class Clock {
 public:
  explicit Clock(uint32_t max_timers) : max_timers_(max_timers) {}
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  struct Timer {
    uint64_t cookie = 0;
    uint16_t owner = 0;  // instance of `wake`, see the routes
  };
  void fire(Tick now, const Timer& timer, StepContext& cx);
  uint32_t max_timers_;
  std::multimap<int64_t, Timer> timers_;  // by tick
  Unexpected unexpected_;
};

}  // namespace troupe
