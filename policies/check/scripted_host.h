// A host for conformance tests: draws requests over a growing and shrinking prefix tree, several in
// flight, from a seed; keeps its own truth about every block and checks every answer against it.
// All that the policy said is folded into one value, so that two runs can be compared.
#pragma once

#include "runtime/base/rng.h"
#include "runtime/plugin/instance.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::check {

class ScriptedHost {
 public:
  ScriptedHost(plugin::EvictionInstance& policy, uint32_t capacity, uint64_t seed);
  /// One request begins, and another may end. Error: the first wrong answer, in words.
  Status step();
  Status run(uint32_t steps);
  /// Ends all running requests, then asks for every block: a policy must be able to empty the
  /// cache.
  Status drain();
  uint64_t answers() const noexcept { return answers_; }
  uint32_t resident() const noexcept { return capacity_ - static_cast<uint32_t>(free_.size()); }
  /// From now on a share of victims is refused, as a live host may.
  void refuse_some(bool on) noexcept { refuse_ = on; }
  /// The same host goes on with another instance (after its state was moved).
  void hand_over(plugin::EvictionInstance& next) noexcept { policy_ = &next; }

 private:
  static constexpr uint32_t kNone = TROUPE_NO_BLOCK;
  struct Block {
    uint64_t key = 0;
    uint32_t parent = kNone;
    uint32_t depth = 0;
    uint32_t uses = 0;
    uint32_t children = 0;
    bool resident = false;
  };
  Status begin();
  Status end(size_t running);
  Status tell(uint32_t kind, const std::vector<uint32_t>& blocks);
  Status insert(const std::vector<uint64_t>& keys, uint32_t count, std::vector<uint32_t>& path);
  Status make_room(uint32_t want, uint32_t& made, const std::vector<uint64_t>& keys);
  Status take(uint32_t block);
  uint32_t evictable() const;

  plugin::EvictionInstance* policy_;
  uint32_t capacity_;
  Rng rng_;
  std::vector<Block> blocks_;
  std::vector<uint32_t> free_;
  std::vector<std::vector<uint32_t>> running_;
  std::vector<uint32_t> tips_;  // blocks that a later request may continue
  uint64_t ordinal_ = 0;
  uint64_t next_key_ = 1;
  uint64_t answers_ = 0;
  bool refuse_ = false;
};

}  // namespace troupe::check
