// Life, regions, streams and events of the CUDA backend; the work itself is in cuda_work.cc.
#include "kernels/cuda/cuda_device.h"

#include <array>

namespace troupe::kernels::cuda {
namespace {

constexpr size_t kRegionsMax = 1024;
constexpr uint32_t kRingOpsMax = 65535;  // grid.y of a launch
constexpr std::array<const char*, 4> kKernelNames = {kCopyKernel, kFillKernel, kVerifyKernel,
                                                     kChecksumKernel};

}  // namespace

Expected<std::unique_ptr<Device>> CudaDevice::create(const CudaDeviceOptions& options) {
  if (options.memory_bytes == 0) {
    return {Code::kInvalidArgument, "CUDA device memory of 0 bytes: must be at least 1"};
  }
  if (options.ring_ops == 0 || options.ring_ops > kRingOpsMax) {
    return {Code::kInvalidArgument, "CUDA ring of " + std::to_string(options.ring_ops) +
                                        " ops: must be 1 to " + std::to_string(kRingOpsMax)};
  }
  std::unique_ptr<CudaDevice> device(new CudaDevice(options));
  TROUPE_TRY(device->open());
  return std::unique_ptr<Device>(std::move(device));
}

CudaDevice::CudaDevice(const CudaDeviceOptions& options)
    : options_(options), driver_(options.driver), completions_(options.batches_max) {}

CudaDevice::~CudaDevice() {
  if (context_ != nullptr && driver_.context_set_current(context_) == kSuccess && dead_.is_ok()) {
    for (const Stream& stream : streams_) {
      driver_.stream_synchronize(stream.handle);  // an error here changes nothing any more
    }
  }
  release_all();
}

Status CudaDevice::open() {
  TROUPE_TRY(answer("cuInit", driver_.init(0)));
  TROUPE_TRY(answer("cuDeviceGet", driver_.device_get(&device_, options_.ordinal)));
  std::array<char, 128> name{};
  TROUPE_TRY(answer("cuDeviceGetName",
                    driver_.device_get_name(name.data(), static_cast<int>(name.size()), device_)));
  name_ = name.data();
  TROUPE_TRY(answer("cuDevicePrimaryCtxRetain", driver_.context_retain(&context_, device_)));
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  DevicePointer memory = 0;
  TROUPE_TRY(answer("cuMemAlloc", driver_.memory_alloc(&memory, options_.memory_bytes)));
  regions_.push_back(Region{memory, nullptr});
  region_bytes_.push_back(options_.memory_bytes);
  TROUPE_TRY(answer("cuModuleLoadData", driver_.module_load(&module_, options_.module_image)));
  for (size_t kind = 0; kind < kKinds; ++kind) {
    TROUPE_TRY(answer("cuModuleGetFunction",
                      driver_.module_function(&functions_[kind], module_, kKernelNames[kind])));
  }
  return Status::ok();
}

void CudaDevice::release_all() {
  for (Stream& stream : streams_) {
    for (const Pending& pending : stream.pending) {
      free_events_.push_back(pending.done);
    }
    driver_.stream_destroy(stream.handle);
    driver_.host_free(stream.ring);
    driver_.memory_free(stream.device_ring);
  }
  for (const Event& event : events_) {
    driver_.event_destroy(event.handle);
  }
  for (Handle event : free_events_) {
    driver_.event_destroy(event);
  }
  for (const Region& region : regions_) {
    if (region.registered != nullptr) {
      driver_.host_unregister(region.registered);
    }
  }
  if (module_ != nullptr) {
    driver_.module_unload(module_);
  }
  if (!regions_.empty()) {
    driver_.memory_free(regions_.front().begin);
  }
  if (context_ != nullptr) {
    driver_.context_release(device_);
  }
}

Status CudaDevice::answer(const char* call, Result result) const {
  if (result == kSuccess) {
    return Status::ok();
  }
  const Code code = result == kErrorOutOfMemory ? Code::kNoCapacity : Code::kUnavailable;
  return {code, describe(driver_, call, result)};
}

DeviceFacts CudaDevice::facts() const {
  const std::lock_guard lock(mutex_);
  DeviceFacts facts;
  facts.name = name_;
  facts.memory_bytes = options_.memory_bytes;
  facts.on_gpu = true;
  facts.note = note_;
  return facts;
}

Status CudaDevice::check_alive() const {
  return dead_.is_ok() ? Status::ok() : Status(Code::kUnavailable, "GPU is dead: " + dead_.text());
}

Status CudaDevice::check_stream(StreamId stream) const {
  if (stream.v >= streams_.size()) {
    return {Code::kInvalidArgument, "stream " + std::to_string(stream.v) + " of " +
                                        std::to_string(streams_.size()) + " created"};
  }
  return Status::ok();
}

Status CudaDevice::check_event(EventId event) const {
  if (event.v >= events_.size()) {
    return {Code::kInvalidArgument, "event " + std::to_string(event.v) + " of " +
                                        std::to_string(events_.size()) + " created"};
  }
  return Status::ok();
}

Expected<RegionId> CudaDevice::add_region(std::span<std::byte> host_memory) {
  if (host_memory.empty()) {
    return {Code::kInvalidArgument, "a region of 0 bytes: must be at least 1"};
  }
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  if (regions_.size() >= kRegionsMax) {
    return {Code::kNoCapacity, "all " + std::to_string(kRegionsMax) + " regions are used"};
  }
  Region region{reinterpret_cast<uint64_t>(host_memory.data()), host_memory.data()};
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  const Result pinned =
      driver_.host_register(host_memory.data(), host_memory.size(), kHostRegisterMapped);
  if (pinned != kSuccess) {
    region.registered = nullptr;
    note_ +=
        (note_.empty() ? "" : "; ") + std::string("region ") + std::to_string(regions_.size()) +
        " is not pinned, its copies are slower: " + describe(driver_, "cuMemHostRegister", pinned);
  }
  regions_.push_back(region);
  region_bytes_.push_back(host_memory.size());
  return RegionId(static_cast<uint16_t>(regions_.size() - 1));
}

Expected<StreamId> CudaDevice::create_stream() {
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  if (streams_.size() >= options_.streams_max) {
    return {Code::kNoCapacity, "all " + std::to_string(options_.streams_max) + " streams are used"};
  }
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  Stream stream;
  const size_t ring_bytes = options_.ring_ops * sizeof(KernelOp);
  void* ring = nullptr;
  TROUPE_TRY(answer("cuMemHostAlloc", driver_.host_alloc(&ring, ring_bytes, kHostAllocMapped)));
  Status status = answer("cuMemAlloc", driver_.memory_alloc(&stream.device_ring, ring_bytes));
  if (status.is_ok()) {
    status = answer("cuStreamCreate", driver_.stream_create(&stream.handle, kStreamNonBlocking));
    if (!status.is_ok()) {
      driver_.memory_free(stream.device_ring);
    }
  }
  if (!status.is_ok()) {
    driver_.host_free(ring);
    return status;
  }
  stream.ring = static_cast<KernelOp*>(ring);
  streams_.push_back(std::move(stream));
  return StreamId(static_cast<uint32_t>(streams_.size() - 1));
}

Expected<EventId> CudaDevice::create_event() {
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  if (events_.size() >= options_.events_max) {
    return {Code::kNoCapacity, "all " + std::to_string(options_.events_max) + " events are used"};
  }
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  Event event;
  TROUPE_TRY(answer("cuEventCreate", driver_.event_create(&event.handle, kEventDisableTiming)));
  events_.push_back(event);
  return EventId(static_cast<uint32_t>(events_.size() - 1));
}

Status CudaDevice::record(StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  TROUPE_TRY(check_stream(stream));
  TROUPE_TRY(check_event(event));
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  const Result result = driver_.event_record(events_[event.v].handle, streams_[stream.v].handle);
  if (result != kSuccess) {
    return die("cuEventRecord", result);
  }
  events_[event.v].recorded = true;
  return Status::ok();
}

Status CudaDevice::wait(StreamId stream, EventId event) {
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  TROUPE_TRY(check_stream(stream));
  TROUPE_TRY(check_event(event));
  if (!events_[event.v].recorded) {
    return {Code::kFailedPrecondition, "stream " + std::to_string(stream.v) + " waits for event " +
                                           std::to_string(event.v) + ", which was never recorded"};
  }
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  const Result result =
      driver_.stream_wait_event(streams_[stream.v].handle, events_[event.v].handle, 0);
  return result == kSuccess ? Status::ok() : die("cuStreamWaitEvent", result);
}

void CudaDevice::set_wakeup(void (*function)(void* context), void* context) {
  const std::lock_guard lock(mutex_);
  wakeup_ = function;
  wakeup_context_ = context;
}

Status CudaDevice::synchronize(StreamId stream) {
  Handle handle = nullptr;
  {
    const std::lock_guard lock(mutex_);
    TROUPE_TRY(check_alive());
    TROUPE_TRY(check_stream(stream));
    TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
    handle = streams_[stream.v].handle;
  }
  const Result result = driver_.stream_synchronize(handle);  // blocks: never under the lock
  const std::lock_guard lock(mutex_);
  return result == kSuccess ? Status::ok() : die("cuStreamSynchronize", result);
}

Status CudaDevice::health() const {
  const std::lock_guard lock(mutex_);
  return dead_;
}

}  // namespace troupe::kernels::cuda
