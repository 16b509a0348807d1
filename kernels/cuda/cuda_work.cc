// Batches on the CUDA backend: from ops to driver calls, and from finished events to completions.
#include "kernels/check.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/math/xxh3.h"

#include <algorithm>

namespace troupe::kernels::cuda {

uint64_t CudaDevice::address(const Location& location) const {
  return regions_[location.region.v].begin + location.offset;
}

/// Copies between host and device go by copy engine; those inside device memory by kernel.
bool CudaDevice::is_transfer(const Op& op) const {
  return op.kind == OpKind::kCopy &&
         (op.dst.region != kDeviceRegion || op.src.region != kDeviceRegion);
}

Status CudaDevice::check_supported(const Batch& batch) const {
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    const Op& op = batch.ops[i];
    const bool dst_host = op_writes(op.kind) && op.dst.region != kDeviceRegion;
    const bool src_host = op_reads(op.kind) && op.src.region != kDeviceRegion;
    const bool host_only = op.kind == OpKind::kCopy ? dst_host && src_host : dst_host || src_host;
    if (host_only) {
      return {Code::kInvalidArgument, "op " + std::to_string(i) + " (" + op_kind_name(op.kind) +
                                          "): touches host memory only, which is a CPU device's"};
    }
    const bool hashed = op.with_checksum || op.kind == OpKind::kChecksum;
    if (hashed && op.bytes <= xxh3::kShortBytesMax) {
      return {Code::kInvalidArgument, "op " + std::to_string(i) + ": checksum of " +
                                          std::to_string(op.bytes) + " bytes, on a GPU more than " +
                                          std::to_string(xxh3::kShortBytesMax) + " are needed"};
    }
  }
  return Status::ok();
}

Status CudaDevice::die(const char* call, Result result) {
  declare_dead(call, result);
  return check_alive();
}

void CudaDevice::declare_dead(const char* call, Result result) {
  if (!dead_.is_ok()) {
    return;
  }
  dead_ = Status(Code::kUnavailable, describe(driver_, call, result));
  for (size_t s = 0; s < streams_.size(); ++s) {
    for (const Pending& pending : streams_[s].pending) {
      std::fill(pending.batch.results.begin(), pending.batch.results.end(),
                OpResult{Code::kUnavailable, 0});
      TROUPE_ASSERT(completions_.push(Completion{StreamId(static_cast<uint32_t>(s)),
                                                 pending.user_data, Code::kUnavailable,
                                                 static_cast<uint32_t>(pending.batch.ops.size())}));
      free_events_.push_back(pending.done);
    }
    streams_[s].pending.clear();
  }
}

Status CudaDevice::take_event(Handle* event) {
  if (!free_events_.empty()) {
    *event = free_events_.back();
    free_events_.pop_back();
    return Status::ok();
  }
  return answer("cuEventCreate", driver_.event_create(event, kEventDisableTiming));
}

/// Room for the batch's kernel ops, in one piece: a run that would cross the ring's end starts
/// again at its begin.
Status CudaDevice::reserve_ring(Stream& stream, Pending& pending) {
  const uint32_t need = pending.counts.total();
  const uint32_t size = options_.ring_ops;
  if (need > size) {
    return {Code::kInvalidArgument, "batch needs " + std::to_string(need) +
                                        " kernel ops, a stream's ring holds " +
                                        std::to_string(size)};
  }
  if (stream.pending.empty()) {
    stream.head = 0;  // an idle ring is empty wherever its positions stand
    stream.tail = 0;
  }
  uint64_t begin = stream.head;
  if (begin % size + need > size) {
    begin += size - begin % size;
  }
  if (begin + need - stream.tail > size) {
    return {Code::kNoCapacity,
            "the stream's ring of " + std::to_string(size) + " kernel ops is full: poll first"};
  }
  pending.ring_begin = static_cast<uint32_t>(begin % size);
  pending.ring_released = begin + need;
  return Status::ok();
}

