// Glossary in types: the words that messages, state and logs use for identities. One word per
// concept:
//   block    cached planes of block_tokens consecutive tokens, one layer group, one shard
//   granule  smallest piece of a tier's pool; a slot is a run of granules
//   slot     one place for a block in one tier: (tier, first granule, count, generation)
//   request  one call for work on a sequence; session: a client's conversation; tenant: who pays
//   tick     one nanosecond of the runtime's clock (tick.h)
// Strong types keep an index from being passed where a count is wanted.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>

namespace troupe {

/// An integer that only compares and hashes with its own kind. Tag is an empty struct.
template <class Tag, class Rep>
struct Strong {
  using rep = Rep;
  static constexpr Rep kNone = std::numeric_limits<Rep>::max();
  Rep v = kNone;
  constexpr Strong() noexcept = default;
  constexpr explicit Strong(Rep value) noexcept : v(value) {}
  constexpr bool is_none() const noexcept { return v == kNone; }
  static constexpr Strong none() noexcept { return Strong(); }
  friend constexpr auto operator<=>(const Strong&, const Strong&) noexcept = default;
};

/// Dense handle of a block, below the runtime's block capacity; reused, so always with a generation
/// where it crosses an actor border and may be stale.
using BlockId = Strong<struct BlockTag, uint32_t>;
using Generation = Strong<struct GenerationTag, uint32_t>;
/// Index of a granule in one tier's pool.
using GranuleId = Strong<struct GranuleTag, uint32_t>;
using RequestId = Strong<struct RequestTag, uint64_t>;
using SessionId = Strong<struct SessionTag, uint64_t>;
using TenantId = Strong<struct TenantTag, uint32_t>;
/// Isolation domain of a key: blocks of different domains never meet.
using DomainId = Strong<struct DomainTag, uint32_t>;
/// One scheduling step.
using StepId = Strong<struct StepTag, uint64_t>;
using TransferId = Strong<struct TransferTag, uint64_t>;

/// Where a block may lie. The order is from fast to slow; values are stored on disk and in lanes.
enum class Tier : uint8_t { kDevice = 0, kHost = 1, kDisk = 2, kRemote = 3 };
constexpr int kTierCount = 4;
const char* tier_name(Tier tier) noexcept;

/// Bit of a tier in a residence mask.
constexpr uint8_t tier_bit(Tier tier) noexcept {
  return static_cast<uint8_t>(1U << static_cast<unsigned>(tier));
}

/// One place in one tier. `count` granules from `first`; count 0 means nowhere.
struct Slot {
  GranuleId first;
  uint32_t count = 0;
  uint32_t generation = 0;
  constexpr bool is_none() const noexcept { return count == 0; }
  friend constexpr bool operator==(const Slot&, const Slot&) noexcept = default;
};

}  // namespace troupe

template <class Tag, class Rep>
struct std::hash<troupe::Strong<Tag, Rep>> {
  size_t operator()(const troupe::Strong<Tag, Rep>& id) const noexcept {
    return std::hash<Rep>()(id.v);
  }
};
