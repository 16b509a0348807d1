// Small workloads and runs that several tests share.
#pragma once

#include "apps/run/run.h"

#include <catch2/catch.hpp>

namespace troupe::small_runs {

/// Sessions of `turns` turns; each turn's prompt is the last one's, its answer and some more.
inline Workload sessions(uint32_t count, uint32_t turns, uint32_t first_blocks,
                         uint32_t tenants = 1) {
  Workload work;
  work.source = "made by the test";
  work.block_size = 16;
  for (uint32_t t = 0; t < tenants; ++t) {
    work.tenants.push_back("tenant" + std::to_string(t));
  }
  uint64_t next_id = 1000;
  std::vector<std::vector<uint64_t>> paths(count, {0, 1, 2});  // a shared system prompt
  for (uint32_t turn = 0; turn < turns; ++turn) {
    for (uint32_t s = 0; s < count; ++s) {
      const uint32_t grow = turn == 0 ? first_blocks : 3;
      for (uint32_t b = 0; b < grow; ++b) {
        paths[s].push_back(next_id++);
      }
      WorkItem item;
      item.timestamp_ms = turn * 1000.0 + s * 7.0;
      item.prompt = static_cast<uint32_t>(paths[s].size()) * 16;
      item.output = 20;
      item.tenant = s % tenants;
      item.session = s + 1;
      item.first_id = work.ids.size();
      item.ids = static_cast<uint32_t>(paths[s].size());
      item.next_turn = kNoItem;
      work.ids.insert(work.ids.end(), paths[s].begin(), paths[s].end());
      work.items.push_back(item);
    }
  }
  for (uint32_t i = 0; i + count < work.items.size(); ++i) {
    work.items[i].next_turn = i + count;
  }
  work.given_tokens.resize(work.items.size());
  return work;
}

inline RunConfig small(int64_t device, int64_t host = 0) {
  RunConfig config;
  config.device_blocks = device;
  config.host_blocks = host;
  config.max_running = 16;
  config.check_every_steps = 1;
  return config;
}

inline RunReport must_run(const RunConfig& config, const Workload& work,
                          const RunOptions& options = {}) {
  auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->all.completed + report->all.refused + report->all.cancelled + report->not_sent ==
        work.items.size());
  return *report;
}

}  // namespace troupe::small_runs
