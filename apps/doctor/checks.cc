#include "apps/doctor/checks.h"

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fstream>
#include <linux/io_uring.h>
#include <memory>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "io/os.h"

namespace troupe {
namespace {

constexpr uint64_t kMiB = 1ULL << 20;

std::string read_text(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string mib(uint64_t bytes) {
  return std::to_string(bytes / kMiB) + " MiB";
}

/// The number after "Name:" in /proc/meminfo; 0 when it is not there.
uint64_t meminfo_value(std::string_view text, std::string_view name) {
  const size_t at = text.find(std::string(name) + ":");
  if (at == std::string_view::npos) {
    return 0;
  }
  return std::strtoull(std::string(text.substr(at + name.size() + 1, 32)).c_str(), nullptr, 10);
}

Finding check_processor() {
  Finding f{"processor", Health::kOk, {}, {}};
  f.found = std::to_string(std::thread::hardware_concurrency()) + " threads";
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kShaBit = 1U << 29;
  const bool sha = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & kShaBit) != 0;
  f.found += avx2 ? ", AVX2" : ", no AVX2";
  f.found += sha ? ", SHA instructions" : ", no SHA instructions";
  if (!avx2 || !sha) {
    f.health = Health::kLacking;
    f.remedy =
        "block keys and CPU kernels fall back to slower code with equal results; nothing to do";
  }
#endif
  return f;
}

Finding check_io_uring() {
  Finding f{"io_uring", Health::kOk, {}, {}};
  io_uring_params params{};
  constexpr unsigned kEntries = 8;
  const io::Fd ring(static_cast<int>(::syscall(__NR_io_uring_setup, kEntries, &params)));
  if (ring.is_open()) {
    f.found = "ring set up, features 0x";
    std::ostringstream hex;
    hex << std::hex << params.features;
    f.found += hex.str();
    return f;
  }
  const int error = errno;
  f.health = Health::kLacking;
  f.found = "io_uring_setup: " + io::errno_text(error);
  const std::string disabled = read_text("/proc/sys/kernel/io_uring_disabled");
  if (error == ENOSYS) {
    f.remedy = "needs Linux 5.11 or newer; the pread/pwrite pool is used instead";
  } else if (!disabled.empty() && disabled[0] != '0') {
    f.remedy = "sysctl kernel.io_uring_disabled=0; until then the pread/pwrite pool is used";
  } else {
    f.remedy =
        "a seccomp profile blocks it (usual in containers): allow io_uring_setup, io_uring_enter "
        "and "
        "io_uring_register; until then the pread/pwrite pool is used";
  }
  return f;
}

Finding check_shared_memory() {
  Finding f{"shared_memory", Health::kOk, {}, {}};
  struct statvfs fs {};
  if (::statvfs("/dev/shm", &fs) != 0) {
    return {
        "shared_memory", Health::kLacking, "/dev/shm: " + io::errno_text(errno),
        "mount a tmpfs on /dev/shm; policies with isolation = process and local clients need it"};
  }
  const uint64_t free = static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize;
  f.found = "/dev/shm, " + mib(free) + " free";
  constexpr uint64_t kLeast = 64 * kMiB;
  if (free < kLeast) {
    f.health = Health::kLacking;
    f.remedy = "raise it to 64 MiB or more (containers: --shm-size); local clients share it";
  }
  return f;
}

Finding check_gpu() {
  Finding f{"gpu", Health::kLacking, {}, {}};
  f.remedy =
      "none needed: the CPU backend stands for device memory; with an NVIDIA GPU, install its "
      "driver";
  struct Close {
    void operator()(void* library) const { ::dlclose(library); }
  };
  const std::unique_ptr<void, Close> driver(::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL));
  if (driver == nullptr) {
    f.found = "no CUDA driver (libcuda.so.1)";
    return f;
  }
  using Init = int (*)(unsigned);
  using Count = int (*)(int*);
  using Name = int (*)(char*, int, int);
  const auto init = reinterpret_cast<Init>(::dlsym(driver.get(), "cuInit"));
  const auto count = reinterpret_cast<Count>(::dlsym(driver.get(), "cuDeviceGetCount"));
  const auto name = reinterpret_cast<Name>(::dlsym(driver.get(), "cuDeviceGetName"));
  if (init == nullptr || count == nullptr || name == nullptr) {
    f.found = "libcuda.so.1 lacks cuInit, cuDeviceGetCount or cuDeviceGetName";
    return f;
  }
  const int error = init(0);
  int devices = 0;
  if (error != 0 || count(&devices) != 0 || devices == 0) {
    f.found = "driver loaded, no device (cuInit returned " + std::to_string(error) + ")";
    return f;
  }
  std::array<char, 128> text{};
  f.found = std::to_string(devices) + " device(s)";
  if (name(text.data(), static_cast<int>(text.size()) - 1, 0) == 0) {
    f.found += ", first " + std::string(text.data());
  }
  f.health = Health::kOk;
  f.remedy.clear();
  return f;
}

Finding check_open_files() {
  Finding f{"open_files", Health::kOk, {}, {}};
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  f.found = std::to_string(limit.rlim_cur) + " descriptors";
  constexpr rlim_t kLeast = 1024;
  if (limit.rlim_cur < kLeast) {
    f.health = Health::kLacking;
    f.remedy = "ulimit -n 1024 or more: slot files, rings and clients each take one";
  }
  return f;
}

Finding memlock_of_this_process() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  return check_memlock(limit.rlim_cur, limit.rlim_cur == RLIM_INFINITY);
}

