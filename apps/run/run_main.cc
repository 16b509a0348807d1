// `troupe run`: drives a troupe with a trace on a virtual clock and prints what a serving engineer
// wants to know. Exit codes: 0 all well; 1 a byte was wrong, an invariant broke or a request got no
// answer; 2 bad input (arguments, configuration, trace); 130 stopped by a signal.
#include "apps/run/run.h"

#include <CLI/CLI.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <optional>
#include <unistd.h>

namespace troupe {
namespace {

struct Arguments {
  std::string config;
  std::string trace;
  std::string speed = "1";
  std::string json;
  std::string dispatcher;
  std::string policy;
  std::string isolation;
  std::string record;
  std::string record_mode = "full";
  bool serial = false;
  bool prompt_only = false;
  uint64_t limit = 0;
  std::optional<int64_t> device_blocks;
  std::optional<int64_t> host_blocks;
  std::optional<int64_t> disk_blocks;
  std::optional<int64_t> block_tokens;
  uint32_t max_length = 0;
  std::vector<std::string> swap;
  std::vector<std::string> at;
  std::string lookup_log;
  uint64_t swap_every = 0;
};

void declare(CLI::App& app, Arguments& a) {
  app.add_option("--config", a.config, "configuration, TOML; without it every key has its default");
  app.add_option("--trace", a.trace,
                 "requests: JSONL (Mooncake or ours), plain or .zst, or Azure CSV")
      ->required();
  app.add_option("--speed", a.speed,
                 "trace time is divided by this; max: requests arrive as credits allow");
  app.add_flag("--serial", a.serial, "one request at a time, in file order");
  app.add_flag("--prompt-only", a.prompt_only, "exactly the listed blocks; nothing is generated");
  app.add_option("--limit", a.limit, "at most so many requests");
  app.add_option("--json", a.json, "write the report as JSON to this file; - for standard output");
  app.add_option("--dispatcher", a.dispatcher, "inline or caf, instead of the configuration's");
  app.add_option("--policy", a.policy,
                 "eviction policy: a built-in one's name, or a path to a library");
  app.add_option("--isolation", a.isolation,
                 "process: policies run in a process of their own; none: in this one")
      ->check(CLI::IsMember({"none", "process"}));
  app.add_option("--record", a.record,
                 "record every message into this new directory, for troupe replay");
  app.add_option("--record-mode", a.record_mode,
                 "full: every message; edges: what came from outside, the rest is made again")
      ->check(CLI::IsMember({"full", "edges"}));
  app.add_option("--device-blocks", a.device_blocks, "capacity of the device tier in blocks");
  app.add_option("--host-blocks", a.host_blocks, "capacity of the host tier in blocks");
  app.add_option("--disk-blocks", a.disk_blocks, "capacity of the disk tier in blocks");
  app.add_option("--block-tokens", a.block_tokens, "tokens of a block; 0: the trace's own");
  app.add_option(
      "--max-length", a.max_length,
      "tokens that contiguous preallocation would reserve a sequence, for the comparison");
  app.add_option("--swap", a.swap,
                 "policies that take turns on the device tier while it serves, comma-separated")
      ->delimiter(',');
  app.add_option("--swap-every", a.swap_every, "replies between two swaps");
  app.add_option("--at", a.at,
                 "REPLIES=COMMAND, as often as wanted: what an operator does while it serves; "
                 "COMMAND: swap [SLOT] POLICY[:PARAMS], rollback [SLOT], shadow NAME=POLICY "
                 "[blocks=N] [one-in=N], unshadow NAME, promote NAME [SLOT], policies");
  app.add_option("--lookup-log", a.lookup_log,
                 "write the lookups that understudies saw into this file, a trace for troupe lab");
  app.footer(
      "Example:\n  troupe run --config configs/agent_rag.toml --trace trace.jsonl.zst --json -\n"
      "Exit codes: 0 all well, 1 wrong bytes or a broken invariant, 2 bad input, 130 stopped by a "
      "signal.");
}

Expected<RunConfig> effective_config(const Arguments& a) {
  RunConfig config;
  if (!a.config.empty()) {
    auto read = read_config(a.config);
    if (!read) {
      return read.status();
    }
    config = *read;
  }
  const auto override_with = [](const std::optional<int64_t>& value, int64_t& key) {
    key = value.value_or(key);
  };
  override_with(a.device_blocks, config.device_blocks);
  override_with(a.host_blocks, config.host_blocks);
  override_with(a.disk_blocks, config.disk_blocks);
  override_with(a.block_tokens, config.block_tokens);
  if (!a.dispatcher.empty()) {
    config.dispatcher = a.dispatcher;
  }
  if (!a.policy.empty()) {
    config.eviction_policy = a.policy;
  }
  if (!a.isolation.empty()) {
    config.isolation = a.isolation;
  }
  if (config.dispatcher != "inline" && config.dispatcher != "caf") {
    return Status(Code::kInvalidArgument,
                  "--dispatcher \"" + config.dispatcher + "\" is none of inline, caf");
  }
  if (config.host_blocks == 0 && config.disk_blocks == 0) {
    config.free_reserve_blocks = a.host_blocks == 0 ? 0 : config.free_reserve_blocks;
    config.preemption = a.host_blocks == 0 ? "recompute" : config.preemption;
  }
  TROUPE_TRY(check_config(config, a.config.empty() ? "arguments" : a.config));
  return config;
}

Expected<RunOptions> options_of(const Arguments& a) {
  RunOptions options;
  options.serial = a.serial;
  options.prompt_only = a.prompt_only;
  options.max_length = a.max_length;
  options.record = a.record;
  options.record_edges = a.record_mode == "edges";
  for (const std::string& text : a.at) {
    auto command = parse_command(text);
    if (!command) {
      return command.status();
    }
    options.script.push_back(*command);
  }
  options.lookup_log = a.lookup_log;
  options.swap_policies = a.swap;
  options.swap_every = a.swap_every;
  if (a.swap.empty() != (a.swap_every == 0)) {
    return Status(Code::kInvalidArgument,
                  "--swap and --swap-every (at least 1) go together: which policies, how often");
  }
  if (a.speed == "max") {
    options.speed = 0;
  } else {
    char* end = nullptr;
    options.speed = std::strtod(a.speed.c_str(), &end);
    if (*end != '\0' || !(options.speed > 0)) {
      return Status(Code::kInvalidArgument,
                    "--speed \"" + a.speed + "\" is neither max nor a number above 0");
    }
  }
  if (isatty(STDERR_FILENO) != 0) {
    options.on_progress = [last = std::chrono::steady_clock::time_point{}](uint64_t done,
                                                                           uint64_t total) mutable {
      const auto now = std::chrono::steady_clock::now();
      if (now - last > std::chrono::milliseconds(200) || done == total) {
        last = now;
        std::fprintf(stderr, "\r%3llu %%  %llu of %llu requests%s",
                     static_cast<unsigned long long>(done * 100 / total),
                     static_cast<unsigned long long>(done), static_cast<unsigned long long>(total),
                     done == total ? "\n" : "");
      }
    };
  }
  return options;
}

std::atomic<bool> stop_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a handler may set nothing else

/// The first SIGINT or SIGTERM ends the run in order; a second one ends the process.
void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { stop_asked.store(true); };
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  for (const int signal : {SIGINT, SIGTERM}) {
    sigaction(signal, &action, nullptr);
  }
}

int fail(const Status& status) {
  std::fprintf(stderr, "troupe run: %s\n", status.text().c_str());
  return 2;
}

}  // namespace

