// SIMD pieces of the integer loops, per target: rows of codes seen as 16-bit words, each of which
// holds one int8 (after sign extension), four 4-bit or eight 2-bit codes. Plane k of a vector of
// words is code k of each word, so nothing is shuffled: channel = planes * word + k, and the query
// (or the sums) are permuted once instead. Included once per SIMD target, by files that include
// foreach_target.h.
#if defined(TROUPE_ATTENTION_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_ATTENTION_WORDS_INL_H_
#undef TROUPE_ATTENTION_WORDS_INL_H_
#else
#define TROUPE_ATTENTION_WORDS_INL_H_
#endif

#include "kernels/cpu/attention/run.h"
#include "kernels/math/half.h"
#include "kernels/math/lloyd_max.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::CappedTag<int16_t, kWordsMax>;
using UWords = hn::RebindToUnsigned<Words>;
using Sums = hn::Repartition<int32_t, Words>;
constexpr Words kWords;
constexpr UWords kUWords;
constexpr Sums kSums;
using W = hn::Vec<Words>;
using S = hn::Vec<Sums>;
/// Words in a vector; a 128-bit block has eight.
constexpr size_t kN = HWY_LANES(int16_t) < kWordsMax ? HWY_LANES(int16_t) : kWordsMax;
constexpr size_t kBlocks = kN / 8;

/// acc + a0 b0 + a1 b1 in each 32-bit lane.
HWY_INLINE S madd(S acc, W a, W b) {
  S upper = hn::Zero(kSums);
  const S lower = hn::ReorderWidenMulAccumulate(kSums, a, b, hn::Zero(kSums), upper);
  return hn::Add(acc, hn::RearrangeToOddPlusEven(lower, upper));
}

/// Sums of the lanes of four vectors, to out[0 … 3]: two transposing additions, then the blocks.
HWY_INLINE void totals(S a, S b, S c, S d, int32_t* out) {
  const hn::Repartition<int64_t, Sums> wide;
  const auto ab = hn::BitCast(
      wide, hn::Add(hn::InterleaveLower(kSums, a, b), hn::InterleaveUpper(kSums, a, b)));
  const auto cd = hn::BitCast(
      wide, hn::Add(hn::InterleaveLower(kSums, c, d), hn::InterleaveUpper(kSums, c, d)));
  const S all = hn::Add(hn::BitCast(kSums, hn::InterleaveLower(wide, ab, cd)),
                        hn::BitCast(kSums, hn::InterleaveUpper(wide, ab, cd)));
  alignas(32) int32_t blocks[kN / 2];
  hn::Store(all, kSums, blocks);
  for (size_t i = 0; i < 4; ++i) {
    out[i] = kBlocks == 2 ? blocks[i] + blocks[kN / 2 - 4 + i] : blocks[i];
  }
}

/// Asks for `bytes` bytes from `from`, a line at a time; null asks for nothing.
HWY_INLINE void fetch(const std::byte* from, size_t bytes) {
  for (size_t i = 0; from != nullptr && i < bytes; i += 64) {
    hwy::Prefetch(from + i);
  }
}

struct Int8Words {
  static constexpr size_t kPlanes = 1;
  static constexpr size_t kBytes = kN;  // of a row that one vector of words takes
  static HWY_INLINE W raw(const uint8_t* at) {
    const hn::Rebind<int8_t, Words> bytes;
    return hn::PromoteTo(kWords, hn::LoadU(bytes, reinterpret_cast<const int8_t*>(at)));
  }
  static HWY_INLINE W plane(W words, size_t) { return words; }
};

template <size_t kBits>
struct PackedWords {
  static constexpr size_t kPlanes = 16 / kBits;
  static constexpr size_t kBytes = 2 * kN;
  static HWY_INLINE W raw(const uint8_t* at) {
    return hn::LoadU(kWords, reinterpret_cast<const int16_t*>(at));
  }
  static HWY_INLINE W plane(W words, size_t k) {
    const auto u = hn::BitCast(kUWords, words);
    const auto mask = hn::Set(kUWords, static_cast<uint16_t>((1U << kBits) - 1));
    return hn::BitCast(kWords, hn::And(hn::ShiftRightSame(u, static_cast<int>(kBits * k)), mask));
  }
};
using NibbleWords = PackedWords<4>;
using CrumbWords = PackedWords<2>;

/// Zero-extends or copies f16 parameters to f32.
HWY_INLINE void load_halves(const std::byte* from, size_t count, float* to) {
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<hwy::float16_t, decltype(floats)> halves;
  const auto* h = reinterpret_cast<const hwy::float16_t*>(from);
  const size_t n = hn::Lanes(floats);
  size_t i = 0;
  for (; i + n <= count; i += n) {
    hn::StoreU(hn::PromoteTo(floats, hn::LoadU(halves, h + i)), floats, to + i);
  }
  for (; i < count; ++i) {
    uint16_t bits;
    memcpy(&bits, from + 2 * i, 2);
    to[i] = f16_to_f32(bits);
  }
}

/// out[i] = round(x[i] / step) with step = largest |x| / steps; returns the step (0 when all are
/// 0).
HWY_INLINE float quantize(const float* x, size_t count, float steps, int16_t* out) {
  const hn::CappedTag<float, 8> floats;
  const hn::Rebind<int16_t, decltype(floats)> shorts;
  const size_t n = hn::Lanes(floats);
  auto most = hn::Zero(floats);
  size_t i = 0;
  for (; i + n <= count; i += n) {
    most = hn::Max(most, hn::Abs(hn::LoadU(floats, x + i)));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(floats, most));
  for (; i < count; ++i) {
    const float magnitude = x[i] < 0 ? -x[i] : x[i];
    largest = magnitude > largest ? magnitude : largest;
  }
  const float inverse = largest > 0 ? steps / largest : 0.0F;
  for (i = 0; i + n <= count; i += n) {
    const auto scaled = hn::Mul(hn::LoadU(floats, x + i), hn::Set(floats, inverse));
    hn::StoreU(hn::DemoteTo(shorts, hn::NearestInt(scaled)), shorts, out + i);
  }
  for (; i < count; ++i) {
    const float scaled = x[i] * inverse;
    out[i] = static_cast<int16_t>(static_cast<int32_t>(scaled + (scaled < 0 ? -0.5F : 0.5F)));
  }
  return largest / steps;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
