// Device backend without a GPU: device memory is a span of host memory (an io::Arena), streams run
// on worker threads, or on the caller's thread for the single-threaded dispatcher and for replay,
// or one op at a time under a test's hand. Ordering: stream_set.h; the bytes: bytes.h. Invariant:
// every access to `streams_` holds `mutex_`; ops run without it, on bytes that the stream order
// gives to them alone.
#pragma once

#include "kernels/cpu/stream_set.h"
#include "kernels/device.h"

#include <array>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace troupe::kernels {

enum class CpuExecution : uint8_t {
  kInline,   // submit runs the batch before it returns; completions are polled as ever
  kThreads,  // worker threads share the ready batches of all streams
  kManual,   // nothing runs until run_one(): every legal order can be tried
};

struct CpuDeviceOptions {
  /// Device memory, region 0. Outlives the device.
  std::span<std::byte> memory;
  CpuExecution execution = CpuExecution::kInline;
  /// kThreads only: 1 to 256.
  uint32_t worker_threads = 1;
  StreamLimits limits;
};

class CpuDevice final : public Device {
 public:
  /// Errors: invalid_argument (empty memory, thread count). unavailable (no thread can be made).
  static Expected<std::unique_ptr<CpuDevice>> create(const CpuDeviceOptions& options);
  ~CpuDevice() override;

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
  Status health() const override { return Status::ok(); }

  /// kManual: runs one op of the `choice`-th (modulo) stream that may run. False: none may.
  bool run_one(uint64_t choice);

 private:
  static constexpr size_t kRegionsMax = 1024;

  explicit CpuDevice(const CpuDeviceOptions& options);
  Status start_threads(uint32_t count);
  void work();
  bool run_claim(std::unique_lock<std::mutex>& lock, uint64_t bytes_max, uint64_t choice);
  void run_ops(const Claim& claim) const;
  std::byte* at(const Location& location) const;

  const CpuExecution execution_;
  mutable std::mutex mutex_;
  std::condition_variable ready_;  // work became claimable, or stop
  std::condition_variable idle_;   // a batch finished
  // Begin of each region. Fixed storage: workers read it while regions are added.
  std::array<std::byte*, kRegionsMax> region_begin_{};
  std::vector<uint64_t> region_bytes_;
  StreamSet streams_;
  uint64_t turn_ = 0;  // spreads the workers over the streams
  bool stop_ = false;
  void (*wakeup_)(void*) = nullptr;
  void* wakeup_context_ = nullptr;
  std::vector<std::thread> threads_;
};

}  // namespace troupe::kernels
