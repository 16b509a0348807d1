// `troupe trace`: looks into a recording without running it. Exit codes: 0 done; 1 something of the
// recording is damaged or missing, or grep found nothing; 2 bad input.
#include "apps/commands.h"
#include "apps/json/json_writer.h"
#include "apps/trace/records.h"
#include "apps/trace/timeline.h"
#include "runtime/core/routes.h"
#include "runtime/trace/divergence.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>

namespace troupe {
namespace {

struct Arguments {
  std::string directory;
  RecordFilter filter;
  uint64_t request = 0;
  uint64_t limit = 20;
  std::string format = "chrome";
  std::string out = "-";
  bool json = false;
};

int fail(const Status& status) {
  std::fprintf(stderr, "troupe trace: %s\n", status.text().c_str());
  return 2;
}

int tell(const std::vector<std::string>& notices) {
  for (const std::string& notice : notices) {
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  }
  return notices.empty() ? 0 : 1;
}

void write(JsonWriter& json, const LaneSummary& lane) {
  json.begin_object()
      .field("actor", lane.info.actor)
      .field("address", lane.info.address.v)
      .field("edge", lane.info.edge)
      .field("deliveries", lane.deliveries)
      .field("sent", lane.sent)
      .field("payload_bytes", lane.payload_bytes)
      .field("file_bytes", lane.file_bytes)
      .field("segments", lane.segments)
      .field("first_tick", lane.first_tick)
      .field("last_tick", lane.last_tick)
      .field("damaged", lane.problems.damaged)
      .field("missing", lane.problems.missing)
      .field("gaps", lane.problems.gaps)
      .field("cut", lane.problems.cut)
      .end_object();
}

int list(const std::vector<trace::LaneFiles>& lanes, const Arguments& a) {
  JsonWriter json;
  json.begin_object()
      .field("build", lanes.front().info.build_id)
      .field("recording", lanes.front().info.recording)
      .field("mode", lanes.front().info.edges_mode ? "edges" : "full");
  json.key("lanes").begin_array();
  if (!a.json) {
    std::printf("recording %016llx by %s, %s mode\n",
                static_cast<unsigned long long>(lanes.front().info.recording),
                lanes.front().info.build_id.c_str(),
                lanes.front().info.edges_mode ? "edges" : "full");
    std::printf("  %-24s %10s %10s %12s %9s %9s  %s\n", "actor", "deliveries", "sent", "bytes",
                "segments", "on disk", "state");
  }
  std::vector<std::string> notices;
  for (const trace::LaneFiles& files : lanes) {
    const LaneSummary lane = summarize(files);
    notices.insert(notices.end(), lane.problems.notices.begin(), lane.problems.notices.end());
    if (a.json) {
      write(json, lane);
      continue;
    }
    std::printf("  %-24s %10llu %10llu %12llu %9zu %9llu  %s\n", lane.info.actor.c_str(),
                static_cast<unsigned long long>(lane.deliveries),
                static_cast<unsigned long long>(lane.sent),
                static_cast<unsigned long long>(lane.payload_bytes), lane.segments,
                static_cast<unsigned long long>(lane.file_bytes),
                lane.problems.clean() ? "whole" : "not whole");
  }
  json.end_array().end_object();
  if (a.json) {
    std::fputs(json.take().c_str(), stdout);
  }
  return tell(notices);
}

void print_text(std::FILE* out, const std::vector<trace::LaneFiles>& lanes, const Delivered& d,
                size_t limit) {
  std::fprintf(
      out, "%s #%llu  %s from %s (its %llu, after its #%llu) at tick %lld\n", d.lane->actor.c_str(),
      static_cast<unsigned long long>(d.seq), kind_name(d.header.kind).c_str(),
      actor_name(lanes, d.header.from).c_str(), static_cast<unsigned long long>(d.header.seq),
      static_cast<unsigned long long>(d.header.cause), static_cast<long long>(d.header.tick.ns));
  if (d.has_payload) {
    std::fprintf(out, "    %s\n", trace::message_text(d.payload, limit).c_str());
  }
}

std::string json_of(const std::vector<trace::LaneFiles>& lanes, const Delivered& d) {
  JsonWriter json;
  json.begin_object()
      .field("actor", d.lane->actor)
      .field("delivery", d.seq)
      .field("kind", kind_name(d.header.kind))
      .field("from", actor_name(lanes, d.header.from))
      .field("from_seq", d.header.seq)
      .field("cause", d.header.cause)
      .field("tick", d.header.tick.ns)
      .field("bytes", d.payload.size_bytes());
  if (d.has_payload) {
    json.field("message", trace::message_text(d.payload, 1U << 20));
  }
  return json.end_object().take();
}

/// Prints deliveries that pass, at most `limit` of them. Returns how many passed.
uint64_t print_records(const std::vector<trace::LaneFiles>& lanes, const Arguments& a,
                       std::FILE* out, bool json, uint64_t limit,
                       std::vector<std::string>& notices) {
  uint64_t shown = 0;
  std::fputs(json ? "[\n" : "", out);
  notices = walk_records(lanes, a.filter, [&](const Delivered& d) {
    if (shown == limit) {
      return false;
    }
    if (json) {
      std::fprintf(out, "%s%s", shown == 0 ? "" : ",\n", json_of(lanes, d).c_str());
    } else {
      print_text(out, lanes, d, 4000);
    }
    ++shown;
    return std::ferror(out) == 0;
  });
  std::fputs(json ? "]\n" : "", out);
  return shown;
}

int show(const std::vector<trace::LaneFiles>& lanes, const Arguments& a, bool search) {
  std::vector<std::string> notices;
  const uint64_t shown = print_records(lanes, a, stdout, a.json, a.limit, notices);
  if (shown == a.limit && !a.json) {
    std::fprintf(stderr, "the first %llu only; --limit shows more\n",
                 static_cast<unsigned long long>(shown));
  }
  const int code = tell(notices);
  return search && shown == 0 ? 1 : code;
}

int export_to(const std::vector<trace::LaneFiles>& lanes, const Arguments& a) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, std::fclose);
  if (a.out != "-") {
    file.reset(std::fopen(a.out.c_str(), "wb"));
    if (file == nullptr) {
      return fail(Status(Code::kIo, "can't write " + a.out));
    }
  }
  std::FILE* out = file == nullptr ? stdout : file.get();
  std::vector<std::string> notices;
  if (a.format == "chrome") {
    if (const Status written = write_timeline(lanes, out, notices); !written) {
      return fail(Status(Code::kIo, a.out + ": " + written.text()));
    }
  } else {
    (void)print_records(lanes, a, out, a.format == "json", UINT64_MAX, notices);
    if (std::fflush(out) != 0 || std::ferror(out) != 0) {
      return fail(Status(Code::kIo, a.out + ": could not be written"));
    }
  }
  return tell(notices);
}

