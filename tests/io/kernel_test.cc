// Faults that the kernel itself makes: blocked io_uring, small memory locks, a completion ring that
// overflows, interrupted calls, file-size limits, files cut short behind our back. Each case that
// changes the process runs in a child; what a machine lacks is skipped with a line that says so.
#include "tests/io/child_process.h"
#include "tests/io/io_fixture.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

Arena make_arena(size_t bytes) {
  auto arena = Arena::create(bytes, {.alignment = 4096});
  TROUPE_ASSERT(arena.is_ok());
  return std::move(arena).value();
}

/// Writes and reads 64 blocks; the number of blocks that came back wrong, or -1 for an error.
int round_trip(BlockDevice& device, Arena& arena) {
  constexpr uint64_t kBlock = 16384;
  std::vector<IoRequest> batch;
  fill(arena.bytes().first(64 * kBlock), 1);
  const std::vector<std::byte> model(arena.data(), arena.data() + 64 * kBlock);
  for (uint64_t i = 0; i < 64; ++i) {
    batch.push_back({.op = IoOp::kWrite,
                     .offset = i * kBlock,
                     .buffer = arena.data() + i * kBlock,
                     .length = kBlock,
                     .user_data = i});
  }
  for (const IoOp op : {IoOp::kWrite, IoOp::kRead}) {
    for (IoRequest& request : batch) {
      request.op = op;
    }
    if (op == IoOp::kRead) {
      std::memset(arena.data(), 0, 64 * kBlock);
    }
    if (!device.submit(batch)) {
      return -1;
    }
    const auto done = finish(device);
    for (const auto& [id, completion] : done) {
      if (completion.error != 0) {
        return -1;
      }
    }
    if (done.size() != 64) {
      return -1;
    }
  }
  int wrong = 0;
  for (uint64_t i = 0; i < 64; ++i) {
    wrong += std::memcmp(arena.data() + i * kBlock, model.data() + i * kBlock, kBlock) != 0 ? 1 : 0;
  }
  return wrong;
}

BlockDeviceOptions options_over(const ScratchDir& dir, BackendChoice backend) {
  BlockDeviceOptions options;
  auto file = open_data_file({.directory = dir.path(), .name = "data", .bytes = 4 << 20});
  TROUPE_ASSERT(file.is_ok());
  options.files.push_back(std::move(file->fd));
  options.backend = backend;
  return options;
}

}  // namespace

TEST_CASE("io_uring blocked at set-up: the pool takes over, says why, and works", "[io][kernel]") {
  for (const int error : {ENOSYS, EPERM}) {
    INFO("errno " << error);
    const int result = in_child([&] {
      if (!deny(SYS_io_uring_setup, error)) {
        std::printf("SKIPPED: no seccomp filter to be had here\n");
        return 77;
      }
      ScratchDir dir;
      Arena arena = make_arena(1 << 20);
      auto device = open_block_device(options_over(dir, BackendChoice::kAuto));
      if (!device || (*device)->capabilities().backend != "posix" ||
          (*device)->capabilities().note.find(error == ENOSYS ? "ENOSYS" : "EPERM") ==
              std::string::npos) {
        return 1;
      }
      if (round_trip(**device, arena) != 0) {
        return 2;
      }
      auto insisted = open_block_device(options_over(dir, BackendChoice::kUring));
      return insisted.status().code() == Code::kUnavailable ? 0 : 3;
    });
    CHECK((result == 0 || result == 77));
  }
}

TEST_CASE("a small memory lock costs the fixed buffers, nothing else", "[io][kernel]") {
  if (!uring_works()) {
    return;
  }
  const int result = in_child([] {
    ScratchDir dir;
    std::filesystem::permissions(dir.path(), std::filesystem::perms::all);
    BlockDeviceOptions options = options_over(dir, BackendChoice::kUring);
    const rlimit small{65536, 65536};
    setrlimit(RLIMIT_MEMLOCK, &small);
    if (geteuid() == 0 && setuid(65534) != 0) {
      return 9;
    }
    Arena arena = make_arena(1 << 20);
    auto device = open_block_device(std::move(options));
    if (!device) {
      return 1;
    }
    const std::span<std::byte> all[] = {arena.bytes()};
    if (!(*device)->register_buffers(all)) {
      return 2;
    }
    const IoCapabilities& can = (*device)->capabilities();
    if (can.fixed_buffers || can.note.find("ENOMEM") == std::string::npos) {
      return 3;
    }
    return round_trip(**device, arena) == 0 ? 0 : 4;
  });
  CHECK(result == 0);
}

