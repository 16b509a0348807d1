#include "apps/lab/report.h"

#include "apps/json/append_text.h"

#include <cinttypes>
#include <cstdio>
#include <unordered_map>

namespace troupe::lab {
namespace {

double token_hit_ratio(const Trace& trace, const Result& r) {
  double tokens = 0;
  for (size_t q = 0; q < trace.requests(); ++q) {
    tokens += trace.input_tokens[q];
  }
  return tokens > 0
             ? std::min(1.0, static_cast<double>(r.counts.hits) * trace.block_tokens / tokens)
             : 0;
}

constexpr size_t kRequestsTogether = 32;

// Hits of every session, in order of first appearance; where a trace names none, of every 32
// requests in a row. For intervals that take a session's requests as one draw.
void append_sessions(std::string& out, const Trace& trace, const Counts& counts) {
  std::unordered_map<int64_t, size_t> place;
  std::vector<uint64_t> hits;
  for (size_t q = 0; q < trace.requests(); ++q) {
    const int64_t id = trace.sessions[q] >= 0 ? trace.sessions[q]
                                              : -1 - static_cast<int64_t>(q / kRequestsTogether);
    const auto [found, fresh] = place.emplace(id, hits.size());
    if (fresh) {
      hits.push_back(0);
    }
    hits[found->second] += counts.hits_of[q];
  }
  out += ", \"session_hits\": [";
  for (size_t i = 0; i < hits.size(); ++i) {
    append_text(out, "%s%" PRIu64, i == 0 ? "" : ", ", hits[i]);
  }
  out += "]";
}

}  // namespace

const char* semantics_name(Semantics semantics) {
  return semantics == Semantics::kPrefix ? "prefix" : "object";
}

std::string table(const Trace& trace, const Plan& plan, const std::vector<Result>& results) {
  std::string out;
  append_text(out, "%s: %zu requests, %zu accesses, %u unique blocks of %u tokens; %s semantics\n",
              trace.path.c_str(), trace.requests(), trace.ids.size(), trace.unique,
              trace.block_tokens, semantics_name(plan.semantics));
  for (const Size& size : plan.sizes) {
    const Result* best = nullptr;
    for (const Result& r : results) {
      if (r.size.blocks == size.blocks && r.error.empty() && r.policy != "opt" &&
          (best == nullptr || r.counts.hits > best->counts.hits)) {
        best = &r;
      }
    }
    append_text(out, "\n%u blocks (%.3g%%)\n  %-22s %9s %7s %9s %9s %9s %9s %8s\n", size.blocks,
                size.fraction * 100, "policy", "hits %", "+/-", "prefill-%", "p99@8 s", "p99@32 s",
                "evicted", "ns/acc");
    for (const Result& r : results) {
      if (r.size.blocks != size.blocks) {
        continue;
      }
      if (!r.error.empty()) {
        append_text(out, "  %-22s failed: %.400s\n", r.policy.c_str(), r.error.c_str());
        continue;
      }
      append_text(out, "%c %-22s %9.3f %7.2f %9.2f", &r == best ? '*' : ' ', r.policy.c_str(),
                  100 * r.hit_ratio(), 100 * r.slice_error, 100 * r.prefill_saved);
      for (const double ms : {r.ttft_ms_8, r.ttft_ms_32}) {
        if (ms < 0) {
          append_text(out, " %9s", "-");
        } else {
          append_text(out, " %9.2f", ms / 1000);
        }
      }
      append_text(out, " %9" PRIu64 " %8.1f\n", r.counts.evictions, r.ns_per_access);
    }
  }
  out +=
      "\n* best online policy of the size; hits in percent of block accesses, +/- standard error "
      "over\n"
      "  slices of the trace; prefill-%: prefill time saved; p99: modelled time to first token "
      "with 8\n"
      "  and 32 requests in flight\n";
  return out;
}

std::string json_escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      append_text(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out.push_back(c);
    }
  }
  return out;
}

std::string json(const Trace& trace, const Plan& plan, const std::vector<Result>& results) {
  std::string out;
  out += "{\n  \"trace\": \"" + json_escaped(trace.path) + "\",\n";
  append_text(out,
              "  \"requests\": %zu,\n  \"accesses\": %zu,\n  \"unique_blocks\": %u,\n"
              "  \"block_tokens\": %u,\n  \"semantics\": \"%s\",\n  \"seed\": %" PRIu64
              ",\n  \"results\": [",
              trace.requests(), trace.ids.size(), trace.unique, trace.block_tokens,
              semantics_name(plan.semantics), plan.seed);
  bool first = true;
  for (const Result& r : results) {
    out += first ? "\n" : ",\n";
    first = false;
    out += "    {\"policy\": \"" + json_escaped(r.policy) + "\"";
    append_text(out, ", \"semantics\": \"%s\", \"size_blocks\": %u, \"size_fraction\": %.9g",
                semantics_name(plan.semantics), r.size.blocks, r.size.fraction);
    if (!r.error.empty()) {
      out += ", \"error\": \"" + json_escaped(r.error) + "\"}";
      continue;
    }
    append_text(out,
                ", \"accesses\": %" PRIu64 ", \"hits\": %" PRIu64 ", \"misses\": %" PRIu64
                ", \"hit_ratio\": %.9g, \"hit_ratio_error\": %.6g, \"token_hit_ratio\": %.9g"
                ", \"evictions\": %" PRIu64 ", \"over_evicted\": %" PRIu64
                ", \"uncached\": %" PRIu64
                ", \"bytes_below\": %.0f, \"prefill_saved\": %.9g, \"ns_per_access\": %.3f",
                r.counts.accesses, r.counts.hits, r.counts.accesses - r.counts.hits, r.hit_ratio(),
                r.slice_error, token_hit_ratio(trace, r), r.counts.evictions, r.counts.over_evicted,
                r.counts.uncached, r.bytes_below, r.prefill_saved, r.ns_per_access);
    if (r.ttft_ms_8 >= 0) {
      append_text(out, ", \"ttft_p99_ms_8\": %.3f, \"ttft_p99_ms_32\": %.3f", r.ttft_ms_8,
                  r.ttft_ms_32);
    }
    if (plan.sessions) {
      append_sessions(out, trace, r.counts);
    }
    out += "}";
  }
  out += "\n  ]\n}\n";
  return out;
}

}  // namespace troupe::lab
