// The part of a run's report on policies: what an operator did, and what the slots did by
// themselves.
#include "apps/json/append_text.h"
#include "apps/run/report_parts.h"

#include <algorithm>
#include <string_view>

namespace troupe {

namespace {

/// One line an understudy, from the gauges of the last status.
void add_understudies_text(std::string& out, const RunReport& r) {
  constexpr std::string_view kPrefix = "understudy.";
  for (const auto& [name, blocks] : r.gauges) {
    if (!name.starts_with(kPrefix) || !name.ends_with(".blocks")) {
      continue;
    }
    const std::string one = name.substr(kPrefix.size(), name.size() - kPrefix.size() - 7);
    const auto figure = [&](const char* what) {
      const auto found = r.gauges.find(std::string(kPrefix) + one + what);
      return found == r.gauges.end() ? -1LL : static_cast<long long>(found->second);
    };
    if (figure(".hits") < 0) {
      append_text(out, "  understudy %-7s no figure: %s\n", one.c_str(),
                  figure(".failed") == 1 ? "its policy gave a wrong answer"
                                         : "it could not follow every lookup");
      continue;
    }
    append_text(out, "  understudy %-7s %.2f %% of blocks (%lld of %lld) with %lld blocks",
                one.c_str(),
                100.0 * static_cast<double>(figure(".hits")) /
                    static_cast<double>(std::max(1LL, figure(".accesses"))),
                figure(".hits"), figure(".accesses"), static_cast<long long>(blocks));
    if (figure(".one_in") > 1) {
      append_text(out, ", one in %lld sessions", figure(".one_in"));
    }
    out += "\n";
  }
}

}  // namespace

void add_operator_text(std::string& out, const RunReport& r) {
  const OperatorFacts& o = r.operated;
  if (o.swaps > 0) {
    append_text(out, "  policy swaps       %llu, %llu failed; p50 %.1f p99 %.1f us each%s%s\n",
                static_cast<unsigned long long>(o.swaps),
                static_cast<unsigned long long>(o.swaps_failed), quantile(o.swap_us, 0.5),
                quantile(o.swap_us, 0.99),
                o.swap_error.empty() ? "" : "; last error: ", o.swap_error.c_str());
  }
  if (!r.changing_us.empty()) {
    append_text(out,
                "  control time then  p50 %.1f   p99 %.1f us a step, %zu steps while a policy "
                "changed\n",
                quantile(r.changing_us, 0.5), quantile(r.changing_us, 0.99), r.changing_us.size());
  }
  for (const OperatorFacts::Done& d : o.commands) {
    append_text(out, "  at %-8llu        %s: %s%s (%.0f us)\n",
                static_cast<unsigned long long>(d.replies), d.command.c_str(),
                d.ok ? "done" : "refused, ", d.ok ? "" : d.text.c_str(), d.us);
    if (d.command == "policies") {
      for (const auto& [name, value] : d.gauges) {
        append_text(out, "    %s %lld\n", name.c_str(), static_cast<long long>(value));
      }
    }
  }
  add_understudies_text(out, r);
  for (const OperatorFacts::Change& c : o.listed) {
    append_text(out, "  policy changed     %s: %s -> %s (%s%s%s) after %llu replies\n",
                c.slot.c_str(), c.from.c_str(), c.to.c_str(), c.cause.c_str(),
                c.why.empty() ? "" : ": ", c.why.c_str(),
                static_cast<unsigned long long>(c.replies));
  }
}

void write_operator(JsonWriter& json, const RunReport& r) {
  const OperatorFacts& o = r.operated;
  json.field("swaps", o.swaps).field("swaps_failed", o.swaps_failed);
  write_quantiles(json, "swap_us", o.swap_us);
  write_quantiles(json, "control_us_per_step_changing", r.changing_us);
  json.key("policies").begin_object();
  json.field("changes", o.changes).field("changes_undecided", o.changes_undecided);
  json.key("listed").begin_array();
  for (const OperatorFacts::Change& c : o.listed) {
    json.begin_object();
    json.field("replies", c.replies).field("slot", c.slot).field("from", c.from);
    json.field("to", c.to).field("cause", c.cause).field("why", c.why);
    json.field("generation", c.generation).field("decided", c.decided).end_object();
  }
  json.end_array().key("commands").begin_array();
  for (const OperatorFacts::Done& d : o.commands) {
    json.begin_object();
    json.field("replies", d.replies).field("command", d.command).field("ok", d.ok);
    json.field("text", d.text).field("us", d.us).key("gauges").begin_object();
    for (const auto& [name, value] : d.gauges) {
      json.field(name, value);
    }
    json.end_object().end_object();
  }
  json.end_array().end_object();
}

}  // namespace troupe
