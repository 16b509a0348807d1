// Failures that users of other systems reported, as whole runs; which report stands behind which
// test is in USER_FAILURES.md. What other tests of this tree cover is not repeated here.
#include "tests/tiers/fault_runs.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace troupe {
namespace {

using test::run_checked;
using test::small_config;
using test::small_workload;
using test::staged_config;

/// `requests` requests of `blocks` blocks each over `chains` chains, in turn.
Workload cycle(uint32_t requests, uint32_t chains, uint32_t blocks, uint32_t extra_tokens = 0) {
  Workload work;
  work.source = "generated";
  work.block_size = 16;
  work.tenants = {"default"};
  for (uint32_t i = 0; i < requests; ++i) {
    WorkItem item;
    item.ids = blocks;
    item.prompt = blocks * 16 + extra_tokens;
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    item.line = i + 1;
    for (uint32_t k = 0; k < blocks; ++k) {
      work.ids.push_back(uint64_t{i % chains} * 1000 + k);
    }
    work.items.push_back(item);
  }
  work.given_tokens.resize(work.items.size());
  return work;
}

}  // namespace

TEST_CASE("a prefix of exactly one block comes back right from every tier",
          "[T:prefix_len_eq_block]") {
  for (const RunConfig& config : {small_config(), staged_config()}) {
    const RunReport report = run_checked(cycle(2000, 500, 1), config, {});
    CHECK(report.all.prefix_hit_blocks > 1000);
    CHECK(report.verified_bytes > 0);
  }
}

TEST_CASE("a host tier smaller than the device passes blocks on to disk and starves nobody",
          "[T:host_smaller_than_device]") {
  for (RunConfig config : {small_config(), staged_config()}) {
    config.host_blocks = 8;
    const Workload work = small_workload();
    const RunReport report = run_checked(work, config, {});
    CHECK(report.demoted_blocks > 0);
    CHECK(report.all.prefix_hit_blocks > 0);
  }
}

TEST_CASE("requests that are cancelled in the middle of loads leave no lease and no slot behind",
          "[T:abort_storm_pins_zero][T:pool_invariants]") {
  for (const uint64_t at : {uint64_t{1}, uint64_t{50}, uint64_t{200}}) {
    std::atomic<bool> stop = false;
    RunOptions options;
    options.prompt_only = true;
    options.speed = 0;
    options.stop = &stop;
    options.on_progress = [&](uint64_t done, uint64_t) { stop = stop || done >= at; };
    set_log_level(LogLevel::kError);
    const auto report = run_trace(staged_config(), small_workload(), options);
    INFO(report.status().to_string());
    REQUIRE(report.is_ok());
    CHECK(report->all.cancelled > 10);
    CHECK(report->mismatches == 0);
    CHECK(report->gauges.at("prefix_index.leases") == 0);
    CHECK(report->gauges.at("prefix_index.requests") == 0);
    CHECK(report->gauges.at("allocator.table_entries") == 0);
    CHECK(report->gauges.at("allocator.device.idle") + report->gauges.at("allocator.device.free") +
              report->gauges.at("allocator.device.demoting") >=
          40);
  }
}

TEST_CASE("many requests for one prefix on disk share its load", "[T:shared_load_fanout]") {
  // Forty chains, then thirty requests at once for the first, which lies on disk by then.
  Workload work = cycle(70, 40, 12);
  for (size_t i = 40; i < 70; ++i) {
    work.items[i].first_id = 0;
    work.items[i].timestamp_ms = 60000;
  }
  for (size_t i = 0; i < 40; ++i) {
    work.items[i].timestamp_ms = static_cast<double>(i) * 1000;
  }
  RunOptions options;
  options.prompt_only = true;
  RunConfig config = staged_config();
  config.host_blocks = 60;
  set_log_level(LogLevel::kError);
  const auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->mismatches == 0);
  CHECK(report->all.completed == 70);
  CHECK(report->all.prefix_hit_blocks == 30 * 12);
  CHECK(report->gauges.at("tiering.staged") == 12);  // one load for the thirty
  const RunTotals& all = report->all;
  CHECK(quantile(all.ttft_ms, 1) < 4 * quantile(all.ttft_ms, 0.5));
}

TEST_CASE("lookups that find nothing below cost nothing", "[T:l3_miss_is_free]") {
  // Nothing comes back: with tiers below, no request waits, nothing is staged and time is the same.
  const Workload work = cycle(300, 300, 12);
  RunConfig off = staged_config();
  off.host_blocks = 0;
  off.disk_blocks = 0;
  const RunReport without = run_checked(work, off, {});
  const RunReport with = run_checked(work, staged_config(), {});
  CHECK(with.gauges.at("prefix_index.stage_asked") == 0);
  CHECK(with.gauges.at("prefix_index.waits") == 0);
  CHECK(with.virtual_s <= 1.001 * without.virtual_s);
}

