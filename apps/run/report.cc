// The report of a run as a table and as JSON.
#include "apps/json/append_text.h"
#include "apps/run/report_parts.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace troupe {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

void write_totals(JsonWriter& json, const RunTotals& t) {
  json.field("requests", t.requests);
  json.field("completed", t.completed);
  json.field("refused", t.refused);
  json.field("cancelled", t.cancelled);
  json.field("prompt_tokens", t.prompt_tokens);
  json.field("generated_tokens", t.generated_tokens);
  json.field("computed_tokens", t.computed_tokens);
  json.field("reused_tokens", t.reused_tokens);
  json.field("prefix_query_blocks", t.prefix_query_blocks);
  json.field("prefix_hit_blocks", t.prefix_hit_blocks);
  json.field("partial_hit_tokens", t.partial_hit_tokens);
  json.field("preemptions", t.preemptions);
  json.field("hit_ratio_blocks", ratio(t.prefix_hit_blocks, t.prefix_query_blocks));
  json.field("hit_ratio_tokens", ratio(t.reused_tokens, t.prompt_tokens));
  write_quantiles(json, "ttft_ms", t.ttft_ms);
  write_quantiles(json, "tpot_ms", t.tpot_ms);
}

void add_totals_text(std::string& out, const RunTotals& t) {
  append_text(
      out, "  requests           %llu: %llu completed, %llu refused, %llu cancelled\n",
      static_cast<unsigned long long>(t.requests), static_cast<unsigned long long>(t.completed),
      static_cast<unsigned long long>(t.refused), static_cast<unsigned long long>(t.cancelled));
  append_text(out, "  tokens             %llu prompt, %llu generated\n",
              static_cast<unsigned long long>(t.prompt_tokens),
              static_cast<unsigned long long>(t.generated_tokens));
  append_text(out,
              "  prefix hits        %.2f %% of blocks (%llu of %llu), %.2f %% of prompt tokens\n",
              100 * ratio(t.prefix_hit_blocks, t.prefix_query_blocks),
              static_cast<unsigned long long>(t.prefix_hit_blocks),
              static_cast<unsigned long long>(t.prefix_query_blocks),
              100 * ratio(t.reused_tokens, t.prompt_tokens));
  append_text(out, "  prefill saved      %llu tokens (%llu of them within a block)\n",
              static_cast<unsigned long long>(t.reused_tokens),
              static_cast<unsigned long long>(t.partial_hit_tokens));
  append_text(out, "  TTFT ms            p50 %.1f   p90 %.1f   p99 %.1f\n",
              quantile(t.ttft_ms, 0.5), quantile(t.ttft_ms, 0.9), quantile(t.ttft_ms, 0.99));
  if (!t.tpot_ms.empty()) {
    append_text(out, "  per output token   p50 %.2f   p90 %.2f   p99 %.2f ms\n",
                quantile(t.tpot_ms, 0.5), quantile(t.tpot_ms, 0.9), quantile(t.tpot_ms, 0.99));
  }
}

}  // namespace

void write_quantiles(JsonWriter& json, const char* key, const std::vector<double>& values) {
  json.key(key).begin_object();
  json.field("p50", quantile(values, 0.5));
  json.field("p90", quantile(values, 0.9));
  json.field("p99", quantile(values, 0.99));
  json.end_object();
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(rank), values.end());
  return values[rank];
}

namespace {

/// The tenants with most requests; all of them stand in the JSON.
void add_tenants_text(std::string& out, const RunReport& r) {
  constexpr size_t kShown = 16;
  if (r.tenants.size() <= 1) {
    return;
  }
  std::vector<std::pair<const std::string*, const RunTotals*>> rows;
  for (const auto& [name, totals] : r.tenants) {
    rows.emplace_back(&name, &totals);
  }
  if (rows.size() > kShown) {
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
      return a.second->requests > b.second->requests;
    });
    rows.resize(kShown);
  }
  for (const auto& [name, totals] : rows) {
    append_text(out, "tenant %s\n", name->c_str());
    add_totals_text(out, *totals);
  }
  if (r.tenants.size() > kShown) {
    append_text(out, "and %zu tenants with fewer requests: --json has them all\n",
                r.tenants.size() - kShown);
  }
}

uint64_t gauge_of(const RunReport& r, const char* name) {
  const auto found = r.gauges.find(name);
  return found == r.gauges.end() ? 0 : static_cast<uint64_t>(found->second);
}

