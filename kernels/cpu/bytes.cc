// Loops of bytes.h, compiled once per SIMD target and picked at run time. The copy loop, the hash
// and both together are one template, so that the fused copy costs one pass over memory.
// Accumulator scheme of the hash: kernels/math/xxh3.h.
#include "kernels/cpu/bytes.h"

#include "kernels/math/xxh3.h"
#include "kernels/pattern.h"

#include <cstring>
#include <xxhash.h>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/bytes.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// At most eight 64-bit lanes: one stripe of the hash.
using Words = hn::CappedTag<uint64_t, xxh3::kLanes>;
constexpr Words kWords;
constexpr size_t kVectorWords =
    HWY_LANES(uint64_t) < xxh3::kLanes ? HWY_LANES(uint64_t) : xxh3::kLanes;
constexpr size_t kVectorBytes = kVectorWords * 8;
constexpr size_t kVectorsPerStripe = xxh3::kStripeBytes / kVectorBytes;
// Far enough ahead to cover DRAM latency at copy speed: 1 KiB is some 100 ns at 10 GB/s.
constexpr size_t kPrefetchBytes = 1024;

using V = hn::Vec<Words>;

HWY_INLINE V load(const uint8_t* from) {
  return hn::LoadU(kWords, reinterpret_cast<const uint64_t*>(from));
}

template <bool kStreamed>
HWY_INLINE void store(V v, uint8_t* to) {
  if constexpr (kStreamed) {
    hn::Stream(v, kWords, reinterpret_cast<uint64_t*>(to));
  } else {
    hn::StoreU(v, kWords, reinterpret_cast<uint64_t*>(to));
  }
}

/// The eight accumulators, in as many registers as the target needs.
struct Lanes {
  V v[kVectorsPerStripe];
};

/// One stripe: hashed, and copied on the way when `kCopied`.
template <bool kCopied, bool kStreamed>
HWY_INLINE void stripe(Lanes& acc, uint8_t* dst, const uint8_t* src, const uint8_t* key) {
  const hn::Repartition<uint32_t, Words> halves;
  hwy::Prefetch(src + kPrefetchBytes);
  for (size_t i = 0; i < kVectorsPerStripe; ++i) {
    const V data = load(src + i * kVectorBytes);
    if constexpr (kCopied) {
      store<kStreamed>(data, dst + i * kVectorBytes);
    }
    const V mixed = hn::Xor(data, load(key + i * kVectorBytes));
    const V product =
        hn::MulEven(hn::BitCast(halves, mixed), hn::BitCast(halves, hn::ShiftRight<32>(mixed)));
    acc.v[i] = hn::Add(acc.v[i], hn::Add(product, hn::Shuffle01(data)));
  }
}

/// Hash of more than 240 bytes, and the copy of them when `kCopied`.
template <bool kCopied, bool kStreamed>
uint64_t long_hash(uint8_t* dst, const uint8_t* src, size_t bytes) {
  alignas(64) uint64_t words[xxh3::kLanes];
  const auto* secret = reinterpret_cast<const uint8_t*>(xxh3::kSecretWords);
  Lanes acc;
  for (size_t i = 0; i < kVectorsPerStripe; ++i) {
    acc.v[i] = hn::LoadU(kWords, xxh3::kInit + i * kVectorWords);
  }
  const size_t blocks = (bytes - 1) / xxh3::kBlockBytes;
  size_t done = 0;
  for (size_t b = 0; b < blocks; ++b) {
    for (size_t s = 0; s < xxh3::kStripesPerBlock; ++s) {
      stripe<kCopied, kStreamed>(acc, dst + done, src + done, secret + 8 * s);
      done += xxh3::kStripeBytes;
    }
    for (size_t i = 0; i < kVectorsPerStripe; ++i) {
      hn::StoreU(acc.v[i], kWords, words + i * kVectorWords);
    }
    for (size_t lane = 0; lane < xxh3::kLanes; ++lane) {
      words[lane] =
          xxh3::scramble_lane(words[lane], xxh3::kSecretWords[xxh3::kScrambleKey / 8 + lane]);
    }
    for (size_t i = 0; i < kVectorsPerStripe; ++i) {
      acc.v[i] = hn::LoadU(kWords, words + i * kVectorWords);
    }
  }
  const size_t stripes = (bytes - 1 - done) / xxh3::kStripeBytes;
  for (size_t s = 0; s < stripes; ++s) {
    stripe<kCopied, kStreamed>(acc, dst + done, src + done, secret + 8 * s);
    done += xxh3::kStripeBytes;
  }
  if constexpr (kCopied) {
    std::memcpy(dst + done, src + done, bytes - done);
  }
  // The last stripe ends with the input and may overlap what was hashed; it is never copied here.
  stripe<false, false>(acc, nullptr, src + bytes - xxh3::kStripeBytes,
                       secret + xxh3::kLastStripeKey);
  for (size_t i = 0; i < kVectorsPerStripe; ++i) {
    hn::StoreU(acc.v[i], kWords, words + i * kVectorWords);
  }
  return xxh3::merge(words, xxh3::kSecretWords, bytes);
}

uint64_t hash_plain(const uint8_t* src, size_t bytes) {
  return long_hash<false, false>(nullptr, src, bytes);
}
uint64_t hash_copy_keep(uint8_t* dst, const uint8_t* src, size_t bytes) {
  return long_hash<true, false>(dst, src, bytes);
}
/// `dst` aligned to 64 bytes.
uint64_t hash_copy_stream(uint8_t* dst, const uint8_t* src, size_t bytes) {
  const uint64_t value = long_hash<true, true>(dst, src, bytes);
  hwy::FlushStream();
  return value;
}

