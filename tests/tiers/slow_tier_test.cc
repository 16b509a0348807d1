// A tier below that is slow, as a remote one is, or hangs: requests whose prefix lies in DRAM are
// not to notice. Two tenants on the virtual clock: one returns to prefixes that fit the device and
// the host tier, the other's lie on disk. The first one's time to first token is compared with that
// of the same run over a fast disk; a table is printed, with loads in the step beside it, which is
// what staging is there for.
#include "tests/tiers/fault_runs.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

constexpr uint32_t kBlocks = 20;  // of a prompt

/// Ten requests a second of tenant 1 over `hot` chains, and two of tenant 2 over `cold` ones.
Workload two_tenants(uint32_t seconds, uint32_t hot, uint32_t cold) {
  Workload work;
  work.source = "generated";
  work.block_size = 16;
  work.tenants = {"default", "hot", "cold"};
  Rng rng(3);
  for (uint32_t i = 0; i < seconds * 12; ++i) {
    const bool is_cold = i % 6 == 5;
    const uint64_t chain = is_cold ? 1000 + rng.below(cold) : rng.below(hot);
    WorkItem item;
    item.timestamp_ms = i * 1000.0 / 12;
    item.tenant = is_cold ? 2 : 1;
    item.ids = kBlocks;
    item.prompt = kBlocks * 16;
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    item.line = i + 1;
    for (uint32_t k = 0; k < kBlocks; ++k) {
      work.ids.push_back(chain * 1000 + k);
    }
    work.items.push_back(item);
  }
  work.given_tokens.resize(work.items.size());
  return work;
}

struct Row {
  double hot_p50 = 0, hot_p99 = 0, cold_p99 = 0;
  uint64_t hot_hits = 0, cold_hits = 0;
};

/// `loads`: as tiering.disk_loads, or "no disk".
Row measure(const Workload& work, const std::string& loads, int64_t latency_us) {
  RunConfig config;
  config.device_blocks = 240;
  config.host_blocks = 1000;
  config.disk_blocks = loads == "no disk" ? 0 : 20000;
  config.disk_loads = loads == "no disk" ? "staged" : loads;
  config.disk_latency_us = latency_us;
  config.host_reserve_percent = loads == "staged" ? 12 : 0;
  config.disk_deadline_ms = 5000;
  RunOptions options;
  options.prompt_only = true;
  set_log_level(LogLevel::kError);
  const auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->mismatches == 0);
  CHECK(report->all.completed == work.items.size());
  const RunTotals& hot = report->tenants.at("hot");
  const RunTotals& cold = report->tenants.at("cold");
  Row row{quantile(hot.ttft_ms, 0.5), quantile(hot.ttft_ms, 0.99), quantile(cold.ttft_ms, 0.99),
          hot.prefix_hit_blocks, cold.prefix_hit_blocks};
  std::printf("%-8s %9.1f ms: hot p50 %8.2f p99 %8.2f ms, %7llu hits; cold p99 %8.2f ms, %6llu "
              "hits; staged %lld, missed %lld, errors %lld, shut %lld\n",
              loads.c_str(), static_cast<double>(latency_us) / 1e3, row.hot_p50, row.hot_p99,
              static_cast<unsigned long long>(row.hot_hits), row.cold_p99,
              static_cast<unsigned long long>(row.cold_hits),
              static_cast<long long>(report->gauges.at("tiering.staged")),
              static_cast<long long>(report->gauges.at("prefix_index.stage_missed")),
              static_cast<long long>(report->gauges.at("tiering.errors")),
              static_cast<long long>(report->gauges.at("tiering.shut")));
  return row;
}

}  // namespace

TEST_CASE("a slow tier, or one that hangs, leaves the p99 of DRAM hits within 10 %",
          "[T:slow_tier_leaves_dram_alone][T:pending_deadline]") {
  const Workload work = two_tenants(600, 25, 300);
  const Row fast = measure(work, "staged", 100);
  CHECK(fast.hot_hits > 100'000);
  CHECK(fast.cold_hits > 10'000);
  const Row none = measure(work, "no disk", 0);
  for (const int64_t latency_us : {200'000, 2'000'000, 600'000'000}) {  // the last one: a hang
    const Row slow = measure(work, "staged", latency_us);
    CHECK(slow.hot_p99 <= 1.1 * fast.hot_p99);
    CHECK(slow.hot_p99 <= 1.1 * none.hot_p99);
    CHECK(slow.hot_p50 <= 1.1 * none.hot_p50);
    CHECK(slow.hot_hits * 100 >= fast.hot_hits * 98);  // and they are hits all the same
  }
  // The measure itself sees a stall: a step that waits for the disk has others wait.
  const Row stalled = measure(work, "in_step", 2'000'000);
  CHECK(stalled.hot_p99 > 1.1 * fast.hot_p99);
}

}  // namespace troupe
