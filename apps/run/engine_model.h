// How long a step takes on a stated GPU with a stated model: the run's virtual clock. A roofline:
// compute time of the batch's matrix work and attention against the time to read weights and cache,
// whichever is longer, plus a fixed launch cost and the copies that the step waits for. After the
// arithmetic-intensity analysis of Pope et al. (MLSys 2023, "Efficiently Scaling Transformer
// Inference") and Kwon et al. (SOSP 2023).
#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/tick.h"

namespace troupe {

struct EngineFacts {
  std::string gpu = "H100-SXM";
  std::string model = "Llama-3.1-8B";
  double flops = 989e12;            // dense bf16 peak [FLOP/s]
  double efficiency = 0.5;          // of the peak, reached by prefill
  double memory_bytes_per_s = 3.35e12;
  double memory_efficiency = 0.8;
  double parameters = 8.03e9;
  double active_parameters = 8.03e9;  // a token's share, in mixtures of experts
  double parameter_bytes = 2;
  uint32_t layers = 32;
  uint32_t heads = 32;
  uint32_t head_dim = 128;
  double kv_bytes_per_token = 131072;
  double link_bytes_per_s = 55e9;   // host <-> device, per direction
  double disk_bytes_per_s = 6.5e9;  // one data-centre NVMe drive, PCIe 4.0 x4, sequential reads
  double disk_latency_s = 100e-6;   // of the loads of one step
  double step_overhead_s = 150e-6;  // launches and sampling
};

/// What one step does.
struct StepWork {
  uint64_t tokens = 0;              // computed in this step
  uint64_t attention_pairs = 0;     // sum over rows of computed tokens x context they look at
  uint64_t context_tokens = 0;      // cache read by the decoding rows
  uint64_t host_load_bytes = 0;     // true bytes that came from host memory before it
  uint64_t disk_load_bytes = 0;     // and from disk
};

/// Duration of a step [ns], at least 1.
Tick step_time(const EngineFacts& engine, const StepWork& work) noexcept;

/// Tokens that a step computes in the time that reading the weights takes.
uint64_t step_free_tokens(const EngineFacts& engine) noexcept;

/// Prompt tokens a second that the engine computes at short context.
double prefill_tokens_per_s(const EngineFacts& engine) noexcept;

}  // namespace troupe
