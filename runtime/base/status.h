// Operating errors as values: a code and one sentence that names the thing, the value and the
// limit. Programmer errors are TROUPE_ASSERT (assert.h); exceptions stay inside the folder that
// owns the library which throws them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "runtime/base/assert.h"

namespace troupe {

enum class Code : uint16_t {
  kOk = 0,
  kInvalidArgument,   // the caller's value is wrong, and will be wrong again
  kNotFound,
  kOutOfRange,
  kNoCapacity,        // a bounded thing is full; later may be better
  kDeadline,          // a deadline passed before the answer came
  kCancelled,
  kCorrupt,           // bytes disagree with their checksum, key or format
  kUnsupported,       // a version, format or feature that this build does not know
  kUnavailable,       // a device, file or service is not there (any more)
  kFailedPrecondition,
  kIo,                // the operating system reported an error
  kInternal,
};

/// Lower-case name of a code, for logs and JSON.
const char* code_name(Code code) noexcept;

/// Success, or a code with one sentence. Cheap when ok (no allocation).
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, std::string text) : code_(code), text_(std::move(text)) {
    TROUPE_ASSERT(code != Code::kOk);
  }
  static Status ok() noexcept { return {}; }
  bool is_ok() const noexcept { return code_ == Code::kOk; }
  explicit operator bool() const noexcept { return is_ok(); }
  Code code() const noexcept { return code_; }
  const std::string& text() const noexcept { return text_; }
  /// "corrupt: slot 7: checksum 0x1 is not 0x2"
  std::string to_string() const;

 private:
  Code code_ = Code::kOk;
  std::string text_;
};

/// A value or the Status that says why there is none. GCC 12 has std::expected only from C++23.
template <class T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Expected(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    TROUPE_ASSERT(!status_.is_ok());
  }
  Expected(Code code, std::string text) : status_(code, std::move(text)) {}
  bool is_ok() const noexcept { return value_.has_value(); }
  explicit operator bool() const noexcept { return is_ok(); }
  const Status& status() const noexcept { return status_; }
  T& value() & {
    TROUPE_ASSERT(is_ok());
    return *value_;
  }
  const T& value() const& {
    TROUPE_ASSERT(is_ok());
    return *value_;
  }
  T&& value() && {
    TROUPE_ASSERT(is_ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace troupe

/// Returns early with the Status of `expr` when it is not ok.
#define TROUPE_TRY(expr)                              \
  do {                                                \
    ::troupe::Status troupe_try_status_ = (expr);     \
    if (!troupe_try_status_) {                        \
      return troupe_try_status_;                      \
    }                                                 \
  } while (false)
