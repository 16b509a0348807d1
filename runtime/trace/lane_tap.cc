#include "runtime/trace/lane_tap.h"

#include "runtime/trace/frame_tokens.h"

#include <cstring>
#include <new>
#include <xxhash.h>

namespace troupe::trace {
namespace {

/// Payloads up to this size are copied into the ring and hashed at once (about 50 ns); larger ones
/// are handed over by reference.
constexpr size_t kInlineWords = 128;

constexpr size_t words_of(size_t bytes) {
  return bytes / sizeof(uint64_t);
}

}  // namespace

LaneTap::LaneTap(Backlog& backlog, const Actor* actor, Options options)
    : backlog_(backlog), actor_(actor), options_(std::move(options)), ring_(options_.ring_words) {}

LaneTap::~LaneTap() {
  TROUPE_ASSERT(ring_.front(ring_.committed()) == nullptr);
}

void LaneTap::on_deliver(Address, uint64_t inbox_seq, const Frame& frame) {
  const FrameHeader& header = frame.header();
  const std::span<const capnp::word> words = frame.words();
  const bool keep = !options_.edges_mode ||
                    (header.from.v < options_.edges.size() && options_.edges[header.from.v]);
  const bool by_ref = keep && words.size() > kInlineWords;
  const size_t tail = !keep ? 0 : by_ref ? 1 : words.size();
  if (!put_gap() || (by_ref && !room_for_frames(words.size_bytes()))) {
    lose(inbox_seq);
    return;
  }
  uint64_t* at = room(words_of(sizeof(DeliveryEntry)) + tail);
  if (at == nullptr) {
    lose(inbox_seq);
    return;
  }
  DeliveryEntry entry;
  entry.head.words = static_cast<uint32_t>(words_of(sizeof(entry)) + tail);
  entry.head.type = RecordType::kDelivery;
  entry.head.flags = static_cast<uint16_t>((keep ? 0 : kFlagNoPayload) | (by_ref ? kEntryRef : 0));
  entry.seq = inbox_seq;
  entry.body = {header.seq, header.cause, header.tick.ns};
  entry.payload_words = static_cast<uint32_t>(words.size());
  entry.kind = static_cast<uint16_t>(header.kind);
  entry.from = header.from.v;
  std::memcpy(at, &entry, sizeof(entry));
  if (by_ref) {
    backlog_.pending_bytes.fetch_add(words.size_bytes(), std::memory_order_relaxed);
    new (at + words_of(sizeof(entry))) Frame(frame);
  } else if (keep) {
    std::memcpy(at + words_of(sizeof(entry)), words.data(), words.size_bytes());
  }
  ring_.commit();
}

void LaneTap::on_stepped(Address, uint64_t inbox_seq, const std::vector<Outgoing>& sent) {
  if (lost_last_ == inbox_seq) {
    return;  // its delivery is not there either
  }
  uint64_t held = 0;
  for (const Outgoing& out : sent) {
    const size_t words = out.frame.words().size();
    held += words > kInlineWords || carries_tokens(out.kind) ? words * sizeof(uint64_t) : 0;
  }
  const size_t size = words_of(sizeof(SteppedEntry)) + sent.size() * words_of(sizeof(OutputMark));
  uint64_t* at = held == 0 || room_for_frames(held) ? room(size) : nullptr;
  if (at == nullptr) {
    lose(inbox_seq);
    return;
  }
  const bool with_state = digest_is_due(inbox_seq);
  SteppedEntry entry;
  entry.head.words = static_cast<uint32_t>(size);
  entry.head.type = RecordType::kStepped;
  entry.head.flags = with_state ? kFlagState : uint16_t{0};
  entry.seq = inbox_seq;
  entry.body.first_seq = sent.empty() ? 0 : sent.front().frame.header().seq;
  entry.body.state = with_state ? take_digest() : 0;
  std::memcpy(at, &entry, sizeof(entry));
  at += words_of(sizeof(entry));
  for (const Outgoing& out : sent) {
    const std::span<const capnp::word> words = out.frame.words();
    OutputMark mark;
    mark.words = static_cast<uint32_t>(words.size());
    mark.kind = static_cast<uint16_t>(out.kind);
    mark.instance = out.instance;
    if (words.size() > kInlineWords || carries_tokens(out.kind)) {
      mark.words |= kMarkRef;
      new (at) Frame(out.frame);
    } else {
      mark.digest = XXH3_64bits(words.data(), words.size_bytes());
      std::memcpy(at, &mark.digest, sizeof(mark.digest));
    }
    std::memcpy(at + 1, reinterpret_cast<const char*>(&mark) + sizeof(mark.digest),
                sizeof(mark) - sizeof(mark.digest));
    at += words_of(sizeof(mark));
  }
  if (held != 0) {
    backlog_.pending_bytes.fetch_add(held, std::memory_order_relaxed);
  }
  ring_.commit();
  if (ring_.half_full()) {
    backlog_.work.notify_one();  // without the lock: a lost wake-up costs one period of the writer
  }
}

/// Every digest_every steps, unless the last digest was long and is too recent.
bool LaneTap::digest_is_due(uint64_t seq) noexcept {
  if (options_.digest_every == 0 || actor_ == nullptr || seq < digest_due_) {
    return false;
  }
  digest_due_ = (seq / options_.digest_every + 1) * options_.digest_every;
  return seq >= options_.digest_every &&
         Clock::now() - digest_ended_ >= options_.digest_rest * digest_took_;
}

uint64_t LaneTap::take_digest() {
  const Clock::time_point begun = Clock::now();
  const uint64_t digest = actor_->digest().value();
  digest_ended_ = Clock::now();
  digest_took_ = digest_ended_ - begun;
  return digest;
}

bool LaneTap::take_gap(uint64_t& first, uint64_t& last) noexcept {
  first = lost_first_;
  last = std::exchange(lost_last_, 0);
  return last != 0;
}

uint64_t* LaneTap::room(size_t words) {
  uint64_t* at = ring_.reserve(words);
  while (at == nullptr && wait_for_writer()) {
    at = ring_.reserve(words);
  }
  return at;
}

bool LaneTap::room_for_frames(uint64_t bytes) {
  const auto fits = [&] {
    const uint64_t waiting = backlog_.pending_bytes.load(std::memory_order_relaxed);
    // One frame of any size may wait alone, or it could never be recorded.
    return waiting == 0 || waiting + bytes <= backlog_.pending_bytes_max;
  };
  while (!fits()) {
    if (!wait_for_writer()) {
      return false;
    }
  }
  return true;
}

/// False at once unless this recording must be complete.
bool LaneTap::wait_for_writer() {
  if (!backlog_.lossless) {
    return false;
  }
  std::unique_lock lock(backlog_.mutex);
  backlog_.work.notify_one();
  backlog_.space.wait_for(lock, std::chrono::milliseconds(1));
  return true;
}

bool LaneTap::put_gap() {
  if (lost_last_ == 0) {
    return true;
  }
  uint64_t* at = ring_.reserve(words_of(sizeof(GapEntry)));
  if (at == nullptr) {
    return false;
  }
  GapEntry entry;
  entry.head.words = static_cast<uint32_t>(words_of(sizeof(entry)));
  entry.head.type = RecordType::kGap;
  (void)take_gap(entry.first, entry.last);
  std::memcpy(at, &entry, sizeof(entry));
  ring_.commit();
  return true;
}

void LaneTap::lose(uint64_t seq) noexcept {
  if (lost_last_ == 0) {
    lost_first_ = seq;
  }
  lost_last_ = seq;
}

}  // namespace troupe::trace
