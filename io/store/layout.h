// Where a slot lies: granule numbers to (file, offset). A tier's granules are numbered from 0
// through all size classes; each class is one preallocated file with its own granule size. Slots
// are runs of granules that the allocator chose; a run lies inside one class. A slot of n granules
// holds a payload of at most n * granule_bytes - kRecordTrailerBytes; the trailer follows the
// payload at once, so that both are one transfer. A scan without an index looks at every page.
// Invariants: first_granule of class i+1 = first_granule + granules of class i; offsets are
// 4096-aligned.
#pragma once

#include "io/record.h"
#include "runtime/base/ids.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::io {

struct SizeClass {
  uint32_t granule_bytes = 0;  // multiple of 4096, 8 KiB to 64 MiB
  uint32_t granules = 0;
};

struct Place {
  uint32_t file = 0;
  uint64_t offset = 0;  // of the slot in its file
  uint64_t bytes = 0;   // of the whole slot
};

class StoreLayout {
 public:
  /// Errors: invalid_argument with the class and the limit.
  static Expected<StoreLayout> create(const std::vector<SizeClass>& classes);

  const std::vector<SizeClass>& classes() const noexcept { return classes_; }
  uint32_t granules() const noexcept { return first_.back(); }
  uint64_t data_bytes() const noexcept;
  uint64_t file_bytes(size_t i) const noexcept {
    return uint64_t{classes_[i].granule_bytes} * classes_[i].granules;
  }
  /// Granules that a payload needs in class `i`, trailer included.
  uint32_t granules_for(size_t i, uint64_t payload_bytes) const noexcept;
  /// invalid_argument when the run is empty, ends outside, or crosses classes.
  Expected<Place> locate(const Slot& slot) const;
  /// Old runs that still exist under this layout keep their place only when all granule sizes are
  /// equal.
  bool same_granules(const StoreLayout& other) const noexcept;

 private:
  std::vector<SizeClass> classes_;
  std::vector<uint32_t> first_;  // first granule of each class, and the end
};

std::string slot_text(const Slot& slot);

}  // namespace troupe::io
