// Small helpers over operating-system calls that the whole of io/ shares: a descriptor that closes
// itself, errno as words, errno as a Status code. No state.
#pragma once

#include "runtime/base/status.h"

#include <string>
#include <unistd.h>
#include <utility>

namespace troupe::io {

/// "ENOSPC (No space left on device)". [any thread]
std::string errno_text(int error);

/// The Status code that callers act on: ENOSPC/EDQUOT/ENOMEM no_capacity, ENOENT not_found,
/// ENOSYS/EPERM/EACCES/EROFS unavailable, EINVAL invalid_argument, everything else io.
Code errno_code(int error) noexcept;

/// "open /a/b: ENOENT (No such file or directory)" with errno_code.
Status errno_status(const std::string& doing, int error);

/// A file descriptor with one owner.
class Fd {
 public:
  Fd() noexcept = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }
  int get() const noexcept { return fd_; }
  bool is_open() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void reset() noexcept {
    if (fd_ >= 0) {
      ::close(fd_);
      fd_ = -1;
    }
  }

 private:
  int fd_ = -1;
};

}  // namespace troupe::io
