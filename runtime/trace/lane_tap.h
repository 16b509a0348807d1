// One actor's end of the recorder (producer side), and the entries that travel through its ring.
//   delivery  DeliveryEntry, then the payload, or a Frame when it is large, or nothing (edges mode)
//   stepped   SteppedEntry, then a mark per output; the mark of a message that must be permuted
//   before
//             it is hashed, or is large, holds the Frame instead of the digest
//   gap       GapEntry
// Frames in the ring are owned by it until the writer takes them.
#pragma once

#include "runtime/core/dispatcher.h"
#include "runtime/trace/lane_format.h"
#include "runtime/trace/word_ring.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace troupe::trace {

struct EntryHead {
  uint32_t words = 0;  // of the entry, never 0
  RecordType type = RecordType::kInvalid;
  uint16_t flags = 0;  // as in RecordHead; and kEntryRef
};
constexpr uint16_t kEntryRef = 0x8000;  // delivery: the payload is a Frame

struct DeliveryEntry {
  EntryHead head;
  uint64_t seq = 0;
  DeliveryBody body;
  uint32_t payload_words = 0;
  uint16_t kind = 0;
  uint16_t from = 0;
};
struct SteppedEntry {
  EntryHead head;
  uint64_t seq = 0;
  SteppedBody body;
};
struct GapEntry {
  EntryHead head;
  uint64_t first = 0;
  uint64_t last = 0;
};
static_assert(sizeof(DeliveryEntry) == 48 && sizeof(SteppedEntry) == 32 && sizeof(GapEntry) == 24);
static_assert(sizeof(Frame) == sizeof(uint64_t));

/// In OutputMark.words: `digest` is a Frame.
constexpr uint32_t kMarkRef = 0x80000000U;

/// Shared by all taps and the writer.
struct Backlog {
  std::atomic<uint64_t> pending_bytes{0};  // of frames in rings
  uint64_t pending_bytes_max = 0;
  bool lossless = false;
  std::mutex mutex;
  std::condition_variable
      work;  // for the writer: a ring is half full, somebody waits, flush or end
  std::condition_variable space;  // for actors that wait (lossless)
};

class LaneTap final : public DeliveryObserver {
 public:
  struct Options {
    size_t ring_words = 0;
    uint32_t digest_every = 0;
    uint32_t digest_rest = 0;
    bool edges_mode = false;
    std::vector<bool> edges;  // by address: the client and movers
  };
  /// `actor`: null for the client.
  LaneTap(Backlog& backlog, const Actor* actor, Options options);
  ~LaneTap() override;
  LaneTap(const LaneTap&) = delete;
  LaneTap& operator=(const LaneTap&) = delete;

  void on_deliver(Address to, uint64_t inbox_seq, const Frame& frame) override;
  void on_stepped(Address to, uint64_t inbox_seq, const std::vector<Outgoing>& sent) override;
  WordRing& ring() noexcept { return ring_; }
  /// What is missing at the end of the lane, after the last entry. [after the last delivery]
  bool take_gap(uint64_t& first, uint64_t& last) noexcept;

 private:
  uint64_t* room(size_t words);
  bool room_for_frames(uint64_t bytes);
  bool wait_for_writer();
  bool put_gap();
  void lose(uint64_t seq) noexcept;
  bool digest_is_due(uint64_t seq) noexcept;
  uint64_t take_digest();

  Backlog& backlog_;
  const Actor* actor_;
  Options options_;
  WordRing ring_;
  using Clock = std::chrono::steady_clock;  // of the recorder; no core sees it
  Clock::time_point digest_ended_{};
  Clock::duration digest_took_{};
  uint64_t digest_due_ = 0;  // first step from which a digest may be taken again
  uint64_t lost_first_ = 0;
  uint64_t lost_last_ = 0;  // 0: nothing is missing
};

}  // namespace troupe::trace
