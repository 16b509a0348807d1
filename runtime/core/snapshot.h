// Saved state as bytes: little-endian integers in a fixed order, behind a schema number that the
// core chooses. save -> load -> save gives the same bytes. A source never reads past its end: a
// short or damaged snapshot is a Status, never a guess.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"

namespace troupe {

class StateSink {
 public:
  void u8(uint8_t v) { put(&v, sizeof(v)); }
  void u32(uint32_t v) { put(&v, sizeof(v)); }
  void u64(uint64_t v) { put(&v, sizeof(v)); }
  void i64(int64_t v) { put(&v, sizeof(v)); }
  void bytes(std::span<const uint8_t> b) {
    u64(b.size());
    put(b.data(), b.size());
  }
  void text(const std::string& s) {
    u64(s.size());
    put(s.data(), s.size());
  }
  /// A vector of trivially copyable elements without padding.
  template <class T>
  void array(const std::vector<T>& v) {
    static_assert(std::has_unique_object_representations_v<T>);
    u64(v.size());
    put(v.data(), v.size() * sizeof(T));
  }
  const std::vector<uint8_t>& data() const noexcept { return data_; }

 private:
  void put(const void* p, size_t n) {
    if (n == 0) {
      return;
    }
    const size_t at = data_.size();
    data_.resize(at + n);
    std::memcpy(data_.data() + at, p, n);
  }
  std::vector<uint8_t> data_;
};

/// Reads what a StateSink wrote. After the first short read every value is 0 and `status` says so.
class StateSource {
 public:
  explicit StateSource(std::span<const uint8_t> data) : data_(data) {}
  uint8_t u8() { return get<uint8_t>(); }
  uint32_t u32() { return get<uint32_t>(); }
  uint64_t u64() { return get<uint64_t>(); }
  int64_t i64() { return get<int64_t>(); }
  std::string text() {
    const size_t n = length(1);
    std::string s(n, '\0');
    take(s.data(), n);
    return s;
  }
  template <class T>
  std::vector<T> array() {
    static_assert(std::has_unique_object_representations_v<T>);
    const size_t n = length(sizeof(T));
    std::vector<T> v(n);
    take(v.data(), n * sizeof(T));
    return v;
  }
  Status status() const {
    return failed_
               ? Status(Code::kCorrupt, "snapshot ends at byte " + std::to_string(data_.size()) +
                                            ", before its last field")
               : Status::ok();
  }
  bool at_end() const noexcept { return at_ == data_.size(); }

 private:
  template <class T>
  T get() {
    T v{};
    take(&v, sizeof(v));
    return v;
  }
  size_t length(size_t element) {
    const uint64_t n = u64();
    if (n > (data_.size() - at_) / element) {
      failed_ = true;
      return 0;
    }
    return static_cast<size_t>(n);
  }
  void take(void* p, size_t n) {
    if (failed_ || n > data_.size() - at_) {
      failed_ = true;
      std::memset(p, 0, n);
      return;
    }
    if (n > 0) {
      std::memcpy(p, data_.data() + at_, n);
      at_ += n;
    }
  }
  std::span<const uint8_t> data_;
  size_t at_ = 0;
  bool failed_ = false;
};

}  // namespace troupe
