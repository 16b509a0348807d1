#include "io/os.h"

#include <cerrno>
#include <cstring>

namespace troupe::io {

std::string errno_text(int error) {
  const char* name = strerrorname_np(error);
  const char* words = strerrordesc_np(error);
  return std::string(name == nullptr ? "errno " + std::to_string(error) : name) + " (" +
         (words == nullptr ? "unknown error" : words) + ")";
}

Code errno_code(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      return Code::kNoCapacity;
    case ENOENT:
      return Code::kNotFound;
    case ENOSYS:
    case EPERM:
    case EACCES:
    case EROFS:
      return Code::kUnavailable;
    case EINVAL:
      return Code::kInvalidArgument;
    default:
      return Code::kIo;
  }
}

Status errno_status(const std::string& doing, int error) {
  return {errno_code(error), doing + ": " + errno_text(error)};
}

}  // namespace troupe::io
