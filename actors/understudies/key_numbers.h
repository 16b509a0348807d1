// Dense numbers for block keys, in order of first sight: what ghost caches index by. Bounded: when
// the table is full, names that no ghost holds and that were not seen for long are forgotten; one
// of them that comes back gets a new number, so a policy that remembers what it evicted longer than
// that takes it for new. `forgotten` tells whether that ever happened.
#pragma once

#include "runtime/core/snapshot.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace troupe {

class KeyNumbers {
 public:
  explicit KeyNumbers(uint32_t limit);
  /// Index of `key`, below size(); a new key takes a free one.
  uint32_t index_of(uint64_t key);
  /// Number of the key at `index`: 0, 1, … in order of first sight, never used again.
  uint64_t number(uint32_t index) const noexcept { return numbers_[index]; }
  uint32_t size() const noexcept { return static_cast<uint32_t>(keys_.size()); }
  bool full() const noexcept { return used_ >= limit_; }
  /// Forgets the older half of the names that `held` does not hold.
  void forget(const std::function<bool(uint32_t)>& held);
  void set_limit(uint32_t limit) { limit_ = limit; }
  uint64_t forgotten() const noexcept { return forgotten_; }
  void save(StateSink& sink) const;
  Status load(StateSource& source);

 private:
  static constexpr uint32_t kNone = 0xFFFFFFFFU;
  size_t place_of(uint64_t key) const noexcept;
  void rebuild(size_t places);

  uint32_t limit_;
  std::vector<uint32_t> table_;  // open addressing, linear: index or kNone
  std::vector<uint64_t> keys_;   // by index
  std::vector<uint64_t> numbers_;
  std::vector<uint64_t> seen_;  // number of the last sight, of all sights
  std::vector<uint8_t> live_;
  std::vector<uint32_t> free_;
  uint32_t used_ = 0;
  uint64_t next_ = 0;
  uint64_t sights_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace troupe
