#include "io/store/layout.h"

#include <algorithm>

namespace troupe::io {
namespace {

constexpr size_t kClassesMax = 16;
constexpr uint32_t kGranuleMin = 8192, kGranuleMax = 64U << 20;

}  // namespace

std::string slot_text(const Slot& slot) {
  return "slot [" + std::to_string(slot.first.v) + ", +" + std::to_string(slot.count) +
         ", generation " + std::to_string(slot.generation) + "]";
}

Expected<StoreLayout> StoreLayout::create(const std::vector<SizeClass>& classes) {
  if (classes.empty() || classes.size() > kClassesMax) {
    return {Code::kInvalidArgument,
            std::to_string(classes.size()) + " size classes: must be 1 to 16"};
  }
  StoreLayout layout;
  layout.classes_ = classes;
  uint64_t next = 0;
  for (size_t i = 0; i < classes.size(); ++i) {
    const SizeClass& one = classes[i];
    if (one.granule_bytes < kGranuleMin || one.granule_bytes > kGranuleMax ||
        one.granule_bytes % 4096 != 0) {
      return {Code::kInvalidArgument,
              "size class " + std::to_string(i) + ": granule of " +
                  std::to_string(one.granule_bytes) +
                  " bytes: must be a multiple of 4096 from 8192 to 67108864"};
    }
    if (one.granules == 0) {
      return {Code::kInvalidArgument, "size class " + std::to_string(i) + ": has no granules"};
    }
    layout.first_.push_back(static_cast<uint32_t>(next));
    next += one.granules;
    if (next >= GranuleId::kNone) {
      return {Code::kInvalidArgument, "all size classes together have " + std::to_string(next) +
                                          " granules: must be below 2^32 - 1"};
    }
  }
  layout.first_.push_back(static_cast<uint32_t>(next));
  return layout;
}

uint64_t StoreLayout::data_bytes() const noexcept {
  uint64_t sum = 0;
  for (size_t i = 0; i < classes_.size(); ++i) {
    sum += file_bytes(i);
  }
  return sum;
}

uint32_t StoreLayout::granules_for(size_t i, uint64_t payload_bytes) const noexcept {
  const uint64_t granule = classes_[i].granule_bytes;
  return static_cast<uint32_t>((payload_bytes + kRecordTrailerBytes + granule - 1) / granule);
}

Expected<Place> StoreLayout::locate(const Slot& slot) const {
  const uint64_t end = uint64_t{slot.first.v} + slot.count;
  if (slot.count == 0 || end > granules()) {
    return {Code::kInvalidArgument,
            slot_text(slot) + " is outside the tier's " + std::to_string(granules()) + " granules"};
  }
  const auto after = std::upper_bound(first_.begin(), first_.end(), slot.first.v);
  const auto i = static_cast<size_t>(after - first_.begin()) - 1;
  if (end > first_[i + 1]) {
    return {Code::kInvalidArgument,
            slot_text(slot) + " crosses the end of size class " + std::to_string(i)};
  }
  const uint64_t granule = classes_[i].granule_bytes;
  return Place{.file = static_cast<uint32_t>(i),
               .offset = (slot.first.v - first_[i]) * granule,
               .bytes = slot.count * granule};
}

bool StoreLayout::same_granules(const StoreLayout& other) const noexcept {
  // Only the last class may change its length without renumbering what follows.
  if (classes_.size() != other.classes_.size()) {
    return false;
  }
  for (size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].granule_bytes != other.classes_[i].granule_bytes ||
        (i + 1 < classes_.size() && classes_[i].granules != other.classes_[i].granules)) {
      return false;
    }
  }
  return true;
}

}  // namespace troupe::io
