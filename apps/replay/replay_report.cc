#include "apps/replay/replay_report.h"

#include "apps/json/append_text.h"
#include "apps/json/json_writer.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace troupe {
namespace {

std::string hex(uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

void add_lane_row(std::string& out, const replay::LaneReport& lane) {
  append_text(out, "  %-24s %10" PRIu64 " %10" PRIu64 " %8" PRIu64 "  %s  %s\n", lane.actor.c_str(),
              lane.counts.deliveries, lane.counts.outputs, lane.counts.states,
              hex(lane.digest).c_str(),
              !lane.check            ? ("broken: " + lane.check.text()).c_str()
              : lane.stopped.empty() ? "ok"
                                     : lane.stopped.c_str());
}

constexpr const char* kLaneTitles =
    "  actor                    deliveries   messages   states  digest            \n";

void write(JsonWriter& json, const trace::Divergence& divergence) {
  json.begin_object()
      .field("actor", divergence.actor)
      .field("delivery", divergence.seq)
      .field("kind", kind_name(divergence.kind))
      .field("what", divergence.what)
      .field("field", divergence.field.field)
      .field("expected", divergence.field.expected)
      .field("got", divergence.field.got)
      .end_object();
}

void write(JsonWriter& json, const replay::LaneReport& lane) {
  json.begin_object()
      .field("actor", lane.actor)
      .field("complete", lane.complete)
      .field("deliveries", lane.counts.deliveries)
      .field("messages", lane.counts.outputs)
      .field("states", lane.counts.states)
      .field("unconfirmed", lane.counts.unconfirmed)
      .field("divergences", lane.divergence ? 1 : 0)
      .field("digest_equal", lane.complete && lane.counts.states > 0)
      .field("digest", hex(lane.digest))
      .field("stopped", lane.stopped)
      .field("invariants", lane.check ? std::string("ok") : lane.check.text())
      .field("damaged", lane.problems.damaged)
      .field("missing", lane.problems.missing)
      .field("cut", lane.problems.cut);
  json.key("notices").begin_array();
  for (const std::string& notice : lane.problems.notices) {
    json.value(notice);
  }
  json.end_array();
  if (lane.divergence) {
    json.key("divergence");
    write(json, *lane.divergence);
  }
  json.end_object();
}

/// Every actor's state at its end was compared, and is the recorded one.
bool digests_equal(const replay::SystemReport& report) {
  return report.complete && std::all_of(report.lanes.begin(), report.lanes.end(),
                                        [](const auto& lane) { return lane.counts.states > 0; });
}

}  // namespace

std::string system_text(const replay::SystemReport& report, double seconds) {
  std::string out = kLaneTitles;
  for (const replay::LaneReport& lane : report.lanes) {
    add_lane_row(out, lane);
  }
  for (const std::string& notice : report.notices) {
    out += "notice: " + notice + "\n";
  }
  append_text(out,
              "%" PRIu64 " deliveries replayed in %.3f s, %" PRIu64 " messages compared, %" PRIu64
              " not reached, %" PRIu64 " left in flight\n",
              report.deliveries, seconds, report.outputs, report.not_replayed, report.in_flight);
  if (report.divergence) {
    out += "DIVERGED: " + report.divergence->text() + "\n";
  } else {
    append_text(out, "%s, digest %s\n",
                report.complete ? "equal to the recording" : "equal as far as the recording goes",
                hex(report.digest).c_str());
  }
  return out;
}

std::string system_json(const replay::SystemReport& report, double seconds) {
  JsonWriter json;
  json.begin_object()
      .field("complete", report.complete)
      .field("deliveries", report.deliveries)
      .field("messages", report.outputs)
      .field("not_replayed", report.not_replayed)
      .field("in_flight", report.in_flight)
      .field("divergences", report.divergence ? 1 : 0)
      .field("digest_equal", digests_equal(report))
      .field("digest", hex(report.digest))
      .field("seconds", seconds);
  if (report.divergence) {
    json.key("divergence");
    write(json, *report.divergence);
  }
  json.key("lanes").begin_array();
  for (const replay::LaneReport& lane : report.lanes) {
    write(json, lane);
  }
  return json.end_array().end_object().take();
}

std::string lane_text(const replay::LaneReport& report) {
  std::string out = kLaneTitles;
  add_lane_row(out, report);
  for (const std::string& notice : report.problems.notices) {
    out += "notice: " + notice + "\n";
  }
  if (report.divergence) {
    out += "DIVERGED: " + report.divergence->text() + "\n";
  } else {
    out += report.complete ? "equal to the recording\n" : "equal as far as it was replayed\n";
  }
  return out;
}

std::string lane_json(const replay::LaneReport& report) {
  JsonWriter json;
  write(json, report);
  return json.take();
}

std::string comparison_text(const std::vector<replay::LaneComparison>& rows) {
  std::string out;
  for (const replay::LaneComparison& row : rows) {
    append_text(out, "  %-24s %10" PRIu64 " deliveries equal%s%s\n", row.actor.c_str(), row.same,
                row.note.empty() ? "" : ", then ", row.note.c_str());
    if (row.divergence) {
      out += "    DIFFERS: " + row.divergence->text() + "\n";
    }
  }
  return out;
}

std::string comparison_json(const std::vector<replay::LaneComparison>& rows) {
  JsonWriter json;
  json.begin_object().key("lanes").begin_array();
  for (const replay::LaneComparison& row : rows) {
    json.begin_object().field("actor", row.actor).field("same", row.same).field("note", row.note);
    if (row.divergence) {
      json.key("divergence");
      write(json, *row.divergence);
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

}  // namespace troupe
