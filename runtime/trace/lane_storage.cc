#include "runtime/trace/lane_storage.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <filesystem>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>
#include <zstd.h>

namespace troupe::trace {
namespace {

Status io_error(const std::string& what, const std::string& path) {
  return Status(
      errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? Code::kNoCapacity : Code::kIo,
      what + " " + path + ": " + std::strerror(errno));
}

Status write_all(int fd, const uint8_t* bytes, size_t count, const std::string& path) {
  while (count > 0) {
    const ssize_t done = ::write(fd, bytes, count);
    if (done < 0) {
      if (errno == EINTR) {
        continue;
      }
      return io_error("can't write", path);
    }
    bytes += done;
    count -= static_cast<size_t>(done);
  }
  return Status::ok();
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) {
      ::close(fd_);
    }
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const noexcept { return fd_; }

 private:
  int fd_;
};

class PosixFile final : public LaneFile {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Status append(std::span<const uint8_t> bytes) override {
    return write_all(fd_.get(), bytes.data(), bytes.size(), path_);
  }
  Status truncate(uint64_t bytes) override {
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0 ||
        ::lseek(fd_.get(), static_cast<off_t>(bytes), SEEK_SET) < 0) {
      return io_error("can't cut", path_);
    }
    return Status::ok();
  }

 private:
  Fd fd_;
  std::string path_;
};

/// Compresses whole files, one after the other, on time that nobody else wants. Such a thread may
/// be kept from running for as long as others are busy, so it holds no lock that they could wait
/// for: paths come over a list without one, and at the end it drops what it has begun.
class Compressor {
 public:
  explicit Compressor(int level) : level_(level), thread_([this] { work(); }) {}
  ~Compressor() { (void)finish(); }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  void add(std::string path) {
    auto* node = new Node{std::move(path), newest_.load(std::memory_order_relaxed)};
    while (!newest_.compare_exchange_weak(node->next, node, std::memory_order_release,
                                          std::memory_order_relaxed)) {
    }
    newest_.notify_one();
  }
  /// Ends the thread; what is left is compressed here, at the caller's priority.
  Status finish() {
    if (thread_.joinable()) {
      ending_.store(true, std::memory_order_relaxed);
      const sched_param none{};
      (void)pthread_setschedparam(thread_.native_handle(), SCHED_OTHER, &none);
      add("");  // wakes it
      thread_.join();
    }
    take_all();
    for (; !paths_.empty(); paths_.pop_front()) {
      note(compress(paths_.front(), false));
    }
    return status_;
  }

 private:
  struct Node {
    std::string path;
    Node* next;
  };
  void work() {
    (void)pthread_setname_np(pthread_self(), "lane_packer");
    const sched_param none{};
    (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);  // only a wish
    while (!ending_.load(std::memory_order_relaxed)) {
      take_all();
      if (paths_.empty()) {
        newest_.wait(nullptr, std::memory_order_relaxed);
        continue;
      }
      Status done = compress(paths_.front(), true);
      if (done.code() == Code::kCancelled) {
        return;
      }
      note(std::move(done));
      paths_.pop_front();
    }
  }
  /// Moves what was added to paths_, oldest first.
  void take_all() {
    Node* node = newest_.exchange(nullptr, std::memory_order_acquire);
    const size_t before = paths_.size();
    while (node != nullptr) {
      if (!node->path.empty()) {
        paths_.insert(paths_.begin() + static_cast<ptrdiff_t>(before), std::move(node->path));
      }
      delete std::exchange(node, node->next);
    }
  }
  void note(Status done) {
    if (!done && status_) {
      status_ = std::move(done);  // the plain file stays and is as good
    }
  }
  /// kCancelled when `may_end` and the end was asked for meanwhile; the plain file stays then.
  Status compress(const std::string& path, bool may_end);

  int level_;
  std::atomic<Node*> newest_{nullptr};
  std::atomic<bool> ending_{false};
  std::deque<std::string> paths_;  // of the thread, then of finish()
  Status status_;                  // likewise
  std::thread thread_;
};

