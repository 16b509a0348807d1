// The replaceable decision makers, as the host sees them. All five kinds of decision go through
// here, built-ins too; runtime/plugin adapts the C ABI (policies/abi) to these classes. A policy is
// called by the actor that hosts it, serially, and is a pure function of its calls: no clock,
// entropy, file or thread. Decisions are int64 or id lists. Blocks are dense handles below the
// capacity. Every answer is validated by its host; a wrong one costs the policy, never the server.
#pragma once

#include "runtime/base/status.h"
#include "runtime/base/tick.h"
#include "runtime/core/snapshot.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::policy {

// ---- eviction
// ------------------------------------------------------------------------------------

/// Values as in schemas/policy.capnp EventKind.
enum class Event : uint8_t {
  kInsert = 1,
  kHit,
  kRelease,
  kRemove,
  kRefused,
  kPromoted,
  kDemoted,
  kPause,
  kResume,
  kSupersede,
};

/// One batch of equal events of one request, in order. Arrays beside `blocks` are as long, or
/// empty.
struct Events {
  Event kind = Event::kInsert;
  uint64_t request = 0;  // ordinal in admission order
  uint64_t session = 0;
  uint32_t tenant = 0;
  uint64_t bytes = 0;  // of one block
  uint32_t hints = 0;
  Tick at;  // pause: expected return
  std::span<const uint32_t> blocks;
  std::span<const uint32_t> parents;  // insert; 2^32-1: a root
  std::span<const uint32_t> depths;   // insert; a root's is 0
  std::span<const uint32_t> tokens;   // insert; tokens in the block
  std::span<const uint64_t> keys;     // insert; names of contents, known beyond the block's stay
};

/// What the host knows of each block, read-only, indexed by handle. A block may be a victim when it
/// is resident, uses == 0 and children == 0 (children that the same answer named before do not
/// count).
struct HostView {
  std::span<const uint32_t> uses;      // requests that use it now
  std::span<const uint32_t> children;  // resident children in this tier
  std::span<const uint32_t> parents;
  std::span<const uint8_t> resident;
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual void on_events(const Events& events) noexcept = 0;
  /// Appends up to `wanted` victims to `victims`, best first, each judged after the ones before it
  /// are gone. May give fewer when there are no more. `scores`, when not empty at return, is as
  /// long. State must not assume that they go: `remove` or `refused` tells.
  virtual void victims(uint32_t wanted, const HostView& view, std::vector<uint32_t>& victims,
                       std::vector<int64_t>& scores) noexcept = 0;
  /// A policy that frees whole runs may name more than wanted.
  virtual bool may_over_evict() const noexcept { return false; }
  /// False: its victims may have resident children (object semantics; never in a prefix tree).
  virtual bool leaf_only() const noexcept { return true; }
  /// One fixed-size record a block plus one global record, see design §6.
  virtual Status save(StateSink& sink) const = 0;
  virtual Status load(StateSource& source) = 0;
  /// A digest of the state, the same for the same history.
  virtual uint64_t digest() const noexcept = 0;
};

// ---- understudies
// ------------------------------------------------------------------------------

/// What one request asks of a cache.
struct GhostLookup {
  std::span<const uint32_t> ids;   // its blocks, root first; dense names
  std::span<const uint64_t> keys;  // what policies know them by; empty: the ids
  uint64_t ordinal = 0;
  uint64_t session = 0;
  uint32_t block_tokens = 0;
  uint64_t key(size_t i) const noexcept { return keys.empty() ? ids[i] : keys[i]; }
};

struct GhostCounts {  // of blocks
  uint64_t accesses = 0;
  uint64_t hits = 0;
  uint64_t evictions = 0;
  uint64_t uncached = 0;      // found no room
  uint64_t over_evicted = 0;  // beyond what was asked
};

/// A policy with a cache of names of its own: what it would have hit.
class Ghost {
 public:
  virtual ~Ghost() = default;
  /// One request from its lookup to its end; returns the blocks hit.
  virtual uint32_t lookup(const GhostLookup& request) noexcept = 0;
  /// Ids that come are below.
  virtual void grow(uint32_t ids) = 0;
  virtual bool resident(uint32_t id) const noexcept = 0;
  virtual GhostCounts counts() const noexcept = 0;
  /// Not ok: the policy gave a wrong answer, and the counts are void.
  virtual Status status() const = 0;
  virtual uint64_t digest() const noexcept = 0;
  virtual Status save(StateSink& sink) = 0;
  virtual Status load(StateSource& source) = 0;
};

