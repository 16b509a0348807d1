#include "io/store/directory_lock.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>

namespace troupe::io {

Expected<Fd> lock_directory(const std::string& directory) {
  const std::string path = directory + "/lock";
  Fd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.is_open()) {
    return errno_status("open " + path, errno);
  }
  char text[64] = {};
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return errno_status("lock " + path, errno);
    }
    const ssize_t count = pread(fd.get(), text, sizeof(text) - 1, 0);
    const std::string owner = count > 0 ? std::string(text, static_cast<size_t>(count)) : "unknown";
    return {Code::kFailedPrecondition, "store " + directory + " is in use by process " + owner +
                                           ": stop it, or use another directory"};
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(fd.get(), 0) != 0 ||
      pwrite(fd.get(), pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return errno_status("write " + path, errno);
  }
  return fd;
}

}  // namespace troupe::io
