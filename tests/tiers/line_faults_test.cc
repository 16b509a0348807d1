// Whole requests over a disk that lies and fails: the fault matrix on both backends, single bits
// flipped in the host tier's memory, and a disk that never answers. Whatever happens, every request
// ends with its answer and every reused byte is right. The faults must have fired, and must have
// cost something where they can. The table of the matrix is printed.
#include "tests/io/child_process.h"
#include "tests/tiers/fault_runs.h"

#include <catch2/catch.hpp>

#include <cerrno>
#include <fcntl.h>
#include <sys/syscall.h>

namespace troupe {
namespace {

using io::BackendChoice;
using io::Fault;
using test::backend_name;
using test::disk_backends;
using test::run_checked;
using test::small_config;
using test::small_workload;

/// The disk tier's unlinked file in `directory`, found among our open files; -1: none.
int open_again(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone);
    if (!gone && target.rfind(directory + "/", 0) == 0 && target.find("lock") == target.npos) {
      return open(entry.path().c_str(), O_RDWR | O_CLOEXEC);
    }
  }
  return -1;
}

/// One row of the matrix: what is done to the disk, and what it must cost.
struct Case {
  std::string name;
  std::function<void(RunOptions&, RunConfig&)> prepare;
  bool costs_nothing = false;  // the device hides it: the hits are those of a sound disk
  bool costs_loads = false;    // loads must have failed
  std::function<uint64_t(const RunReport&, const RunOptions&)> struck;
  bool ring_only = false;
};

Case injected(const char* name, io::FaultRule rule, bool costs_nothing, bool costs_loads) {
  return {.name = name,
          .prepare =
              [rule](RunOptions& options, RunConfig&) {
                options.disk.faults = std::make_shared<io::FaultInjector>(11);
                options.disk.faults->add(rule);
                if (rule.fault != Fault::kHang) {
                  return;
                }
                options.disk.deadline_ns = 5'000'000;
                auto faults = options.disk.faults;
                options.on_progress = [faults](uint64_t done, uint64_t total) {
                  if (done == total) {
                    faults->release_hangs();  // so that closing need not lose its patience
                  }
                };
              },
          .costs_nothing = costs_nothing,
          .costs_loads = costs_loads,
          .struck = [rule](const RunReport&, const RunOptions& options) {
            return options.disk.faults->fired(rule.fault);
          }};
}

/// After half of the requests the tier's file loses its second half, or its directory goes.
Case cut_file(const char* name, bool truncated) {
  const auto dir = std::make_shared<io::test::ScratchDir>();
  const auto struck = std::make_shared<uint64_t>(0);
  return {.name = name,
          .prepare =
              [=](RunOptions& options, RunConfig& config) {
                *struck = 0;
                config.disk_directory = dir->path() + "/tier";
                options.on_progress = [=](uint64_t done, uint64_t total) {
                  if (done != total / 2) {
                    return;
                  }
                  if (!truncated) {
                    *struck += std::filesystem::remove_all(dir->path() + "/tier");
                    return;
                  }
                  const int fd = open_again(dir->path() + "/tier");
                  *struck += fd >= 0 && ftruncate(fd, 200 * 8192) == 0 ? 1 : 0;
                  close(fd);
                };
              },
          .costs_nothing = !truncated,
          .costs_loads = truncated,
          .struck = [=](const RunReport&, const RunOptions&) { return *struck; }};
}

std::vector<Case> matrix() {
  std::vector<Case> all;
  for (uint8_t f = 1; f < io::kFaultCount; ++f) {
    const auto fault = static_cast<Fault>(f);
    const bool hidden = fault == Fault::kEintr || fault == Fault::kEagain ||
                        fault == Fault::kShort || fault == Fault::kDelay ||
                        fault == Fault::kDuplicate || fault == Fault::kStranger;
    const bool lies = fault == Fault::kLost || fault == Fault::kMisdirect ||
                      fault == Fault::kTorn || fault == Fault::kBitFlip;
    io::FaultRule rule{.fault = fault, .num = 1, .den = 25};
    if (fault == Fault::kHang) {
      rule = {.fault = fault, .nth = 20, .period = 200};
    }
    all.push_back(injected(io::fault_name(fault), rule, hidden, lies));
  }
  all.push_back(injected("full disk", {.fault = Fault::kEnospc, .op = io::IoOp::kWrite, .nth = 200,
                                       .period = 1}, false, false));
  all.push_back(cut_file("truncated file", true));
  all.push_back(cut_file("deleted file", false));
  all.push_back({.name = "CQ overflow",
                 .prepare =
                     [](RunOptions& options, RunConfig&) {
                       options.disk.uring_plain = true;  // what kernels before 5.19 give
                       options.disk.uring_entries = 4;
                     },
                 .costs_nothing = true,
                 .struck = [](const RunReport& report,
                              const RunOptions&) { return report.disk.device.overflows; },
                 .ring_only = true});
  return all;
}

}  // namespace

