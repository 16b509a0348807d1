// Containers with a stated limit: every queue and table of the runtime is bounded, and reaching the
// limit is an answer, not a surprise.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/base/assert.h"

namespace troupe {

/// Vector that refuses to grow past its limit. `push` says whether there was room.
template <class T>
class BoundedVector {
 public:
  explicit BoundedVector(size_t limit = 0) : limit_(limit) {}
  [[nodiscard]] bool push(T value) {
    if (items_.size() >= limit_) {
      return false;
    }
    items_.push_back(std::move(value));
    return true;
  }
  size_t size() const noexcept { return items_.size(); }
  size_t limit() const noexcept { return limit_; }
  bool empty() const noexcept { return items_.empty(); }
  bool full() const noexcept { return items_.size() >= limit_; }
  void clear() noexcept { items_.clear(); }
  T& operator[](size_t i) { return items_[i]; }
  const T& operator[](size_t i) const { return items_[i]; }
  auto begin() noexcept { return items_.begin(); }
  auto end() noexcept { return items_.end(); }
  auto begin() const noexcept { return items_.begin(); }
  auto end() const noexcept { return items_.end(); }

 private:
  std::vector<T> items_;
  size_t limit_;
};

/// First-in first-out ring with a fixed capacity, allocated once.
template <class T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t limit) : items_(limit) {}
  [[nodiscard]] bool push(T value) {
    if (count_ == items_.size()) {
      return false;
    }
    items_[(head_ + count_) % items_.size()] = std::move(value);
    ++count_;
    return true;
  }
  T pop() {
    TROUPE_ASSERT(count_ > 0);
    T value = std::move(items_[head_]);
    head_ = (head_ + 1) % items_.size();
    --count_;
    return value;
  }
  T& front() {
    TROUPE_ASSERT(count_ > 0);
    return items_[head_];
  }
  const T& front() const {
    TROUPE_ASSERT(count_ > 0);
    return items_[head_];
  }
  const T& at(size_t i) const {
    TROUPE_ASSERT(i < count_);
    return items_[(head_ + i) % items_.size()];
  }
  size_t size() const noexcept { return count_; }
  bool empty() const noexcept { return count_ == 0; }
  bool full() const noexcept { return count_ == items_.size(); }
  size_t limit() const noexcept { return items_.size(); }

 private:
  std::vector<T> items_;
  size_t head_ = 0;
  size_t count_ = 0;
};

}  // namespace troupe