/// `dst` aligned to 64 bytes.
void copy_stream(uint8_t* dst, const uint8_t* src, size_t bytes) {
  size_t done = 0;
  for (; done + xxh3::kStripeBytes <= bytes; done += xxh3::kStripeBytes) {
    hwy::Prefetch(src + done + kPrefetchBytes);
    for (size_t i = 0; i < kVectorsPerStripe; ++i) {
      store<true>(load(src + done + i * kVectorBytes), dst + done + i * kVectorBytes);
    }
  }
  std::memcpy(dst + done, src + done, bytes - done);
  hwy::FlushStream();
}

/// The pattern's words in lanes, advanced a vector at a time.
struct Pattern {
  V counter;
  V step;
};

HWY_INLINE Pattern start_pattern(uint64_t seed, uint64_t index) {
  alignas(64) uint64_t first[kVectorWords];
  for (size_t lane = 0; lane < kVectorWords; ++lane) {
    first[lane] = pattern_base(seed) + (index + lane) * kPatternStep;
  }
  return {hn::LoadU(kWords, first), hn::Set(kWords, kPatternStep * kVectorWords)};
}

HWY_INLINE V next_words(Pattern& p) {
  V x = p.counter;
  x = hn::Xor(x, hn::ShiftLeft<13>(x));
  x = hn::Xor(x, hn::ShiftRight<7>(x));
  x = hn::Xor(x, hn::ShiftLeft<17>(x));
  p.counter = hn::Add(p.counter, p.step);
  return x;
}

template <bool kStreamed>
size_t fill_vectors(uint8_t* dst, size_t bytes, uint64_t seed, uint64_t index) {
  Pattern p = start_pattern(seed, index);
  size_t done = 0;
  for (; done + kVectorBytes <= bytes; done += kVectorBytes) {
    store<kStreamed>(next_words(p), dst + done);
  }
  return done;
}

/// Writes whole vectors from word `index` of the pattern; returns how many bytes that were.
size_t fill_keep(uint8_t* dst, size_t bytes, uint64_t seed, uint64_t index) {
  return fill_vectors<false>(dst, bytes, seed, index);
}
/// `dst` aligned to 64 bytes.
size_t fill_stream(uint8_t* dst, size_t bytes, uint64_t seed, uint64_t index) {
  const size_t done = fill_vectors<true>(dst, bytes, seed, index);
  hwy::FlushStream();
  return done;
}

/// How many bytes, in whole vectors, are equal to the pattern.
size_t verify_vectors(const uint8_t* src, size_t bytes, uint64_t seed, uint64_t index) {
  Pattern p = start_pattern(seed, index);
  size_t done = 0;
  for (; done + kVectorBytes <= bytes; done += kVectorBytes) {
    hwy::Prefetch(src + done + kPrefetchBytes);
    if (!hn::AllTrue(kWords, hn::Eq(load(src + done), next_words(p)))) {
      break;
    }
  }
  return done;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {
namespace {

HWY_EXPORT(hash_plain);
HWY_EXPORT(hash_copy_keep);
HWY_EXPORT(hash_copy_stream);
HWY_EXPORT(copy_stream);
HWY_EXPORT(fill_keep);
HWY_EXPORT(fill_stream);
HWY_EXPORT(verify_vectors);

constexpr size_t kStreamAlignment = 64;

bool can_stream(const void* dst, CacheHint hint) noexcept {
  return hint == CacheHint::kStream && reinterpret_cast<uintptr_t>(dst) % kStreamAlignment == 0;
}

}  // namespace

void copy_bytes(void* dst, const void* src, size_t bytes, CacheHint hint) noexcept {
  if (can_stream(dst, hint)) {
    HWY_DYNAMIC_DISPATCH(copy_stream)
    (static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), bytes);
  } else {
    std::memcpy(dst, src, bytes);
  }
}

uint64_t copy_checksum(void* dst, const void* src, size_t bytes, CacheHint hint) noexcept {
  auto* to = static_cast<uint8_t*>(dst);
  const auto* from = static_cast<const uint8_t*>(src);
  if (bytes <= xxh3::kShortBytesMax) {
    std::memcpy(to, from, bytes);
    return XXH3_64bits(from, bytes);
  }
  if (can_stream(dst, hint)) {
    return HWY_DYNAMIC_DISPATCH(hash_copy_stream)(to, from, bytes);
  }
  return HWY_DYNAMIC_DISPATCH(hash_copy_keep)(to, from, bytes);
}

uint64_t checksum_bytes(const void* src, size_t bytes) noexcept {
  if (bytes <= xxh3::kShortBytesMax) {
    return XXH3_64bits(src, bytes);
  }
  return HWY_DYNAMIC_DISPATCH(hash_plain)(static_cast<const uint8_t*>(src), bytes);
}

void fill_pattern(void* dst, size_t bytes, uint64_t seed, uint64_t position,
                  CacheHint hint) noexcept {
  auto* to = static_cast<uint8_t*>(dst);
  size_t done = 0;
  if (position % 8 == 0) {
    done = can_stream(dst, hint) ? HWY_DYNAMIC_DISPATCH(fill_stream)(to, bytes, seed, position / 8)
                                 : HWY_DYNAMIC_DISPATCH(fill_keep)(to, bytes, seed, position / 8);
  }
  for (; done < bytes; ++done) {
    to[done] = pattern_byte(seed, position + done);
  }
}

size_t verify_pattern(const void* src, size_t bytes, uint64_t seed, uint64_t position) noexcept {
  const auto* from = static_cast<const uint8_t*>(src);
  size_t done = 0;
  if (position % 8 == 0) {
    done = HWY_DYNAMIC_DISPATCH(verify_vectors)(from, bytes, seed, position / 8);
  }
  while (done < bytes && from[done] == pattern_byte(seed, position + done)) {
    ++done;
  }
  return done;
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
