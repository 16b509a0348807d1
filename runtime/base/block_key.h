// The name of a block's content. Made once, at the ingress (runtime/ingress); compared everywhere,
// hashed from content nowhere else.
#pragma once

#include <compare>
#include <cstdint>

namespace troupe {

/// A block key: truncation-free keyed SHA-256, or an engine's opaque key zero-padded to 32 bytes.
/// Word i holds bytes 8·i … 8·i+7, the first byte lowest.
struct BlockKey {
  uint64_t w[4] = {0, 0, 0, 0};
  friend bool operator==(const BlockKey&, const BlockKey&) noexcept = default;
  friend auto operator<=>(const BlockKey&, const BlockKey&) noexcept = default;
};
static_assert(sizeof(BlockKey) == 32);

}  // namespace troupe