Status CudaDevice::submit(StreamId stream_id, const Batch& batch, uint64_t user_data) {
  const std::lock_guard lock(mutex_);
  TROUPE_TRY(check_alive());
  TROUPE_TRY(check_stream(stream_id));
  TROUPE_TRY(check_batch(batch, region_bytes_));
  TROUPE_TRY(check_supported(batch));
  if (batches_open_ >= options_.batches_max) {
    return {Code::kNoCapacity, std::to_string(options_.batches_max) +
                                   " batches were accepted and not polled: poll first"};
  }
  Stream& stream = streams_[stream_id.v];
  Pending pending;
  pending.batch = batch;
  pending.user_data = user_data;
  for (const Op& op : batch.ops) {
    pending.counts.of[kCopies] += op.kind == OpKind::kCopy && !is_transfer(op) ? 1U : 0U;
    pending.counts.of[kFills] += op.kind == OpKind::kFill ? 1U : 0U;
    pending.counts.of[kVerifies] += op.kind == OpKind::kVerify ? 1U : 0U;
    pending.counts.of[kChecksums] += op.with_checksum || op.kind == OpKind::kChecksum ? 1U : 0U;
  }
  TROUPE_TRY(reserve_ring(stream, pending));
  TROUPE_TRY(answer("cuCtxSetCurrent", driver_.context_set_current(context_)));
  TROUPE_TRY(take_event(&pending.done));
  const Status queued = enqueue(stream, pending);
  if (!queued.is_ok()) {
    free_events_.push_back(pending.done);
    return queued;
  }
  stream.head = pending.ring_released;
  stream.pending.push_back(pending);
  ++batches_open_;
  return Status::ok();
}

void CudaDevice::write_kernel_ops(Stream& stream, const Pending& pending) const {
  uint32_t next[kKinds];
  uint32_t at = pending.ring_begin;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    next[kind] = at;
    at += pending.counts.of[kind];
  }
  for (const Op& op : pending.batch.ops) {
    KernelOp entry;
    entry.bytes = op.bytes;
    entry.seed = op.seed;
    entry.position = op.position;
    entry.dst = op_writes(op.kind) ? address(op.dst) : 0;
    entry.src = op_reads(op.kind) ? address(op.src) : 0;
    if (op.kind == OpKind::kCopy && !is_transfer(op)) {
      stream.ring[next[kCopies]++] = entry;
    } else if (op.kind == OpKind::kFill) {
      stream.ring[next[kFills]++] = entry;
    } else if (op.kind == OpKind::kVerify) {
      entry.result = kNoMismatch;
      stream.ring[next[kVerifies]++] = entry;
    }
    if (op.with_checksum || op.kind == OpKind::kChecksum) {
      const bool arrives = op.kind == OpKind::kCopy && op.dst.region == kDeviceRegion;
      entry.src = arrives ? entry.dst : entry.src;  // the side in device memory; copies run before
      stream.ring[next[kChecksums]++] = entry;
    }
  }
}

Status CudaDevice::enqueue_transfers(Stream& stream, const Batch& batch) {
  size_t i = 0;
  while (i < batch.ops.size()) {
    const Op& first = batch.ops[i++];
    if (!is_transfer(first)) {
      continue;
    }
    uint64_t bytes = first.bytes;
    while (i < batch.ops.size() && is_transfer(batch.ops[i]) &&
           batch.ops[i].dst.region == first.dst.region &&
           batch.ops[i].src.region == first.src.region &&
           batch.ops[i].dst.offset == first.dst.offset + bytes &&
           batch.ops[i].src.offset == first.src.offset + bytes) {
      bytes += batch.ops[i++].bytes;  // neighbours on both sides travel as one
    }
    const Result result =
        driver_.copy_async(address(first.dst), address(first.src), bytes, stream.handle);
    if (result != kSuccess) {
      return die("cuMemcpyAsync", result);
    }
  }
  return Status::ok();
}

Status CudaDevice::launch(Stream& stream, const Pending& pending, Kind kind, uint32_t first) {
  uint32_t count = pending.counts.of[kind];
  if (count == 0) {
    return Status::ok();
  }
  uint64_t longest = 0;
  for (uint32_t i = 0; i < count; ++i) {
    longest = std::max(longest, stream.ring[first + i].bytes);
  }
  const auto slices = static_cast<unsigned>((longest + kSliceBytes - 1) / kSliceBytes);
  DevicePointer ops = stream.device_ring + first * sizeof(KernelOp);
  void* parameters[] = {&ops, &count};
  const Result result = driver_.launch(functions_[kind], kind == kChecksums ? 1 : slices, count, 1,
                                       kKernelThreads, 1, 1, 0, stream.handle, parameters, nullptr);
  return result == kSuccess ? Status::ok() : die("cuLaunchKernel", result);
}

