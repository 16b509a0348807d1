// Faults for tests and simulation: a decorator over any Backend that lies as devices do. Rules fire
// on the n-th matching operation, on every k-th, or by a seeded ratio, so that a run repeats
// exactly. Invariant: without a firing rule the decorator changes nothing; each injected fault is
// counted.
#pragma once

#include "io/backend.h"
#include "runtime/base/rng.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::io {

enum class Fault : uint8_t {
  kNone = 0,
  kEio,        // -EIO
  kEnospc,     // -ENOSPC
  kEintr,      // -EINTR
  kEagain,     // -EAGAIN
  kEcanceled,  // -ECANCELED
  kShort,      // about half moved, not a multiple of 4 KiB, and reported so
  kZero,       // nothing moved, 0 reported: what the end of a file looks like
  kTorn,       // about half moved, all reported
  kLost,       // nothing moved, all reported
  kBitFlip,    // one bit wrong: in memory after a read, on the medium after a write
  kMisdirect,  // moved at a neighbouring offset, all reported
  kDelay,      // right, after `parameter` more reaps
  kHang,       // no result until release_hangs
  kDuplicate,  // the result comes twice
  kStranger,   // a result with a tag nobody knows comes first
};
constexpr uint8_t kFaultCount = 16;
const char* fault_name(Fault fault) noexcept;

/// Fires on matching operations: at number `nth` (from 0), and every `period` ones after when > 0;
/// or by ratio num / den when den > 0.
struct FaultRule {
  Fault fault = Fault::kNone;
  std::optional<IoOp> op{};  // any when empty
  std::optional<uint32_t> file{};
  uint64_t nth = 0;
  uint64_t period = 0;
  uint64_t num = 0, den = 0;
  uint64_t parameter = 3;  // kDelay: reaps
};

/// Shared by a test and the backends that it plagues. [the device's thread]
class FaultInjector {
 public:
  explicit FaultInjector(uint64_t seed = 1) : rng_(seed) {}
  void add(const FaultRule& rule) { rules_.push_back({rule, 0}); }
  void clear() { rules_.clear(); }
  /// The first rule that fires for `op`; every rule counts every matching operation.
  FaultRule decide(const RawOp& op);
  uint64_t fired(Fault fault) const noexcept { return fired_[static_cast<size_t>(fault)]; }
  /// [any thread]
  void release_hangs() noexcept { ++releases_; }
  uint64_t releases() const noexcept { return releases_; }
  Rng& rng() noexcept { return rng_; }

 private:
  struct Counted {
    FaultRule rule;
    uint64_t seen;
  };
  std::vector<Counted> rules_;
  Rng rng_;
  uint64_t fired_[kFaultCount] = {};
  std::atomic<uint64_t> releases_ = 0;
};

/// `inner` with faults. The injector outlives nothing: it is shared.
std::unique_ptr<Backend> with_faults(std::unique_ptr<Backend> inner,
                                     std::shared_ptr<FaultInjector> injector);

}  // namespace troupe::io
