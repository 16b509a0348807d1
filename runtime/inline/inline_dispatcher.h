// The single-threaded dispatcher: same cores, same messages, on the caller's thread, without CAF.
// Used by the simulator, by replay and by engines that embed a troupe. Messages are delivered in
// the order they were sent, one queue for all, so equal input gives an equal run.
#pragma once

#include "runtime/core/dispatcher.h"

#include <deque>

namespace troupe {

class InlineDispatcher final : public Dispatcher {
 public:
  struct Options {
    uint32_t check_quick_every = 1;  // deliveries; 0: never
    uint32_t check_every = 0;        // full sweep of every actor, in deliveries; 0: never
  };
  /// `troupe` and `client` must outlive the dispatcher.
  InlineDispatcher(Troupe& troupe, ClientPort& client, Options options);

  /// Delivers until every mailbox is empty. Returns deliveries made, or the broken invariant.
  Expected<uint64_t> run() override;
  /// Runs every actor's full check.
  Status check_all() const override;
  void observe(Address actor, DeliveryObserver* observer) override;
  uint64_t deliveries() const noexcept override { return deliveries_; }
  /// Messages that an actor did not expect or that had no route end the process; this is its depth.
  size_t queue_high_water() const noexcept { return high_water_; }

 protected:
  Outbox* begin_post(Tick now) override {
    client_out_.begin(troupe_.client, 0, now);
    return &client_out_;
  }
  void end_post() override { forward(troupe_.client, client_out_); }

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
  std::vector<std::vector<DeliveryObserver*>> observers_;  // by address
  uint64_t deliveries_ = 0;
  size_t high_water_ = 0;
};

}  // namespace troupe