TEST_CASE("every fault of a disk, whole requests: all answered, no wrong byte",
          "[T:failed_load_never_visible][T:negative_verdict]") {
  const Workload work = small_workload();
  const RunReport clean = run_checked(work, small_config(), {});
  REQUIRE(clean.loaded_blocks > 500);
  std::printf("%-16s %-9s %8s %9s %6s %12s %12s\n", "fault", "backend", "struck", "answered",
              "wrong", "failed loads", "hits lost");
  for (const Case& c : matrix()) {
    for (const BackendChoice backend : disk_backends()) {
      if (c.ring_only && backend != BackendChoice::kUring) {
        std::printf("%-16s %-9s        - the pool has no ring\n", c.name.c_str(),
                    backend_name(backend));
        continue;
      }
      INFO(c.name << " on " << backend_name(backend));
      RunOptions options;
      RunConfig config = small_config();
      options.disk.backend = backend;
      c.prepare(options, config);
      const RunReport report = run_checked(work, config, options);
      const uint64_t struck = c.struck(report, options);
      const int64_t lost = static_cast<int64_t>(clean.all.prefix_hit_blocks) -
                           static_cast<int64_t>(report.all.prefix_hit_blocks);
      std::printf("%-16s %-9s %8llu %9llu %6llu %12llu %12lld\n", c.name.c_str(),
                  backend_name(backend), static_cast<unsigned long long>(struck),
                  static_cast<unsigned long long>(report.all.completed),
                  static_cast<unsigned long long>(report.mismatches),
                  static_cast<unsigned long long>(report.failed_loads),
                  static_cast<long long>(lost));
      CHECK(struck > 0);
      if (c.costs_nothing) {
        CHECK(lost == 0);
      }
      if (c.costs_loads) {
        CHECK(report.failed_loads > 0);
        CHECK(lost > 0);
      }
    }
  }
}

TEST_CASE("the same faults where blocks are staged: no request is lost, no byte is wrong",
          "[T:failed_load_never_visible]") {
  const Workload work = small_workload();
  const RunReport clean = run_checked(work, test::staged_config(), {});
  REQUIRE(clean.gauges.at("prefix_index.stage_used") > 300);
  REQUIRE(clean.gauges.at("prefix_index.stage_missed") < 100);
  for (const Case& c : matrix()) {
    for (const BackendChoice backend : disk_backends()) {
      if (c.ring_only) {
        continue;  // how many results a ring has to keep at once differs with the batches
      }
      INFO(c.name << " on " << backend_name(backend));
      RunOptions options;
      RunConfig config = test::staged_config();
      options.disk.backend = backend;
      c.prepare(options, config);
      const RunReport report = run_checked(work, config, options);
      CHECK(c.struck(report, options) > 0);
      CHECK(report.failed_loads == 0);  // what was staged was verified before its step
    }
  }
}

TEST_CASE("io_uring blocked at set-up: the pool serves whole requests, and the report says why",
          "[T:no_gds_fallback]") {
  const Workload work = small_workload(100);
  for (const int error : {ENOSYS, EPERM}) {
    INFO("errno " << error);
    const int result = io::test::in_child([&] {
      if (!io::test::deny(SYS_io_uring_setup, error)) {
        std::printf("SKIPPED: no seccomp filter to be had here\n");
        return 77;
      }
      set_log_level(LogLevel::kError);
      RunOptions options;
      options.serial = true;
      options.prompt_only = true;
      const auto report = run_trace(small_config(), work, options);
      if (!report || report->mismatches != 0 || report->all.completed != work.items.size()) {
        return 1;
      }
      const bool said = report->disk.backend == "posix" &&
                        report->disk.note.find(error == ENOSYS ? "ENOSYS" : "EPERM") !=
                            std::string::npos;
      std::printf("%-16s %-9s: %llu answered, %llu loaded\n", error == ENOSYS ? "ENOSYS" : "EPERM",
                  report->disk.backend.c_str(),
                  static_cast<unsigned long long>(report->all.completed),
                  static_cast<unsigned long long>(report->loaded_blocks));
      return said && report->loaded_blocks > 100 ? 0 : 2;
    });
    CHECK((result == 0 || result == 77));
  }
}