TEST_CASE("only what a request will use is brought up", "[T:promote_only_what_is_used]") {
  const RunReport report = run_checked(small_workload(), staged_config(), {});
  const auto came = report.gauges.at("prefix_index.stage_came");
  CHECK(came > 300);
  CHECK(report.gauges.at("prefix_index.stage_used") * 100 >= came * 95);
}

TEST_CASE("what may be evicted is what eviction frees: a full pool never stops a request",
          "[T:evictable_is_freeable][T:evict_before_alloc][T:two_loads_no_deadlock]") {
  // Each request takes nearly the whole device, several are live at once, all load from below.
  const Workload work = cycle(300, 20, 31);
  for (const RunConfig& config : {small_config(), staged_config()}) {
    INFO("disk loads " << config.disk_loads);
    RunOptions options;
    options.prompt_only = true;
    options.speed = 0;
    set_log_level(LogLevel::kError);
    const auto report = run_trace(config, work, options);
    INFO(report.status().to_string());
    REQUIRE(report.is_ok());
    CHECK(report->mismatches == 0);
    CHECK(report->all.completed == work.items.size());
    CHECK(report->gauges.at("allocator.device.peak_used") <= 40);
  }
}

TEST_CASE("a request that no device holds is refused with a type, and the tiers stay as they were",
          "[T:evict_before_alloc]") {
  Workload work = cycle(20, 5, 10);
  Workload big = cycle(1, 1, 41);
  work.items.push_back(big.items[0]);
  work.items.back().first_id = work.ids.size();
  work.ids.insert(work.ids.end(), big.ids.begin(), big.ids.end());
  work.given_tokens.resize(work.items.size());
  RunOptions options;
  options.serial = true;
  options.prompt_only = true;
  const auto report = run_trace(small_config(), work, options);
  REQUIRE(report.is_ok());
  CHECK(report->all.refused == 1);
  CHECK(report->all.completed == 20);
  CHECK(report->all.prefix_hit_blocks == 150);
}

TEST_CASE("with tiers below, no first token comes later than without",
          "[T:offload_never_worse][T:load_or_recompute]") {
  Workload work = small_workload(1500, 60);
  for (size_t i = 0; i < work.items.size(); ++i) {
    work.items[i].timestamp_ms = static_cast<double>(i) * 40;
  }
  RunConfig on = staged_config();
  on.load = "measured";
  on.device_blocks = 150;
  on.host_blocks = 400;
  on.host_reserve_percent = 20;
  RunConfig off = on;
  off.host_blocks = 0;
  off.disk_blocks = 0;
  RunOptions options;
  options.prompt_only = true;
  set_log_level(LogLevel::kError);
  const auto without = run_trace(off, work, options);
  const auto with = run_trace(on, work, options);
  REQUIRE(without.is_ok());
  REQUIRE(with.is_ok());
  CHECK(with->mismatches == 0);
  CHECK(with->all.reused_tokens > without->all.reused_tokens);
  for (const double q : {0.5, 0.9, 0.99}) {
    INFO("quantile " << q);
    CHECK(quantile(with->all.ttft_ms, q) <= 1.01 * quantile(without->all.ttft_ms, q));
  }
}

TEST_CASE("every test that USER_FAILURES.md names is there") {
  const auto text_of = [](const std::filesystem::path& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  };
  std::set<std::string> tags;
  const std::regex tag("T:([a-z0-9_]+)");
  for (const auto& entry : std::filesystem::recursive_directory_iterator("tests")) {
    if (entry.path().extension() == ".cc") {
      const std::string text = text_of(entry.path());
      for (std::sregex_iterator at(text.begin(), text.end(), tag), end; at != end; ++at) {
        tags.insert((*at)[1]);
      }
    }
  }
  std::istringstream page(text_of("tests/tiers/USER_FAILURES.md"));
  const std::regex name("`([a-z0-9]+_[a-z0-9_]+)`");
  size_t rows = 0;
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| ", 0) != 0 || line.rfind("| failure", 0) == 0) {
      continue;
    }
    ++rows;
    INFO(line);
    std::smatch found;
    const bool named = std::regex_search(line, found, name);
    CHECK((named || line.find("can't occur") != std::string::npos));
    if (named) {
      CHECK(tags.count(found[1]) == 1);
    }
  }
  CHECK(rows > 35);
}

}  // namespace troupe
