#include "apps/lab/runner.h"

#include "apps/lab/opt.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cmath>
#include <mutex>
#include <thread>

namespace troupe::lab {
namespace {

constexpr size_t kSlices = 20;
constexpr uint32_t kSizeMax = 1U << 30;

// Standard error of the hit ratio over slices of the trace, weighted by their accesses.
double slice_error(const Trace& trace, const Counts& counts) {
  const size_t n = std::min(kSlices, trace.requests());
  const double mean = counts.accesses == 0
                          ? 0
                          : static_cast<double>(counts.hits) / static_cast<double>(counts.accesses);
  double sum = 0;
  for (size_t s = 0; s < n; ++s) {
    const size_t from = trace.requests() * s / n;
    const size_t to = trace.requests() * (s + 1) / n;
    double hits = 0;
    for (size_t r = from; r < to; ++r) {
      hits += counts.hits_of[r];
    }
    const auto accesses = static_cast<double>(trace.offsets[to] - trace.offsets[from]);
    const double off = hits - mean * accesses;
    sum += off * off;
  }
  return n < 2 || counts.accesses == 0
             ? 0
             : std::sqrt(sum * static_cast<double>(n) / static_cast<double>(n - 1)) /
                   static_cast<double>(counts.accesses);
}

void split_params(const std::string& text, std::string& name, std::string& params) {
  const size_t colon = text.find(':');
  name = text.substr(0, colon);
  params = colon == std::string::npos ? "" : text.substr(colon + 1);
}

Status run_one(const Trace& trace, const Plan& plan, plugin::Registry& registry, Result& out) {
  const bool prefix = plan.semantics == Semantics::kPrefix;
  const auto start = std::chrono::steady_clock::now();
  if (out.policy == "opt") {
    out.counts = prefix ? opt_prefix(trace, out.size.blocks) : opt_object(trace, out.size.blocks);
  } else {
    std::string name;
    plugin::InstanceOptions options;
    split_params(out.policy, name, options.params);
    options.capacity = out.size.blocks;
    options.seed = plan.seed;
    auto policy = registry.make_instance(name, options);
    if (!policy) {
      return policy.status();
    }
    auto counts = prefix ? replay_prefix(trace, out.size.blocks, *policy)
                         : replay_object(trace, out.size.blocks, *policy);
    if (!counts) {
      const std::string why = plugin::hosted_failure(*policy);
      return why.empty() ? counts.status()
                         : Status(counts.status().code(),
                                  counts.status().text() + ": its helper " + why);
    }
    out.counts = std::move(*counts);
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  out.ns_per_access =
      took.count() / static_cast<double>(std::max<uint64_t>(out.counts.accesses, 1));
  out.slice_error = slice_error(trace, out.counts);
  out.prefill_saved = prefix ? prefill_saved(trace, out.counts, plan.model) : 0;
  out.bytes_below = static_cast<double>(out.counts.evictions) * trace.block_tokens *
                    plan.model.kv_bytes_per_token;
  if (!prefix || !plan.serving || out.policy == "opt") {
    return Status::ok();
  }
  for (const uint32_t concurrency : {8U, 32U}) {
    std::string name;
    plugin::InstanceOptions options;
    split_params(out.policy, name, options.params);
    options.capacity = out.size.blocks;
    options.seed = plan.seed;
    auto policy = registry.make_instance(name, options);
    if (!policy) {
      return policy.status();
    }
    auto p99 = ttft_p99_ms(trace, out.size.blocks, concurrency, plan.model, *policy);
    if (!p99) {
      return p99.status();
    }
    (concurrency == 8 ? out.ttft_ms_8 : out.ttft_ms_32) = *p99;
  }
  return Status::ok();
}

}  // namespace

double Result::hit_ratio() const {
  return counts.accesses == 0
             ? 0
             : static_cast<double>(counts.hits) / static_cast<double>(counts.accesses);
}

Expected<Size> parse_size(const std::string& text, uint32_t unique) {
  const bool percent = !text.empty() && text.back() == '%';
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  double value = 0;
  const auto [next, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || next != end || !(value > 0) || (percent && value > 100)) {
    return Status(
        Code::kInvalidArgument,
        "size '" + text + "' is neither a share like 3% (at most 100%) nor a block count");
  }
  Size size;
  if (percent) {
    size.fraction = value / 100;
    size.blocks = std::max(1U, static_cast<uint32_t>(unique * size.fraction + 0.5));
    return size;
  }
  if (value != std::floor(value) || value > kSizeMax) {
    return Status(Code::kOutOfRange, "size '" + text + "' must be a whole number of blocks up to " +
                                         std::to_string(kSizeMax));
  }
  size.blocks = static_cast<uint32_t>(value);
  size.fraction = value / unique;
  return size;
}

std::vector<Result> run(const Trace& trace, const Plan& plan, plugin::Registry& registry,
                        const std::function<void(size_t, size_t)>& progress) {
  std::vector<Result> results;
  for (const std::string& policy : plan.policies) {
    for (const Size& size : plan.sizes) {
      Result result;
      result.policy = policy;
      result.size = size;
      results.push_back(std::move(result));
    }
  }
  std::atomic<size_t> next{0};
  std::mutex mutex;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < results.size(); i = next++) {
      const Status status = run_one(trace, plan, registry, results[i]);
      if (!status) {
        results[i].error = status.text();
      }
      const std::lock_guard<std::mutex> lock(mutex);
      progress(++done, results.size());
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 1; t < plan.jobs; ++t) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& t : threads) {
    t.join();
  }
  return results;
}

}  // namespace troupe::lab
