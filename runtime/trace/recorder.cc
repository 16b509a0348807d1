#include "runtime/trace/recorder.h"

#include "runtime/trace/build_id.h"
#include "runtime/trace/frame_tokens.h"
#include "runtime/trace/lane_tap.h"

#include <capnp/schema.h>

#include <cstring>
#include <pthread.h>
#include <sys/random.h>
#include <thread>
#include <xxhash.h>

namespace troupe::trace {
namespace {

constexpr size_t words_of(size_t bytes) {
  return bytes / sizeof(uint64_t);
}

/// The writer looks at the rings this often, since waking it for each message would cost the actors
/// a system call; twice as long each time it finds nothing, so that an idle server is woken 60
/// times a second at most. An actor whose ring is half full wakes it at once.
constexpr std::chrono::milliseconds kPeriodMin{1};
constexpr std::chrono::milliseconds kPeriodMax{16};

uint64_t draw() {
  uint64_t value = 0;
  const ssize_t got = getrandom(&value, sizeof(value), 0);
  TROUPE_ASSERT(got ==
                sizeof(value));  // the system's source is not there: nothing would be permuted
  return value;
}

/// One lane as the writing thread sees it.
struct Lane {
  std::unique_ptr<LaneTap> tap;
  std::unique_ptr<SegmentWriter> writer;
  Address address;
  const Actor* actor = nullptr;  // null for the client
};

}  // namespace

class Recorder::Impl {
 public:
  Impl(const Troupe& troupe, LaneStorage& storage, RecorderOptions options);
  ~Impl() { (void)close(); }
  void attach(Dispatcher& dispatcher);
  Status flush(std::chrono::nanoseconds limit);
  Status close();
  RecorderStats stats() const;

 private:
  void add_lane(Address address, std::string name, const Actor* actor, LaneStorage& storage);
  void work();
  uint64_t drain(Lane& lane);
  void write_delivery(Lane& lane, uint64_t* at);
  void write_stepped(Lane& lane, uint64_t* at);
  uint64_t digest_of(Kind kind, std::span<const capnp::word> words);
  /// Takes the frame out of the ring; the caller lets it go.
  Frame take(uint64_t* at) noexcept {
    auto* slot = reinterpret_cast<Frame*>(at);
    Frame frame = std::move(*slot);
    slot->~Frame();
    freed_ += frame.words().size_bytes();
    return frame;
  }
  void publish_stats();

