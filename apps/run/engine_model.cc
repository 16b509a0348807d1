#include "apps/run/engine_model.h"

#include <algorithm>

namespace troupe {

Tick step_time(const EngineFacts& e, const StepWork& work) noexcept {
  // 2 FLOP a parameter and token; attention: 4 FLOP a pair, head dimension and head, every layer
  // (QK^T and PV, a multiply and an add each).
  const double dense = 2.0 * e.active_parameters * static_cast<double>(work.tokens);
  const double attention =
      4.0 * static_cast<double>(work.attention_pairs) * e.head_dim * e.heads * e.layers;
  const double compute = (dense + attention) / (e.flops * e.efficiency);
  const double bytes = e.parameters * e.parameter_bytes +
                       static_cast<double>(work.context_tokens) * e.kv_bytes_per_token;
  const double memory = work.tokens == 0 ? 0 : bytes / (e.memory_bytes_per_s * e.memory_efficiency);
  const double copies = static_cast<double>(work.host_load_bytes) / e.link_bytes_per_s +
                        static_cast<double>(work.disk_load_bytes) / e.disk_bytes_per_s +
                        (work.disk_load_bytes > 0 ? e.disk_latency_s : 0);
  const double seconds = std::max(compute, memory) + copies + e.step_overhead_s;
  return Tick{std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9))};
}

uint64_t step_free_tokens(const EngineFacts& e) noexcept {
  const double seconds =
      e.parameters * e.parameter_bytes / (e.memory_bytes_per_s * e.memory_efficiency);
  return static_cast<uint64_t>(seconds * prefill_tokens_per_s(e));
}

double prefill_tokens_per_s(const EngineFacts& e) noexcept {
  return e.flops * e.efficiency / (2.0 * e.active_parameters);
}

}  // namespace troupe
