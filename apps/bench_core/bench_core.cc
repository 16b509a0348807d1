// Whole runs of made workloads: control time of a decode step with 256 running sequences on both
// dispatchers, what the cache layer costs where nothing is reused, and what recording costs.
#include "apps/bench_core/bench_core.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>

#include "apps/bench_host/pairs.h"
#include "apps/json/json_writer.h"
#include "apps/run/run.h"

namespace troupe {
namespace {

/// `count` requests with prompts that nobody shares, all at once.
Workload unique_prompts(uint32_t count, uint32_t prompt_blocks, uint32_t output) {
  Workload work;
  work.source = "unique prompts";
  work.block_size = 16;
  work.tenants = {"default"};
  for (uint32_t i = 0; i < count; ++i) {
    WorkItem item;
    item.prompt = prompt_blocks * 16;
    item.output = output;
    item.first_id = work.ids.size();
    item.ids = prompt_blocks;
    item.next_turn = kNoItem;
    for (uint32_t b = 0; b < prompt_blocks; ++b) {
      work.ids.push_back(static_cast<uint64_t>(i) * prompt_blocks + b);
    }
    work.items.push_back(item);
  }
  work.given_tokens.resize(count);
  return work;
}

RunReport must_run(const RunConfig& config, const Workload& work, const RunOptions& options) {
  auto report = run_trace(config, work, options);
  if (!report) {
    std::fprintf(stderr, "troupe bench core: %s\n", report.status().to_string().c_str());
    std::exit(1);
  }
  return *report;
}

RunConfig quiet(int64_t device_blocks) {
  RunConfig config;
  config.device_blocks = device_blocks;
  config.check_every_steps = 0;
  return config;
}

struct Figure {
  std::string name;
  double value = 0;
  double low = 0;   // interval, where there is one
  double high = 0;
  double budget = 0;
  const char* unit = "";
};

Figure decode_step(const char* dispatcher, double budget) {
  RunConfig config = quiet(256 * 48);
  config.dispatcher = dispatcher;
  RunOptions options;
  options.speed = 0;
  const RunReport report = must_run(config, unique_prompts(256, 4, 600), options);
  return {std::string("decode step of 256 sequences, ") + dispatcher,
          quantile(report.control_us, 0.5), 0, 0, budget, "us"};
}

/// (modelled engine time + time here) with caching on against off, prompts that are never reused.
Figure zero_reuse() {
  const Workload work = unique_prompts(400, 64, 32);
  RunOptions options;
  options.speed = 0;
  const auto total = [&](bool caching) {
    RunConfig config = quiet(16384);
    config.prefix_caching = caching;
    const RunReport report = must_run(config, work, options);
    return report.virtual_s + report.wall_s;
  };
  const apps::PairResult pairs =
      apps::run_pairs(11, [&] { return total(true); }, [&] { return total(false); });
  return {"engine + control time at 0 % reuse, caching on / off",
          pairs.ratio,
          pairs.low,
          pairs.high,
          1.01,
          ""};
}

Figure recording() {
  const Workload work = unique_prompts(1500, 64, 32);
  const std::string base =
      std::filesystem::temp_directory_path() / ("troupe-bench-" + std::to_string(getpid()));
  int run = 0;
  const auto total = [&](bool record) {
    RunOptions options;
    options.speed = 0;
    const std::string directory = base + "-" + std::to_string(run++);
    options.record = record ? directory : "";
    const double seconds = must_run(quiet(16384), work, options).wall_s;
    std::filesystem::remove_all(directory);
    return seconds;
  };
  const apps::PairResult pairs =
      apps::run_pairs(21, [&] { return total(true); }, [&] { return total(false); });
  return {"wall clock of a run, full lanes on / off", pairs.ratio, pairs.low, pairs.high, 1.05, ""};
}

}  // namespace

int bench_core_main(int argc, char** argv) {
  const bool json = argc >= 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc >= 2 && !json) {
    std::printf(
        "usage: troupe bench core [--json]\nControl time, the cost of the cache layer and of "
        "recording, beside their budgets.\n");
    return std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  const Figure figures[] = {decode_step("inline", 50), decode_step("caf", 200), zero_reuse(),
                            recording()};
  JsonWriter out;
  out.begin_array();
  for (const Figure& f : figures) {
    if (json) {
      out.begin_object().field("name", f.name).field("value", f.value).field("unit", f.unit);
      out.field("low", f.low).field("high", f.high).field("budget", f.budget).end_object();
    } else if (f.low > 0) {
      std::printf("%-56s %8.4f %s [%.4f, %.4f]  budget %.2f\n", f.name.c_str(), f.value, f.unit,
                  f.low, f.high, f.budget);
    } else {
      std::printf("%-56s %8.2f %s  budget %.0f\n", f.name.c_str(), f.value, f.unit, f.budget);
    }
  }
  out.end_array();
  if (json) {
    std::fputs(out.take().c_str(), stdout);
  }
  return 0;
}

}  // namespace troupe
