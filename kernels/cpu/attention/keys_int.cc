// Logits from keys whose codes run along the channels of a token: int8, int4, and TurboQuant-4 by a
// table of int8 centroids. The query is an integer too: the dot product stays in integers until its
// last step.
#include "kernels/cpu/attention/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/keys_int.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include "kernels/cpu/attention/words-inl.h"

#include <algorithm>
#include <cmath>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// The planes of a vector of packed words as the query meets them.
struct Int8Keys {
  using Source = Int8Words;
  static HWY_INLINE void planes(W raw, W* out) { out[0] = raw; }
};
struct NibbleKeys {
  using Source = NibbleWords;
  static HWY_INLINE void planes(W raw, W* out) {
    for (size_t k = 0; k < 4; ++k) {
      out[k] = NibbleWords::plane(raw, k);
    }
  }
};

/// Steps of the int8 centroids: the largest is 2.73.
constexpr float kCentroidSteps = 46.0F;

/// int8 centroids by byte shuffle; sign extension by shifts.
struct Tq4Keys {
  using Source = NibbleWords;
  static HWY_INLINE void planes(W raw, W* out) {
    alignas(16) static constexpr int8_t kTable[16] = {-126, -95, -74, -58, -43, -30, -18, -6,
                                                      6,    18,  30,  43,  58,  74,  95,  126};
    const hn::Repartition<uint8_t, Words> bytes;
    const auto table = hn::LoadDup128(bytes, reinterpret_cast<const uint8_t*>(kTable));
    const auto mask = hn::Set(bytes, 0x0F);
    const auto low = hn::And(hn::BitCast(bytes, raw), mask);
    const auto high =
        hn::And(hn::BitCast(bytes, hn::ShiftRight<4>(hn::BitCast(kUWords, raw))), mask);
    const W a = hn::BitCast(kWords, hn::TableLookupBytes(table, low));
    const W b = hn::BitCast(kWords, hn::TableLookupBytes(table, high));
    out[0] = hn::ShiftRight<8>(hn::ShiftLeft<8>(a));
    out[1] = hn::ShiftRight<8>(hn::ShiftLeft<8>(b));
    out[2] = hn::ShiftRight<8>(a);
    out[3] = hn::ShiftRight<8>(b);
  }
};

/// dots[h][0 … 3] = <query h, codes of four rows>, queries in the source's plane order.
template <class Keys, size_t kHeads>
HWY_INLINE void dot_rows(const uint8_t* const* rows, size_t width, const int16_t* query,
                         int32_t dots[][4]) {
  using Source = typename Keys::Source;
  constexpr size_t kPlanes = Source::kPlanes;
  S sum[kHeads][4];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t r = 0; r < 4; ++r) {
      sum[h][r] = hn::Zero(kSums);
    }
  }
  const size_t vectors = width / (kN * kPlanes);
  for (size_t v = 0; v < vectors; ++v) {
    for (size_t r = 0; r < 4; ++r) {
      W planes[kPlanes];
      Keys::planes(Source::raw(rows[r] + v * Source::kBytes), planes);
      for (size_t k = 0; k < kPlanes; ++k) {
        for (size_t h = 0; h < kHeads; ++h) {
          const W q = hn::LoadU(kWords, query + h * width + (v * kPlanes + k) * kN);
          sum[h][r] = madd(sum[h][r], planes[k], q);
        }
      }
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    totals(sum[h][0], sum[h][1], sum[h][2], sum[h][3], dots[h]);
  }
}

/// Factors and zero points of the tokens of a tile: logit = factor * (dot - zero * sum of the
/// query).
void row_factors(const KvTile& tile, const std::byte* params, float unit, float* factor,
                 float* zero) {
  const size_t count = tile.end - tile.begin;
  if (tile.coding == Coding::kTq4) {
    load_halves(params + 2 * tile.begin, count, factor);
    for (size_t t = 0; t < count; ++t) {
      factor[t] *= unit;
      zero[t] = 0;
    }
    return;
  }
  alignas(64) uint32_t words[kRunTokens];
  std::memcpy(words, params + 4 * tile.begin, 4 * count);
  const uint32_t mask = tile.coding == Coding::kInt4 ? 0xFU : 0U;
  for (size_t t = 0; t < count; ++t) {
    zero[t] = static_cast<float>(static_cast<int32_t>(words[t] & mask));
    words[t] &= ~mask;
  }
  std::memcpy(factor, words, 4 * count);
}

