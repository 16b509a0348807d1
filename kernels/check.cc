#include "kernels/check.h"

#include <string>

namespace troupe::kernels {
namespace {

std::string describe(size_t index, const Op& op) {
  return "op " + std::to_string(index) + " (" + op_kind_name(op.kind) + ", " +
         std::to_string(op.bytes) + " bytes)";
}

Status check_range(size_t index, const Op& op, const char* side, const Location& at,
                   std::span<const uint64_t> region_bytes) {
  if (at.region.v >= region_bytes.size()) {
    return {Code::kInvalidArgument, describe(index, op) + ": " + side + " region " +
                                        std::to_string(at.region.v) + " of " +
                                        std::to_string(region_bytes.size()) + " known"};
  }
  const uint64_t size = region_bytes[at.region.v];
  if (at.offset > size || op.bytes > size - at.offset) {
    return {Code::kInvalidArgument, describe(index, op) + ": " + side + " offset " +
                                        std::to_string(at.offset) + " leaves region " +
                                        std::to_string(at.region.v) + " of " +
                                        std::to_string(size) + " bytes"};
  }
  return Status::ok();
}

Status check_op(size_t index, const Op& op, std::span<const uint64_t> region_bytes) {
  if (op.kind > OpKind::kChecksum) {
    return {Code::kInvalidArgument, "op " + std::to_string(index) + ": unknown kind " +
                                        std::to_string(static_cast<unsigned>(op.kind))};
  }
  if (op.bytes == 0) {
    return {Code::kInvalidArgument, describe(index, op) + ": must be at least 1 byte"};
  }
  if (op.with_checksum && op.kind != OpKind::kCopy) {
    return {Code::kInvalidArgument, describe(index, op) + ": only copies take with_checksum"};
  }
  if (op_writes(op.kind)) {
    TROUPE_TRY(check_range(index, op, "dst", op.dst, region_bytes));
  }
  if (op_reads(op.kind)) {
    TROUPE_TRY(check_range(index, op, "src", op.src, region_bytes));
  }
  const bool one_region = op.kind == OpKind::kCopy && op.dst.region == op.src.region;
  if (one_region && op.dst.offset < op.src.offset + op.bytes &&
      op.src.offset < op.dst.offset + op.bytes) {
    return {Code::kInvalidArgument, describe(index, op) + ": offsets " +
                                        std::to_string(op.src.offset) + " and " +
                                        std::to_string(op.dst.offset) + " overlap"};
  }
  return Status::ok();
}

}  // namespace

const char* op_kind_name(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::kCopy:
      return "copy";
    case OpKind::kFill:
      return "fill";
    case OpKind::kVerify:
      return "verify";
    case OpKind::kChecksum:
      return "checksum";
  }
  return "unknown";
}

Status check_batch(const Batch& batch, std::span<const uint64_t> region_bytes) {
  if (batch.ops.empty()) {
    return {Code::kInvalidArgument, "a batch needs at least one op"};
  }
  if (batch.results.size() != batch.ops.size()) {
    return {Code::kInvalidArgument, "batch of " + std::to_string(batch.ops.size()) + " ops with " +
                                        std::to_string(batch.results.size()) + " results"};
  }
  for (size_t i = 0; i < batch.ops.size(); ++i) {
    TROUPE_TRY(check_op(i, batch.ops[i], region_bytes));
  }
  return Status::ok();
}

}  // namespace troupe::kernels
