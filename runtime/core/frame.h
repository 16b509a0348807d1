// A frame: one message's bytes, one flat Cap'n Proto segment, immutable and shared by count. Built
// in one way only (scratch buffer with a size bound, then an exact copy), so that equal content
// gives equal bytes and lanes of two runs can be compared byte for byte.
#pragma once

#include <capnp/message.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/base/assert.h"
#include "runtime/base/ids.h"
#include "runtime/base/tick.h"
#include "schemas/envelope.capnp.h"

namespace troupe {

using Kind = wire::Message::Which;

/// Number of an actor, given by actors/wiring.
using Address = Strong<struct AddressTag, uint16_t>;

/// What the dispatcher stamps beside a message; no core writes it.
struct FrameHeader {
  Address from;
  Address to;
  uint64_t seq = 0;    // of the sender's outbox, from 1
  uint64_t cause = 0;  // inbox sequence of the sender that led to this message; 0: from outside
  Tick tick;           // the sender's now
  Kind kind = Kind::INVALID;  // of the message, so that nobody has to open it to know
};

/// Shared immutable frame. Copies cost one count; the last one frees.
class Frame {
 public:
  Frame() noexcept = default;
  Frame(const Frame& o) noexcept : data_(o.data_) {
    if (data_ != nullptr) {
      data_->refs.fetch_add(1, std::memory_order_relaxed);
    }
  }
  Frame(Frame&& o) noexcept : data_(std::exchange(o.data_, nullptr)) {}
  Frame& operator=(Frame o) noexcept {
    std::swap(data_, o.data_);
    return *this;
  }
  ~Frame() { reset(); }

  /// Copies `words` (one capnp segment) behind `header`. Throws std::bad_alloc only.
  static Frame make(const FrameHeader& header, std::span<const capnp::word> words);

  explicit operator bool() const noexcept { return data_ != nullptr; }
  const FrameHeader& header() const noexcept { return data_->header; }
  std::span<const capnp::word> words() const noexcept { return {data_->words(), data_->count}; }

 private:
  struct Data {
    std::atomic<uint32_t> refs{1};
    uint32_t count = 0;
    FrameHeader header;
    capnp::word* words() noexcept { return reinterpret_cast<capnp::word*>(this + 1); }
    const capnp::word* words() const noexcept {
      return reinterpret_cast<const capnp::word*>(this + 1);
    }
  };
  void reset() noexcept;
  Data* data_ = nullptr;
};

/// Read access to a frame's message. Borrows the frame.
class FrameReader {
 public:
  explicit FrameReader(std::span<const capnp::word> words)
      : segment_(words.data(), words.size()), reader_(segments(), options()) {}
  wire::Message::Reader message() { return reader_.getRoot<wire::Message>(); }

 private:
  kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments() const { return {&segment_, 1}; }
  static capnp::ReaderOptions options() {
    capnp::ReaderOptions o;
    o.traversalLimitInWords = 64ULL
                              << 20;  // frames are bounded where they enter; 512 MiB is never met
    return o;
  }
  kj::ArrayPtr<const capnp::word> segment_;
  capnp::SegmentArrayMessageReader reader_;
};

/// Builds one message in a reused, zeroed scratch buffer. The bound given to `begin` must hold.
class FrameScratch {
 public:
  /// `words`: upper bound of the message's size [8-byte words]; too small a bound is a programmer
  /// error.
  template <class Fill>
  Frame build(FrameHeader header, size_t words, Fill&& fill) {
    reserve(words);
    // capnp::word can be neither copied nor made, so the buffer holds plain integers of its size.
    Arena arena({reinterpret_cast<capnp::word*>(buffer_.data()), words});
    auto message = arena.template initRoot<wire::Message>();
    fill(message);
    header.kind = message.which();
    const auto used = arena.getSegmentsForOutput();
    TROUPE_ASSERT(used.size() == 1);
    Frame frame = Frame::make(header, {used[0].begin(), used[0].size()});
    std::memset(buffer_.data(), 0, used[0].size() * sizeof(capnp::word));
    return frame;
  }

 private:
  class Arena final : public capnp::MessageBuilder {
   public:
    explicit Arena(std::span<capnp::word> space) : space_(space) {}
    kj::ArrayPtr<capnp::word> allocateSegment(capnp::uint minimum) override {
      TROUPE_ASSERT(!given_ &&
                    minimum <= space_.size());  // the bound given to build() was too small
      given_ = true;
      return {space_.data(), space_.size()};
    }

   private:
    std::span<capnp::word> space_;
    bool given_ = false;
  };
  void reserve(size_t words) {
    if (buffer_.size() < words) {
      buffer_.clear();  // all zero by invariant, so nothing to keep
      buffer_.resize(words, 0);
    }
  }
  static_assert(sizeof(uint64_t) == sizeof(capnp::word));
  std::vector<uint64_t> buffer_;  // invariant: all zero between builds
};

}  // namespace troupe
