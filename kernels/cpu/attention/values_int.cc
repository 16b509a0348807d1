// Weighted sums of values whose codes run along the channels of a token: int8, and 4-bit and 2-bit
// codes with a scale and minimum per token or per token and group of 32 channels. The probability
// times the scale becomes an integer, and two tokens are multiplied and added in one step: their
// words are interleaved first, then the planes taken.
#include "kernels/cpu/attention/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/values_int.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include "kernels/cpu/attention/words-inl.h"

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Scales and minima of tokens [begin, end) of a tile.
void read_params(const KvTile& tile, const TileShape& shape, size_t slots, float* scale,
                 float* minimum) {
  const std::byte* params = tile.value + tile_params_offset(shape);
  const size_t count = tile.end - tile.begin;
  if (tile.coding == Coding::kInt8 || tile.coding == Coding::kInt4) {
    alignas(64) uint32_t words[kRunTokens];
    std::memcpy(words, params + 4 * tile.begin, 4 * count);
    const uint32_t mask = tile.coding == Coding::kInt4 ? 0xFU : 0U;  // the zero point's bits
    for (size_t t = 0; t < count; ++t) {
      minimum[t] = -static_cast<float>(static_cast<int32_t>(words[t] & mask));
      words[t] &= ~mask;
    }
    std::memcpy(scale, words, 4 * count);
    for (size_t t = 0; t < count; ++t) {
      minimum[t] *= scale[t];
    }
    return;
  }
  load_halves(params + 2 * tile.begin * slots, count * slots, scale);
  load_halves(params + 2 * (shape.tokens + tile.begin) * slots, count * slots, minimum);
}

void collect(const Run& run, size_t slots, ValueRun& out) {
  const DecodeShape& s = run.input->shape;
  const TileShape shape{run.coding, Role::kValue, s.block_tokens, s.width};
  const size_t row_bytes = tile_row_bytes(shape);
  out.slots = slots;
  out.pairs = 0;
  out.scale.resize(kRunTokens * slots);
  out.minimum.resize(kRunTokens * slots);
  for (const KvTile& tile : run.tiles) {  // few lines a tile, and all of them at once
    const size_t params = tile_params_offset(shape);
    fetch(tile.value + params, tile_bytes(shape) - params);
  }
  size_t key = 0;
  for (const KvTile& tile : run.tiles) {
    const auto* rows = reinterpret_cast<const uint8_t*>(tile.value) + tile.begin * row_bytes;
    const size_t count = tile.end - tile.begin;
    read_params(tile, shape, slots, out.scale.data() + key * slots,
                out.minimum.data() + key * slots);
    for (size_t t = 0; t < count; t += 2) {
      const bool single = t + 1 == count;
      out.rows[2 * out.pairs] = rows + t * row_bytes;
      out.rows[2 * out.pairs + 1] = rows + (single ? t : t + 1) * row_bytes;
      out.key_of[out.pairs] = static_cast<int32_t>(key + t);
      out.single[out.pairs] = single;
      ++out.pairs;
    }
    key += count;
  }
}

/// Pairs of rows that are asked for ahead of their use: 16 rows of 64 to 128 bytes, some 150 ns.
constexpr size_t kFetchPairs = 8;

/// Place of group `g` among `slots`: the order in which interleaved blocks of the source meet them.
template <class Source>
HWY_INLINE size_t group_place(size_t g, size_t slots) {
  // 4-bit: a block is one group. 2-bit: lower halves of blocks are even groups, upper ones odd.
  return Source::kPlanes == 8 ? g / 2 + (g % 2) * (slots / 2) : g;
}

/// exact[t] = probabilities[t] * scale[t], and the bias: one scale a token.
HWY_INLINE void multiply_rows(const ValueRun& values, size_t keys, const float* probabilities,
                              Weights& out) {
  const hn::CappedTag<float, 8> floats;
  const size_t n = hn::Lanes(floats);
  auto bias = hn::Zero(floats);
  size_t t = 0;
  for (; t + n <= keys; t += n) {
    const auto p = hn::LoadU(floats, probabilities + t);
    hn::StoreU(hn::Mul(p, hn::LoadU(floats, values.scale.data() + t)), floats,
               out.exact.data() + t);
    bias = hn::MulAdd(p, hn::LoadU(floats, values.minimum.data() + t), bias);
  }
  out.bias[0] = hn::GetLane(hn::SumOfLanes(floats, bias));
  for (; t < keys; ++t) {
    out.exact[t] = probabilities[t] * values.scale[t];
    out.bias[0] += probabilities[t] * values.minimum[t];
  }
}

