// Validation at the edge of every device backend: a batch is checked once, before it is queued, so
// that the work itself can trust it.
#pragma once

#include "kernels/device.h"

#include <cstdint>
#include <span>

namespace troupe::kernels {

/// Lower-case name, for messages.
const char* op_kind_name(OpKind kind) noexcept;

constexpr bool op_writes(OpKind kind) noexcept {
  return kind == OpKind::kCopy || kind == OpKind::kFill;
}
constexpr bool op_reads(OpKind kind) noexcept {
  return kind != OpKind::kFill;
}

/// Ok, or invalid_argument that names the op, the value and the limit. `region_bytes[i]` is the
/// size of region i.
Status check_batch(const Batch& batch, std::span<const uint64_t> region_bytes);

}  // namespace troupe::kernels