TEST_CASE("a disk too small for the tier is refused before the first request, with the numbers",
          "[T:disk_hard_cap]") {
  RunConfig config = small_config();
  config.disk_blocks = int64_t{1} << 22;  // 1 TiB
  config.real_block_bytes = int64_t{1} << 18;
  config.device_blocks = 1;
  config.host_blocks = 0;
  const auto report = run_trace(config, small_workload(1), {});
  REQUIRE_FALSE(report.is_ok());
  INFO(report.status().to_string());
  CHECK(report.status().code() == Code::kNoCapacity);
  CHECK(report.status().text().find("bytes") != std::string::npos);
}

TEST_CASE("all faults at once, whole requests", "[T:offload_equals_baseline]") {
  const Workload work = small_workload();
  for (const BackendChoice backend : disk_backends()) {
    RunOptions options;
    options.disk.backend = backend;
    options.disk.faults = std::make_shared<io::FaultInjector>(12);
    for (uint8_t f = 1; f < io::kFaultCount; ++f) {
      if (static_cast<Fault>(f) != Fault::kHang) {
        options.disk.faults->add({.fault = static_cast<Fault>(f), .num = 1, .den = 60});
      }
    }
    const RunReport report = run_checked(work, small_config(), options);
    CHECK(report.all.prefix_hit_blocks > 0);
  }
}

TEST_CASE("a disk on which every write or every read fails costs hits only",
          "[T:store_down_degrades]") {
  const Workload work = small_workload();
  for (const io::IoOp op : {io::IoOp::kWrite, io::IoOp::kRead}) {
    RunOptions options;
    options.disk.faults = std::make_shared<io::FaultInjector>(13);
    options.disk.faults->add({.fault = Fault::kEio, .op = op, .num = 1, .den = 1});
    const RunReport report = run_checked(work, small_config(), options);
    CHECK(options.disk.faults->fired(Fault::kEio) >= 8);
    CHECK(report.gauges.at("tiering.shut") >= 1);
    CHECK(report.all.prefix_hit_blocks > 0);  // what the host tier still holds
  }
}

TEST_CASE("a flipped bit in the host tier is found, and the request computes again",
          "[T:bitflip_on_host]") {
  const Workload work = small_workload();
  RunConfig config = small_config();
  config.host_blocks = 600;  // so that loads come from there
  Rng rng(21);
  uint64_t flips = 0;
  RunOptions options;
  options.tamper_host = [&](uint64_t, std::span<std::byte> host) {
    for (int i = 0; i < 3; ++i, ++flips) {
      const uint64_t bit = rng.below(host.size() * 8);
      host[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    }
  };
  const RunReport report = run_checked(work, config, options);
  CHECK(flips == 1200);
  CHECK(report.failed_loads > 20);
}

TEST_CASE("a disk that never answers holds a request until the deadline only",
          "[T:pending_deadline]") {
  const Workload work = small_workload();
  for (const BackendChoice backend : disk_backends()) {
    RunOptions options;
    options.disk.backend = backend;
    options.disk.deadline_ns = 5'000'000;
    auto faults = std::make_shared<io::FaultInjector>(14);
    faults->add({.fault = Fault::kHang, .nth = 20, .period = 200});
    options.disk.faults = faults;
    options.on_progress = [faults](uint64_t done, uint64_t total) {
      if (done == total) {
        faults->release_hangs();  // so that closing the device need not lose its patience
      }
    };
    const RunReport report = run_checked(work, small_config(), options);
    CHECK(faults->fired(Fault::kHang) > 0);
    CHECK(report.gauges.at("tiering.errors") > 0);
    CHECK(report.all.prefix_hit_blocks > 0);
  }
}

}  // namespace troupe
