// apps/trace: what a timeline and a search show is what the lanes hold, no more and no less.
#include "apps/trace/timeline.h"

#include "apps/run/run.h"
#include "apps/trace/records.h"
#include "runtime/core/routes.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

#include <map>
#include <memory>

namespace troupe {
namespace {

/// A run of five prompts that share beginnings, recorded.
RunReport record_run(const std::string& directory) {
  Workload work;
  work.source = "made by the test";
  work.block_size = 16;
  work.tenants = {"one"};
  for (uint32_t i = 0; i < 5; ++i) {
    WorkItem item;
    item.timestamp_ms = i * 10.0;
    item.ids = 2 + i % 2;
    item.prompt = item.ids * 16;
    item.output = 4;
    item.first_id = work.ids.size();
    item.next_turn = kNoItem;
    for (uint32_t b = 0; b < item.ids; ++b) {
      work.ids.push_back(b == 0 ? 1 : 100 * i + b);
    }
    work.items.push_back(item);
  }
  work.given_tokens.resize(work.items.size());
  RunConfig config;
  config.device_blocks = 12;
  config.host_blocks = 16;
  RunOptions options;
  options.record = directory;
  auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report);
  return std::move(*report);
}

std::vector<trace::LaneFiles> lanes_of(const std::string& directory) {
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(directory, {}, notices);
  REQUIRE(lanes);
  return std::move(*lanes);
}

std::string timeline_of(const std::vector<trace::LaneFiles>& lanes, const std::string& path) {
  std::vector<std::string> notices;
  {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                               std::fclose);
    REQUIRE(write_timeline(lanes, file.get(), notices));
  }
  CHECK(notices.empty());
  const std::vector<char> bytes = test::bytes_of(path);
  return {bytes.begin(), bytes.end()};
}

uint64_t count(const std::string& text, const std::string& part) {
  uint64_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("a timeline has each delivery once, both ends of each arrow and of each request") {
  test::TempDir dir;
  const RunReport report = record_run(dir.file("lanes"));
  const auto lanes = lanes_of(dir.file("lanes"));
  uint64_t deliveries = 0;
  uint64_t caused = 0;
  uint64_t steps = 0;
  (void)walk_records(lanes, {}, [&](const Delivered& d) {
    ++deliveries;
    caused += d.header.cause != 0 ? 1 : 0;
    steps += d.header.kind == Kind::PLAN ? 1 : 0;
    return true;
  });
  CHECK(deliveries == report.messages);
  const std::string text = timeline_of(lanes, dir.file("timeline.json"));
  CHECK(count(text, "\"ph\":\"X\",\"pid\":1,") == deliveries);
  CHECK(count(text, "\"ph\":\"s\"") == caused);
  CHECK(count(text, "\"ph\":\"f\"") == caused);
  CHECK(count(text, "\"ph\":\"X\",\"pid\":3,") == steps);
  CHECK(count(text, "\"ph\":\"b\"") == 5);
  CHECK(count(text, "\"ph\":\"e\"") == 5);
  CHECK(count(text, "{") == count(text, "}"));
}

TEST_CASE("filters name what they should and nothing else") {
  test::TempDir dir;
  const RunReport report = record_run(dir.file("lanes"));
  const auto lanes = lanes_of(dir.file("lanes"));
  const auto matching = [&](const RecordFilter& filter) {
    uint64_t found = 0;
    (void)walk_records(lanes, filter, [&](const Delivered& d) {
      CHECK((filter.actor.empty() || d.lane->actor == filter.actor));
      CHECK((filter.kind.empty() || kind_name(d.header.kind) == filter.kind));
      CHECK(d.seq >= filter.from);
      CHECK(d.seq <= filter.to);
      ++found;
      return true;
    });
    return found;
  };
  RecordFilter filter;
  filter.kind = "submit";
  CHECK(matching(filter) == 5);
  filter.actor = "allocator";
  CHECK(matching(filter) == 0);
  filter.kind.clear();
  filter.from = 2;
  filter.to = 4;
  CHECK(matching(filter) == 3);
  filter = {};
  filter.text = "ticket = 3,";
  CHECK(matching(filter) >= 2);  // the submit and the reply at least
  filter.text = "no message says this";
  CHECK(matching(filter) == 0);
  uint64_t sum = 0;
  for (const trace::LaneFiles& files : lanes) {
    const LaneSummary lane = summarize(files);
    CHECK(lane.problems.clean());
    sum += lane.deliveries;
  }
  CHECK(sum == report.messages);
}

}  // namespace
}  // namespace troupe