// ---- scheduling
// ----------------------------------------------------------------------------------

struct QueuedRow {
  uint64_t request = 0;
  uint32_t tenant = 0;
  int32_t priority = 0;
  Tick arrival;
  uint32_t remaining = 0;  // tokens to compute, less those probed as cached
  uint32_t probe = 0;      // tokens cached at admission, own domain only
};

class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Writes a permutation of 0 … rows.size()-1: who enters first.
  virtual void order(std::span<const QueuedRow> rows, std::vector<uint32_t>& out) noexcept = 0;
};

// ---- tiering
// -------------------------------------------------------------------------------------

/// All rates as measured by the movers, in whole units so that decisions are exact.
struct LoadQuestion {
  uint64_t bytes = 0;   // of one block
  uint32_t blocks = 0;  // candidates, leading ones first
  uint32_t tokens = 0;  // tokens of these blocks
  uint64_t tier_bytes_per_s = 0;
  uint64_t tier_latency_ns = 0;
  uint32_t queue_depth = 0;  // copies already waiting there
  uint64_t prefill_tokens_per_s = 0;
};

struct LeavingBlock {
  uint32_t block = 0;
  uint32_t depth = 0;
  uint32_t tokens = 0;
  uint32_t uses = 0;  // requests that used it, the one that computed it included
  uint32_t tenant = 0;
  uint8_t also_in = 0;  // residence mask without the tier it leaves
  uint8_t to = 0;       // the tier that it would go to
};

class TieringPolicy {
 public:
  virtual ~TieringPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  /// How many of the leading blocks to load; the rest is recomputed.
  virtual uint32_t load(const LoadQuestion& question) noexcept = 0;
  /// Whether a block that leaves a tier, with no copy below, is worth a place there.
  virtual bool demote(const LeavingBlock& block) noexcept = 0;
};

// ---- quantization
// --------------------------------------------------------------------------------

struct FormatQuestion {
  uint32_t block = 0;
  uint8_t tier = 0;
  uint8_t role = 0;       // index of the layer group
  uint32_t depth = 0;     // blocks from the sequence's start
  uint32_t from_end = 0;  // blocks from its end
  uint64_t age_requests = 0;
  uint8_t format = 0;  // as it is now
};

class QuantizationPolicy {
 public:
  virtual ~QuantizationPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Index of the format in the namespace's list that the block should have.
  virtual uint8_t format(const FormatQuestion& question) noexcept = 0;
};

// ---- retention
// -----------------------------------------------------------------------------------

struct RetentionQuestion {
  uint64_t request = 0;
  uint32_t tokens = 0;              // cached now
  uint32_t budget = 0;              // tokens that may stay
  std::span<const int64_t> scores;  // a token, fixed point; empty where the scheme needs none
};

class RetentionPolicy {
 public:
  virtual ~RetentionPolicy() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Positions that stay, ascending; at most budget.
  virtual void keep(const RetentionQuestion& question, std::vector<uint32_t>& out) noexcept = 0;
};

// ---- factories
// -----------------------------------------------------------------------------------

/// Creates eviction policies by name; main fills it with built-ins and loaded plug-ins. A core that
/// swaps asks it during `step`, so creation must be pure: same name and parameters, same behaviour.
class Registry {
 public:
  virtual ~Registry() = default;
  /// `capacity`: blocks handles are below this. `seed`: for policies that draw.
  virtual Expected<std::unique_ptr<EvictionPolicy>> make_eviction(
      std::string_view name, uint32_t capacity, uint64_t seed, std::string_view params) const = 0;
  /// A policy with a ghost cache of `capacity` blocks.
  virtual Expected<std::unique_ptr<Ghost>> make_ghost(std::string_view name, uint32_t capacity,
                                                      uint64_t seed,
                                                      std::string_view params) const {
    (void)capacity, (void)seed, (void)params;
    return Status(Code::kUnsupported, "no ghost cache of \"" + std::string(name) + "\" here");
  }
  /// Makes an instance for a make_eviction to come, away from the live path where the registry can.
  /// Errors: those of make_eviction. [any thread]
  virtual Status prepare(std::string_view name, uint32_t capacity, uint64_t seed,
                         std::string_view params) const {
    return make_eviction(name, capacity, seed, params).status();
  }
  /// Ends an instance. Those of many blocks have much memory to give back: a registry may see to it
  /// away from the live path.
  virtual void retire(std::unique_ptr<EvictionPolicy> policy) const { policy.reset(); }
};

}  // namespace troupe::policy
