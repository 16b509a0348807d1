// Byte kernels of the CUDA backend: copy, fill, verify and checksum over batches of ops. Same bytes
// and values as kernels/cpu/bytes.cc, from the same shared headers (pattern.h, math/xxh3.h).
// Grid.y is the op; in copy, fill and verify grid.x is a slice of it.
#include "kernels/cuda/kernel_op.h"
#include "kernels/math/xxh3.h"
#include "kernels/pattern.h"

using troupe::kernels::pattern_byte;
using troupe::kernels::pattern_word;
using namespace troupe::kernels::cuda;
namespace xxh3 = troupe::kernels::xxh3;

namespace {

__constant__ uint64_t kSecret[24] = {
    xxh3::kSecretWords[0],  xxh3::kSecretWords[1],  xxh3::kSecretWords[2],  xxh3::kSecretWords[3],
    xxh3::kSecretWords[4],  xxh3::kSecretWords[5],  xxh3::kSecretWords[6],  xxh3::kSecretWords[7],
    xxh3::kSecretWords[8],  xxh3::kSecretWords[9],  xxh3::kSecretWords[10], xxh3::kSecretWords[11],
    xxh3::kSecretWords[12], xxh3::kSecretWords[13], xxh3::kSecretWords[14], xxh3::kSecretWords[15],
    xxh3::kSecretWords[16], xxh3::kSecretWords[17], xxh3::kSecretWords[18], xxh3::kSecretWords[19],
    xxh3::kSecretWords[20], xxh3::kSecretWords[21], xxh3::kSecretWords[22], xxh3::kSecretWords[23]};
__constant__ uint64_t kInit[8] = {xxh3::kInit[0], xxh3::kInit[1], xxh3::kInit[2], xxh3::kInit[3],
                                  xxh3::kInit[4], xxh3::kInit[5], xxh3::kInit[6], xxh3::kInit[7]};

struct Slice {
  uint64_t begin;
  uint64_t end;
};

__device__ Slice slice_of(const KernelOp& op) {
  const uint64_t begin = blockIdx.x * kSliceBytes;
  const uint64_t end = begin + kSliceBytes;
  return {begin < op.bytes ? begin : op.bytes, end < op.bytes ? end : op.bytes};
}

__device__ bool aligned16(uint64_t a, uint64_t b) {
  return ((a | b) & 15) == 0;
}

/// Little-endian word at any address.
__device__ uint64_t load_word(const uint8_t* p) {
  if ((reinterpret_cast<uintptr_t>(p) & 7) == 0) {
    return *reinterpret_cast<const uint64_t*>(p);
  }
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i) {
    word |= static_cast<uint64_t>(p[i]) << (8 * i);
  }
  return word;
}

/// Sum of one lane over `stripes` stripes of a hash block: independent of the accumulator before,
/// so all hash blocks of a tile are summed at once.
__device__ uint64_t lane_sum(const uint8_t* block, unsigned lane, unsigned stripes) {
  uint64_t sum = 0;
  for (unsigned s = 0; s < stripes; ++s) {
    const uint8_t* stripe = block + s * xxh3::kStripeBytes;
    sum += xxh3::lane_term(load_word(stripe + 8 * lane), load_word(stripe + 8 * (lane ^ 1)),
                           kSecret[s + lane]);
  }
  return sum;
}

}  // namespace

extern "C" __global__ void troupe_copy(KernelOp* ops, uint32_t count) {
  if (blockIdx.y >= count) {
    return;
  }
  const KernelOp op = ops[blockIdx.y];
  const Slice slice = slice_of(op);
  uint64_t done = slice.begin;
  if (aligned16(op.dst, op.src)) {
    const uint64_t vectors = (slice.end - slice.begin) / 16;
    const auto* from = reinterpret_cast<const uint4*>(op.src + slice.begin);
    auto* to = reinterpret_cast<uint4*>(op.dst + slice.begin);
    for (uint64_t i = threadIdx.x; i < vectors; i += kKernelThreads) {
      to[i] = from[i];
    }
    done += vectors * 16;
  }
  for (uint64_t i = done + threadIdx.x; i < slice.end; i += kKernelThreads) {
    reinterpret_cast<uint8_t*>(op.dst)[i] = reinterpret_cast<const uint8_t*>(op.src)[i];
  }
}