void add_disk_text(std::string& out, const RunReport& r) {
  if (r.disk.backend.empty()) {
    return;
  }
  append_text(out,
              "  disk               %s: %.2f GiB written, %.2f read here; %llu I/O errors, %llu "
              "corrupt, %llu without space%s%s\n",
              r.disk.backend.c_str(),
              static_cast<double>(r.disk.store.write_bytes) / (1ULL << 30),
              static_cast<double>(r.disk.store.read_bytes) / (1ULL << 30),
              static_cast<unsigned long long>(r.disk.store.io_errors),
              static_cast<unsigned long long>(r.disk.store.corrupt),
              static_cast<unsigned long long>(r.disk.store.no_space),
              r.disk.note.empty() ? "" : "; ", r.disk.note.c_str());
  append_text(out,
              "  disk writes        %.3f of its capacity a day; %llu blocks not admitted, %llu "
              "over the day's budget\n",
              drive_writes_per_day(r),
              static_cast<unsigned long long>(gauge_of(r, "tiering.unwritten")),
              static_cast<unsigned long long>(gauge_of(r, "tiering.over_budget")));
  const PrefetchFigures p = prefetch_figures(r);
  append_text(out,
              "  prefetch           %llu blocks; precision %.1f %%, recall %.1f %%, %.2f GiB "
              "wasted\n",
              static_cast<unsigned long long>(p.blocks), 100 * p.precision, 100 * p.recall,
              static_cast<double>(p.wasted_bytes) / (1ULL << 30));
}

}  // namespace

PrefetchFigures prefetch_figures(const RunReport& r) {
  PrefetchFigures p;
  p.blocks = gauge_of(r, "prefix_index.stage_came");
  const uint64_t used = gauge_of(r, "prefix_index.stage_used");
  p.precision = ratio(used, p.blocks);
  p.recall = ratio(used, used + gauge_of(r, "prefix_index.stage_missed"));
  p.wasted_bytes = (p.blocks - std::min(used, p.blocks)) * r.true_block_bytes;
  return p;
}

double drive_writes_per_day(const RunReport& r) {
  constexpr double kDay = 86400;
  return r.virtual_s > 0 ? ratio(r.disk.store.writes, r.disk_blocks) * kDay / r.virtual_s : 0;
}

std::string report_text(const RunReport& r) {
  std::string out;
  append_text(out, "%s on %s, %s (%s dispatcher)\n", r.model.c_str(), r.gpu.c_str(),
              r.trace.c_str(), r.dispatcher.c_str());
  add_totals_text(out, r.all);
  append_text(out, "  evictions          %llu blocks, %llu preemptions, %llu copied on write\n",
              static_cast<unsigned long long>(r.evictions),
              static_cast<unsigned long long>(r.all.preemptions),
              static_cast<unsigned long long>(r.copied_blocks));
  append_text(out,
              "  tiers (blocks)     device %llu, host %llu, disk %llu; demoted %llu, loaded %llu\n",
              static_cast<unsigned long long>(r.device_blocks),
              static_cast<unsigned long long>(r.host_blocks),
              static_cast<unsigned long long>(r.disk_blocks),
              static_cast<unsigned long long>(r.demoted_blocks),
              static_cast<unsigned long long>(r.loaded_blocks));
  append_text(
      out,
      "  moved              %.2f GiB down, %.2f GiB up (true layout; %llu bytes a block, %llu "
      "here)\n",
      static_cast<double>(r.demoted_blocks * r.true_block_bytes) / (1ULL << 30),
      static_cast<double>(r.loaded_blocks * r.true_block_bytes) / (1ULL << 30),
      static_cast<unsigned long long>(r.true_block_bytes),
      static_cast<unsigned long long>(r.real_block_bytes));
  append_text(out,
              "  verified           %.2f GiB reused bytes, %llu mismatches, %llu failed loads\n",
              static_cast<double>(r.verified_bytes) / (1ULL << 30),
              static_cast<unsigned long long>(r.mismatches),
              static_cast<unsigned long long>(r.failed_loads));
  add_disk_text(out, r);
  if (r.mismatches != 0) {
    append_text(out, "  FIRST MISMATCH     %s\n", r.first_mismatch.c_str());
  }
  const auto gauge = [&](const char* name) {
    const auto found = r.gauges.find(name);
    return found == r.gauges.end() ? 0LL : static_cast<long long>(found->second);
  };
  append_text(out, "  device blocks used peak %lld, mean %lld of %llu\n",
              gauge("allocator.device.peak_used"), gauge("allocator.device.mean_used"),
              static_cast<unsigned long long>(r.device_blocks));
  append_text(
      out, "  reserved but empty %.1f %% contiguous to %u tokens, %.2f %% paged in blocks of %u\n",
      100 * r.waste_contiguous, r.contiguous_tokens, 100 * r.waste_paged, r.block_tokens);
  append_text(
      out, "  control time       p50 %.1f   p99 %.1f us a step, %llu steps, %llu messages\n",
      quantile(r.control_us, 0.5), quantile(r.control_us, 0.99),
      static_cast<unsigned long long>(r.steps), static_cast<unsigned long long>(r.messages));
  append_text(out, "  time               %.1f s modelled, %.1f s here\n", r.virtual_s, r.wall_s);
  add_operator_text(out, r);
  if (r.interrupted) {
    append_text(
        out,
        "  STOPPED            by a signal; what ran was cancelled, %llu requests were not sent\n",
        static_cast<unsigned long long>(r.not_sent));
  }
  add_tenants_text(out, r);
  return out;
}