  RecorderOptions options_;
  TokenCipher cipher_;
  LaneInfo info_;
  std::vector<bool> edges_;
  Backlog backlog_;
  std::vector<Lane> lanes_;
  std::vector<uint64_t> scratch_;  // a payload that is permuted
  std::vector<uint64_t> marks_;    // of one step
  uint64_t freed_ = 0;             // bytes of frames taken since the last look at the backlog
  bool closed_ = false;
  // Under backlog_.mutex:
  uint64_t flush_asked_ = 0;
  uint64_t flush_done_ = 0;
  bool ending_ = false;
  std::condition_variable flushed_;
  RecorderStats stats_;
  std::thread thread_;
};

Recorder::Impl::Impl(const Troupe& troupe, LaneStorage& storage, RecorderOptions options)
    : options_(std::move(options)), cipher_(options_.token_key ? *options_.token_key : draw()) {
  backlog_.pending_bytes_max = options_.pending_bytes;
  backlog_.lossless = options_.lossless;
  info_.build_id = options_.build_id + ", " + program_id();
  info_.schema_id = capnp::Schema::from<wire::Message>().getProto().getId();
  info_.config = options_.config;
  info_.seed = options_.seed;
  info_.plugins = options_.plugins;
  info_.recording = options_.recording ? *options_.recording : draw();
  info_.edges_mode = options_.mode == RecorderOptions::Mode::kEdges;
  info_.digest_every = options_.digest_every;
  const auto mark_edge = [this](Address address) {
    edges_.resize(std::max<size_t>(edges_.size(), address.v + size_t{1}));
    edges_[address.v] = true;
  };
  mark_edge(troupe.client);
  for (const Member& member : troupe.members) {
    if (member.mover) {
      mark_edge(member.address);
    }
  }
  add_lane(troupe.client, "client", nullptr, storage);
  for (const Member& member : troupe.members) {
    add_lane(member.address, std::string(member.actor->name()), member.actor.get(), storage);
  }
  thread_ = std::thread([this] { work(); });
}

void Recorder::Impl::add_lane(Address address, std::string name, const Actor* actor,
                              LaneStorage& storage) {
  LaneInfo info = info_;
  info.actor = std::move(name);
  info.address = address;
  info.edge = address.v < edges_.size() && edges_[address.v];
  LaneTap::Options tap;
  tap.ring_words = words_of(options_.ring_bytes);
  tap.digest_every = options_.digest_every;
  tap.digest_rest = options_.digest_rest;
  tap.edges_mode = info.edges_mode;
  tap.edges = edges_;
  lanes_.push_back({std::make_unique<LaneTap>(backlog_, actor, std::move(tap)),
                    std::make_unique<SegmentWriter>(storage, std::move(info), options_.limits),
                    address, actor});
}

void Recorder::Impl::attach(Dispatcher& dispatcher) {
  for (Lane& lane : lanes_) {
    dispatcher.observe(lane.address, lane.tap.get());
  }
}

void Recorder::Impl::work() {
  (void)pthread_setname_np(pthread_self(), "recorder");
  std::chrono::milliseconds period = kPeriodMin;
  for (;;) {
    uint64_t asked = 0;
    bool ending = false;
    {
      const std::lock_guard lock(backlog_.mutex);
      asked = flush_asked_;
      ending = ending_;
    }
    uint64_t found = 0;
    for (Lane& lane : lanes_) {
      found += drain(lane);
    }
    if (asked != flush_done_ || ending) {
      for (Lane& lane : lanes_) {
        lane.writer->flush();
      }
    }
    std::unique_lock lock(backlog_.mutex);
    publish_stats();
    if (asked != flush_done_) {
      flush_done_ = asked;
      flushed_.notify_all();
    }
    backlog_.space.notify_all();
    if (ending) {
      return;
    }
    period = found != 0 ? kPeriodMin : std::min(period * 2, kPeriodMax);
    const bool busy = found > words_of(options_.ring_bytes) / 4;
    if (!busy && flush_asked_ == flush_done_ && !ending_) {
      backlog_.work.wait_for(lock, period);
    }
  }
}

/// Writes all entries that were there at the call. Returns their words.
uint64_t Recorder::Impl::drain(Lane& lane) {
  WordRing& ring = lane.tap->ring();
  const uint64_t end = ring.committed();
  uint64_t found = 0;
  for (uint64_t* at = ring.front(end); at != nullptr; at = ring.front(end)) {
    EntryHead head;
    load_from(head, at);
    found += head.words;
    if (head.type == RecordType::kDelivery) {
      write_delivery(lane, at);
    } else if (head.type == RecordType::kStepped) {
      write_stepped(lane, at);
    } else {
      GapEntry entry;
      load_from(entry, at);
      lane.writer->gap(entry.first, entry.last, GapReason::kSlow);
    }
    ring.pop(head.words);
    if (freed_ != 0) {
      backlog_.pending_bytes.fetch_sub(std::exchange(freed_, 0), std::memory_order_relaxed);
    }
  }
  return found;
}

void Recorder::Impl::write_delivery(Lane& lane, uint64_t* at) {
  DeliveryEntry entry;
  load_from(entry, at);
  RecordHead head;
  head.seq = entry.seq;
  head.type = static_cast<uint16_t>(RecordType::kDelivery);
  head.kind = entry.kind;
  head.from = entry.from;
  head.flags = entry.head.flags & static_cast<uint16_t>(~kEntryRef);
  uint64_t body[words_of(sizeof(DeliveryBody))];
  std::memcpy(body, &entry.body, sizeof(body));
  if ((head.flags & kFlagNoPayload) != 0) {
    lane.writer->append(head, body);
    return;
  }
  const auto kind = static_cast<Kind>(entry.kind);
  uint64_t* payload = at + words_of(sizeof(entry));
  Frame frame;
  std::span<const capnp::word> words;
  if ((entry.head.flags & kEntryRef) != 0) {
    frame = take(payload);
    words = frame.words();
  } else {
    words = {reinterpret_cast<capnp::word*>(payload), entry.payload_words};
  }
  if (carries_tokens(kind)) {
    scratch_.resize(words.size());
    std::memcpy(scratch_.data(), words.data(), words.size_bytes());
    permute_tokens(kind, {reinterpret_cast<capnp::word*>(scratch_.data()), words.size()}, cipher_);
    lane.writer->append(head, body, scratch_);
    return;
  }
  lane.writer->append(head, body, {reinterpret_cast<const uint64_t*>(words.data()), words.size()});
}

void Recorder::Impl::write_stepped(Lane& lane, uint64_t* at) {
  SteppedEntry entry;
  load_from(entry, at);
  const size_t count = (entry.head.words - words_of(sizeof(entry))) / words_of(sizeof(OutputMark));
  marks_.resize(words_of(sizeof(SteppedBody)) + count * words_of(sizeof(OutputMark)));
  std::memcpy(marks_.data(), &entry.body, sizeof(entry.body));
  uint64_t* from = at + words_of(sizeof(entry));
  uint64_t* to = marks_.data() + words_of(sizeof(SteppedBody));
  for (size_t i = 0; i < count; ++i) {
    OutputMark mark;
    load_from(mark, from);
    if ((mark.words & kMarkRef) != 0) {
      const Frame frame = take(from);
      mark.words &= ~kMarkRef;
      mark.digest = digest_of(static_cast<Kind>(mark.kind), frame.words());
    }
    std::memcpy(to, &mark, sizeof(mark));
    from += words_of(sizeof(mark));
    to += words_of(sizeof(mark));
  }
  RecordHead head;
  head.seq = entry.seq;
  head.type = static_cast<uint16_t>(RecordType::kStepped);
  head.flags = entry.head.flags;
  lane.writer->append(head, marks_);
}

uint64_t Recorder::Impl::digest_of(Kind kind, std::span<const capnp::word> words) {
  if (!carries_tokens(kind)) {
    return XXH3_64bits(words.data(), words.size_bytes());
  }
  scratch_.resize(words.size());
  std::memcpy(scratch_.data(), words.data(), words.size_bytes());
  permute_tokens(kind, {reinterpret_cast<capnp::word*>(scratch_.data()), words.size()}, cipher_);
  return XXH3_64bits(scratch_.data(), words.size_bytes());
}

void Recorder::Impl::publish_stats() {
  RecorderStats sum;
  for (const Lane& lane : lanes_) {
    const LaneStats& one = lane.writer->stats();
    sum.total.records += one.records;
    sum.total.bytes += one.bytes;
    sum.total.segments += one.segments;
    sum.total.gaps += one.gaps;
    sum.total.lost += one.lost;
    sum.total.storage_errors += one.storage_errors;
    if (sum.last_error) {
      sum.last_error = lane.writer->last_error();
    }
  }
  stats_ = std::move(sum);
}

Status Recorder::Impl::flush(std::chrono::nanoseconds limit) {
  std::unique_lock lock(backlog_.mutex);
  const uint64_t mine = ++flush_asked_;
  backlog_.work.notify_one();
  if (!flushed_.wait_for(lock, limit, [&] { return flush_done_ >= mine; })) {
    return Status(Code::kDeadline, "the recorder did not write out what was waiting in time");
  }
  return Status::ok();
}

Status Recorder::Impl::close() {
  if (closed_) {
    return stats_.last_error;
  }
  closed_ = true;
  {
    const std::lock_guard lock(backlog_.mutex);
    ending_ = true;
    backlog_.work.notify_one();
  }
  thread_.join();
  for (Lane& lane : lanes_) {
    uint64_t first = 0;
    uint64_t last = 0;
    if (lane.tap->take_gap(first, last)) {
      lane.writer->gap(first, last, GapReason::kSlow);
    }
    lane.writer->close(lane.actor != nullptr ? std::optional<uint64_t>(lane.actor->digest().value())
                                             : std::nullopt);
  }
  publish_stats();
  return stats_.last_error;
}

RecorderStats Recorder::Impl::stats() const {
  auto& mutex = const_cast<std::mutex&>(backlog_.mutex);
  const std::lock_guard lock(mutex);
  return stats_;
}

Recorder::Recorder(const Troupe& troupe, LaneStorage& storage, RecorderOptions options)
    : impl_(std::make_unique<Impl>(troupe, storage, std::move(options))) {}
Recorder::~Recorder() = default;
void Recorder::attach(Dispatcher& dispatcher) {
  impl_->attach(dispatcher);
}
Status Recorder::flush(std::chrono::nanoseconds limit) {
  return impl_->flush(limit);
}
Status Recorder::close() {
  return impl_->close();
}
RecorderStats Recorder::stats() const {
  return impl_->stats();
}

}  // namespace troupe::trace