/// The same with groups: four of them a vector while there are four.
HWY_INLINE void multiply_groups(const ValueRun& values, size_t keys, const float* probabilities,
                                Weights& out) {
  const hn::CappedTag<float, 4> four;
  const size_t slots = values.slots;
  const size_t vectors = hn::Lanes(four) == 4 ? slots / 4 * 4 : 0;
  for (size_t g = 0; g < vectors; g += 4) {
    auto bias = hn::Zero(four);
    for (size_t t = 0; t < keys; ++t) {
      const size_t at = t * slots + g;
      const auto p = hn::Set(four, probabilities[t]);
      hn::StoreU(hn::Mul(p, hn::LoadU(four, values.scale.data() + at)), four,
                 out.exact.data() + at);
      bias = hn::MulAdd(p, hn::LoadU(four, values.minimum.data() + at), bias);
    }
    hn::StoreU(bias, four, out.bias.data() + g);
  }
  for (size_t t = 0; t < keys; ++t) {
    for (size_t g = vectors; g < slots; ++g) {
      out.exact[t * slots + g] = probabilities[t] * values.scale[t * slots + g];
      out.bias[g] += probabilities[t] * values.minimum[t * slots + g];
    }
  }
}

template <class Source>
void weigh(const ValueRun& values, size_t keys, const float* probabilities, Weights& out) {
  const size_t slots = values.slots;
  out.steps.resize(kRunTokens * slots);
  out.exact.resize(kRunTokens * slots);
  out.bias.assign(slots, 0.0F);
  if (slots == 1) {
    multiply_rows(values, keys, probabilities, out);
  } else {
    multiply_groups(values, keys, probabilities, out);
  }
  out.step = quantize(out.exact.data(), keys * slots, kProbabilitySteps, out.steps.data());
  const size_t copies = slots == 1 ? 1 : 4;
  out.pairs.resize(values.pairs * slots * copies);
  for (size_t pair = 0; pair < values.pairs; ++pair) {
    const int16_t* first = out.steps.data() + static_cast<size_t>(values.key_of[pair]) * slots;
    const bool single = values.single[pair];
    int32_t* to = out.pairs.data() + pair * slots * copies;
    for (size_t g = 0; g < slots; ++g) {
      const auto low = static_cast<uint16_t>(first[g]);
      const auto high = single ? uint16_t{0} : static_cast<uint16_t>(first[slots + g]);
      const auto both = static_cast<int32_t>(low | (static_cast<uint32_t>(high) << 16));
      if (slots == 1) {
        *to = both;
      } else {
        const hn::CappedTag<int32_t, 4> block;
        int32_t* place = to + group_place<Source>(g, slots) * 4;
        for (size_t i = 0; i < 4; i += hn::Lanes(block)) {
          hn::StoreU(hn::Set(block, both), block, place + i);
        }
      }
    }
  }
}

