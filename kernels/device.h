// Device: memory regions, streams, events and batched byte work behind one interface, so that the
// same movers drive a CPU arena and a GPU. On a request's way: step 8, the movers do the bytes
// (actors/movers call this; cores never do). Implementations: cpu/cpu_device.h, and cuda/ in a
// library opened at run time.
// Invariants: a batch starts only after all earlier work of its stream finished, and after the
// events that its stream waits for; ops inside one batch may run at the same time and in any order;
// every accepted batch gives exactly one completion, also when the device dies; nothing here
// throws. Data race rule: two ops on overlapping bytes, one of them a write, must be ordered by a
// stream or by an event. The device does not check it.
#pragma once

#include "runtime/base/ids.h"
#include "runtime/base/status.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace troupe::kernels {

using RegionId = Strong<struct RegionTag, uint16_t>;
using StreamId = Strong<struct StreamTag, uint32_t>;
using EventId = Strong<struct EventTag, uint32_t>;

/// The device's own memory is always the first region.
constexpr RegionId kDeviceRegion{0};

/// A byte position in a region. Addresses never leave the device, so a stale or wrong one is an
/// error by name and not a fault.
struct Location {
  RegionId region;
  uint64_t offset = 0;  // [bytes from the region's begin]
};

enum class OpKind : uint8_t {
  kCopy,      // dst <- src, `bytes` of them; the two ranges don't overlap
  kFill,      // dst <- pattern(seed) from pattern position `position` (pattern.h)
  kVerify,    // src == pattern(seed) from `position`? value: first different byte, or kNoMismatch
  kChecksum,  // value: XXH3-64 (seed 0) of src
};

/// One run of bytes. A batch is an array of these; a KV block is one op.
struct Op {
  OpKind kind = OpKind::kCopy;
  /// kCopy only: the XXH3-64 of the bytes is computed while they are copied (`value`).
  bool with_checksum = false;
  uint32_t bytes = 0;
  Location dst;
  Location src;
  uint64_t seed = 0;
  uint64_t position = 0;
};

constexpr uint64_t kNoMismatch = UINT64_MAX;

struct OpResult {
  /// kOk: done (kVerify: equal). kCorrupt: kVerify found a difference at `value`. kUnavailable: the
  /// device died before or while it ran; the bytes of dst are then unknown.
  Code code = Code::kOk;
  uint64_t value = 0;
};

/// Ops with their results, index by index. Both arrays are the caller's and must stay untouched
/// until the completion was polled; results are written by the device.
struct Batch {
  std::span<const Op> ops;
  std::span<OpResult> results;  // [ops.size()]
};

struct Completion {
  StreamId stream;
  uint64_t user_data = 0;
  /// kOk: every op ran (look at the results for mismatches). Otherwise the device's error.
  Code code = Code::kOk;
  uint32_t failed = 0;  // ops whose result is not kOk
};

struct DeviceFacts {
  std::string name;           // "cpu" or the GPU's name
  uint64_t memory_bytes = 0;  // of kDeviceRegion
  uint32_t worker_threads = 0;
  bool on_gpu = false;
  std::string note;  // what was asked for and not granted; empty when nothing is missing
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  /// Waits for work that is running; work not yet started is given up. No wake-up comes afterwards.
  virtual ~Device() = default;

  virtual DeviceFacts facts() const = 0;

  /// Makes host memory known to the device (a GPU pins it; a refusal to pin is a fact in
  /// `facts().note`, copies then go through pageable memory). The memory must outlive the device.
  /// Errors: invalid_argument (empty), no_capacity (limit of regions). [any thread]
  virtual Expected<RegionId> add_region(std::span<std::byte> host_memory) = 0;

  /// An ordered queue of work. Errors: no_capacity (limit of streams). [any thread]
  virtual Expected<StreamId> create_stream() = 0;
  /// A marker in a stream that others can wait for. Errors: no_capacity. [any thread]
  virtual Expected<EventId> create_event() = 0;

  /// Queues a batch. Errors: invalid_argument (unknown stream or region, out of a region's range, a
  /// checksum asked of a fill, sizes of the two arrays differ, no ops), no_capacity (the queue is
  /// full, or too many completions were not polled: poll, then try again), unavailable (the device
  /// is dead). After an error nothing was queued and no completion follows. [any thread]
  virtual Status submit(StreamId stream, const Batch& batch, uint64_t user_data) = 0;

  /// The event's newest meaning becomes: all work submitted to `stream` so far has finished.
  /// Errors: invalid_argument, no_capacity, unavailable. [any thread]
  virtual Status record(StreamId stream, EventId event) = 0;
  /// Later work of `stream` starts only after the newest `record` of the event as of now. Errors:
  /// failed_precondition (never recorded: a lost happens-before is a bug of the caller),
  /// invalid_argument, no_capacity, unavailable. [any thread]
  virtual Status wait(StreamId stream, EventId event) = 0;

  /// Moves up to `out.size()` completions, oldest first, to `out`; returns how many. Never blocks.
  /// A completion polled here happens-after all the bytes that its batch wrote. [any thread]
  virtual size_t poll(std::span<Completion> out) = 0;

  /// Called after a completion was queued while none was waiting to be polled. Runs on a thread of
  /// the device: it must only wake the poller. Set it before the first submit. `function` may be
  /// null. [one thread, at start]
  virtual void set_wakeup(void (*function)(void* context), void* context) = 0;

  /// Blocks until all work submitted to `stream` has finished (its completions can be polled).
  /// Errors: invalid_argument, unavailable (dead; given up work has its completions). [any thread]
  virtual Status synchronize(StreamId stream) = 0;

  /// Ok, or why the device is dead. A dead device stays dead: what its memory holds is unknown.
  virtual Status health() const = 0;
};

}  // namespace troupe::kernels