Status CudaDevice::enqueue(Stream& stream, const Pending& pending) {
  const uint32_t total = pending.counts.total();
  const DevicePointer device_ops = stream.device_ring + pending.ring_begin * sizeof(KernelOp);
  const auto host_ops = reinterpret_cast<DevicePointer>(stream.ring + pending.ring_begin);
  if (total != 0) {
    write_kernel_ops(stream, pending);
    const Result result =
        driver_.copy_async(device_ops, host_ops, total * sizeof(KernelOp), stream.handle);
    if (result != kSuccess) {
      return die("cuMemcpyAsync", result);
    }
  }
  TROUPE_TRY(enqueue_transfers(stream, pending.batch));
  uint32_t first = pending.ring_begin;
  for (const Kind kind : {kCopies, kFills, kVerifies, kChecksums}) {
    TROUPE_TRY(launch(stream, pending, kind, first));
    first += pending.counts.of[kind];
  }
  const uint32_t answers = pending.counts.of[kVerifies] + pending.counts.of[kChecksums];
  if (answers != 0) {
    const uint64_t skip = (total - answers) * sizeof(KernelOp);
    const Result result = driver_.copy_async(host_ops + skip, device_ops + skip,
                                             answers * sizeof(KernelOp), stream.handle);
    if (result != kSuccess) {
      return die("cuMemcpyAsync", result);
    }
  }
  const Result recorded = driver_.event_record(pending.done, stream.handle);
  if (recorded != kSuccess) {
    return die("cuEventRecord", recorded);
  }
  if (wakeup_ != nullptr) {
    const Result hooked = driver_.host_function(stream.handle, wakeup_, wakeup_context_);
    if (hooked != kSuccess) {
      return die("cuLaunchHostFunc", hooked);
    }
  }
  return Status::ok();
}

/// The oldest batch of the stream has finished: its results, its completion, its ring space back.
void CudaDevice::collect(StreamId id, Stream& stream) {
  const Pending pending = stream.pending.front();
  stream.pending.pop_front();
  uint32_t verify_at = pending.ring_begin + pending.counts.of[kCopies] + pending.counts.of[kFills];
  uint32_t checksum_at = verify_at + pending.counts.of[kVerifies];
  Completion completion{id, pending.user_data, Code::kOk, 0};
  for (size_t i = 0; i < pending.batch.ops.size(); ++i) {
    const Op& op = pending.batch.ops[i];
    OpResult result;
    if (op.kind == OpKind::kVerify) {
      result.value = stream.ring[verify_at++].result;
      result.code = result.value == kNoMismatch ? Code::kOk : Code::kCorrupt;
      completion.failed += result.value == kNoMismatch ? 0U : 1U;
    } else if (op.with_checksum || op.kind == OpKind::kChecksum) {
      result.value = stream.ring[checksum_at++].result;
    }
    pending.batch.results[i] = result;
  }
  TROUPE_ASSERT(completions_.push(completion));
  free_events_.push_back(pending.done);
  stream.tail = pending.ring_released;
}

size_t CudaDevice::poll(std::span<Completion> out) {
  const std::lock_guard lock(mutex_);
  if (dead_.is_ok() && batches_open_ > completions_.size()) {
    const Result current = driver_.context_set_current(context_);
    if (current != kSuccess) {
      declare_dead("cuCtxSetCurrent", current);
    }
  }
  for (size_t s = 0; s < streams_.size() && dead_.is_ok(); ++s) {
    while (!streams_[s].pending.empty() && dead_.is_ok()) {
      const Result state = driver_.event_query(streams_[s].pending.front().done);
      if (state == kErrorNotReady) {
        break;
      }
      if (state != kSuccess) {
        declare_dead("cuEventQuery", state);
        break;
      }
      collect(StreamId(static_cast<uint32_t>(s)), streams_[s]);
    }
  }
  size_t count = 0;
  while (count < out.size() && !completions_.empty()) {
    out[count++] = completions_.pop();
  }
  batches_open_ -= count;
  return count;
}

}  // namespace troupe::kernels::cuda