/// Adds the sums of `kVectors` vectors of words from word vector `v`, planes kFirst … + kCount, for
/// kHeads heads.
template <class Source, size_t kVectors, size_t kCount, size_t kHeads, bool kGrouped>
void add_planes(const ValueRun& values, const Weights* weights, size_t v, size_t first_plane,
                size_t width, float* sums) {
  S acc[kHeads][kVectors][kCount][2];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t x = 0; x < kVectors; ++x) {
      for (size_t k = 0; k < kCount; ++k) {
        acc[h][x][k][0] = hn::Zero(kSums);
        acc[h][x][k][1] = hn::Zero(kSums);
      }
    }
  }
  const size_t stride = kGrouped ? values.slots * 4 : 1;
  const size_t at = kGrouped ? v * kBlocks * 4 : 0;
  const size_t upper = kGrouped && Source::kPlanes == 8 ? values.slots / 2 * 4 : 0;
  for (size_t pair = 0; pair < values.pairs; ++pair) {
    if (v == 0 && first_plane == 0 && pair + kFetchPairs < values.pairs) {
      const size_t row_bytes = width / Source::kPlanes * 2 / (Source::kPlanes == 1 ? 2 : 1);
      fetch(reinterpret_cast<const std::byte*>(values.rows[2 * (pair + kFetchPairs)]), row_bytes);
      fetch(reinterpret_cast<const std::byte*>(values.rows[2 * (pair + kFetchPairs) + 1]),
            row_bytes);
    }
    const uint8_t* row0 = values.rows[2 * pair] + v * Source::kBytes;
    const uint8_t* row1 = values.rows[2 * pair + 1] + v * Source::kBytes;
    for (size_t x = 0; x < kVectors; ++x) {
      const W a = Source::raw(row0 + x * Source::kBytes);
      const W b = Source::raw(row1 + x * Source::kBytes);
      const W low = hn::InterleaveLower(kWords, a, b);
      const W high = hn::InterleaveUpper(kWords, a, b);
      for (size_t h = 0; h < kHeads; ++h) {
        const int32_t* pairs = weights[h].pairs.data() + pair * stride + at;
        const W p =
            hn::BitCast(kWords, kGrouped ? hn::LoadU(kSums, pairs) : hn::Set(kSums, *pairs));
        const W q = upper == 0 ? p : hn::BitCast(kWords, hn::LoadU(kSums, pairs + upper));
        for (size_t k = 0; k < kCount; ++k) {
          acc[h][x][k][0] = madd(acc[h][x][k][0], Source::plane(low, first_plane + k), p);
          acc[h][x][k][1] = madd(acc[h][x][k][1], Source::plane(high, first_plane + k), q);
        }
      }
    }
  }
  alignas(64) int32_t out[2][kN / 2];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t x = 0; x < kVectors; ++x) {
      for (size_t k = 0; k < kCount; ++k) {
        hn::Store(acc[h][x][k][0], kSums, out[0]);
        hn::Store(acc[h][x][k][1], kSums, out[1]);
        for (size_t word = 0; word < kN; ++word) {
          const size_t place = word / 8 * 4 + word % 4;  // in the lower or upper interleaving
          const size_t channel = ((v + x) * kN + word) * Source::kPlanes + first_plane + k;
          sums[h * width + channel] +=
              weights[h].step * static_cast<float>(out[word % 8 / 4][place]);
        }
      }
    }
  }
}

template <class Source, size_t kHeads, bool kGrouped>
void add_heads(const ValueRun& values, const Weights* weights, size_t width, float* sums) {
  // Eight or sixteen sums in registers.
  constexpr size_t kCount = kHeads == 1 && Source::kPlanes > 1 ? 4 : 1;
  constexpr size_t kVectors = kHeads == 1 && Source::kPlanes == 1 ? 4 : 1;
  const size_t vectors = width / (kN * Source::kPlanes);
  for (size_t v = 0; v < vectors; v += kVectors) {
    for (size_t k = 0; k < Source::kPlanes; k += kCount) {
      add_planes<Source, kVectors, kCount, kHeads, kGrouped>(values, weights, v, k, width, sums);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    const size_t part = width / values.slots;
    for (size_t i = 0; i < width; ++i) {
      sums[h * width + i] += weights[h].bias[i / part];
    }
  }
}

template <class Source, bool kGrouped>
void pv_int(const Run& run, const float* probabilities, float* sums) {
  const DecodeShape& s = run.input->shape;
  ValueRun& values = run.scratch->values;
  std::array<Weights, 4>& weights = run.scratch->weights;
  collect(run, kGrouped ? s.width / kKiviGroup : 1, values);
  for (size_t h = 0; h < s.heads;) {
    const size_t heads = h + 4 <= s.heads ? 4 : 1;
    for (size_t i = 0; i < heads; ++i) {
      weigh<Source>(values, run.keys, probabilities + (h + i) * kRunTokens, weights[i]);
    }
    if (heads == 4) {
      add_heads<Source, 4, kGrouped>(values, weights.data(), s.width, sums + h * s.width);
    } else {
      add_heads<Source, 1, kGrouped>(values, weights.data(), s.width, sums + h * s.width);
    }
    h += heads;
  }
}

PvLoop value_loop_here(Coding coding) {
  switch (coding) {
    case Coding::kInt8:
      return &pv_int<Int8Words, false>;
    case Coding::kInt4:
    case Coding::kTq4:
      return &pv_int<NibbleWords, false>;
    case Coding::kKivi4:
      return &pv_int<NibbleWords, true>;
    case Coding::kKivi2:
      return &pv_int<CrumbWords, true>;
    case Coding::kTq2:
      return &pv_int<CrumbWords, false>;
    default:
      return nullptr;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(value_loop_here);

PvLoop integer_value_loop(Coding coding, uint32_t width) {
  const uint32_t multiple = coding_info(coding).bits == 2 ? 128 : 64;  // whole vectors of words
  if (width % multiple != 0 || width > kIntWidthMax) {
    return nullptr;
  }
  return HWY_DYNAMIC_DISPATCH(value_loop_here)(coding);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