Status Compressor::compress(const std::string& path, bool may_end) {
  const Fd in(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string part = path + ".zst.part";
  const Fd out(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (in.get() < 0 || out.get() < 0) {
    return io_error("can't open", in.get() < 0 ? path : part);
  }
  const std::unique_ptr<ZSTD_CCtx, size_t (*)(ZSTD_CCtx*)> context(ZSTD_createCCtx(),
                                                                   ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_compressionLevel, level_);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  struct stat facts {};
  if (::fstat(in.get(), &facts) == 0) {  // readers can then make room at once
    ZSTD_CCtx_setPledgedSrcSize(context.get(), static_cast<unsigned long long>(facts.st_size));
  }
  std::vector<uint8_t> from(ZSTD_CStreamInSize());
  std::vector<uint8_t> to(ZSTD_CStreamOutSize());
  for (bool last = false; !last;) {
    if (may_end && ending_.load(std::memory_order_relaxed)) {
      (void)::unlink(part.c_str());
      return Status(Code::kCancelled, "the recording ended");
    }
    const ssize_t got = ::read(in.get(), from.data(), from.size());
    if (got < 0) {
      if (errno == EINTR) {
        continue;
      }
      return io_error("can't read", path);
    }
    last = got == 0;
    ZSTD_inBuffer input{from.data(), static_cast<size_t>(got), 0};
    size_t left = 1;
    while (last ? left != 0 : input.pos < input.size) {
      ZSTD_outBuffer output{to.data(), to.size(), 0};
      left =
          ZSTD_compressStream2(context.get(), &output, &input, last ? ZSTD_e_end : ZSTD_e_continue);
      if (ZSTD_isError(left) != 0) {
        return Status(Code::kInternal, "zstd: " + std::string(ZSTD_getErrorName(left)));
      }
      TROUPE_TRY(write_all(out.get(), to.data(), output.pos, part));
    }
  }
  // The plain file goes last: at no moment is there none.
  if (::rename(part.c_str(), (path + ".zst").c_str()) != 0 || ::unlink(path.c_str()) != 0) {
    return io_error("can't replace", path);
  }
  return Status::ok();
}

class DirectoryStorage final : public LaneStorage {
 public:
  explicit DirectoryStorage(const DirectoryOptions& options) : directory_(options.directory) {
    if (options.compress) {
      compressor_ = std::make_unique<Compressor>(options.level);
    }
  }
  Expected<std::unique_ptr<LaneFile>> create(const std::string& name) override {
    const std::string path = directory_ + "/" + name;
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
      return io_error("can't create", path);
    }
    return std::unique_ptr<LaneFile>(std::make_unique<PosixFile>(fd, path));
  }
  void sealed(const std::string& name) override {
    if (compressor_ != nullptr) {
      compressor_->add(directory_ + "/" + name);
    }
  }
  Status finish() override { return compressor_ != nullptr ? compressor_->finish() : Status::ok(); }

 private:
  std::string directory_;
  std::unique_ptr<Compressor> compressor_;
};

}  // namespace

Expected<std::unique_ptr<LaneStorage>> open_directory(const DirectoryOptions& options) {
  if (options.level < 1 || options.level > 19) {
    return Status(Code::kOutOfRange,
                  "zstd level " + std::to_string(options.level) + " is not in 1 … 19");
  }
  std::error_code error;
  std::filesystem::create_directories(options.directory, error);
  const std::filesystem::directory_iterator entries(options.directory, error);
  if (error) {
    return Status(Code::kIo, "can't use directory " + options.directory + ": " + error.message());
  }
  for (const auto& entry : entries) {
    if (entry.path().filename().string().find(kLaneSuffix) != std::string::npos) {
      return Status(Code::kFailedPrecondition,
                    "directory " + options.directory + " holds a recording already (" +
                        entry.path().filename().string() + "); name another one or remove it");
    }
  }
  return std::unique_ptr<LaneStorage>(std::make_unique<DirectoryStorage>(options));
}

}  // namespace troupe::trace