std::string report_json(const RunReport& r) {
  JsonWriter json;
  json.begin_object();
  json.field("trace", r.trace).field("dispatcher", r.dispatcher).field("config", r.config);
  json.field("model", r.model).field("gpu", r.gpu);
  write_totals(json, r.all);
  json.field("block_tokens", r.block_tokens);
  json.field("device_blocks", r.device_blocks);
  json.field("host_blocks", r.host_blocks);
  json.field("disk_blocks", r.disk_blocks);
  json.field("true_block_bytes", r.true_block_bytes);
  json.field("real_block_bytes", r.real_block_bytes);
  json.field("verified_bytes", r.verified_bytes);
  json.field("mismatches", r.mismatches);
  write_operator(json, r);
  json.field("interrupted", r.interrupted).field("not_sent", r.not_sent);
  json.field("failed_loads", r.failed_loads);
  json.field("evictions", r.evictions);
  json.field("demoted_blocks", r.demoted_blocks);
  json.field("loaded_blocks", r.loaded_blocks);
  json.field("copied_blocks", r.copied_blocks);
  json.field("steps", r.steps);
  json.field("messages", r.messages);
  json.field("virtual_seconds", r.virtual_s);
  json.field("wall_seconds", r.wall_s);
  json.key("disk").begin_object();
  json.field("backend", r.disk.backend).field("note", r.disk.note);
  json.field("written_bytes", r.disk.store.write_bytes);
  json.field("read_bytes", r.disk.store.read_bytes);
  json.field("io_errors", r.disk.store.io_errors).field("corrupt", r.disk.store.corrupt);
  json.field("no_space", r.disk.store.no_space);
  json.field("writes", r.disk.store.writes);
  json.field("drive_writes_per_day", drive_writes_per_day(r)).end_object();
  const PrefetchFigures prefetch = prefetch_figures(r);
  json.key("prefetch").begin_object();
  json.field("blocks", prefetch.blocks).field("precision", prefetch.precision);
  json.field("recall", prefetch.recall).field("wasted_bytes", prefetch.wasted_bytes).end_object();
  json.key("waste").begin_object();
  json.field("contiguous", r.waste_contiguous).field("paged", r.waste_paged);
  json.field("contiguous_tokens", r.contiguous_tokens).end_object();
  write_quantiles(json, "control_us_per_step", r.control_us);
  json.key("recording").begin_object();
  json.field("records", r.recorded_messages).field("bytes", r.recorded_bytes).end_object();
  json.key("digests").begin_object();
  for (const auto& [name, digest] : r.digests) {
    char text[20];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(digest));
    json.field(name, std::string(text));
  }
  json.end_object().key("gauges").begin_object();
  for (const auto& [name, value] : r.gauges) {
    json.field(name, value);
  }
  json.end_object().key("tenants").begin_object();
  for (const auto& [name, totals] : r.tenants) {
    json.key(name).begin_object();
    write_totals(json, totals);
    json.end_object();
  }
  json.end_object().end_object();
  return json.take();
}

}  // namespace troupe
