// Drives one core without any dispatcher: give it messages, look at what it sent.
#pragma once

#include "runtime/core/actor_core.h"
#include "runtime/core/wire.h"

#include <catch2/catch.hpp>

#include <functional>
#include <vector>

namespace troupe::test {

struct Sent {
  Kind kind;
  uint16_t instance;
  Frame frame;
  /// Calls `look` with the message's reader.
  template <class Look>
  void read(Look&& look) const {
    FrameReader reader(frame.words());
    look(reader.message());
  }
};

template <class Core>
class CoreHarness {
 public:
  template <class... Args>
  explicit CoreHarness(Args&&... args) : core(std::forward<Args>(args)...) {}

  /// Delivers one message at `now`; returns what the core sent.
  template <class Fill>
  std::vector<Sent> give(Tick now, Fill&& fill, size_t words = 4096) {
    const Frame frame = scratch_.build(FrameHeader{Address(0), Address(1), ++seq_, 0, now},
                                       kSmallMessageWords + words, fill);
    FrameReader reader(frame.words());
    out_.begin(Address(1), seq_, now);
    StepContext cx{now, out_};
    core.step(Envelope{frame.header(), reader.message()}, cx);
    std::vector<Sent> sent;
    for (Outgoing& item : out_.items()) {
      sent.push_back({item.kind, item.instance, std::move(item.frame)});
    }
    out_.items().clear();
    const Status status = core.check();
    INFO(status.to_string());
    CHECK(status.is_ok());
    return sent;
  }

  Core core;

 private:
  FrameScratch scratch_;
  Outbox out_;
  uint64_t seq_ = 0;
};

/// The kinds of what was sent, in order.
inline std::vector<Kind> kinds(const std::vector<Sent>& sent) {
  std::vector<Kind> out;
  for (const Sent& s : sent) {
    out.push_back(s.kind);
  }
  return out;
}

}  // namespace troupe::test
