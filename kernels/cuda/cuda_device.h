// Device backend over the CUDA driver. Everything goes through a DriverTable, so that its logic
// runs in tests without a GPU. Host <-> device copies are copy-engine transfers of merged runs;
// copies inside device memory, fills, verifies and checksums are one kernel launch per kind and
// batch. Invariants: per stream, pending batches are in the order of submission, and the kernel-op
// ring is used in that order; a pending batch's ring space and event are its own until it was
// collected. Errors: the first error of the driver while work is being queued or was running
// declares the device dead, since what is half done is unknown (CUDA errors of that kind are sticky
// in any case). Running out of memory before a batch touched a stream is no_capacity and harmless.
// A dead device completes all that is pending with `unavailable`, at the next poll; it may not send
// a wake-up, so pollers also poll on their timer. Limits against the CPU backend: one side of a
// copy is device memory, the other kinds work on device memory only, a checksum takes more than 240
// bytes.
#pragma once

#include "kernels/cuda/driver.h"
#include "kernels/cuda/kernel_op.h"
#include "kernels/device.h"
#include "runtime/base/bounded.h"

#include <deque>
#include <memory>
#include <mutex>
#include <vector>

namespace troupe::kernels::cuda {

struct CudaDeviceOptions {
  int ordinal = 0;
  uint64_t memory_bytes = 0;
  uint32_t streams_max = 16;
  uint32_t events_max = 65536;
  uint32_t batches_max = 1024;  // accepted and not yet polled, all streams together
  uint32_t ring_ops = 16384;    // kernel ops in flight per stream, at most 65535
  DriverTable driver;
  const void* module_image = nullptr;  // fat binary of bytes.cu
};

class CudaDevice final : public Device {
 public:
  /// Errors: invalid_argument (memory_bytes or limits 0), no_capacity (device or pinned memory),
  /// unavailable (no such GPU, or the driver refuses).
  static Expected<std::unique_ptr<Device>> create(const CudaDeviceOptions& options);
  ~CudaDevice() override;

  DeviceFacts facts() const override;
  Expected<RegionId> add_region(std::span<std::byte> host_memory) override;
  Expected<StreamId> create_stream() override;
  Expected<EventId> create_event() override;
  Status submit(StreamId stream, const Batch& batch, uint64_t user_data) override;
  Status record(StreamId stream, EventId event) override;
  Status wait(StreamId stream, EventId event) override;
  size_t poll(std::span<Completion> out) override;
  void set_wakeup(void (*function)(void* context), void* context) override;
  Status synchronize(StreamId stream) override;
  Status health() const override;

 private:
  /// Kernel ops of a batch lie in the ring one kind after the other.
  enum Kind : size_t { kCopies, kFills, kVerifies, kChecksums, kKinds };
  struct Counts {
    uint32_t of[kKinds] = {0, 0, 0, 0};
    uint32_t total() const { return of[0] + of[1] + of[2] + of[3]; }
  };
  struct Pending {
    Batch batch;
    uint64_t user_data = 0;
    Handle done = nullptr;
    Counts counts;
    uint32_t ring_begin = 0;
    uint64_t ring_released = 0;  // the ring's tail once this batch is collected
  };
  struct Stream {
    Handle handle = nullptr;
    KernelOp* ring = nullptr;  // pinned host memory [ring_ops]
    DevicePointer device_ring = 0;
    uint64_t head = 0;  // ring positions, ever growing
    uint64_t tail = 0;
    std::deque<Pending> pending;
  };
  struct Event {
    Handle handle = nullptr;
    bool recorded = false;
  };
  struct Region {
    uint64_t begin = 0;  // address
    void* registered = nullptr;
  };

  explicit CudaDevice(const CudaDeviceOptions& options);
  Status open();
  Status check_alive() const;
  Status check_stream(StreamId stream) const;
  Status check_event(EventId event) const;
  Status check_supported(const Batch& batch) const;
  /// The driver's answer as a Status; `unavailable`, or `no_capacity` when out of memory.
  Status answer(const char* call, Result result) const;
  /// Completes all that is pending with `unavailable`; only the first call has an effect.
  void declare_dead(const char* call, Result result);
  /// declare_dead, and the Status to return.
  Status die(const char* call, Result result);
  Status take_event(Handle* event);
  Status reserve_ring(Stream& stream, Pending& pending);
  Status enqueue(Stream& stream, const Pending& pending);
  Status enqueue_transfers(Stream& stream, const Batch& batch);
  Status launch(Stream& stream, const Pending& pending, Kind kind, uint32_t first);
  void write_kernel_ops(Stream& stream, const Pending& pending) const;
  void collect(StreamId id, Stream& stream);
  uint64_t address(const Location& location) const;
  bool is_transfer(const Op& op) const;
  void release_all();

  const CudaDeviceOptions options_;
  const DriverTable driver_;
  mutable std::mutex mutex_;
  Status dead_;
  std::string name_;
  std::string note_;
  int device_ = -1;
  Handle context_ = nullptr;
  Handle module_ = nullptr;
  Handle functions_[kKinds] = {nullptr, nullptr, nullptr, nullptr};
  std::vector<Region> regions_;
  std::vector<uint64_t> region_bytes_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Handle> free_events_;
  BoundedQueue<Completion> completions_;
  size_t batches_open_ = 0;
  void (*wakeup_)(void*) = nullptr;
  void* wakeup_context_ = nullptr;
};

}  // namespace troupe::kernels::cuda
