// Byte work on plain memory at memory speed: what the CPU device runs, and what host tools may call
// directly. SIMD by run-time dispatch (Google Highway). No threads, no allocation.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// How written bytes meet the cache.
enum class CacheHint : uint8_t {
  kKeep,    // they are read again soon: ordinary stores
  kStream,  // they are not: non-temporal stores, which save the read of the lines they overwrite
};

/// dst <- src, `bytes` of them, no overlap, any alignment. kStream ends with a store fence.
void copy_bytes(void* dst, const void* src, size_t bytes, CacheHint hint) noexcept;

/// The same, and the XXH3-64 (seed 0) of the bytes, from one pass over memory.
uint64_t copy_checksum(void* dst, const void* src, size_t bytes, CacheHint hint) noexcept;

/// XXH3-64, seed 0.
uint64_t checksum_bytes(const void* src, size_t bytes) noexcept;

/// Writes the pattern of `seed` (pattern.h) from pattern position `position`. Fast where `position`
/// is a multiple of 8.
void fill_pattern(void* dst, size_t bytes, uint64_t seed, uint64_t position,
                  CacheHint hint) noexcept;

/// Offset of the first byte that differs from the pattern, or `bytes` when all are equal.
size_t verify_pattern(const void* src, size_t bytes, uint64_t seed, uint64_t position) noexcept;

}  // namespace troupe::kernels
