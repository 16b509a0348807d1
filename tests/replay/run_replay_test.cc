// Whole runs: whatever the workload, the pressure, the dispatcher and the mode of recording, the
// lanes replay to the digests that the run ended with. The slow build of this file makes a thousand
// runs.
#include "apps/run/assembly.h"
#include "apps/run/run.h"
#include "runtime/base/rng.h"
#include "runtime/replay/system_replay.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

#ifdef TROUPE_SLOW
constexpr int kRuns = 1000;
#else
constexpr int kRuns = 60;
#endif

/// Prompts that share beginnings, some with a beginning of tokens within a block.
Workload random_work(Rng& rng) {
  Workload work;
  work.source = "random";
  work.block_size = 16;
  const uint64_t tenants = 1 + rng.below(3);
  for (uint64_t t = 0; t < tenants; ++t) {
    work.tenants.push_back("tenant" + std::to_string(t));
  }
  const uint64_t count = 3 + rng.below(15);
  for (uint64_t i = 0; i < count; ++i) {
    WorkItem item;
    item.ids = 1 + static_cast<uint32_t>(rng.below(8));
    item.prompt = (item.ids - 1) * 16 + 1 + static_cast<uint32_t>(rng.below(16));
    item.output = 1 + static_cast<uint32_t>(rng.below(40));
    item.timestamp_ms = static_cast<double>(rng.below(2000));
    item.tenant = static_cast<uint32_t>(rng.below(tenants));
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    const uint64_t shared = rng.below(item.ids + 1);
    const uint64_t family = rng.below(3);
    for (uint64_t b = 0; b < item.ids; ++b) {
      work.ids.push_back(b < shared ? 1000 * family + b : 100000 + 100 * i + b);
    }
    work.items.push_back(item);
  }
  std::sort(work.items.begin(), work.items.end(),
            [](const WorkItem& a, const WorkItem& b) { return a.timestamp_ms < b.timestamp_ms; });
  work.given_tokens.resize(work.items.size());
  return work;
}

RunConfig random_config(Rng& rng, bool with_caf) {
  RunConfig config;
  config.device_blocks = 24 + static_cast<int64_t>(rng.below(60));
  config.host_blocks = rng.chance(1, 2) ? 20 + static_cast<int64_t>(rng.below(80)) : 0;
  config.free_reserve_blocks = config.host_blocks > 0 ? static_cast<int64_t>(rng.below(4)) : 0;
  config.preemption = config.host_blocks > 0 && rng.chance(1, 2) ? "swap" : "recompute";
  config.load = rng.chance(1, 2) ? "always" : "measured";
  config.order = rng.chance(1, 2) ? "fcfs" : "lpm";
  config.max_running = 2 + static_cast<int64_t>(rng.below(8));
  config.partial_min_tokens = 1 + static_cast<int64_t>(rng.below(6));
  config.seed = static_cast<int64_t>(rng.below(1000));
  config.dispatcher = with_caf ? "caf" : "inline";
  return config;
}

/// Replays; compares each actor's digest with the run's.
void check_replay(const std::string& directory, const RunReport& report) {
  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(directory, {}, notices);
  REQUIRE(lanes);
  CHECK(notices.empty());
  const auto config = parse_config(lanes->front().info.config, "recorded");
  INFO(config.status().to_string());
  REQUIRE(config);
  const auto registry = make_registry();
  auto cores = build_replay_troupe(*config, *registry);
  REQUIRE(cores);
  const auto replayed = replay::replay_system(*lanes, {}, *cores);
  REQUIRE(replayed);
  INFO((replayed->divergence ? replayed->divergence->text() : std::string("no divergence")));
  REQUIRE(replayed->complete);
  REQUIRE(replayed->lanes.size() == report.digests.size());
  for (const replay::LaneReport& lane : replayed->lanes) {
    INFO(lane.actor);
    REQUIRE(lane.digest == report.digests.at(lane.actor));
    REQUIRE(lane.check.is_ok());
  }
}

}  // namespace

TEST_CASE("the lanes of random runs replay to the digests of the runs") {
  const uint64_t first_seed = 77;
  for (int run = 0; run < kRuns; ++run) {
    const uint64_t seed = first_seed + static_cast<uint64_t>(run);
    CAPTURE(seed);
    Rng rng(seed);
    const Workload work = random_work(rng);
    const RunConfig config = random_config(rng, run % 5 == 0);
    test::TempDir dir;
    RunOptions options;
    options.speed = rng.chance(1, 2) ? 0 : 1;
    options.serial = rng.chance(1, 5);
    options.record = dir.file("lanes");
    options.record_edges = rng.chance(1, 2);
    const auto report = run_trace(config, work, options);
    INFO(report.status().to_string());
    REQUIRE(report);
    REQUIRE(report->mismatches == 0);
    check_replay(options.record, *report);
  }
}

TEST_CASE("a lane that is missing is named, and the replay is not whole") {
  Rng rng(3);
  const Workload work = random_work(rng);
  const RunConfig config = random_config(rng, false);
  test::TempDir dir;
  RunOptions options;
  options.record = dir.file("lanes");
  REQUIRE(run_trace(config, work, options));
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(options.record, {}, notices);
  REQUIRE(lanes);
  std::erase_if(*lanes,
                [](const trace::LaneFiles& files) { return files.info.actor == "gateway"; });
  const auto recorded = parse_config(lanes->front().info.config, "recorded");
  REQUIRE(recorded);
  const auto registry = make_registry();
  auto cores = build_replay_troupe(*recorded, *registry);
  REQUIRE(cores);
  const auto replayed = replay::replay_system(*lanes, {}, *cores);
  REQUIRE(replayed);
  CHECK_FALSE(replayed->complete);
  REQUIRE(replayed->notices.size() == 1);
  CHECK(replayed->notices[0].find("gateway: no lane") == 0);
}

TEST_CASE("both dispatchers end a serial run in the same state, lower tiers or not") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    const Workload work = random_work(rng);
    RunConfig config = random_config(rng, false);
    std::map<std::string, uint64_t> digests[2];
    for (const bool with_caf : {false, true}) {
      config.dispatcher = with_caf ? "caf" : "inline";
      RunOptions options;
      options.serial = true;
      const auto report = run_trace(config, work, options);
      REQUIRE(report);
      digests[with_caf ? 1 : 0] = report->digests;
    }
    for (const auto& [actor, digest] : digests[0]) {
      INFO(actor);
      CHECK(digest == digests[1].at(actor));
    }
  }
}

}  // namespace troupe
