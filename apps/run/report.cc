// The report of a run as a table and as JSON.
#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdio>

#include "apps/run/stats.h"

namespace troupe {
namespace {

double ratio(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

__attribute__((format(printf, 2, 3))) void add(std::string& out, const char* format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  out += line;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      add(out, "\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

void add_quantiles(std::string& out, const char* key, const std::vector<double>& values) {
  add(out, "\"%s\": {\"p50\": %.4f, \"p90\": %.4f, \"p99\": %.4f}", key, quantile(values, 0.5),
      quantile(values, 0.9), quantile(values, 0.99));
}

void add_u64(std::string& out, const char* key, uint64_t value) {
  add(out, "\"%s\": %llu, ", key, static_cast<unsigned long long>(value));
}

void add_totals(std::string& out, const RunTotals& t) {
  add_u64(out, "requests", t.requests);
  add_u64(out, "completed", t.completed);
  add_u64(out, "refused", t.refused);
  add_u64(out, "cancelled", t.cancelled);
  add_u64(out, "prompt_tokens", t.prompt_tokens);
  add_u64(out, "generated_tokens", t.generated_tokens);
  add_u64(out, "computed_tokens", t.computed_tokens);
  add_u64(out, "reused_tokens", t.reused_tokens);
  add_u64(out, "prefix_query_blocks", t.prefix_query_blocks);
  add_u64(out, "prefix_hit_blocks", t.prefix_hit_blocks);
  add_u64(out, "partial_hit_tokens", t.partial_hit_tokens);
  add_u64(out, "preemptions", t.preemptions);
  add(out, "\"hit_ratio_blocks\": %.6f, \"hit_ratio_tokens\": %.6f, ",
      ratio(t.prefix_hit_blocks, t.prefix_query_blocks), ratio(t.reused_tokens, t.prompt_tokens));
  add_quantiles(out, "ttft_ms", t.ttft_ms);
  out += ", ";
  add_quantiles(out, "tpot_ms", t.tpot_ms);
}

void add_totals_text(std::string& out, const RunTotals& t) {
  add(out, "  requests           %llu: %llu completed, %llu refused, %llu cancelled\n",
      static_cast<unsigned long long>(t.requests), static_cast<unsigned long long>(t.completed),
      static_cast<unsigned long long>(t.refused), static_cast<unsigned long long>(t.cancelled));
  add(out, "  tokens             %llu prompt, %llu generated\n",
      static_cast<unsigned long long>(t.prompt_tokens),
      static_cast<unsigned long long>(t.generated_tokens));
  add(out, "  prefix hits        %.2f %% of blocks (%llu of %llu), %.2f %% of prompt tokens\n",
      100 * ratio(t.prefix_hit_blocks, t.prefix_query_blocks),
      static_cast<unsigned long long>(t.prefix_hit_blocks),
      static_cast<unsigned long long>(t.prefix_query_blocks),
      100 * ratio(t.reused_tokens, t.prompt_tokens));
  add(out, "  prefill saved      %llu tokens (%llu of them within a block)\n",
      static_cast<unsigned long long>(t.reused_tokens),
      static_cast<unsigned long long>(t.partial_hit_tokens));
  add(out, "  TTFT ms            p50 %.1f   p90 %.1f   p99 %.1f\n", quantile(t.ttft_ms, 0.5),
      quantile(t.ttft_ms, 0.9), quantile(t.ttft_ms, 0.99));
  if (!t.tpot_ms.empty()) {
    add(out, "  per output token   p50 %.2f   p90 %.2f   p99 %.2f ms\n", quantile(t.tpot_ms, 0.5),
        quantile(t.tpot_ms, 0.9), quantile(t.tpot_ms, 0.99));
  }
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) {
    return 0;
  }
  const auto rank = static_cast<size_t>(q * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(rank), values.end());
  return values[rank];
}

std::string report_text(const RunReport& r) {
  std::string out;
  add(out, "%s on %s, %s (%s dispatcher)\n", r.model.c_str(), r.gpu.c_str(), r.trace.c_str(),
      r.dispatcher.c_str());
  add_totals_text(out, r.all);
  add(out, "  evictions          %llu blocks, %llu preemptions, %llu copied on write\n",
      static_cast<unsigned long long>(r.evictions),
      static_cast<unsigned long long>(r.all.preemptions),
      static_cast<unsigned long long>(r.copied_blocks));
  add(out, "  tiers (blocks)     device %llu, host %llu, disk %llu; demoted %llu, loaded %llu\n",
      static_cast<unsigned long long>(r.device_blocks),
      static_cast<unsigned long long>(r.host_blocks), static_cast<unsigned long long>(r.disk_blocks),
      static_cast<unsigned long long>(r.demoted_blocks),
      static_cast<unsigned long long>(r.loaded_blocks));
  add(out, "  moved              %.2f GiB down, %.2f GiB up (true layout; %llu bytes a block, %llu here)\n",
      static_cast<double>(r.demoted_blocks * r.true_block_bytes) / (1ULL << 30),
      static_cast<double>(r.loaded_blocks * r.true_block_bytes) / (1ULL << 30),
      static_cast<unsigned long long>(r.true_block_bytes),
      static_cast<unsigned long long>(r.real_block_bytes));
  add(out, "  verified           %.2f GiB reused bytes, %llu mismatches, %llu failed loads\n",
      static_cast<double>(r.verified_bytes) / (1ULL << 30),
      static_cast<unsigned long long>(r.mismatches),
      static_cast<unsigned long long>(r.failed_loads));
  if (r.mismatches != 0) {
    add(out, "  FIRST MISMATCH     %s\n", r.first_mismatch.c_str());
  }
  add(out, "  reserved but empty %.1f %% contiguous to %u tokens, %.2f %% paged in blocks of %u\n",
      100 * r.waste_contiguous, r.contiguous_tokens, 100 * r.waste_paged, r.block_tokens);
  add(out, "  control time       p50 %.1f   p99 %.1f us a step, %llu steps, %llu messages\n",
      quantile(r.control_us, 0.5), quantile(r.control_us, 0.99),
      static_cast<unsigned long long>(r.steps), static_cast<unsigned long long>(r.messages));
  add(out, "  time               %.1f s modelled, %.1f s here\n", r.virtual_s, r.wall_s);
  if (r.tenants.size() > 1) {
    for (const auto& [name, totals] : r.tenants) {
      add(out, "tenant %s\n", name.c_str());
      add_totals_text(out, totals);
    }
  }
  return out;
}

std::string report_json(const RunReport& r) {
  std::string out = "{";
  for (const auto& [key, text] : {std::pair{"trace", r.trace}, {"dispatcher", r.dispatcher},
                                  {"config", r.config}, {"model", r.model}, {"gpu", r.gpu}}) {
    out += std::string("\"") + key + "\": \"" + escaped(text) + "\", ";
  }
  add_totals(out, r.all);
  out += ", ";
  add_u64(out, "block_tokens", r.block_tokens);
  add_u64(out, "device_blocks", r.device_blocks);
  add_u64(out, "host_blocks", r.host_blocks);
  add_u64(out, "disk_blocks", r.disk_blocks);
  add_u64(out, "true_block_bytes", r.true_block_bytes);
  add_u64(out, "real_block_bytes", r.real_block_bytes);
  add_u64(out, "verified_bytes", r.verified_bytes);
  add_u64(out, "mismatches", r.mismatches);
  add_u64(out, "failed_loads", r.failed_loads);
  add_u64(out, "evictions", r.evictions);
  add_u64(out, "demoted_blocks", r.demoted_blocks);
  add_u64(out, "loaded_blocks", r.loaded_blocks);
  add_u64(out, "copied_blocks", r.copied_blocks);
  add_u64(out, "steps", r.steps);
  add_u64(out, "messages", r.messages);
  add(out, "\"virtual_seconds\": %.6f, \"wall_seconds\": %.6f, ", r.virtual_s, r.wall_s);
  add(out, "\"waste\": {\"contiguous\": %.6f, \"paged\": %.6f, \"contiguous_tokens\": %u}, ",
      r.waste_contiguous, r.waste_paged, r.contiguous_tokens);
  add_quantiles(out, "control_us_per_step", r.control_us);
  out += ", \"digests\": {";
  const char* separator = "";
  for (const auto& [name, digest] : r.digests) {
    add(out, "%s\"%s\": \"%016llx\"", separator, name.c_str(),
        static_cast<unsigned long long>(digest));
    separator = ", ";
  }
  out += "}, \"gauges\": {";
  separator = "";
  for (const auto& [name, value] : r.gauges) {
    add(out, "%s\"%s\": %lld", separator, name.c_str(), static_cast<long long>(value));
    separator = ", ";
  }
  out += "}, \"tenants\": {";
  separator = "";
  for (const auto& [name, totals] : r.tenants) {
    out += std::string(separator) + "\"" + escaped(name) + "\": {";
    add_totals(out, totals);
    out += "}";
    separator = ", ";
  }
  out += "}}\n";
  return out;
}

}  // namespace troupe