/// `--actor` and `--kind` are names of the recording, or an error that lists what there is.
Status check_filter(const std::vector<trace::LaneFiles>& lanes, const RecordFilter& filter) {
  std::string names;
  for (const trace::LaneFiles& files : lanes) {
    if (filter.actor.empty() || files.info.actor == filter.actor) {
      return Status::ok();
    }
    names += " " + files.info.actor;
  }
  return Status(Code::kNotFound, "no actor \"" + filter.actor + "\"; there are:" + names);
}

void declare_filter(CLI::App* app, Arguments& a) {
  app->add_option("--actor", a.filter.actor, "of this actor only");
  app->add_option("--kind", a.filter.kind, "of this kind only, as in the schema: stepDone");
  app->add_option("--from", a.filter.from, "from this delivery of a lane on, from 1");
  app->add_option("--to", a.filter.to, "up to this one");
}

}  // namespace

int trace_main(int argc, char** argv) {
  CLI::App app{"Looks into a recording: lanes, messages, a timeline"};
  Arguments a;
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* what) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->add_option("DIR", a.directory, "directory that troupe run --record wrote")->required();
    return sub;
  };
  CLI::App* ls = add("ls", "the lanes, with counts and what is damaged");
  CLI::App* show_cmd = add("show", "messages as text");
  CLI::App* grep = add("grep", "deliveries whose kind or text contains TEXT");
  CLI::App* out = add("export", "all of it as text, json or a chrome timeline");
  auto* text = grep->add_option("TEXT", a.filter.text, "what to look for");
  grep->add_option("--request", a.request, "messages that name this request")->excludes(text);
  out->add_option("--format", a.format, "chrome: a timeline for ui.perfetto.dev; text; json")
      ->check(CLI::IsMember({"chrome", "text", "json"}));
  out->add_option("--out", a.out, "file; - for standard output");
  for (CLI::App* sub : {show_cmd, grep, out}) {
    declare_filter(sub, a);
  }
  for (CLI::App* sub : {show_cmd, grep}) {
    sub->add_option("--limit", a.limit, "at most so many")->check(CLI::PositiveNumber);
  }
  for (CLI::App* sub : {ls, show_cmd, grep}) {
    sub->add_flag("--json", a.json, "JSON on standard output");
  }
  app.footer(
      "Example:\n  troupe trace ls /tmp/lanes\n"
      "  troupe trace show /tmp/lanes --actor allocator --from 100 --to 104\n"
      "  troupe trace grep /tmp/lanes --request 17\n"
      "  troupe trace export /tmp/lanes --out timeline.json     (open it in ui.perfetto.dev)\n"
      "Exit codes: 0 done, 1 something is damaged or grep found nothing, 2 bad input.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  if (grep->parsed() && a.request != 0) {
    a.filter.text = "request = " + std::to_string(a.request) + ",";
  }
  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(a.directory, {}, notices);
  const int listed = tell(notices);
  if (!lanes) {
    return fail(lanes.status());
  }
  if (const Status known = check_filter(*lanes, a.filter); !known) {
    return fail(known);
  }
  const int code = ls->parsed()    ? list(*lanes, a)
                   : out->parsed() ? export_to(*lanes, a)
                                   : show(*lanes, a, grep->parsed());
  return code == 0 ? listed : code;
}

}  // namespace troupe
