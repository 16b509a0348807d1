// Logits from keys whose codes run along the channels of a token: int8, int4, and TurboQuant-4 by a
// table of int8 centroids. The query is an integer too: the dot product stays in integers until its
// last step.
#include "kernels/cpu/attention/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/keys_int.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include "kernels/cpu/attention/words-inl.h"
#include "kernels/math/int_token_head.h"

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

/// dots[h] = <query h, codes of the row>, queries in the source's plane order.
template <class Keys, size_t kHeads>
HWY_INLINE void dot_row(const uint8_t* row, size_t width, const int16_t* query, int32_t* dots) {
  using Source = typename Keys::Source;
  constexpr size_t kPlanes = Source::kPlanes;
  S sum[kHeads][2];
  for (size_t h = 0; h < kHeads; ++h) {
    sum[h][0] = hn::Zero(kSums);
    sum[h][1] = hn::Zero(kSums);
  }
  const size_t vectors = width / (kN * kPlanes);
  for (size_t v = 0; v < vectors; ++v) {
    W planes[kPlanes];
    Keys::planes(Source::raw(row + v * Source::kBytes), planes);
    for (size_t k = 0; k < kPlanes; ++k) {
      for (size_t h = 0; h < kHeads; ++h) {
        const W q = hn::LoadU(kWords, query + h * width + (v * kPlanes + k) * kN);
        sum[h][k % 2] = madd(sum[h][k % 2], planes[k], q);
      }
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    dots[h] = total(hn::Add(sum[h][0], sum[h][1]));
  }
}

/// A token's factor and zero point: logit = factor * (dot - zero * sum of the query).
struct RowFactor {
  float factor = 0;
  int32_t zero = 0;
};
RowFactor row_factor(Coding coding, const std::byte* params, size_t token, float unit) {
  if (coding == Coding::kTq4) {
    uint16_t norm;
    std::memcpy(&norm, params + 2 * token, 2);
    return {f16_to_f32(norm) * unit, 0};
  }
  uint32_t word;
  std::memcpy(&word, params + 4 * token, 4);
  if (coding == Coding::kInt8) {
    return {float_of(word), 0};
  }
  const Int4Row row = int4_unpack_row(word);
  return {row.scale, row.zero};
}

template <class Keys, size_t kHeads>
void qk_tile(const Run& run, const KvTile& tile, const QueryForms& query, size_t head,
             float* logits) {
  const DecodeShape& s = run.input->shape;
  const TileShape shape{tile.coding, Role::kKey, s.block_tokens, s.width};
  const size_t row_bytes = tile_row_bytes(shape);
  const std::byte* params = tile.key + tile_params_offset(shape);
  const auto& form = Keys::Source::kPlanes == 1 ? query.natural : query.planes;
  const int16_t* q = form.data() + head * s.width;
  const float unit = 1.0F / (kCentroidSteps * std::sqrt(static_cast<float>(s.width)));
  for (uint32_t t = tile.begin; t < tile.end; ++t) {
    int32_t dots[kHeads];
    dot_row<Keys, kHeads>(reinterpret_cast<const uint8_t*>(tile.key) + t * row_bytes, s.width, q,
                          dots);
    const RowFactor row = row_factor(tile.coding, params, t, unit);
    for (size_t h = 0; h < kHeads; ++h) {
      const int32_t dot = dots[h] - row.zero * query.sum[head + h];
      logits[h * kRunTokens + t - tile.begin] =
          static_cast<float>(dot) * (row.factor * query.step[head + h] * s.scale);
    }
  }
}

template <class Keys>
void qk_int(const Run& run, const QueryForms& query, float* logits) {
  const size_t heads = run.input->shape.heads;
  size_t key = 0;
  for (const KvTile& tile : run.tiles) {
    size_t h = 0;
    for (; h + 4 <= heads; h += 4) {
      qk_tile<Keys, 4>(run, tile, query, h, logits + h * kRunTokens + key);
    }
    for (; h < heads; ++h) {
      qk_tile<Keys, 1>(run, tile, query, h, logits + h * kRunTokens + key);
    }
    key += tile.end - tile.begin;
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
