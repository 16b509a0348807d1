#include "io/posix/posix_backend.h"

#include "runtime/base/bounded.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sys/uio.h>
#include <system_error>
#include <thread>

namespace troupe::io {
namespace {

class PosixBackend final : public Backend {
 public:
  PosixBackend(std::vector<Fd> files, uint32_t depth)
      : files_(std::move(files)), work_(depth), results_(depth) {}
  ~PosixBackend() override;
  PosixBackend(const PosixBackend&) = delete;
  PosixBackend& operator=(const PosixBackend&) = delete;

  Status start_workers(uint32_t threads);
  bool start(const RawOp& op) override;
  Status flush() override;
  size_t reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) override;
  void wake() override;
  Status register_buffers(std::span<const std::span<std::byte>> buffers) override;
  void describe(IoCapabilities& capabilities) const override;

 private:
  void work();
  int64_t perform(const RawOp& op) const;
  size_t take(std::span<RawResult> out);

  std::vector<Fd> files_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable has_work_;
  std::condition_variable has_result_;
  BoundedQueue<RawOp> work_;         // guarded by mutex_
  BoundedQueue<RawResult> results_;  // guarded by mutex_
  size_t taken_ = 0;                 // in a worker's hands; guarded by mutex_
  size_t fresh_ = 0;                 // started since the last flush; owner thread only
  bool stopping_ = false;
  bool woken_ = false;
};

Status PosixBackend::start_workers(uint32_t threads) {
  try {
    for (uint32_t i = 0; i < threads; ++i) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& error) {
    if (workers_.empty()) {
      return {Code::kNoCapacity, std::string("no I/O worker thread: ") + error.what()};
    }
  }
  return Status::ok();
}

PosixBackend::~PosixBackend() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  has_work_.notify_all();
  for (std::thread& worker : workers_) {
    worker.join();
  }
}

int64_t PosixBackend::perform(const RawOp& op) const {
  const int fd = files_[op.file].get();
  const auto offset = static_cast<off_t>(op.offset);
  const auto count = static_cast<int>(op.piece_count);
  int64_t result = 0;
  switch (op.op) {
    case IoOp::kRead:
      result = preadv(fd, op.pieces, count, offset);
      break;
    case IoOp::kWrite:
      result = pwritev(fd, op.pieces, count, offset);
      break;
    case IoOp::kSync:
      result = fdatasync(fd);
      break;
  }
  return result < 0 ? -errno : result;
}

void PosixBackend::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_work_.wait(lock, [this] { return stopping_ || !work_.empty(); });
    if (stopping_) {
      return;
    }
    const RawOp op = work_.pop();
    ++taken_;
    lock.unlock();
    const int64_t result = perform(op);
    lock.lock();
    --taken_;
    // Room is certain: chunks started and not reaped never exceed the depth.
    TROUPE_ASSERT(results_.push({op.tag, result}));
    has_result_.notify_one();
  }
}

bool PosixBackend::start(const RawOp& op) {
  const std::scoped_lock lock(mutex_);
  if (work_.size() + taken_ + results_.size() >= work_.limit()) {
    return false;
  }
  TROUPE_ASSERT(work_.push(op));
  ++fresh_;
  return true;
}

Status PosixBackend::flush() {
  for (size_t i = std::min(fresh_, workers_.size()); i > 0; --i) {
    has_work_.notify_one();
  }
  fresh_ = 0;
  return Status::ok();
}

size_t PosixBackend::take(std::span<RawResult> out) {
  size_t count = 0;
  while (count < out.size() && !results_.empty()) {
    out[count++] = results_.pop();
  }
  return count;
}

size_t PosixBackend::reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) {
  std::unique_lock lock(mutex_);
  if (wait && results_.empty()) {
    const auto ready = [this] { return woken_ || !results_.empty(); };
    if (timeout_ns < 0) {
      has_result_.wait(lock, ready);
    } else {
      has_result_.wait_for(lock, std::chrono::nanoseconds(timeout_ns), ready);
    }
  }
  if (wait && results_.empty()) {
    woken_ = false;  // results may be news to the device only: then the next wait ends at once
  }
  return take(out);
}

void PosixBackend::wake() {
  const std::scoped_lock lock(mutex_);
  woken_ = true;
  has_result_.notify_one();
}

Status PosixBackend::register_buffers(std::span<const std::span<std::byte>> /*buffers*/) {
  return Status::ok();  // nothing to gain: the calls take any memory
}

void PosixBackend::describe(IoCapabilities& capabilities) const {
  capabilities.backend = "posix";
}

}  // namespace

Expected<std::unique_ptr<Backend>> open_posix_backend(std::vector<Fd>& files, uint32_t depth,
                                                      uint32_t threads) {
  auto backend = std::make_unique<PosixBackend>(std::move(files), depth);
  TROUPE_TRY(backend->start_workers(threads));
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace troupe::io