extern "C" __global__ void troupe_fill(KernelOp* ops, uint32_t count) {
  if (blockIdx.y >= count) {
    return;
  }
  const KernelOp op = ops[blockIdx.y];
  const Slice slice = slice_of(op);
  uint64_t done = slice.begin;
  if (aligned16(op.dst, 0) && op.position % 8 == 0) {
    const uint64_t vectors = (slice.end - slice.begin) / 16;
    const uint64_t first = (op.position + slice.begin) / 8;
    auto* to = reinterpret_cast<ulonglong2*>(op.dst + slice.begin);
    for (uint64_t i = threadIdx.x; i < vectors; i += kKernelThreads) {
      to[i] = make_ulonglong2(pattern_word(op.seed, first + 2 * i),
                              pattern_word(op.seed, first + 2 * i + 1));
    }
    done += vectors * 16;
  }
  for (uint64_t i = done + threadIdx.x; i < slice.end; i += kKernelThreads) {
    reinterpret_cast<uint8_t*>(op.dst)[i] = pattern_byte(op.seed, op.position + i);
  }
}

extern "C" __global__ void troupe_verify(KernelOp* ops, uint32_t count) {
  if (blockIdx.y >= count) {
    return;
  }
  const KernelOp op = ops[blockIdx.y];
  const Slice slice = slice_of(op);
  const auto* bytes = reinterpret_cast<const uint8_t*>(op.src);
  uint64_t first_bad = UINT64_MAX;
  uint64_t done = slice.begin;
  if (aligned16(op.src, 0) && op.position % 8 == 0) {
    const uint64_t vectors = (slice.end - slice.begin) / 16;
    const uint64_t first = (op.position + slice.begin) / 8;
    const auto* from = reinterpret_cast<const ulonglong2*>(op.src + slice.begin);
    for (uint64_t i = threadIdx.x; i < vectors && first_bad == UINT64_MAX; i += kKernelThreads) {
      const ulonglong2 have = from[i];
      if (have.x != pattern_word(op.seed, first + 2 * i) ||
          have.y != pattern_word(op.seed, first + 2 * i + 1)) {
        first_bad = slice.begin + 16 * i;
        while (bytes[first_bad] == pattern_byte(op.seed, op.position + first_bad)) {
          ++first_bad;
        }
      }
    }
    done += vectors * 16;
  }
  for (uint64_t i = done + threadIdx.x; i < slice.end && first_bad == UINT64_MAX;
       i += kKernelThreads) {
    if (bytes[i] != pattern_byte(op.seed, op.position + i)) {
      first_bad = i;
    }
  }
  if (first_bad != UINT64_MAX) {
    atomicMin_system(reinterpret_cast<unsigned long long*>(&ops[blockIdx.y].result),
                     static_cast<unsigned long long>(first_bad));
  }
}

/// More than 240 bytes (the host side sees to it). One thread block per op: 32 hash blocks of 1 KiB
/// are summed in parallel (8 lanes each), then 8 threads chain their scrambles.
extern "C" __global__ void troupe_checksum(KernelOp* ops, uint32_t count) {
  constexpr unsigned kTile = kKernelThreads / xxh3::kLanes;
  __shared__ uint64_t sums[kTile][xxh3::kLanes];
  __shared__ uint64_t acc[xxh3::kLanes];
  if (blockIdx.y >= count) {
    return;
  }
  const KernelOp op = ops[blockIdx.y];
  const auto* bytes = reinterpret_cast<const uint8_t*>(op.src);
  const uint64_t blocks = (op.bytes - 1) / xxh3::kBlockBytes;
  const unsigned lane = threadIdx.x % xxh3::kLanes;
  const unsigned row = threadIdx.x / xxh3::kLanes;
  uint64_t value = kInit[lane];  // only the first eight threads' value counts
  for (uint64_t tile = 0; tile < blocks; tile += kTile) {
    if (tile + row < blocks) {
      sums[row][lane] =
          lane_sum(bytes + (tile + row) * xxh3::kBlockBytes, lane, xxh3::kStripesPerBlock);
    }
    __syncthreads();
    if (threadIdx.x < xxh3::kLanes) {
      for (unsigned r = 0; r < kTile && tile + r < blocks; ++r) {
        value = xxh3::scramble_lane(value + sums[r][lane], kSecret[xxh3::kScrambleKey / 8 + lane]);
      }
    }
    __syncthreads();
  }
  if (threadIdx.x < xxh3::kLanes) {
    const uint64_t done = blocks * xxh3::kBlockBytes;
    const auto stripes = static_cast<unsigned>((op.bytes - 1 - done) / xxh3::kStripeBytes);
    value += lane_sum(bytes + done, lane, stripes);
    const uint8_t* last = bytes + op.bytes - xxh3::kStripeBytes;
    value += xxh3::lane_term(load_word(last + 8 * lane), load_word(last + 8 * (lane ^ 1)),
                             xxh3::secret_at(kSecret, xxh3::kLastStripeKey + 8 * lane));
    acc[lane] = value;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ops[blockIdx.y].result = xxh3::merge(acc, kSecret, op.bytes);
  }
}
