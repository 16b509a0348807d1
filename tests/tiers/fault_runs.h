// Whole runs over a disk that fails: a workload whose reuse lies mostly on disk, the tiers that
// make it so, and the checks that hold whatever the disk does.
#pragma once

#include "apps/run/run.h"
#include "io/memory/faults.h"
#include "runtime/base/log.h"
#include "runtime/base/rng.h"
#include "tests/io/io_fixture.h"

#include <catch2/catch.hpp>

#include <vector>

namespace troupe::test {

/// Agents that come back after others took the room: `talks` conversations of a shared first part;
/// each turn is a prefix of a fixed chain, so most of what it reuses lies on disk.
inline Workload small_workload(uint32_t requests = 400, uint32_t talks = 40) {
  Workload work;
  work.source = "generated";
  work.block_size = 16;
  work.tenants = {"default"};
  Rng rng(5);
  for (uint32_t i = 0; i < requests; ++i) {
    const auto talk = static_cast<uint64_t>(rng.below(talks));
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

/// Everything that leaves the host tier is written, everything found on disk is loaded within its
/// step: hits are those of one large tier.
inline RunConfig small_config() {
  RunConfig config;
  config.device_blocks = 40;
  config.host_blocks = 60;
  config.disk_blocks = 2000;
  config.load = "always";
  config.disk_loads = "in_step";
  config.host_reserve_percent = 0;
  return config;
}

/// No step waits for the disk: it is written ahead of need, and read while the request waits.
inline RunConfig staged_config() {
  RunConfig config = small_config();
  config.host_blocks = 120;
  config.disk_loads = "staged";
  config.host_reserve_percent = 40;
  return config;
}

/// Serial, prompt only. Checks what holds under every fault: each request has its answer, and no
/// reused byte was wrong (the run verifies them from the requester's own tokens).
inline RunReport run_checked(const Workload& work, const RunConfig& config, RunOptions options) {
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

/// Both backends, or the pool alone with a line that says so.
inline std::vector<io::BackendChoice> disk_backends() {
  std::vector<io::BackendChoice> all = {io::BackendChoice::kPosix};
  if (io::test::uring_works()) {
    all.push_back(io::BackendChoice::kUring);
  }
  return all;
}

inline const char* backend_name(io::BackendChoice backend) {
  return backend == io::BackendChoice::kPosix ? "pool" : "io_uring";
}

}  // namespace troupe::test