int run_main(int argc, char** argv) {
  CLI::App app{"Serves a request trace on a virtual clock, with real blocks of bytes"};
  Arguments a;
  declare(app, a);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  auto config = effective_config(a);
  if (!config) {
    return fail(config.status());
  }
  auto options = options_of(a);
  if (!options) {
    return fail(options.status());
  }
  auto work = read_workload(a.trace, a.limit);
  if (!work) {
    return fail(work.status());
  }
  if (!a.json.empty() && a.json != "-" && !std::ofstream(a.json, std::ios::app)) {
    return fail(Status(Code::kIo, "cannot write " + a.json));  // said before the work is done
  }
  stop_on_signals();
  options->stop = &stop_asked;
  auto report = run_trace(*config, *work, *options);
  if (!report) {
    std::fprintf(stderr, "troupe run: %s\n", report.status().to_string().c_str());
    return report.status().code() == Code::kInternal ? 1 : 2;
  }
  report->config = a.config;
  if (a.json == "-") {
    std::fputs(report_json(*report).c_str(), stdout);
  } else {
    std::fputs(report_text(*report).c_str(), stdout);
    if (!a.json.empty()) {
      std::ofstream file(a.json);
      file << report_json(*report);
      if (!file.flush()) {
        return fail(Status(Code::kIo, "cannot write " + a.json));
      }
    }
  }
  return report->mismatches != 0 ? 1 : (report->interrupted ? 130 : 0);
}

}  // namespace troupe
