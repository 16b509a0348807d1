// troupe explain: every missed block has the reason that made it miss, and sums are those of the
// counters.
#include "apps/explain/explain_report.h"
#include "apps/run/run.h"
#include "runtime/base/rng.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

#include <numeric>

namespace troupe {
namespace {

struct Ask {
  std::vector<uint64_t> ids;
  uint32_t tokens = 0;  // 0: all of the blocks
  uint32_t tenant = 0;
  uint32_t output = 1;
};

Workload work_of(const std::vector<Ask>& asks, uint32_t tenants = 1) {
  Workload work;
  work.source = "made by the test";
  work.block_size = 16;
  for (uint32_t t = 0; t < tenants; ++t) {
    work.tenants.push_back("tenant" + std::to_string(t));
  }
  for (const Ask& ask : asks) {
    WorkItem item;
    item.timestamp_ms = 100.0 * static_cast<double>(work.items.size());
    item.ids = static_cast<uint32_t>(ask.ids.size());
    item.prompt = ask.tokens != 0 ? ask.tokens : item.ids * 16;
    item.output = ask.output;
    item.tenant = ask.tenant;
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    work.ids.insert(work.ids.end(), ask.ids.begin(), ask.ids.end());
    work.items.push_back(item);
  }
  work.given_tokens.resize(work.items.size());
  return work;
}

struct Explained {
  RunReport report;
  Story story;
  uint64_t total(Miss why) const { return story.totals[static_cast<size_t>(why)]; }
};

Explained explain(const RunConfig& config, const Workload& work, RunOptions options) {
  test::TempDir dir;
  options.record = dir.file("lanes");
  auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report);
  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(options.record, {}, notices);
  REQUIRE(lanes);
  auto story = tell_story(*lanes);
  INFO(story.status().to_string());
  REQUIRE(story);
  CHECK(story->notices.empty());
  // Line 7: all missed blocks have a reason, and the sums are those of the counters.
  CHECK(story->disagreements == 0);
  CHECK(story->totals[static_cast<size_t>(Miss::kUnknown)] == 0);
  CHECK(std::accumulate(story->totals.begin(), story->totals.end(), uint64_t{0}) ==
        story->listed - story->hits);
  if (report->all.completed == work.items.size()) {
    CHECK(story->listed == report->all.prefix_query_blocks);
    CHECK(story->hits == report->all.prefix_hit_blocks);
  }
  return {std::move(*report), std::move(*story)};
}

RunOptions serial() {
  RunOptions options;
  options.serial = true;
  options.prompt_only = true;
  return options;
}

}  // namespace

TEST_CASE("never stored, then evicted by the policy that is named") {
  RunConfig config;
  config.device_blocks = 8;
  std::vector<Ask> asks = {{{1, 2, 3, 4}}, {{11, 12, 13, 14}}, {{21, 22, 23, 24}}, {{1, 2, 3, 4}}};
  const Explained e = explain(config, work_of(asks), serial());
  const RequestStory& last = e.story.requests.rbegin()->second;
  CHECK(e.total(Miss::kNeverStored) == 12);
  CHECK(e.total(Miss::kEvicted) == 4 - last.hits);
  REQUIRE(e.total(Miss::kEvicted) > 0);
  const MissRun& run = last.misses.at(0);
  const std::string text = request_text(e.story, last);
  INFO(text);
  CHECK(text.find("evicted, device by lru, named ") != std::string::npos);
  const LifeEvent& end = e.story.blocks.at(run.life).events[run.value];
  CHECK(end.what == LifeChange::kEvicted);
  CHECK_FALSE(last.looked_up < end.at);
  // The block's own life says the same, and that it came back.
  const std::string life = block_text(e.story, run.life);
  CHECK(life.find("in the cache at the end") != std::string::npos);
  CHECK(life.find("stored, device, by request") != std::string::npos);
  const std::string key = key_text(e.story.blocks.at(run.life).name.key);
  CHECK(find_blocks(e.story, key.substr(0, 16)) == std::vector<uint32_t>{run.life});
}

