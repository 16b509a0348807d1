// gateway: the way in and out of a troupe. Validates a submit, takes a credit, gives the request
// its id (ids are the admission order) and hands it to the prefix index; passes exactly one
// terminal reply back. Invariants: live == credits taken ≤ max_live; a request id is answered once;
// ids only grow.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "runtime/core/actor_core.h"

namespace troupe {

struct GatewayConfig {
  uint32_t max_live = 4096;  // requests admitted and not yet answered: the credits
  uint32_t max_new_tokens = 1U << 20;
  uint32_t device_granules = 0;                // capacity of the device tier
  std::vector<uint32_t> class_granules = {1};  // granules of one block, by block class
  std::vector<uint32_t> class_tokens = {16};   // tokens of one block, by block class
  uint32_t tenants = 1;                        // tenant ids are below
};

class Gateway {
 public:
  explicit Gateway(GatewayConfig config) : config_(std::move(config)) {}

  void step(const Envelope& in, StepContext& cx) noexcept;
  Digest digest() const noexcept;
  Status check() const;
  Status save(StateSink& sink) const;
  Status load(StateSource& source);

  uint64_t live() const noexcept { return by_request_.size(); }

 private:
  struct Refused {
    wire::Refusal why = wire::Refusal::NONE;
    uint64_t value = 0;
    uint64_t limit = 0;
  };
  Refused validate(wire::Spec::Reader spec) const noexcept;
  void on_submit(const Envelope& in, StepContext& cx);
  void on_reply(wire::Reply::Reader reply, StepContext& cx);
  void on_cancel(wire::Cancel::Reader cancel, StepContext& cx);
  void on_trim(wire::Trim::Reader trim, StepContext& cx);
  void on_drain(uint64_t control, StepContext& cx);
  void answer_drain(StepContext& cx);
  void answer_status(uint64_t control, StepContext& cx);
  /// Request of a live ticket, 0 when there is none.
  uint64_t request_of(uint64_t ticket) const;

  GatewayConfig config_;
  std::map<uint64_t, uint64_t> by_request_;  // request -> ticket
  std::map<uint64_t, uint64_t> by_ticket_;   // ticket -> request
  uint64_t next_request_ = 1;
  bool draining_ = false;
  std::vector<uint64_t> drains_;  // asked and not yet answered; the director bounds them
  uint64_t admitted_ = 0;
  uint64_t refused_ = 0;
  uint64_t answered_ = 0;
  uint64_t stray_ = 0;  // replies, cancels and trims for requests that are not live
  Unexpected unexpected_;
};

}  // namespace troupe
