#include "runtime/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace troupe {

const char* code_name(Code code) noexcept {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid_argument";
    case Code::kNotFound: return "not_found";
    case Code::kOutOfRange: return "out_of_range";
    case Code::kNoCapacity: return "no_capacity";
    case Code::kDeadline: return "deadline";
    case Code::kCancelled: return "cancelled";
    case Code::kCorrupt: return "corrupt";
    case Code::kUnsupported: return "unsupported";
    case Code::kUnavailable: return "unavailable";
    case Code::kFailedPrecondition: return "failed_precondition";
    case Code::kIo: return "io";
    case Code::kInternal: return "internal";
  }
  return "unknown";
}

std::string Status::to_string() const {
  if (is_ok()) {
    return "ok";
  }
  return std::string(code_name(code_)) + ": " + text_;
}

namespace {
void (*assert_hook)() = nullptr;
}  // namespace

void set_assert_hook(void (*hook)()) noexcept { assert_hook = hook; }

void assert_failed(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "troupe: assertion failed: %s at %s:%d\n", condition, file, line);
  if (assert_hook != nullptr) {
    void (*hook)() = assert_hook;
    assert_hook = nullptr;  // a failure inside the hook must not call it again
    hook();
  }
  std::abort();
}

}  // namespace troupe
