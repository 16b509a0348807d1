#include "apps/lab/serving_model.h"

#include <algorithm>
#include <queue>

namespace troupe::lab {
namespace {

double prompt_tokens(const Trace& trace, size_t r) {
  const double listed = static_cast<double>(trace.blocks(r).size()) * trace.block_tokens;
  return std::max(listed, static_cast<double>(trace.input_tokens[r]));
}

// The last token is always computed: its output is what the request is for.
double cached_tokens(const Trace& trace, size_t r, uint32_t hits) {
  const double cached = static_cast<double>(hits) * trace.block_tokens;
  return std::max(0.0, std::min(cached, prompt_tokens(trace, r) - 1));
}

struct Running {
  double end_ms;
  size_t request;
  bool operator>(const Running& o) const {
    return end_ms != o.end_ms ? end_ms > o.end_ms : request > o.request;
  }
};

}  // namespace

double prefill_saved(const Trace& trace, const Counts& counts, const ServingModel& model) {
  double whole = 0;
  double left = 0;
  for (size_t r = 0; r < trace.requests(); ++r) {
    const double tokens = prompt_tokens(trace, r);
    whole += model.prefill_ms(tokens, 0);
    left += model.prefill_ms(tokens, cached_tokens(trace, r, counts.hits_of[r]));
  }
  return whole > 0 ? 1 - left / whole : 0;
}

Expected<double> ttft_p99_ms(const Trace& trace, uint32_t capacity, uint32_t concurrency,
                             const ServingModel& model, plugin::EvictionInstance& policy) {
  PrefixCache cache(trace, capacity, policy);
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  std::vector<double> ttft;
  ttft.reserve(trace.requests());
  double prefill_free = 0;
  uint64_t ordinal = 0;
  const auto end_first = [&] {
    const Running done = running.top();
    running.pop();
    cache.end(done.request, ordinal);
    return done.end_ms;
  };
  for (size_t r = 0; r < trace.requests() && cache.status(); ++r, ++ordinal) {
    const double enters = running.size() < concurrency ? 0 : end_first();
    const double starts = std::max(enters, prefill_free);
    while (!running.empty() && running.top().end_ms <= starts) {
      end_first();
    }
    const uint32_t hits = cache.begin(r, ordinal);
    prefill_free =
        starts + model.prefill_ms(prompt_tokens(trace, r), cached_tokens(trace, r, hits));
    ttft.push_back(prefill_free - enters);
    running.push(Running{prefill_free + model.decode_ms_per_token * trace.output_tokens[r], r});
  }
  while (!running.empty() && cache.status()) {
    end_first();
  }
  cache.finish();
  if (!cache.status()) {
    return cache.status();
  }
  const size_t at = ttft.size() * 99 / 100;
  std::nth_element(ttft.begin(), ttft.begin() + static_cast<ptrdiff_t>(at), ttft.end());
  return ttft[at];
}

}  // namespace troupe::lab
