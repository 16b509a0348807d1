// Whole requests over a disk that lies and fails: every fault of the injector on both backends,
// single bits flipped in the host tier's memory, and a disk that never answers. Whatever happens,
// every request ends with its answer and every reused byte is right (the run verifies them from the
// requester's own tokens). The faults must have fired, and must have cost something where they can.
#include "apps/run/run.h"
#include "io/memory/faults.h"
#include "runtime/base/log.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

using io::Fault;

/// Agents that come back after others took the room: most of what they reuse lies on disk.
Workload small_workload() {
  Workload work;
  work.source = "generated";
  work.block_size = 16;
  work.tenants = {"default"};
  Rng rng(5);
  for (uint32_t i = 0; i < 400; ++i) {
    // 40 conversations of a shared first part; each turn is a prefix of a fixed chain.
    const auto talk = static_cast<uint64_t>(rng.below(40));
    WorkItem item;
    item.ids = 12 + static_cast<uint32_t>(rng.below(20));
    item.prompt = item.ids * 16;
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    item.line = i + 1;
    for (uint32_t k = 0; k < item.ids; ++k) {
      work.ids.push_back(k < 4 ? k : 1000 + talk * 100 + k);
    }
    work.items.push_back(item);
  }
  work.given_tokens.resize(work.items.size());
  return work;
}

RunConfig small_config() {
  RunConfig config;
  config.device_blocks = 40;
  config.host_blocks = 60;
  config.disk_blocks = 2000;
  config.load = "always";
  return config;
}

RunReport run(const Workload& work, const RunConfig& config, RunOptions options) {
  options.serial = true;
  options.prompt_only = true;
  set_log_level(LogLevel::kError);
  auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->mismatches == 0);
  INFO("refused " << report->all.refused << ", cancelled " << report->all.cancelled
                  << ", failed loads " << report->failed_loads);
  for (const auto& [name, value] : report->gauges) {
    UNSCOPED_INFO(name << " " << value);
  }
  CHECK(report->all.completed == work.items.size());
  return *report;
}

const io::BackendChoice kBackends[] = {io::BackendChoice::kPosix, io::BackendChoice::kAuto};

}  // namespace

TEST_CASE("every fault of a disk, whole requests: all answered, no wrong byte",
          "[T:failed_load_never_visible][T:negative_verdict]") {
  const Workload work = small_workload();
  const RunReport clean = run(work, small_config(), {});
  REQUIRE(clean.loaded_blocks > 500);
  for (const io::BackendChoice backend : kBackends) {
    for (uint8_t f = 1; f < io::kFaultCount; ++f) {
      const auto fault = static_cast<Fault>(f);
      if (fault == Fault::kHang) {
        continue;  // below: it needs a deadline
      }
      INFO("fault " << io::fault_name(fault) << ", backend " << static_cast<int>(backend));
      RunOptions options;
      options.disk.backend = backend;
      options.disk.faults = std::make_shared<io::FaultInjector>(11);
      options.disk.faults->add({.fault = fault, .num = 1, .den = 25});
      const RunReport report = run(work, small_config(), options);
      CHECK(options.disk.faults->fired(fault) >= 8);  // so many errors shut a tier
      if (fault == Fault::kLost || fault == Fault::kMisdirect) {
        CHECK(report.failed_loads > 0);
        CHECK(report.all.prefix_hit_blocks < clean.all.prefix_hit_blocks);
      }
      if (fault == Fault::kEintr || fault == Fault::kEagain || fault == Fault::kShort ||
          fault == Fault::kDelay || fault == Fault::kDuplicate || fault == Fault::kStranger) {
        CHECK(report.all.prefix_hit_blocks == clean.all.prefix_hit_blocks);
      }
    }
  }
}

TEST_CASE("all faults at once, whole requests", "[T:offload_equals_baseline]") {
  const Workload work = small_workload();
  for (const io::BackendChoice backend : kBackends) {
    RunOptions options;
    options.disk.backend = backend;
    options.disk.faults = std::make_shared<io::FaultInjector>(12);
    for (uint8_t f = 1; f < io::kFaultCount; ++f) {
      if (static_cast<Fault>(f) != Fault::kHang) {
        options.disk.faults->add({.fault = static_cast<Fault>(f), .num = 1, .den = 60});
      }
    }
    const RunReport report = run(work, small_config(), options);
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
    const RunReport report = run(work, small_config(), options);
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
  const RunReport report = run(work, config, options);
  CHECK(flips == 1200);
  CHECK(report.failed_loads > 20);
}

TEST_CASE("a disk that never answers holds a request until the deadline only",
          "[T:pending_deadline]") {
  const Workload work = small_workload();
  for (const io::BackendChoice backend : kBackends) {
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
    const RunReport report = run(work, small_config(), options);
    CHECK(faults->fired(Fault::kHang) > 0);
    CHECK(report.gauges.at("tiering.errors") > 0);
    CHECK(report.all.prefix_hit_blocks > 0);
  }
}

}  // namespace troupe
