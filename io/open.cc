// Opening: data files, the choice of a backend, and the fall-back that is said aloud.
#include "io/block_device.h"
#include "io/memory/faults.h"
#include "io/posix/posix_backend.h"
#include "io/queued_device.h"
#include "io/uring/uring_backend.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <utility>

namespace troupe::io {
namespace {

constexpr uint32_t kPosixThreadsDefault = 16;

/// O_DIRECT only when every file has it: one buffered file makes the bypass untrue.
bool all_direct(const std::vector<Fd>& files) {
  return std::all_of(files.begin(), files.end(), [](const Fd& file) {
    const int flags = fcntl(file.get(), F_GETFL);
    return flags >= 0 && (flags & O_DIRECT) != 0;
  });
}

std::string free_space_text(int fd) {
  struct statvfs info {};
  if (fstatvfs(fd, &info) != 0) {
    return "";
  }
  return "; the file system has " + std::to_string(uint64_t{info.f_bavail} * info.f_frsize) +
         " bytes free";
}

/// The alignment that direct I/O asks for here; 4096 where the kernel can't say.
uint32_t direct_alignment(int fd) {
  struct statx info {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
      (info.stx_mask & STATX_DIOALIGN) == 0 || info.stx_dio_offset_align == 0) {
    return 4096;
  }
  return std::max({512U, static_cast<uint32_t>(info.stx_dio_offset_align),
                   static_cast<uint32_t>(info.stx_dio_mem_align)});
}

Expected<Fd> open_either(const DataFileOptions& options, bool direct) {
  const int extra = O_CLOEXEC | O_RDWR | (direct ? O_DIRECT : 0);
  int fd = -1;
  if (options.name.empty()) {
    fd = open(options.directory.c_str(), extra | O_TMPFILE, 0600);
  } else {
    fd = open((options.directory + "/" + options.name).c_str(), extra | O_CREAT | O_NOFOLLOW, 0600);
  }
  if (fd < 0) {
    return errno_status("open " + options.directory + "/" +
                            (options.name.empty() ? "(unlinked file)" : options.name),
                        errno);
  }
  return Fd(fd);
}

/// Files without a name where the file system lacks O_TMPFILE: created and unlinked.
Expected<Fd> open_unlinked(const DataFileOptions& options, bool direct) {
  std::string path = options.directory + "/troupe-unlinked-XXXXXX";
  Fd fd(mkostemp(path.data(), O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (!fd.is_open()) {
    return errno_status("create an unlinked file in " + options.directory, errno);
  }
  unlink(path.c_str());
  return fd;
}

Status reserve(const DataFile& file, const DataFileOptions& options) {
  struct stat info {};
  if (fstat(file.fd.get(), &info) != 0) {
    return errno_status("stat of data file", errno);
  }
  const auto want = static_cast<off_t>(options.bytes);
  if (info.st_size > want && ftruncate(file.fd.get(), want) != 0) {
    return errno_status("shrink data file to " + std::to_string(options.bytes) + " bytes", errno);
  }
  if (fallocate(file.fd.get(), 0, 0, want) == 0) {
    return Status::ok();
  }
  const int error = errno;
  if (error == EOPNOTSUPP) {
    // No reservation on this file system: the size is set, and ENOSPC may come later as a write
    // error.
    return ftruncate(file.fd.get(), want) == 0
               ? Status::ok()
               : errno_status("size data file to " + std::to_string(options.bytes), errno);
  }
  Status status = errno_status(
      "reserve " + std::to_string(options.bytes) + " bytes in " + options.directory, error);
  return {status.code(), status.text() + free_space_text(file.fd.get())};
}

}  // namespace

Expected<DataFile> open_data_file(const DataFileOptions& options) {
  if (options.bytes == 0 || options.bytes > (uint64_t{1} << 60)) {
    return {Code::kInvalidArgument,
            "data file of " + std::to_string(options.bytes) + " bytes: must be 1 to 2^60"};
  }
  DataFile file;
  file.direct = options.direct;
  auto fd = open_either(options, file.direct);
  if (!fd && fd.status().code() == Code::kInvalidArgument && file.direct) {
    file.direct = false;
    file.note =
        "the file system of " + options.directory + " has no direct I/O: page cache instead";
    fd = open_either(options, false);
  }
  if (!fd && options.name.empty() && fd.status().code() != Code::kNotFound) {
    fd = open_unlinked(options, file.direct);
  }
  if (!fd) {
    return fd.status();
  }
  file.fd = std::move(fd).value();
  file.alignment = file.direct ? direct_alignment(file.fd.get()) : 512;
  file.bytes = options.bytes;
  TROUPE_TRY(reserve(file, options));
  return file;
}

Expected<std::unique_ptr<BlockDevice>> open_block_device(BlockDeviceOptions options) {
  const QueueOptions queue{.file_count = static_cast<uint32_t>(options.files.size()),
                           .depth = options.depth,
                           .chunk_bytes = options.chunk_bytes,
                           .queue_limit = options.queue_limit,
                           .alignment = options.alignment};
  TROUPE_TRY(check_queue_options(queue));
  const bool direct = all_direct(options.files);
  std::string note;
  std::unique_ptr<Backend> backend;
  if (options.backend != BackendChoice::kPosix) {
    auto ring = open_uring_backend(
        options.files,
        {.depth = options.depth, .entries = options.uring_entries, .plain = options.uring_plain});
    if (ring) {
      backend = std::move(ring).value();
    } else if (options.backend == BackendChoice::kUring) {
      return ring.status();
    } else {
      note = "io_uring unavailable (" + ring.status().text() + "): pread/pwrite pool instead";
      TROUPE_LOG_WARN("%s", note.c_str());
    }
  }
  if (backend == nullptr) {
    const uint32_t threads = options.posix_threads > 0
                                 ? std::min(options.posix_threads, options.depth)
                                 : std::min(options.depth, kPosixThreadsDefault);
    auto pool = open_posix_backend(options.files, options.depth, threads);
    if (!pool) {
      return pool.status();
    }
    backend = std::move(pool).value();
  }
  if (options.faults != nullptr) {
    backend = with_faults(std::move(backend), options.faults);
  }
  return std::unique_ptr<BlockDevice>(
      std::make_unique<QueuedDevice>(std::move(backend), queue, direct, std::move(note)));
}

}  // namespace troupe::io
