// The built-in eviction policy that every slot falls back to: least recently used, tail first.
// Blocks come back to the queue when their request ends, deepest first, so that within one request
// the deepest block is the next victim and a prefix outlives its continuations. After vLLM's free
// block queue (Kwon et al., SOSP 2023); named `vllm_lru` in the policy lab.
#pragma once

#include <vector>

#include "runtime/core/policy.h"

namespace troupe {

class LruPolicy final : public policy::EvictionPolicy {
 public:
  /// Handles are below `capacity`.
  explicit LruPolicy(uint32_t capacity);

  std::string_view name() const noexcept override { return "lru"; }
  void on_events(const policy::Events& events) noexcept override;
  void victims(uint32_t wanted, const policy::HostView& view, std::vector<uint32_t>& victims,
               std::vector<int64_t>& scores) noexcept override;
  Status save(StateSink& sink) const override;
  Status load(StateSource& source) override;
  uint64_t digest() const noexcept override;

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;
  void unlink(uint32_t block) noexcept;
  void append(uint32_t block) noexcept;
  bool linked(uint32_t block) const noexcept { return next_[block] != kNone; }

  // Circular list through the sentinel `capacity_`: next of the sentinel is the oldest.
  uint32_t capacity_;
  std::vector<uint32_t> next_;
  std::vector<uint32_t> prev_;
  std::vector<uint32_t> gone_children_;  // children named before, in the answer being made; else 0
};

}  // namespace troupe
