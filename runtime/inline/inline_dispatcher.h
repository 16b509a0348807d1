// The single-threaded dispatcher: same cores, same messages, on the caller's thread, without CAF. Used
// by the simulator, by replay and by engines that embed a troupe. Messages are delivered in the order
// they were sent, one queue for all, so equal input gives an equal run.
#pragma once

#include <deque>
#include <functional>

#include "runtime/core/routes.h"

namespace troupe {

/// Sees every delivery: the recorder, explain, tests. Called before the step, then after it.
class DeliveryObserver {
 public:
  virtual ~DeliveryObserver() = default;
  /// `inbox_seq`: number of this message in the receiver's inbox, from 1.
  virtual void on_deliver(Address to, uint64_t inbox_seq, const Frame& frame) = 0;
  virtual void on_stepped(Address to, uint64_t inbox_seq, const std::vector<Outgoing>& sent) = 0;
};

class InlineDispatcher {
 public:
  struct Options {
    uint32_t check_quick_every = 1;   // deliveries; 0: never
    uint32_t check_every = 0;         // full sweep of every actor, in deliveries; 0: never
  };
  /// `troupe` and `client` must outlive the dispatcher.
  InlineDispatcher(Troupe& troupe, ClientPort& client, Options options);

  /// Sends one message as the client, at virtual time `now`. [caller's thread; also inside on_frame]
  template <class Fill>
  void post(Kind kind, Tick now, size_t words, Fill&& fill, uint16_t instance = 0) {
    client_out_.begin(troupe_.client, 0, now);
    client_out_.send(kind, words, fill, instance);
    forward(troupe_.client, client_out_);
  }
  /// Delivers until every mailbox is empty. Returns deliveries made, or the broken invariant.
  Expected<uint64_t> run();
  /// Runs every actor's full check.
  Status check_all() const;
  void observe(DeliveryObserver* observer) noexcept { observer_ = observer; }
  uint64_t deliveries() const noexcept { return deliveries_; }
  /// Messages that an actor did not expect or that had no route end the process; this is its depth.
  size_t queue_high_water() const noexcept { return high_water_; }

 private:
  struct Pending {
    Address to;
    Frame frame;
  };
  void forward(Address from, Outbox& out);
  Status deliver(const Pending& pending);

  Troupe& troupe_;
  ClientPort& client_;
  Options options_;
  std::vector<Member*> by_address_;
  std::vector<Outbox> outboxes_;
  std::vector<uint64_t> inbox_seq_;
  Outbox client_out_;
  std::deque<Pending> queue_;
  DeliveryObserver* observer_ = nullptr;
  uint64_t deliveries_ = 0;
  size_t high_water_ = 0;
};

}  // namespace troupe
