// The movers: actors with effects. They move bytes through the device interface and tell what
// happened by messages, in order, so that a replay, which does not run them, can put their messages
// back.
//   device_stream  loads and copies on write of a step, then the plan to the engine
//   host_mover     demotions from the device to host memory
//   disk_mover     demotions to the disk; the same work on another target
//   clock          timers on the runtime's clock, which `advance` moves
#pragma once

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

/// Demotions: host_mover and disk_mover are one class each on a thread of its own.
class DemotionMover {
 public:
  DemotionMover(TierMemory& memory, kernels::StreamId stream) : memory_(memory), stream_(stream) {}
  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept { return Digest().add(transfers_); }
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  TierMemory& memory_;
  kernels::StreamId stream_;
  uint64_t transfers_ = 0;
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
  void fire(Tick now, uint64_t cookie, StepContext& cx);
  uint32_t max_timers_;
  std::multimap<int64_t, uint64_t> timers_;  // tick -> cookie
  Unexpected unexpected_;
};

}  // namespace troupe
