// The recorder: one append-only lane per actor. An actor's lane is fed by that actor alone, through
// a ring of its own and without a lock; one thread of the recorder permutes tokens, computes
// checksums and writes. Recording never changes what a troupe does, and by default never makes it
// wait: when storage is slow or full the lane has a gap, which is counted and written down. On a
// request's way: beside every step of every actor.
#pragma once

#include "runtime/core/dispatcher.h"
#include "runtime/trace/segment_writer.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::trace {

struct RecorderOptions {
  enum class Mode : uint8_t {
    kFull,   // every payload
    kEdges,  // payloads that came from the client or a mover; the rest is made again at replay
  };
  Mode mode = Mode::kFull;
  SegmentLimits limits;
  uint64_t ring_bytes = 1ULL << 20;      // a lane, for small messages; a power of two
  uint64_t pending_bytes = 64ULL << 20;  // of large messages that wait for the writer, all lanes
  /// Actors wait when the writer is behind, instead of leaving a gap: for runs that are recorded to
  /// be replayed, where nobody is served.
  bool lossless = false;
  uint32_t digest_every =
      4096;  // steps of an actor between digests of its state, at least; 0: never
  /// A digest walks the whole state, so the next one is put off until this many times as long has
  /// passed as the last one took; 0: never put off.
  uint32_t digest_rest = 400;
  std::optional<uint64_t> token_key;  // drawn when absent; set in tests only
  // What the headers say:
  std::string build_id;  // the program's version; program_id() is added
  std::string config;
  uint64_t seed = 0;
  std::vector<LaneInfo::Plugin> plugins;
  std::optional<uint64_t> recording;  // drawn when absent; set for golden lanes only
};

struct RecorderStats {
  LaneStats total;
  Status last_error;  // of storage
};

class Recorder {
 public:
  /// `troupe` and `storage` must outlive the recorder. One lane for each member and for the client.
  Recorder(const Troupe& troupe, LaneStorage& storage, RecorderOptions options);
  /// Closes.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Observes every actor and the client. Once, before the first post; detach by destroying the
  /// dispatcher before the recorder.
  void attach(Dispatcher& dispatcher);
  /// Waits until all that was handed over before the call is in the storage's hands. kDeadline.
  Status flush(std::chrono::nanoseconds limit);
  /// Ends all lanes. Call when nothing is delivered any more. The first error of storage, if any.
  Status close();
  /// Complete after close(), else as far as written.
  RecorderStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace troupe::trace
