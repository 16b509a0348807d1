// SyncWorker: runs one slow metadata job at a time (sync, rename) beside the I/O thread, so that no
// request waits for a disk flush. Without a thread (tests, simulation) a job runs inside `start`.
// Invariant: at most one job is running; its Status is taken exactly once.
#pragma once

#include "runtime/base/status.h"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace troupe::io {

class SyncWorker {
 public:
  explicit SyncWorker(bool with_thread) {
    if (with_thread) {
      thread_ = std::thread([this] { loop(); });
    }
  }
  ~SyncWorker() {
    if (thread_.joinable()) {
      {
        const std::scoped_lock lock(mutex_);
        stop_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }
  }
  SyncWorker(const SyncWorker&) = delete;
  SyncWorker& operator=(const SyncWorker&) = delete;

  /// True from `start` until `take` gave the result.
  bool busy() const noexcept { return busy_; }
  void start(std::function<Status()> job) {
    TROUPE_ASSERT(!busy_);
    busy_ = true;
    if (!thread_.joinable()) {
      result_ = job();
      return;
    }
    {
      const std::scoped_lock lock(mutex_);
      job_ = std::move(job);
    }
    changed_.notify_all();
  }
  /// The result, if the job has ended; `wait` sleeps until it has.
  std::optional<Status> take(bool wait) {
    if (!busy_) {
      return std::nullopt;
    }
    std::unique_lock lock(mutex_);
    if (wait) {
      changed_.wait(lock, [this] { return result_.has_value(); });
    }
    if (!result_) {
      return std::nullopt;
    }
    std::optional<Status> done = std::move(result_);
    result_.reset();
    busy_ = false;
    return done;
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || job_ != nullptr; });
      if (job_ == nullptr) {
        return;
      }
      const std::function<Status()> job = std::move(job_);
      job_ = nullptr;
      lock.unlock();
      Status done = job();
      lock.lock();
      result_ = std::move(done);
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<Status()> job_;   // guarded by mutex_
  std::optional<Status> result_;  // guarded by mutex_
  bool stop_ = false;
  bool busy_ = false;  // owner's thread
  std::thread thread_;
};

}  // namespace troupe::io
