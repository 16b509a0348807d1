// The public traces through the whole troupe, one request at a time: prefix hits equal the
// reference LRU's to the last block, on both dispatchers with the same digests, and every reused
// byte is right. The traces are not in the repository; see README. Built twice: the fast program
// takes the small ones.
#define CATCH_CONFIG_RUNNER
#include "apps/run/run.h"
#include "tests/run/public_traces.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <map>

namespace troupe {
namespace {

using test::trace_dir;

struct Reference {
  std::string trace;
  double fraction = 0;
  int64_t size = 0;
  uint64_t hits = 0;
  uint64_t evictions = 0;
};

/// Rows of the LRU reference in which every request fits. The file has one field a line.
std::vector<Reference> expectations() {
  std::ifstream file(trace_dir() + "/expected_dev.json");
  std::vector<Reference> rows;
  std::map<std::string, std::string> fields;
  std::string line;
  while (std::getline(file, line)) {
    const size_t colon = line.find("\": ");
    if (line.rfind("\"", 0) == 0 && colon != std::string::npos) {
      std::string value = line.substr(colon + 3);
      value.erase(
          std::remove_if(value.begin(), value.end(), [](char c) { return c == ',' || c == '"'; }),
          value.end());
      fields[line.substr(1, colon - 1)] = value;
    } else if (line.rfind("}", 0) == 0) {
      if (fields["policy"] == "vllm_lru" && fields["uncached"] == "0" &&
          std::stod(fields["frac"]) >= 0.01) {
        rows.push_back({fields["trace"], std::stod(fields["frac"]), std::stoll(fields["size"]),
                        std::stoull(fields["prefix_hits"]), std::stoull(fields["evictions"])});
      }
      fields.clear();
    }
  }
  REQUIRE(rows.size() > 10);
  return rows;
}

RunReport run_serial(const Workload& work, int64_t device_blocks, const char* dispatcher) {
  RunConfig config;
  config.device_blocks = device_blocks;
  config.dispatcher = dispatcher;
  RunOptions options;
  options.serial = true;
  options.prompt_only = true;
  auto report = run_trace(config, work, options);
  INFO(report.status().to_string());
  REQUIRE(report.is_ok());
  return *report;
}

/// `only`: one size of the trace, as a fraction of its footprint; 0: all.
void compare(const std::string& name, const std::string& file, double only = 0) {
  auto work = read_workload(trace_dir() + "/" + file, 0);
  REQUIRE(work.is_ok());
  size_t compared = 0;
  for (const Reference& row : expectations()) {
    if (row.trace != name || (only > 0 && row.fraction != only)) {
      continue;
    }
    INFO(name << " at " << row.size << " blocks");
    const RunReport inline_run = run_serial(*work, row.size, "inline");
    CHECK(inline_run.all.prefix_hit_blocks == row.hits);
    CHECK(inline_run.evictions == row.evictions);
    CHECK(inline_run.mismatches == 0);
    CHECK(inline_run.all.completed == work->items.size());
    CHECK(inline_run.verified_bytes > 0);
    if (compared++ == 0 && only == 0) {
      const RunReport caf_run = run_serial(*work, row.size, "caf");
      CHECK(caf_run.digests == inline_run.digests);
      CHECK(caf_run.all.prefix_hit_blocks == row.hits);
    }
  }
  CHECK(compared > 0);
}

}  // namespace

TEST_CASE("tau airline conversations") {
  compare("tau_dev", "tau_airline_trials01_blk16.jsonl.zst");
}
TEST_CASE("mini-SWE-agent runs") {
  compare("miniswe_dev", "lmcache_miniswe_blk16.jsonl.zst");
}
#ifndef TROUPE_FAST_TRACES
TEST_CASE("Mooncake conversations") {
  compare("mooncake_conv_dev", "mooncake_conversation_first35min.jsonl");
}
TEST_CASE("RAGPulse") {
  compare("ragpulse_dev", "ragpulse_days1-4_blk16.jsonl.zst");
}
// Six million block references a run: one size here, all by tests/run/against_reference.py.
TEST_CASE("Claude Code sessions in blocks of 64") {
  compare("cc64_dev", "claude_code_sub30_blk64.jsonl.zst", 0.1);
}
TEST_CASE("Claude Code sessions") {
  compare("cc_dev", "claude_code_even_blk512.jsonl.zst", 0.1);
}
#endif

}  // namespace troupe

int main(int argc, char** argv) {
  return troupe::test::run_where_traces_are(argc, argv);
}
