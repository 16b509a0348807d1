// XXH3-64 with seed 0 for inputs of more than 240 bytes, in the pieces that a fused copy or a GPU
// warp needs: eight 64-bit accumulators take 64-byte stripes, and every 1024 bytes are scrambled.
// Follows the xxHash specification (Yann Collet, XXH3, 2019-2021); results equal libxxhash's, which
// the tests check at many lengths. Why our own loop: the library can't copy while it hashes.
#pragma once

#include "kernels/math/host_device.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace troupe::kernels::xxh3 {

constexpr size_t kShortBytesMax = 240;  // up to here the specification uses other functions
constexpr size_t kStripeBytes = 64;
constexpr size_t kStripesPerBlock = 16;  // (192 secret bytes - 64) / 8 bytes a stripe
constexpr size_t kBlockBytes = kStripeBytes * kStripesPerBlock;
constexpr size_t kLanes = 8;

constexpr uint64_t kPrime32x1 = 0x9E3779B1U;
constexpr uint64_t kPrime64x1 = 0x9E3779B185EBCA87ULL;

constexpr uint64_t kInit[kLanes] = {
    0xC2B2AE3DULL,         0x9E3779B185EBCA87ULL, 0xC2B2AE3D27D4EB4FULL, 0x165667B19E3779F9ULL,
    0x85EBCA77C2B2AE63ULL, 0x85EBCA77ULL,         0x27D4EB2F165667C5ULL, 0x9E3779B1ULL};

// The specification's default secret, 192 bytes as little-endian words.
constexpr uint64_t kSecretWords[24] = {
    0xbe4ba423396cfeb8ULL, 0x1cad21f72c81017cULL, 0xdb979083e96dd4deULL, 0x1f67b3b7a4a44072ULL,
    0x78e5c0cc4ee679cbULL, 0x2172ffcc7dd05a82ULL, 0x8e2443f7744608b8ULL, 0x4c263a81e69035e0ULL,
    0xcb00c391bb52283cULL, 0xa32e531b8b65d088ULL, 0x4ef90da297486471ULL, 0xd8acdea946ef1938ULL,
    0x3f349ce33f76faa8ULL, 0x1d4f0bc7c7bbdcf9ULL, 0x3159b4cd4be0518aULL, 0x647378d9c97e9fc8ULL,
    0xc3ebd33483acc5eaULL, 0xeb6313faffa081c5ULL, 0x49daf0b751dd0d17ULL, 0x9e68d429265516d3ULL,
    0xfca1477d58be162bULL, 0xce31d07ad1b8f88fULL, 0x280416958f3acb45ULL, 0x7e404bbbcafbd7afULL};

// Byte offsets in the secret.
constexpr size_t kScrambleKey = 192 - kStripeBytes;
constexpr size_t kLastStripeKey = 192 - kStripeBytes - 7;
constexpr size_t kMergeKey = 11;

/// Little-endian secret word at any byte offset.
TROUPE_HD inline uint64_t secret_at(const uint64_t* secret, size_t offset) noexcept {
  const size_t word = offset / 8;
  const unsigned shift = static_cast<unsigned>(offset % 8) * 8;
  return shift == 0 ? secret[word] : (secret[word] >> shift) | (secret[word + 1] << (64 - shift));
}

/// What lane `lane` gets from a stripe: its own word's product and its neighbour's word.
TROUPE_HD inline uint64_t lane_term(uint64_t own, uint64_t neighbour, uint64_t key) noexcept {
  const uint64_t mixed = own ^ key;
  return neighbour + (mixed & 0xFFFFFFFFU) * (mixed >> 32);
}

TROUPE_HD inline uint64_t scramble_lane(uint64_t acc, uint64_t key) noexcept {
  return (acc ^ (acc >> 47) ^ key) * kPrime32x1;
}

TROUPE_HD inline uint64_t multiply_fold(uint64_t a, uint64_t b) noexcept {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Final value from the eight lanes of an input of `bytes`.
TROUPE_HD inline uint64_t merge(const uint64_t* acc, const uint64_t* secret,
                                uint64_t bytes) noexcept {
  uint64_t result = bytes * kPrime64x1;
  for (size_t i = 0; i < kLanes; i += 2) {
    result += multiply_fold(acc[i] ^ secret_at(secret, kMergeKey + 8 * i),
                            acc[i + 1] ^ secret_at(secret, kMergeKey + 8 * i + 8));
  }
  result ^= result >> 37;
  result *= 0x165667919E3779F9ULL;
  return result ^ (result >> 32);
}

}  // namespace troupe::kernels::xxh3