TEST_CASE("the same tokens of another tenant, and the token at which a prompt parts") {
  RunConfig config;
  config.device_blocks = 64;
  const std::vector<Ask> asks = {{{1, 2, 3}, 0, 0}, {{1, 2, 3}, 0, 1}, {{1, 2, 9, 10}, 0, 0}};
  const Explained e = explain(config, work_of(asks, 2), serial());
  CHECK(e.total(Miss::kNeverStored) == 3);
  CHECK(e.total(Miss::kOtherDomain) == 3);
  CHECK(e.total(Miss::kDiffers) == 2);
  const RequestStory& last = e.story.requests.rbegin()->second;
  CHECK(last.hits == 2);
  CHECK(last.misses.at(0).value == 32);
  CHECK(last.misses.at(0).count == 2);
}

TEST_CASE("a tail within a longer block is a matter of alignment") {
  RunConfig config;
  config.device_blocks = 64;
  const Explained e = explain(config, work_of({{{1, 2, 3}}, {{1, 2, 3}, 40}}), serial());
  CHECK(e.total(Miss::kAlignment) == 1);
  CHECK(e.total(Miss::kNeverStored) == 3);
}

TEST_CASE("whatever the pressure, nothing misses for an unknown reason") {
  std::array<uint64_t, static_cast<size_t>(Miss::kCount)> sums{};
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    std::vector<Ask> asks;
    for (int i = 0; i < 60; ++i) {
      Ask ask;
      const uint64_t length = 1 + rng.below(9);
      const uint64_t shared = rng.below(length + 1);
      const uint64_t family = rng.below(4);
      for (uint64_t b = 0; b < length; ++b) {
        ask.ids.push_back(b < shared ? 100 * family + b : 1000 + rng.below(12) * 10 + b);
      }
      ask.tokens = static_cast<uint32_t>(length * 16 - rng.below(16));
      ask.tenant = static_cast<uint32_t>(rng.below(2));
      ask.output = 1 + static_cast<uint32_t>(rng.below(20));
      asks.push_back(std::move(ask));
    }
    RunConfig config;
    config.device_blocks = 20 + static_cast<int64_t>(rng.below(40));
    config.host_blocks = rng.chance(1, 2) ? 10 + static_cast<int64_t>(rng.below(60)) : 0;
    config.preemption = config.host_blocks > 0 && rng.chance(1, 2) ? "swap" : "recompute";
    config.load = rng.chance(1, 2) ? "always" : "measured";
    config.max_running = 2 + static_cast<int64_t>(rng.below(8));
    config.chunk_tokens = 16;  // so that a prompt takes several steps, and others come meanwhile
    config.pending_deadline_ms = rng.chance(1, 2) ? 1 : 500;
    config.dispatcher = seed % 6 == 0 ? "caf" : "inline";
    RunOptions options;
    options.speed = rng.chance(1, 2) ? 0 : 1;
    options.prompt_only = rng.chance(1, 3);
    const Explained e = explain(config, work_of(asks, 2), options);
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += e.story.totals[i];
    }
  }
  CAPTURE(sums);
  // A history in which these never happened proves nothing about them.
  for (const Miss why : {Miss::kNeverStored, Miss::kEvicted, Miss::kOtherDomain, Miss::kDiffers,
                         Miss::kOverDeadline, Miss::kAlignment}) {
    INFO(miss_name(why));
    CHECK(sums[static_cast<size_t>(why)] > 0);
  }
}

TEST_CASE("an edges recording can't be explained and says what to do") {
  test::TempDir dir;
  RunConfig config;
  config.device_blocks = 16;
  RunOptions options = serial();
  options.record = dir.file("lanes");
  options.record_edges = true;
  REQUIRE(run_trace(config, work_of({{{1, 2}}}), options));
  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(options.record, {}, notices);
  REQUIRE(lanes);
  const auto story = tell_story(*lanes);
  REQUIRE_FALSE(story);
  CHECK(story.status().text().find("--record-mode full") != std::string::npos);
}

}  // namespace troupe