TEST_CASE("64 in flight overflow a completion ring of 16 and lose nothing", "[io][kernel]") {
  if (!uring_works()) {
    return;
  }
  ScratchDir dir;
  Arena arena = make_arena(1 << 20);
  BlockDeviceOptions options = options_over(dir, BackendChoice::kUring);
  options.depth = 64;
  options.uring_plain = true;  // deferred task work would never overrun the ring
  options.uring_entries = 8;   // the completion ring has twice as many places
  auto device = open_block_device(std::move(options));
  REQUIRE(device.is_ok());
  for (int i = 0; i < 20; ++i) {
    CHECK(round_trip(**device, arena) == 0);
  }
  CHECK((*device)->stats().in_flight_max == 64);
  CHECK((*device)->stats().unknown_results == 0);
  CHECK((*device)->stats().overflows > 0);
}

TEST_CASE("a ring is bound to its first submitter's thread, not to its opener's", "[io][kernel]") {
  if (!uring_works()) {
    return;
  }
  ScratchDir dir;
  Arena arena = make_arena(1 << 20);
  auto device = open_block_device(options_over(dir, BackendChoice::kUring));
  REQUIRE(device.is_ok());
  const std::span<std::byte> all[] = {arena.bytes()};
  REQUIRE((*device)->register_buffers(all).is_ok());
  int wrong = -1;
  std::thread([&] {
    wrong = round_trip(**device, arena);
    if (!(*device)->close(-1)) {
      wrong = -2;
    }
  }).join();
  CHECK(wrong == 0);
}

TEST_CASE("a file-size limit gives a short write, then an error with the bytes before it",
          "[io][kernel]") {
  for (const BackendChoice backend : {BackendChoice::kPosix, BackendChoice::kUring}) {
    if (backend == BackendChoice::kUring && !uring_works()) {
      continue;
    }
    const int result = in_child([&] {
      ScratchDir dir;
      std::signal(SIGXFSZ, SIG_IGN);
      Arena arena = make_arena(1 << 20);
      BlockDeviceOptions options;
      options.backend = backend;
      // Buffered: direct writes over a limit inside a preallocated file are not cut by every
      // kernel.
      Fd file(open((dir.path() + "/grows").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      options.files.push_back(std::move(file));
      auto device = open_block_device(std::move(options));
      const rlimit limit{256 << 10, 256 << 10};
      if (!device || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
      }
      const IoCompletion done = run(
          **device,
          {.op = IoOp::kWrite, .offset = 128 << 10, .buffer = arena.data(), .length = 512 << 10});
      if (done.bytes != (128 << 10) || done.error != EFBIG) {
        std::printf("bytes %lu, error %d\n", static_cast<unsigned long>(done.bytes), done.error);
        return 2;
      }
      return (*device)->stats().continued >= 1 ? 0 : 3;
    });
    CHECK(result == 0);
  }
}

TEST_CASE("a file truncated behind our back ends in ENODATA, a deleted one keeps working",
          "[io][kernel]") {
  for (const BackendChoice backend : {BackendChoice::kPosix, BackendChoice::kUring}) {
    if (backend == BackendChoice::kUring && !uring_works()) {
      continue;
    }
    ScratchDir dir;
    Arena arena = make_arena(1 << 20);
    auto device = open_block_device(options_over(dir, backend));
    REQUIRE(device.is_ok());
    REQUIRE(::truncate((dir.path() + "/data").c_str(), 12288) == 0);
    const IoCompletion cut = run(**device, {.buffer = arena.data(), .length = 65536});
    CHECK(cut.error == ENODATA);
    CHECK(cut.bytes == 12288);
    REQUIRE(unlink((dir.path() + "/data").c_str()) == 0);
    CHECK(round_trip(**device, arena) == 0);
  }
}

TEST_CASE("hidden: one round trip, run under strace", "[.strace-child]") {
  ScratchDir dir;
  Arena arena = make_arena(1 << 20);
  auto device = open_block_device(options_over(dir, BackendChoice::kUring));
  REQUIRE(device.is_ok());
  CHECK(round_trip(**device, arena) == 0);
}

TEST_CASE("interrupted and refused io_uring_enter calls forget nothing", "[io][kernel]") {
  if (!uring_works()) {
    return;
  }
  if (std::system("strace -V >/dev/null 2>&1") != 0) {
    std::printf("SKIPPED: strace is not installed\n");
    return;
  }
  if (std::system("strace -o /dev/null true >/dev/null 2>&1") != 0) {
    std::printf("SKIPPED: strace may not trace here\n");
    return;
  }
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  for (const char* error : {"EINTR", "EAGAIN", "EBUSY"}) {
    INFO(error);
    ScratchDir dir;
    const std::string log = dir.path() + "/trace";
    // From the third call on, every third one fails without reaching the kernel.
    // The leak check of sanitizer builds can't run in a traced process.
    const std::string command = "ASAN_OPTIONS=detect_leaks=0 strace -f -o " + log +
                                " -e trace=io_uring_enter -e inject=io_uring_enter:error=" + error +
                                ":when=3+3 '" + self + "' '[.strace-child]' >/dev/null 2>&1";
    CHECK(std::system(command.c_str()) == 0);
    CHECK(std::system(("grep -q INJECTED " + log).c_str()) == 0);
  }
}
