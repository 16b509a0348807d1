// What a byte kernel of the GPU reads per op, and the kernels' names: one text for the host side,
// the kernels (bytes.cu) and the fake driver of the tests.
#pragma once

#include <cstdint>

namespace troupe::kernels::cuda {

/// Lies in pinned host memory that the GPU reads and writes in place.
struct KernelOp {
  uint64_t dst = 0;  // address
  uint64_t src = 0;  // address
  uint64_t bytes = 0;
  uint64_t seed = 0;
  uint64_t position = 0;
  uint64_t result = 0;  // written by the kernel: checksum, or first different byte
};

// All take (KernelOp* ops, uint32_t count); one thread block per op and slice.
constexpr const char* kCopyKernel = "troupe_copy";
constexpr const char* kFillKernel = "troupe_fill";
constexpr const char* kVerifyKernel = "troupe_verify";  // `result` starts as UINT64_MAX
constexpr const char* kChecksumKernel = "troupe_checksum";

constexpr unsigned kKernelThreads = 256;
/// Bytes of one op that one thread block of copy, fill and verify takes: 16 loads of 16 bytes a
/// thread. Grid: (ceil(longest op / this), ops). Checksum: grid (1, ops).
constexpr uint64_t kSliceBytes = uint64_t{kKernelThreads} * 16 * 16;

}  // namespace troupe::kernels::cuda
