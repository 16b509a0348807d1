// The dispatcher that runs a troupe on CAF: one actor a member, on a pool of threads. It stands
// where runtime/inline stands, with the same interface; a run is then no function of what the
// client posts alone (lanes record the order that happened), but every actor still is one of its
// own inbox. No CAF header is visible here.
#pragma once

#include "runtime/core/dispatcher.h"

#include <chrono>
#include <functional>
#include <memory>

namespace troupe {

class CafDispatcher final : public Dispatcher {
 public:
  struct Options {
    uint32_t threads = 2;            // of the pool; waiting members and the client have their own
    uint32_t throughput = 64;        // messages an actor may handle before the next has its turn
    uint32_t check_quick_every = 1;  // deliveries of one actor; 0: never
  };
  /// Starts all actors. `troupe` and `client` must outlive the dispatcher. `client` is called on
  /// one thread of its own, one frame at a time.
  CafDispatcher(Troupe& troupe, ClientPort& client, Options options);
  /// Stops with a deadline of 5 s if stop() was not called. Blocks while an actor sits in its step.
  ~CafDispatcher() override;
  CafDispatcher(const CafDispatcher&) = delete;
  CafDispatcher& operator=(const CafDispatcher&) = delete;

  Expected<uint64_t> run() override;
  /// Waits until `done` returns true; it is asked once now and after each frame to the client,
  /// never while `client` is being called, so it may read what on_frame writes. kDeadline after
  /// `limit`; the reason, if the troupe stopped.
  Status run_until(const std::function<bool()>& done, std::chrono::nanoseconds limit);
  /// kFailedPrecondition while messages are in flight.
  Status check_all() const override;
  void observe(Address actor, DeliveryObserver* observer) override;
  uint64_t deliveries() const noexcept override;
  /// Most messages that were in flight at once, over all mailboxes.
  uint64_t mailbox_high_water() const noexcept;

  /// Ordered shutdown: refuses posts (from inside on_frame they are still taken, since a draining
  /// troupe needs the client's answers), delivers what is in flight, then stops actors by
  /// descending address. kDeadline names what was not delivered or who did not stop. Idempotent.
  Status stop(std::chrono::nanoseconds limit);

 protected:
  Outbox* begin_post(Tick now) override;
  void end_post() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe
