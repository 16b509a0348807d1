// `troupe replay`: runs a recording through fresh cores and says whether all came out as it did
// then. Exit codes: 0 all equal; 1 something differs or the recording is not whole; 2 bad input.
#include "apps/commands.h"
#include "apps/replay/replay_report.h"
#include "apps/run/assembly.h"
#include "runtime/trace/build_id.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace troupe {
namespace {

struct Arguments {
  std::string directory;
  std::string actor;
  uint64_t until = 0;
  bool dump = false;
  std::string diff;
  std::vector<std::string> policies;
  bool json = false;
};

/// Policies that a recording may use: those of this installation by name, and libraries that the
/// user named. A recording is untrusted input and must not choose what is loaded.
class TrustedRegistry final : public policy::Registry {
 public:
  explicit TrustedRegistry(std::vector<std::string> paths)
      : under_(make_registry()), paths_(std::move(paths)) {}
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t seed,
      std::string_view params) const override {
    TROUPE_TRY(trusts(name));
    return under_->make_eviction(name, capacity, seed, params);
  }
  Expected<std::unique_ptr<policy::Ghost>> make_ghost(std::string_view name, uint32_t capacity,
                                                      uint64_t seed,
                                                      std::string_view params) const override {
    TROUPE_TRY(trusts(name));
    return under_->make_ghost(name, capacity, seed, params);
  }

 private:
  Status trusts(std::string_view name) const {
    const bool is_path = name.find('/') != std::string_view::npos;
    return is_path && std::find(paths_.begin(), paths_.end(), name) == paths_.end()
               ? Status(Code::kInvalidArgument,
                        "the recording uses the library " + std::string(name) +
                            ", which is not loaded on its word; if you trust it: --policy " +
                            std::string(name))
               : Status::ok();
  }

  std::unique_ptr<policy::Registry> under_;
  std::vector<std::string> paths_;
};

/// The cores of a recording, as new.
struct Cores {
  explicit Cores(std::vector<std::string> paths) : registry(std::move(paths)) {}
  TrustedRegistry registry;
  Troupe troupe;
};
Expected<std::unique_ptr<Cores>> build_cores(const trace::LaneInfo& info, const Arguments& a) {
  const auto config = parse_config(info.config, "the recording's configuration");
  if (!config) {
    return config.status();
  }
  if (config->block_tokens == 0) {
    return Status(Code::kInvalidArgument, "the recording's configuration has no block_tokens");
  }
  auto cores = std::make_unique<Cores>(a.policies);
  auto troupe = build_replay_troupe(*config, cores->registry);
  if (!troupe) {
    return troupe.status();
  }
  cores->troupe = std::move(*troupe);
  return cores;
}

int fail(const Status& status) {
  std::fprintf(stderr, "troupe replay: %s\n", status.text().c_str());
  return 2;
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
}

/// The lanes of a directory; what was left out is said.
Expected<std::vector<trace::LaneFiles>> open_recording(const std::string& directory) {
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(directory, {}, notices);
  for (const std::string& notice : notices) {
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  }
  const std::string mine = trace::program_id();
  if (lanes && lanes->front().info.build_id.find(mine) == std::string::npos) {
    std::fprintf(stderr, "notice: recorded by another build (%s); this one is %s\n",
                 lanes->front().info.build_id.c_str(), mine.c_str());
  }
  return lanes;
}

int replay_whole(const std::vector<trace::LaneFiles>& lanes, const Arguments& a) {
  auto cores = build_cores(lanes.front().info, a);
  if (!cores) {
    return fail(cores.status());
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto report = replay::replay_system(lanes, {}, (*cores)->troupe);
  if (!report) {
    return fail(report.status());
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  print(a.json ? system_json(*report, seconds) : system_text(*report, seconds));
  return report->complete ? 0 : 1;
}

/// Prints what went into the step and what came out of it.
void dump_step(uint64_t seq, const Frame& in, const std::vector<Outgoing>& out) {
  const FrameHeader& header = in.header();
  std::printf("delivery %llu from actor %u, its message %llu, at tick %lld:\n%s\n",
              static_cast<unsigned long long>(seq), header.from.v,
              static_cast<unsigned long long>(header.seq), static_cast<long long>(header.tick.ns),
              trace::message_text(in.words()).c_str());
  for (const Outgoing& message : out) {
    std::printf("sends %s (instance %u):\n%s\n", kind_name(message.kind).c_str(), message.instance,
                trace::message_text(message.frame.words()).c_str());
  }
  if (out.empty()) {
    std::printf("sends nothing\n");
  }
}

int replay_actor(const std::vector<trace::LaneFiles>& lanes, const Arguments& a) {
  auto cores = build_cores(lanes.front().info, a);
  if (!cores) {
    return fail(cores.status());
  }
  for (const trace::LaneFiles& files : lanes) {
    if (files.info.actor != a.actor) {
      continue;
    }
    Actor* actor = nullptr;
    for (const Member& member : (*cores)->troupe.members) {
      actor = member.address == files.info.address ? member.actor.get() : actor;
    }
    if (files.info.edge || actor == nullptr) {
      return fail(Status(Code::kInvalidArgument,
                         a.actor + " is the client or a mover: its effects can't be replayed"));
    }
    replay::LaneReplayOptions options;
    options.until = a.until != 0 ? a.until : options.until;
    if (a.dump) {
      options.on_step = [&](uint64_t seq, const Frame& in, const std::vector<Outgoing>& out) {
        if (seq == a.until) {
          dump_step(seq, in, out);
        }
      };
    }
    trace::LaneReader reader(files, {});
    const replay::LaneReport report =
        replay::replay_lane(reader, *actor, replay::LaneSearch(lanes, {}), options);
    print(a.json ? lane_json(report) : lane_text(report));
    const bool as_asked = a.until != 0 && report.counts.deliveries == a.until;
    return report.complete || (as_asked && !report.divergence && report.check) ? 0 : 1;
  }
  std::string names;
  for (const trace::LaneFiles& files : lanes) {
    names += files.info.edge ? "" : " " + files.info.actor;
  }
  return fail(Status(Code::kNotFound,
                     "no actor \"" + a.actor + "\" in " + a.directory + "; there are:" + names));
}

int compare(const std::vector<trace::LaneFiles>& lanes, const Arguments& a) {
  const auto others = open_recording(a.diff);
  if (!others) {
    return fail(others.status());
  }
  const auto rows = replay::compare_recordings(lanes, *others, {});
  print(a.json ? comparison_json(rows) : comparison_text(rows));
  for (const replay::LaneComparison& row : rows) {
    if (row.divergence || !row.note.empty()) {
      return 1;
    }
  }
  return 0;
}

}  // namespace

int replay_main(int argc, char** argv) {
  CLI::App app{"Runs a recording through fresh cores and compares every step"};
  Arguments a;
  app.add_option("DIR", a.directory, "directory that troupe run --record wrote")->required();
  auto* actor = app.add_option("--actor", a.actor, "only this actor, from its own lane");
  auto* until = app.add_option("--until", a.until, "last delivery of that actor to replay, from 1")
                    ->needs(actor)
                    ->check(CLI::PositiveNumber);
  app.add_flag("--dump", a.dump, "print that last step: the message and what it led to")
      ->needs(until);
  app.add_option("--diff", a.diff, "replay nothing: compare with this other recording")
      ->excludes(actor);
  app.add_option("--policy", a.policies,
                 "path of a policy library that the recording uses and you trust");
  app.add_flag("--json", a.json, "JSON on standard output");
  app.footer(
      "Example:\n  troupe run --trace trace.jsonl --record /tmp/lanes\n"
      "  troupe replay /tmp/lanes\n"
      "  troupe replay /tmp/lanes --actor allocator --until 120 --dump\n"
      "Exit codes: 0 all equal, 1 something differs or the recording is not whole, 2 bad "
      "input.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  const auto lanes = open_recording(a.directory);
  if (!lanes) {
    return fail(lanes.status());
  }
  if (!a.diff.empty()) {
    return compare(*lanes, a);
  }
  return a.actor.empty() ? replay_whole(*lanes, a) : replay_actor(*lanes, a);
}

}  // namespace troupe
