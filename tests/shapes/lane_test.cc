// Shape: one lane recorded and replayed. The allocator of a run, with eviction and preemption
// behind it, is put back into a fresh core from its own lane alone, and ends in the same state.
#include "apps/run/assembly.h"
#include "apps/run/run.h"
#include "runtime/replay/lane_replay.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

namespace troupe {

TEST_CASE("one lane of a run, replayed alone, gives every message and the final state again") {
  Workload work;
  work.source = "made by the test";
  work.block_size = 16;
  work.tenants = {"default"};
  for (uint32_t i = 0; i < 20; ++i) {
    WorkItem item;
    item.prompt = 6 * 16;
    item.output = 24;
    item.first_id = work.ids.size();
    item.ids = 6;
    item.next_turn = kNoItem;
    work.items.push_back(item);
    for (uint64_t b = 0; b < 6; ++b) {
      work.ids.push_back(b < 2 ? b : 100 * i + b);  // two blocks are shared by all
    }
  }
  work.given_tokens.resize(work.items.size());
  RunConfig config;
  config.device_blocks = 40;
  config.max_running = 8;
  test::TempDir dir;
  RunOptions options;
  options.speed = 0;
  options.record = dir.file("lanes");
  const auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report);
  CHECK(report->evictions > 0);

  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(options.record, {}, notices);
  REQUIRE(lanes);
  const auto recorded = parse_config(lanes->front().info.config, "recorded");
  REQUIRE(recorded);
  const auto registry = make_registry();
  auto cores = build_replay_troupe(*recorded, *registry);
  REQUIRE(cores);
  for (const trace::LaneFiles& files : *lanes) {
    if (files.info.actor != "allocator") {
      continue;
    }
    for (const Member& member : cores->members) {
      if (member.address == files.info.address) {
        trace::LaneReader lane(files, {});
        const auto replayed =
            replay::replay_lane(lane, *member.actor, replay::LaneSearch(*lanes, {}), {});
        CHECK(replayed.complete);
        CHECK(replayed.counts.deliveries > 100);
        CHECK(replayed.digest == report->digests.at("allocator"));
        CHECK(replayed.check.is_ok());
        return;
      }
    }
  }
  FAIL("the recording has no lane of the allocator");
}

}  // namespace troupe
