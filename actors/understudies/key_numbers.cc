#include "actors/understudies/key_numbers.h"

#include "runtime/base/rng.h"

#include <algorithm>

namespace troupe {

KeyNumbers::KeyNumbers(uint32_t limit) : limit_(limit), table_(1024, kNone) {}

size_t KeyNumbers::place_of(uint64_t key) const noexcept {
  uint64_t state = key;
  size_t at = splitmix64(state) & (table_.size() - 1);
  while (table_[at] != kNone && keys_[table_[at]] != key) {
    at = (at + 1) & (table_.size() - 1);
  }
  return at;
}

void KeyNumbers::rebuild(size_t places) {
  table_.assign(places, kNone);
  for (uint32_t i = 0; i < keys_.size(); ++i) {
    if (live_[i] != 0) {
      table_[place_of(keys_[i])] = i;
    }
  }
}

uint32_t KeyNumbers::index_of(uint64_t key) {
  ++sights_;
  size_t at = place_of(key);
  if (table_[at] != kNone) {
    seen_[table_[at]] = sights_;
    return table_[at];
  }
  if (2 * (used_ + size_t{1}) > table_.size()) {
    rebuild(2 * table_.size());
    at = place_of(key);
  }
  uint32_t index = size();
  if (free_.empty()) {
    keys_.push_back(key);
    numbers_.push_back(0);
    seen_.push_back(0);
    live_.push_back(0);
  } else {
    index = free_.back();
    free_.pop_back();
  }
  keys_[index] = key;
  numbers_[index] = next_++;
  seen_[index] = sights_;
  live_[index] = 1;
  table_[at] = index;
  ++used_;
  return index;
}

void KeyNumbers::forget(const std::function<bool(uint32_t)>& held) {
  std::vector<uint64_t> sights;
  for (uint32_t i = 0; i < size(); ++i) {
    if (live_[i] != 0 && !held(i)) {
      sights.push_back(seen_[i]);
    }
  }
  if (sights.empty()) {
    return;
  }
  const auto middle = sights.begin() + static_cast<ptrdiff_t>(sights.size() / 2);
  std::nth_element(sights.begin(), middle, sights.end());
  for (uint32_t i = 0; i < size(); ++i) {
    if (live_[i] != 0 && seen_[i] <= *middle && !held(i)) {
      live_[i] = 0;
      free_.push_back(i);
      --used_;
      ++forgotten_;
    }
  }
  rebuild(table_.size());
}

void KeyNumbers::save(StateSink& sink) const {
  sink.array(keys_);
  sink.array(numbers_);
  sink.array(seen_);
  sink.array(live_);
  sink.array(free_);
  sink.u64(next_);
  sink.u64(sights_);
  sink.u64(forgotten_);
}

Status KeyNumbers::load(StateSource& source) {
  keys_ = source.array<uint64_t>();
  numbers_ = source.array<uint64_t>();
  seen_ = source.array<uint64_t>();
  live_ = source.array<uint8_t>();
  free_ = source.array<uint32_t>();
  next_ = source.u64();
  sights_ = source.u64();
  forgotten_ = source.u64();
  TROUPE_TRY(source.status());
  bool whole = numbers_.size() == keys_.size() && seen_.size() == keys_.size() &&
               live_.size() == keys_.size() && keys_.size() < kNone;
  for (const uint32_t index : free_) {
    whole = whole && index < live_.size() && live_[index] == 0;
  }
  if (!whole) {
    return Status(Code::kCorrupt, "key numbers: the rows do not belong together");
  }
  used_ = static_cast<uint32_t>(std::count(live_.begin(), live_.end(), 1));
  size_t places = 1024;
  while (places < 2 * (used_ + size_t{1})) {
    places *= 2;
  }
  rebuild(places);
  return Status::ok();
}

}  // namespace troupe
