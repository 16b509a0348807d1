// Bounded ring between the actor that records and the thread that writes: one producer, one
// consumer, no lock. Entries are whole numbers of words and lie in one piece; the first word of an
// entry starts with its length, which a skipped tail end has too.
#pragma once

#include "runtime/base/assert.h"

#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

namespace troupe::trace {

class WordRing {
 public:
  /// Length 0 in the low half of the first word marks the unused tail end of the buffer.
  static constexpr uint64_t kSkip = 0;

  /// `words`: a power of two. The memory is touched here, so that no step pays for its first use.
  explicit WordRing(size_t words) : words_(new uint64_t[words]()), capacity_(words) {
    TROUPE_ASSERT(std::has_single_bit(words));
  }

  // [producer]
  /// Room for an entry of `count` words, at most half the ring; null: full. Seen by nobody until
  /// commit(); reserving again without it drops the reservation.
  uint64_t* reserve(size_t count) noexcept {
    TROUPE_ASSERT(count > 0 && count <= capacity_ / 2);
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t at = tail & (capacity_ - 1);
    const size_t to_end = capacity_ - at;
    const size_t skipped = count <= to_end ? 0 : to_end;
    if (tail + skipped + count - known_head_ > capacity_) {
      known_head_ = head_.load(std::memory_order_acquire);
      if (tail + skipped + count - known_head_ > capacity_) {
        return nullptr;
      }
    }
    if (skipped != 0) {
      words_[at] = kSkip;
    }
    staged_ = tail + skipped + count;
    return &words_[skipped != 0 ? 0 : at];
  }
  void commit() noexcept { tail_.store(staged_, std::memory_order_release); }
  /// More than half is waiting, as far as the producer knows.
  bool half_full() noexcept {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - known_head_ <= capacity_ / 2) {
      return false;
    }
    known_head_ = head_.load(std::memory_order_acquire);
    return tail - known_head_ > capacity_ / 2;
  }

  // [consumer]
  /// Everything before this position was committed before the call.
  uint64_t committed() const noexcept { return tail_.load(std::memory_order_acquire); }
  /// The oldest entry before `end`, or null.
  uint64_t* front(uint64_t end) noexcept {
    uint64_t head = head_.load(std::memory_order_relaxed);
    if (head == end) {
      return nullptr;
    }
    size_t at = head & (capacity_ - 1);
    if (static_cast<uint32_t>(words_[at]) == kSkip) {
      head += capacity_ - at;
      head_.store(head, std::memory_order_release);
      at = 0;
      if (head == end) {
        return nullptr;
      }
    }
    return &words_[at];
  }
  void pop(size_t count) noexcept {
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

 private:
  std::unique_ptr<uint64_t[]> words_;
  size_t capacity_;
  alignas(64) std::atomic<uint64_t> tail_{0};
  uint64_t known_head_ = 0;  // producer's
  uint64_t staged_ = 0;      // producer's
  alignas(64) std::atomic<uint64_t> head_{0};
};

}  // namespace troupe::trace
