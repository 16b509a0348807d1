// Little writers for the global record of a policy (at most 64 KiB): numbers and, as far as they
// fit, the newest ghosts. Order of fields is the format.
#pragma once

#include "policies/abi/troupe_policy.h"
#include "policies/sdk/ghosts.h"
#include "policies/sdk/lists.h"

#include <cstring>
#include <stdint.h>
#include <vector>

namespace troupe::sdk {

class GlobalWriter {
 public:
  void number(int64_t v) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof v);
    memcpy(bytes_.data() + at, &v, sizeof v);
  }
  /// Newest ghosts, as many as `share` of the record holds; older ones are forgotten by a swap.
  void ghosts(const Ghosts& g, uint32_t share = 2) {
    const auto keys = g.newest(TROUPE_GLOBAL_STATE_BYTES_MAX / (8 * share) - 64);
    number(static_cast<int64_t>(keys.size()));
    for (const uint64_t key : keys) {
      number(static_cast<int64_t>(key));
    }
  }
  void stamps(const Lists& lists) {
    number(lists.front_stamp());
    number(lists.back_stamp());
  }
  const std::vector<uint8_t>& bytes() const noexcept { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

class GlobalReader {
 public:
  GlobalReader(const void* bytes, uint64_t length)
      : at_(static_cast<const uint8_t*>(bytes)), left_(length) {}
  int64_t number() {
    int64_t v = 0;
    if (left_ < sizeof v) {
      failed_ = true;
      return 0;
    }
    memcpy(&v, at_, sizeof v);
    at_ += sizeof v;
    left_ -= sizeof v;
    return v;
  }
  void ghosts(Ghosts& g) {
    const int64_t n = number();
    if (n < 0 || static_cast<uint64_t>(n) > left_ / 8 || n > g.limit()) {
      failed_ = true;
      return;
    }
    std::vector<uint64_t> keys(static_cast<size_t>(n));
    for (uint64_t& key : keys) {
      key = static_cast<uint64_t>(number());
    }
    g.clear();
    for (size_t i = keys.size(); i > 0; --i) {
      g.push(keys[i - 1]);
    }
  }
  void stamps(Lists& lists) {
    const int64_t front = number();
    const int64_t back = number();
    lists.set_stamps(front, back);
  }
  void fail() noexcept { failed_ = true; }
  /// False once something was wrong: what follows is not worth reading.
  bool going() const noexcept { return !failed_; }
  bool ok() const noexcept { return !failed_ && left_ == 0; }

 private:
  const uint8_t* at_;
  uint64_t left_;
  bool failed_ = false;
};

}  // namespace troupe::sdk
