// Where a core puts its messages. A core names a kind, never a receiver: actors/wiring knows, from
// (sender, kind, instance), who gets it, and an undeclared route stops the process in the
// dispatcher.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/core/frame.h"

namespace troupe {

/// Words of a message with a fixed-size body: root, body and its small lists.
constexpr size_t kSmallMessageWords = 64;

/// Upper bound of words that a Data of `bytes` takes in a message.
constexpr size_t data_words(size_t bytes) noexcept { return bytes / sizeof(capnp::word) + 2; }

struct Outgoing {
  Kind kind = Kind::INVALID;
  uint16_t instance = 0;  // of the receiving role, where it has several (policy slots, movers)
  Frame frame;
};

class Outbox {
 public:
  /// Appends one message. `words`: upper bound of its size beyond kSmallMessageWords; `fill` gets
  /// the Message::Builder and sets exactly one member of the union.
  template <class Fill>
  void send(Kind kind, size_t words, Fill&& fill, uint16_t instance = 0) {
    FrameHeader header = stamp_;
    header.seq = ++sequence_;
    items_.push_back({kind, instance,
                      scratch_.build(header, kSmallMessageWords + words, [&](auto message) {
                        fill(message);
                        TROUPE_ASSERT(message.which() == kind);
                      })});
  }

  // For dispatchers:
  /// Sets what the messages of the coming step carry.
  void begin(Address from, uint64_t cause, Tick now) noexcept {
    stamp_ = FrameHeader{from, Address(), 0, cause, now};
  }
  std::vector<Outgoing>& items() noexcept { return items_; }
  uint64_t sequence() const noexcept { return sequence_; }
  void set_sequence(uint64_t sequence) noexcept { sequence_ = sequence; }

 private:
  FrameScratch scratch_;
  FrameHeader stamp_;
  uint64_t sequence_ = 0;
  std::vector<Outgoing> items_;
};

}  // namespace troupe
