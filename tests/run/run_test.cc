// `troupe run` as a function: damage is found, both dispatchers answer everybody, tenants stay
// apart, refusals are typed, and caching off computes everything.
#include "apps/run/run.h"

#include "apps/gen/workload.h"
#include "apps/run/content.h"
#include "tests/run/small_runs.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>

namespace troupe {

using namespace small_runs;

TEST_CASE("every request is answered and every reused byte is right, whatever the pressure") {
  const Workload work = sessions(12, 5, 8);
  for (const char* dispatcher : {"inline", "caf"}) {
    for (const auto& [device, host] : {std::pair{400, 0}, {60, 0}, {60, 100}, {40, 400}}) {
      for (const double speed : {1.0, 0.0}) {
        INFO(dispatcher << " device " << device << " host " << host << " speed " << speed);
        RunConfig config = small(device, host);
        config.dispatcher = dispatcher;
        config.free_reserve_blocks = host > 0 ? 4 : 0;
        config.preemption = host > 0 ? "swap" : "recompute";
        config.load = "always";
        RunOptions options;
        options.speed = speed;
        const RunReport report = must_run(config, work, options);
        CHECK(report.mismatches == 0);
        CHECK(report.failed_loads == 0);
        CHECK(report.verified_bytes > 0);
        CHECK(report.all.completed == work.items.size());
      }
    }
  }
}

TEST_CASE("generated tokens are found by the next turn where the session tells") {
  const Workload work = sessions(3, 4, 8);
  const RunReport report = must_run(small(400), work);
  // A turn adds 3 blocks = 48 tokens, of which 19 were generated and cached by the turn before.
  uint64_t prompt_only_hits = 0;
  for (uint32_t i = 3; i < work.items.size(); ++i) {
    prompt_only_hits += work.items[i - 3].prompt;
  }
  CHECK(report.all.reused_tokens > prompt_only_hits);
}

TEST_CASE("a flipped byte and two swapped slots are found") {
  const Workload work = sessions(4, 3, 8);
  RunConfig config = small(400);
  RunOptions options;
  options.serial = true;
  CHECK(must_run(config, work, options).mismatches == 0);
  const size_t block = static_cast<size_t>(config.real_block_bytes);
  SECTION("a flipped bit") {
    options.tamper = [&](uint64_t done, std::span<std::byte> device) {
      if (done == 1) {
        device[block * 2 + 77] ^= std::byte{1};
      }
    };
  }
  SECTION("two swapped slots") {
    options.tamper = [&](uint64_t done, std::span<std::byte> device) {
      if (done == 1) {
        std::swap_ranges(device.begin() + static_cast<ptrdiff_t>(block),
                         device.begin() + static_cast<ptrdiff_t>(block * 2),
                         device.begin() + static_cast<ptrdiff_t>(block * 2));
      }
    };
  }
  const RunReport damaged = must_run(config, work, options);
  CHECK(damaged.mismatches > 0);
  CHECK_FALSE(damaged.first_mismatch.empty());
}

TEST_CASE("tenants do not share blocks unless their domain is the same") {
  const Workload work = sessions(2, 1, 0, 2);  // the same three blocks, two tenants
  RunOptions options;
  options.serial = true;
  CHECK(must_run(small(100), work, options).all.prefix_hit_blocks == 0);
  RunConfig shared = small(100);
  shared.tenants = {{"tenant0", 7, 0}, {"tenant1", 7, 0}};
  CHECK(must_run(shared, work, options).all.prefix_hit_blocks == 3);
}

TEST_CASE("a request larger than the device is refused and the rest goes on") {
  Workload work = sessions(2, 2, 8);
  work.items[1].prompt = 500 * 16;
  const RunReport report = must_run(small(60), work);
  CHECK(report.all.refused == 1);
  CHECK(report.all.completed == work.items.size() - 1);
}

TEST_CASE("a configuration that can't be run is an error that names the value and the limit") {
  const auto error_of = [](auto&& change) {
    RunConfig config = small(64);
    change(config);
    const auto report = run_trace(config, sessions(2, 1, 4), RunOptions{});
    return report ? std::string("none") : report.status().text();
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(error_of([](RunConfig&) {}) == "none");
  CHECK(has(error_of([](RunConfig& c) { c.device_blocks = 0; }),
            "tiers.device_blocks: 0 is not in 1"));
  CHECK(
      has(error_of([](RunConfig& c) { c.host_blocks = -3; }), "tiers.host_blocks: -3 is not in 0"));
  CHECK(has(error_of([](RunConfig& c) { c.block_tokens = 32768; }), "is not in 0 … 32767"));
  CHECK(has(error_of([](RunConfig& c) { c.eviction_policy = "nonsense"; }), "known are"));
  CHECK(has(error_of([](RunConfig& c) { c.device_blocks = 1LL << 30; }), "MiB are available"));
}

TEST_CASE("a run that is stopped cancels what is live; each request has one ending") {
  for (const char* dispatcher : {"inline", "caf"}) {
    for (const bool serial : {false, true}) {
      CAPTURE(dispatcher, serial);
      const Workload work = sessions(20, 3, 8);
      RunConfig config = small(120, 60);
      config.dispatcher = dispatcher;
      std::atomic<bool> stop{false};
      RunOptions options;
      options.serial = serial;
      options.stop = &stop;
      options.tamper = [&](uint64_t done, std::span<std::byte>) { stop = stop || done == 7; };
      const RunReport report = must_run(config, work, options);
      CHECK(report.interrupted);
      CHECK(report.not_sent > 0);
      CHECK(report.all.requests + report.not_sent == work.items.size());
      CHECK(report.all.completed >= 7);
      CHECK(report.all.completed + report.all.refused + report.all.cancelled ==
            report.all.requests);
      CHECK(report.gauges.at("prefix_index.leases") == 0);
      CHECK(report.gauges.at("allocator.table_entries") == 0);
    }
  }
}

TEST_CASE("policies are swapped by message while requests run; none is lost") {
  for (const char* dispatcher : {"inline", "caf"}) {
    CAPTURE(dispatcher);
    RunConfig config = small(120, 60);
    config.dispatcher = dispatcher;
    RunOptions options;
    options.swap_policies = {"sieve", "troupe", "lru", "s3fifo", "nonsense", "vllm_lru"};
    options.swap_every = 2;
    const RunReport report = must_run(config, sessions(20, 4, 8), options);
    CHECK(report.operated.swaps >= 20);
    CHECK(report.operated.swaps_failed >= 3);  // the unknown one, each time; the one before went on
    CHECK(report.operated.swap_error.find("nonsense") != std::string::npos);
    CHECK(report.operated.swap_us.size() == report.operated.swaps);
    CHECK(report.all.completed == 80);
    CHECK(report.mismatches == 0);
    CHECK(report.evictions > 0);
  }
}

TEST_CASE("the report shows the largest of many tenants, its JSON has all") {
  const RunReport report = must_run(small(200), sessions(40, 1, 4, 40));
  const auto count = [](const std::string& text, const std::string& part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++found;
    }
    return found;
  };
  const std::string text = report_text(report);
  CHECK(count(text, "\ntenant ") == 16);
  CHECK(text.find("and 24 tenants with fewer requests") != std::string::npos);
  CHECK(count(report_json(report), "\"prompt_tokens\"") == 41);
}

TEST_CASE("a full queue refuses by type") {
  const Workload work = sessions(10, 1, 8);
  RunConfig config = small(100);
  config.max_live = 4;
  Workload burst = work;
  for (WorkItem& item : burst.items) {
    item.timestamp_ms = 0;
  }
  const RunReport report = must_run(config, burst);
  CHECK(report.all.refused > 0);
  CHECK(report.all.completed + report.all.refused == burst.items.size());
}

TEST_CASE("caching off reuses nothing and leaves nothing behind") {
  const Workload work = sessions(4, 3, 8);
  RunConfig config = small(400);
  config.prefix_caching = false;
  const RunReport report = must_run(config, work);
  CHECK(report.all.prefix_hit_blocks == 0);
  CHECK(report.all.reused_tokens == 0);
  CHECK(report.gauges.at("allocator.device.free") == 400);
}

TEST_CASE("serial runs with swaps have the same digests on both dispatchers") {
  std::map<std::string, uint64_t> digests[2];
  for (const bool with_caf : {false, true}) {
    RunConfig config = small(100, 40);
    config.dispatcher = with_caf ? "caf" : "inline";
    RunOptions options;
    options.serial = true;
    options.swap_policies = {"sieve", "lru", "troupe"};
    options.swap_every = 3;
    const RunReport report = must_run(config, sessions(12, 4, 8), options);
    CHECK(report.operated.swaps >= 10);
    digests[with_caf ? 1 : 0] = report.digests;
  }
  CHECK(digests[0] == digests[1]);
}

TEST_CASE("serial runs have the same digests on both dispatchers, and again with the same seed") {
  const Workload work = sessions(5, 4, 8);
  RunOptions options;
  options.serial = true;
  RunConfig config = small(60, 100);
  const RunReport a = must_run(config, work, options);
  const RunReport b = must_run(config, work, options);
  config.dispatcher = "caf";
  const RunReport c = must_run(config, work, options);
  CHECK(a.digests == b.digests);
  CHECK(a.digests == c.digests);
}

TEST_CASE("one wrong token piece is named") {
  const ContentShape shape{16, 256};
  const std::vector<uint32_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  std::vector<std::byte> block(16 * 256);
  fill_content(shape, BlockKey{}, tokens, 0, 16, block);
  CHECK(verify_content(shape, BlockKey{}, tokens, 0, 16, block) == 16);
  block[256 * 5 + 3] ^= std::byte{0x10};
  CHECK(verify_content(shape, BlockKey{}, tokens, 0, 16, block) == 5);
  std::vector<uint32_t> other = tokens;
  other[2] = 99;  // the same block under another token: everything from there on differs
  fill_content(shape, BlockKey{}, tokens, 0, 16, block);
  CHECK(verify_content(shape, BlockKey{}, other, 0, 16, block) == 2);
}

}  // namespace troupe