template <class Keys, size_t kHeads>
void qk_tile(const Run& run, size_t tile_index, const QueryForms& query, size_t head,
             float* logits) {
  const DecodeShape& s = run.input->shape;
  const KvTile& tile = run.tiles[tile_index];
  const TileShape shape{tile.coding, Role::kKey, s.block_tokens, s.width};
  const size_t row_bytes = tile_row_bytes(shape);
  const size_t fetch_bytes = tile_bytes(shape) / s.block_tokens + 1;
  const std::byte* next = head == 0 ? next_tile(run, tile_index, Role::kKey) : nullptr;
  const auto& form = Keys::Source::kPlanes == 1 ? query.natural : query.planes;
  const int16_t* q = form.data() + head * s.width;
  const auto* codes = reinterpret_cast<const uint8_t*>(tile.key) + tile.begin * row_bytes;
  const size_t count = tile.end - tile.begin;
  int32_t dots[kHeads][kRunTokens];
  for (size_t t = 0; t < count; t += 4) {
    const uint8_t* rows[4];
    for (size_t r = 0; r < 4; ++r) {  // a row too many is read again and not used
      rows[r] = codes + std::min(t + r, count - 1) * row_bytes;
      fetch(next != nullptr ? next + (t + r) * fetch_bytes : nullptr, fetch_bytes);
    }
    int32_t four[kHeads][4];
    dot_rows<Keys, kHeads>(rows, s.width, q, four);
    for (size_t h = 0; h < kHeads; ++h) {
      std::copy_n(four[h], std::min<size_t>(4, count - t), dots[h] + t);
    }
  }
  float factor[kRunTokens];
  float zero[kRunTokens];
  const float unit = 1.0F / (kCentroidSteps * std::sqrt(static_cast<float>(s.width)));
  row_factors(tile, tile.key + tile_params_offset(shape), unit, factor, zero);
  for (size_t h = 0; h < kHeads; ++h) {
    const float step = query.step[head + h] * s.scale;
    const auto sum = static_cast<float>(query.sum[head + h]);
    for (size_t t = 0; t < count; ++t) {
      logits[h * kRunTokens + t] =
          (static_cast<float>(dots[h][t]) - zero[t] * sum) * (factor[t] * step);
    }
  }
}

template <class Keys>
void qk_int(const Run& run, const QueryForms& query, float* logits) {
  const size_t heads = run.input->shape.heads;
  size_t key = 0;
  for (size_t i = 0; i < run.tiles.size(); ++i) {
    size_t h = 0;
    for (; h + 4 <= heads; h += 4) {
      qk_tile<Keys, 4>(run, i, query, h, logits + h * kRunTokens + key);
    }
    for (; h < heads; ++h) {
      qk_tile<Keys, 1>(run, i, query, h, logits + h * kRunTokens + key);
    }
    key += run.tiles[i].end - run.tiles[i].begin;
  }
}

void prepare_here(const DecodeShape& s, QueryForms& forms) {
  const size_t count = size_t{s.heads} * s.width;
  forms.natural.resize(count);
  forms.planes.resize(count);
  forms.step.resize(s.heads);
  forms.sum.assign(s.heads, 0);
  for (size_t h = 0; h < s.heads; ++h) {
    int16_t* q = forms.natural.data() + h * s.width;
    forms.step[h] = quantize(forms.plain.data() + h * s.width, s.width, kQuerySteps, q);
    for (size_t i = 0; i < s.width; ++i) {
      forms.sum[h] += q[i];
    }
    constexpr size_t kPlanes = NibbleWords::kPlanes;
    for (size_t i = 0; i + kN * kPlanes <= s.width; i += kN * kPlanes) {
      for (size_t k = 0; k < kPlanes; ++k) {
        for (size_t w = 0; w < kN; ++w) {
          forms.planes[h * s.width + i + k * kN + w] = q[i + kPlanes * w + k];
        }
      }
    }
  }
}

QkLoop key_loop_here(Coding coding) {
  switch (coding) {
    case Coding::kInt8:
      return &qk_int<Int8Keys>;
    case Coding::kInt4:
      return &qk_int<NibbleKeys>;
    case Coding::kTq4:
      return &qk_int<Tq4Keys>;
    default:
      return nullptr;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(prepare_here);
HWY_EXPORT(key_loop_here);

void prepare_integer_query(const DecodeShape& shape, QueryForms& forms) {
  HWY_DYNAMIC_DISPATCH(prepare_here)(shape, forms);
}
QkLoop integer_key_loop(Coding coding, uint32_t width) {
  if (width % 64 != 0 || width > kIntWidthMax) {  // whole vectors of words
    return nullptr;
  }
  return HWY_DYNAMIC_DISPATCH(key_loop_here)(coding);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
