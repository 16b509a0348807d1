// A troupe of relays for dispatcher tests: client -drain-> 1 -drain-> 2 -drain-> … -drain-> client.
// Each relay adds one to the number it hands on, and checks that every sender's frames arrive in
// order.
#pragma once

#include "runtime/core/dispatcher.h"

#include <atomic>
#include <functional>
#include <map>
#include <string>

namespace troupe::test {

class Relay {
 public:
  void step(const Envelope& in, StepContext& cx) noexcept {
    ++steps_;
    uint64_t& last = last_seq_[in.header.from.v];
    in_order_ = in_order_ && in.header.seq > last;
    last = in.header.seq;
    if (in.message.which() != Kind::DRAIN) {
      unexpected_.note(in.message.which());
      return;
    }
    const uint64_t number = in.message.getDrain().getControl();
    digest_.add(number);
    if (on_step) {
      on_step(number);
    }
    cx.out.send(Kind::DRAIN, 0, [&](auto m) { m.initDrain().setControl(number + 1); });
  }
  Digest digest() const noexcept { return digest_; }
  Status check() const {
    if (!in_order_) {
      return Status(Code::kInternal, "frames of one sender came out of order");
    }
    return check_quick();
  }
  Status check_quick() const {
    if (steps_ > steps_max) {
      return Status(Code::kInternal,
                    "steps " + std::to_string(steps_) + " of at most " + std::to_string(steps_max));
    }
    return Status::ok();
  }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

  uint64_t steps() const noexcept { return steps_; }
  uint64_t steps_max = UINT64_MAX;
  std::function<void(uint64_t)> on_step;

 private:
  uint64_t steps_ = 0;
  bool in_order_ = true;
  std::map<uint16_t, uint64_t> last_seq_;
  Digest digest_;
  Unexpected unexpected_;
};

constexpr const char* kRelayNames[] = {"client", "first", "second", "third"};

/// Relays 1 … 3; the third is a mover. `client` is 0.
inline Troupe make_relays() {
  Troupe troupe;
  troupe.client = Address(0);
  for (uint16_t i = 1; i <= 3; ++i) {
    troupe.members.push_back(
        {Address(i), std::make_unique<ActorOf<Relay>>(kRelayNames[i]), i == 3});
    troupe.routes.add({Address(static_cast<uint16_t>(i - 1)), Kind::DRAIN, 0, Address(i)});
  }
  troupe.routes.add({Address(3), Kind::DRAIN, 0, Address(0)});
  return troupe;
}

inline Relay& relay(Troupe& troupe, size_t index) {
  return static_cast<ActorOf<Relay>&>(*troupe.members[index].actor).core();
}

/// Counts what comes back; posts the next number while `left` lasts.
class CountingClient : public ClientPort {
 public:
  void on_frame(const Frame& frame) override {
    FrameReader reader(frame.words());
    const uint64_t number = reader.message().getDrain().getControl();
    sum += number;
    ++frames;
    if (left > 0) {
      --left;
      post(number);
    }
  }
  void post(uint64_t number) {
    refused += dispatcher->post(Kind::DRAIN, Tick{static_cast<int64_t>(number)}, 0,
                                [&](auto m) { m.initDrain().setControl(number); })
                   ? 0
                   : 1;
  }
  Dispatcher* dispatcher = nullptr;
  uint64_t left = 0;
  uint64_t frames = 0;
  uint64_t sum = 0;
  std::atomic<uint64_t> refused{0};
};

}  // namespace troupe::test
