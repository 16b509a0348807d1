#include "io/memory/memory_backend.h"

#include "io/queued_device.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::io {

MemoryDisk::MemoryDisk(const std::vector<uint64_t>& file_bytes, CompletionOrder order,
                       uint64_t seed)
    : order_(order), rng_(seed) {
  for (const uint64_t bytes : file_bytes) {
    files_.emplace_back(bytes);
  }
}

int64_t MemoryDisk::perform(const RawOp& op) {
  if (op.op == IoOp::kSync) {
    return 0;
  }
  std::vector<std::byte>& file = files_[op.file];
  uint64_t at = op.offset;
  int64_t moved = 0;
  for (uint32_t i = 0; i < op.piece_count; ++i) {
    const uint64_t left = at < file.size() ? file.size() - at : 0;
    const uint64_t count = std::min<uint64_t>(left, op.pieces[i].iov_len);
    auto* memory = static_cast<std::byte*>(op.pieces[i].iov_base);
    if (count > 0 && op.op == IoOp::kRead) {
      std::memcpy(memory, file.data() + at, count);
    } else if (count > 0) {
      std::memcpy(file.data() + at, memory, count);
    }
    at += count;
    moved += static_cast<int64_t>(count);
  }
  return moved;
}

size_t MemoryDisk::crank(size_t count) {
  size_t done = 0;
  while (done < count && !pending_.empty()) {
    const size_t i = order_ == CompletionOrder::kFirstCome ? 0 : rng_.below(pending_.size());
    const RawOp op = pending_[i];
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    results_.push_back({op.tag, perform(op)});
    ++done;
  }
  return done;
}

class MemoryBackend final : public Backend {
 public:
  MemoryBackend(MemoryDisk& disk, uint32_t depth) : disk_(disk), depth_(depth) {}

  bool start(const RawOp& op) override {
    if (disk_.pending_.size() + disk_.results_.size() >= depth_) {
      return false;
    }
    disk_.pending_.push_back(op);
    return true;
  }
  Status flush() override { return Status::ok(); }
  size_t reap(std::span<RawResult> out, bool wait, int64_t /*timeout_ns*/) override {
    // A sleeper would sleep for ever where nobody cranks: waiting cranks once.
    if (disk_.order_ != CompletionOrder::kCranked) {
      disk_.crank(out.size());
    } else if (wait && disk_.results_.empty()) {
      disk_.crank(1);
    }
    const size_t count = std::min(out.size(), disk_.results_.size());
    std::copy_n(disk_.results_.begin(), count, out.begin());
    disk_.results_.erase(disk_.results_.begin(),
                         disk_.results_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void wake() override {}
  Status register_buffers(std::span<const std::span<std::byte>> /*buffers*/) override {
    return Status::ok();
  }
  void describe(IoCapabilities& capabilities) const override { capabilities.backend = "memory"; }

 private:
  MemoryDisk& disk_;
  uint32_t depth_;
};

Expected<std::unique_ptr<BlockDevice>> open_memory_device(MemoryDisk& disk,
                                                          const MemoryDeviceOptions& options) {
  const QueueOptions queue{.file_count = static_cast<uint32_t>(disk.file_count()),
                           .depth = options.depth,
                           .chunk_bytes = options.chunk_bytes,
                           .queue_limit = options.queue_limit,
                           .alignment = options.alignment,
                           .adaptive = false};
  TROUPE_TRY(check_queue_options(queue));
  std::unique_ptr<Backend> backend = std::make_unique<MemoryBackend>(disk, options.depth);
  if (options.faults != nullptr) {
    backend = with_faults(std::move(backend), options.faults);
  }
  return std::unique_ptr<BlockDevice>(std::make_unique<QueuedDevice>(std::move(backend), queue));
}

}  // namespace troupe::io