/// Alignment that the kernel reports for direct I/O (Linux 6.1), or 0.
uint32_t reported_alignment([[maybe_unused]] int fd) {
#if defined(STATX_DIOALIGN)
  struct statx info {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) == 0 &&
      (info.stx_mask & STATX_DIOALIGN) != 0) {
    return info.stx_dio_offset_align;
  }
#endif
  return 0;
}

/// A file without a name in `directory`; where the file system can't (some overlays), one whose
/// name is removed at once.
io::Fd open_scratch(const std::string& directory, int flags) {
  io::Fd fd(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600));
  if (!fd.is_open() && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string path = directory + "/.troupe-doctor-XXXXXX";
    fd = io::Fd(::mkostemp(path.data(), O_CLOEXEC | flags));
    if (fd.is_open()) {
      ::unlink(path.c_str());
    }
  }
  return fd;
}

/// Smallest power of two from 512 up to 64 KiB with which a direct write succeeds, or 0.
uint32_t tried_alignment(int fd) {
  constexpr uint32_t kMost = 65536;
  const std::unique_ptr<void, decltype(&std::free)> buffer(std::aligned_alloc(kMost, kMost),
                                                           &std::free);
  if (buffer == nullptr) {
    return 0;
  }
  std::fill_n(static_cast<unsigned char*>(buffer.get()), kMost, static_cast<unsigned char>(0));
  for (uint32_t align = 512; align <= kMost; align *= 2) {
    if (::pwrite(fd, buffer.get(), align, align) == static_cast<ssize_t>(align)) {
      return align;
    }
  }
  return 0;
}

}  // namespace

std::string_view health_name(Health health) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"ok", "lacking", "broken"};
  return kNames[static_cast<size_t>(health)];
}

Finding check_direct_io(const std::string& directory) {
  Finding f{"direct_io", Health::kOk, {}, {}};
  const io::Fd plain = open_scratch(directory, 0);
  if (!plain.is_open()) {
    f.health = Health::kBroken;
    f.found = directory + ": " + io::errno_text(errno);
    f.remedy =
        "name a directory that exists, is writable and lies on a local file system (--directory)";
    return f;
  }
  struct statvfs fs {};
  const uint64_t free =
      ::fstatvfs(plain.get(), &fs) == 0 ? static_cast<uint64_t>(fs.f_bavail) * fs.f_frsize : 0;
  const io::Fd direct = open_scratch(directory, O_DIRECT);
  const uint32_t tried = direct.is_open() ? tried_alignment(direct.get()) : 0;
  f.found = directory + ", " + mib(free) + " free, ";
  if (tried == 0) {
    f.health = Health::kLacking;
    f.found += "no O_DIRECT (tmpfs and some network file systems refuse it)";
    f.remedy = "put the disk tier on ext4 or xfs; buffered I/O is used instead";
    return f;
  }
  f.found += "O_DIRECT works from " + std::to_string(tried) + " bytes";
  const uint32_t reported = reported_alignment(direct.get());
  f.found += reported != 0 ? ", the kernel says " + std::to_string(reported) : "";
  constexpr uint32_t kRecord = 4096;
  if (tried > kRecord || reported > kRecord) {
    f.health = Health::kLacking;
    f.remedy = "records are aligned to 4,096 bytes: use a file system with that alignment or less";
  }
  return f;
}

Finding check_memlock(uint64_t soft_bytes, bool unlimited) {
  Finding f{"memlock", Health::kOk, unlimited ? "unlimited" : mib(soft_bytes), {}};
  constexpr uint64_t kLeast = 64 * kMiB;
  if (!unlimited && soft_bytes < kLeast) {
    f.health = Health::kLacking;
    f.remedy =
        "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity); without it the disk mover registers "
        "no "
        "buffers and the arenas are not locked";
  }
  return f;
}

Finding check_huge_pages(std::string_view meminfo, std::string_view transparent) {
  Finding f{"huge_pages", Health::kOk, {}, {}};
  const uint64_t total = meminfo_value(meminfo, "HugePages_Total");
  const uint64_t free = meminfo_value(meminfo, "HugePages_Free");
  const uint64_t size_kib = meminfo_value(meminfo, "Hugepagesize");
  const bool always = transparent.find("[always]") != std::string_view::npos;
  const bool advised = transparent.find("[madvise]") != std::string_view::npos;
  f.found = std::to_string(free) + " of " + std::to_string(total) + " reserved pages of " +
            std::to_string(size_kib) + " KiB free, transparent: " +
            (always    ? "always"
             : advised ? "on advice"
                       : "off");
  if (free == 0 && !always && !advised) {
    f.health = Health::kLacking;
    f.remedy =
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or reserve pages with sysctl "
        "vm.nr_hugepages; without them the arenas use small pages and address translation costs "
        "more";
  }
  return f;
}

std::vector<Finding> examine(const std::string& directory) {
  return {check_processor(),
          memlock_of_this_process(),
          check_huge_pages(read_text("/proc/meminfo"),
                           read_text("/sys/kernel/mm/transparent_hugepage/enabled")),
          check_shared_memory(),
          check_open_files(),
          check_io_uring(),
          check_direct_io(directory),
          check_gpu()};
}

}  // namespace troupe
