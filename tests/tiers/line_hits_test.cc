// The public traces over three tiers: device 5 %, host 20 % and disk 100 % of a trace's footprint
// give the prefix hits of one device tier that holds everything, to the last block, and every byte
// that came back is right. The reference is counted here, apart from all of Troupe's code: equal
// ids mean equal prefixes, so a request hits up to its first id that was never seen.
#define CATCH_CONFIG_RUNNER
#include "apps/run/run.h"
#include "tests/run/public_traces.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <unordered_set>

namespace troupe {
namespace {

using test::trace_dir;

struct Footprint {
  int64_t blocks = 0;   // distinct ids
  int64_t longest = 0;  // blocks of the longest request
  uint64_t hits = 0;    // with room for everything
};

Footprint footprint(const Workload& work) {
  Footprint f;
  std::unordered_set<uint64_t> seen;
  for (const WorkItem& item : work.items) {
    f.longest = std::max<int64_t>(f.longest, item.ids);
    bool hit = true;
    for (uint64_t i = item.first_id; i < item.first_id + item.ids; ++i) {
      hit = !seen.insert(work.ids[i]).second && hit;
      f.hits += hit ? 1 : 0;
    }
  }
  f.blocks = static_cast<int64_t>(seen.size());
  return f;
}

void three_tiers(const std::string& file, uint64_t limit = 0) {
  const auto work = read_workload(trace_dir() + "/" + file, limit);
  REQUIRE(work.is_ok());
  const Footprint f = footprint(*work);
  RunConfig config;
  // A request must fit the device whole: where one alone is longer than 5 %, that is the size.
  config.device_blocks = std::max(f.blocks / 20, f.longest);
  config.host_blocks = f.blocks / 5;
  config.disk_blocks = f.blocks;
  config.load = "always";
  config.disk_loads = "in_step";
  config.host_reserve_percent = 0;
  RunOptions options;
  options.serial = true;
  options.prompt_only = true;
  const auto report = run_trace(config, *work, options);
  INFO(file << ": " << report.status().to_string());
  REQUIRE(report.is_ok());
  CHECK(report->all.completed == work->items.size());
  CHECK(report->all.prefix_hit_blocks == f.hits);
  CHECK(report->mismatches == 0);
  CHECK(report->failed_loads == 0);
  CHECK(report->verified_bytes > 0);
  CHECK(report->demoted_blocks > 0);
}

}  // namespace

TEST_CASE("tau airline conversations, three tiers") {
  three_tiers("tau_airline_trials01_blk16.jsonl.zst");
}
TEST_CASE("mini-SWE-agent runs, three tiers") {
  three_tiers("lmcache_miniswe_blk16.jsonl.zst");
}
TEST_CASE("Mooncake conversations, three tiers") {
  three_tiers("mooncake_conversation_first35min.jsonl");
}
TEST_CASE("RAGPulse, three tiers") {
  three_tiers("ragpulse_days1-4_blk16.jsonl.zst");
}
// Requests of thousands of blocks: one step demotes most of the device in a single message.
TEST_CASE("Claude Code sessions, native blocks, three tiers") {
  three_tiers("claude_code_sub30_blk64.jsonl.zst", 500);
}

}  // namespace troupe

int main(int argc, char** argv) {
  return troupe::test::run_where_traces_are(argc, argv);
}
