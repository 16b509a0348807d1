#include "kernels/cpu/cpu_device.h"

#include "kernels/check.h"
#include "kernels/cpu/bytes.h"

#include <string>
#include <system_error>

namespace troupe::kernels {
namespace {

constexpr uint32_t kThreadsMax = 256;
// One turn of a worker: some 25 us at 10 GB/s, long against taking the lock, short against a batch.
constexpr uint64_t kClaimBytes = 256 * 1024;
// From this size on a batch can't stay in a core's L2 (512 KiB to 2 MiB), so its stores bypass it.
constexpr uint64_t kStreamBatchBytes = 512 * 1024;

}  // namespace

Expected<std::unique_ptr<CpuDevice>> CpuDevice::create(const CpuDeviceOptions& options) {
  if (options.memory.empty()) {
    return {Code::kInvalidArgument, "device memory of 0 bytes: must be at least 1"};
  }
  const bool threads = options.execution == CpuExecution::kThreads;
  if (threads && (options.worker_threads == 0 || options.worker_threads > kThreadsMax)) {
    return {Code::kInvalidArgument, "device worker threads " +
                                        std::to_string(options.worker_threads) + ": must be 1 to " +
                                        std::to_string(kThreadsMax)};
  }
  std::unique_ptr<CpuDevice> device(new CpuDevice(options));
  if (threads) {
    TROUPE_TRY(device->start_threads(options.worker_threads));
  }
  return device;
}

CpuDevice::CpuDevice(const CpuDeviceOptions& options)
    : execution_(options.execution), streams_(options.limits) {
  region_begin_[0] = options.memory.data();
  region_bytes_.push_back(options.memory.size());
}

CpuDevice::~CpuDevice() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ready_.notify_all();
  for (std::thread& thread : threads_) {
    thread.join();
  }
}

Status CpuDevice::start_threads(uint32_t count) {
  try {
    for (uint32_t i = 0; i < count; ++i) {
      threads_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    return {Code::kUnavailable, "device worker thread " + std::to_string(threads_.size()) + " of " +
                                    std::to_string(count) + ": " + error.what()};
  }
  return Status::ok();
}

DeviceFacts CpuDevice::facts() const {
  DeviceFacts facts;
  facts.name = "cpu";
  {
    const std::lock_guard lock(mutex_);
    facts.memory_bytes = region_bytes_.front();
  }
  facts.worker_threads = static_cast<uint32_t>(threads_.size());
  return facts;
}

Expected<RegionId> CpuDevice::add_region(std::span<std::byte> host_memory) {
  if (host_memory.empty()) {
    return {Code::kInvalidArgument, "a region of 0 bytes: must be at least 1"};
  }
  const std::lock_guard lock(mutex_);
  if (region_bytes_.size() >= kRegionsMax) {
    return {Code::kNoCapacity, "all " + std::to_string(kRegionsMax) + " regions are used"};
  }
  region_begin_[region_bytes_.size()] = host_memory.data();
  region_bytes_.push_back(host_memory.size());
  return RegionId(static_cast<uint16_t>(region_bytes_.size() - 1));
}

Expected<StreamId> CpuDevice::create_stream() {
  const std::lock_guard lock(mutex_);
  return streams_.create_stream();
}

Expected<EventId> CpuDevice::create_event() {
  const std::lock_guard lock(mutex_);
  return streams_.create_event();
}

Status CpuDevice::submit(StreamId stream, const Batch& batch, uint64_t user_data) {
  std::unique_lock lock(mutex_);
  TROUPE_TRY(check_batch(batch, region_bytes_));
  TROUPE_TRY(streams_.submit(stream, batch, user_data));
  if (execution_ == CpuExecution::kInline) {
    while (run_claim(lock, UINT64_MAX, 0)) {
    }
  } else if (execution_ == CpuExecution::kThreads) {
    lock.unlock();
    ready_.notify_all();
  }
  return Status::ok();
}

Status CpuDevice::record(StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  return streams_.record(stream, event);
}

Status CpuDevice::wait(StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  return streams_.wait(stream, event);
}

size_t CpuDevice::poll(std::span<Completion> out) {
  const std::lock_guard lock(mutex_);
  return streams_.poll(out);
}

void CpuDevice::set_wakeup(void (*function)(void* context), void* context) {
  const std::lock_guard lock(mutex_);
  wakeup_ = function;
  wakeup_context_ = context;
}

Status CpuDevice::synchronize(StreamId stream) {
  std::unique_lock lock(mutex_);
  if (!streams_.known(stream)) {
    return {Code::kInvalidArgument, "stream " + std::to_string(stream.v) + " was never created"};
  }
  while (execution_ != CpuExecution::kThreads && !streams_.idle(stream)) {
    TROUPE_ASSERT(run_claim(lock, UINT64_MAX, 0));  // waits name earlier work only: some can run
  }
  idle_.wait(lock, [this, stream] { return streams_.idle(stream); });
  return Status::ok();
}

bool CpuDevice::run_one(uint64_t choice) {
  TROUPE_ASSERT(execution_ == CpuExecution::kManual);
  std::unique_lock lock(mutex_);
  return run_claim(lock, 1, choice);
}

void CpuDevice::work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!run_claim(lock, kClaimBytes, turn_++)) {
      ready_.wait(lock, [this] { return stop_ || streams_.claimable() != 0; });
    }
  }
}

/// Takes and runs one claim, if there is one. Holds the lock at entry and at exit, not between.
bool CpuDevice::run_claim(std::unique_lock<std::mutex>& lock, uint64_t bytes_max, uint64_t choice) {
  const std::optional<Claim> claim = streams_.claim(bytes_max, choice);
  if (!claim) {
    return false;
  }
  lock.unlock();
  run_ops(*claim);
  lock.lock();
  if (streams_.finish(*claim)) {
    const bool first = streams_.completions() == 1;
    const auto wakeup = first ? wakeup_ : nullptr;
    void* const context = wakeup_context_;
    lock.unlock();
    ready_.notify_all();  // the next head of this or of a waiting stream
    idle_.notify_all();
    if (wakeup != nullptr) {
      wakeup(context);
    }
    lock.lock();
  }
  return true;
}

std::byte* CpuDevice::at(const Location& location) const {
  return region_begin_[location.region.v] + location.offset;
}

void CpuDevice::run_ops(const Claim& claim) const {
  const CacheHint hint =
      claim.batch_bytes >= kStreamBatchBytes ? CacheHint::kStream : CacheHint::kKeep;
  for (size_t i = 0; i < claim.ops.size(); ++i) {
    const Op& op = claim.ops[i];
    OpResult result;
    switch (op.kind) {
      case OpKind::kCopy:
        if (op.with_checksum) {
          result.value = copy_checksum(at(op.dst), at(op.src), op.bytes, hint);
        } else {
          copy_bytes(at(op.dst), at(op.src), op.bytes, hint);
        }
        break;
      case OpKind::kFill:
        fill_pattern(at(op.dst), op.bytes, op.seed, op.position, hint);
        break;
      case OpKind::kVerify: {
        const size_t equal = verify_pattern(at(op.src), op.bytes, op.seed, op.position);
        result.code = equal == op.bytes ? Code::kOk : Code::kCorrupt;
        result.value = equal == op.bytes ? kNoMismatch : equal;
        break;
      }
      case OpKind::kChecksum:
        result.value = checksum_bytes(at(op.src), op.bytes);
        break;
    }
    claim.results[i] = result;
  }
}

}  // namespace troupe::kernels
