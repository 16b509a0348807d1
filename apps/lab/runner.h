// Runs every policy at every size, on several threads, each run with an instance of its own.
#pragma once

#include "apps/lab/serving_model.h"
#include "apps/lab/trace_data.h"
#include "runtime/plugin/registry.h"

#include <functional>
#include <string>
#include <vector>

namespace troupe::lab {

enum class Semantics : uint8_t { kPrefix, kObject };

struct Size {
  uint32_t blocks = 0;
  double fraction = 0;  // of the trace's unique blocks
};

struct Result {
  std::string policy;  // as asked for
  Size size;
  Counts counts;
  double ns_per_access = 0;
  double slice_error = 0;  // standard error of the hit ratio over trace slices
  double prefill_saved = 0;
  double ttft_ms_8 = -1;  // negative: not modelled (offline bound, object semantics, switched off)
  double ttft_ms_32 = -1;
  double bytes_below = 0;
  std::string error;  // not empty: the run failed, and why
  double hit_ratio() const;
};

struct Plan {
  std::vector<std::string> policies;  // "opt" is the offline bound; "name:params" passes parameters
  std::vector<Size> sizes;
  Semantics semantics = Semantics::kPrefix;
  ServingModel model;
  bool serving = true;
  bool sessions = false;  // list the hits of every session in the JSON
  uint32_t jobs = 1;
  uint64_t seed = 1;
};

/// max(1, int(unique · fraction + 0.5)) for a fraction, or a plain count. Errors name the value.
Expected<Size> parse_size(const std::string& text, uint32_t unique);

/// Results ordered by policy, then size, whatever the threads did. `progress(done, all)` is called
/// after each, from any thread but one at a time.
std::vector<Result> run(const Trace& trace, const Plan& plan, plugin::Registry& registry,
                        const std::function<void(size_t, size_t)>& progress);

}  // namespace troupe::lab
