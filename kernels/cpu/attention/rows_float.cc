// Loops over rows of floating-point codes (f32, f16, bf16, fp8), which convert in registers; the
// softmax of a run; and the loops for any other coding, by way of the reference decoder.
#include "kernels/cpu/attention/run.h"
#include "kernels/math/half.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/rows_float.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include <hwy/cache_control.h>
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, 16>;
constexpr Floats kFloats;
using F = hn::Vec<Floats>;

HWY_INLINE size_t lanes() {
  return hn::Lanes(kFloats);
}

/// Readers: one vector of f32 from codes at index `i` of a row; the rest of a row one by one.
struct ReadF32 {
  static constexpr size_t kBytes = 4;
  static constexpr float kScale = 1;
  static HWY_INLINE F load(const uint8_t* row, size_t i) {
    return hn::LoadU(kFloats, reinterpret_cast<const float*>(row) + i);
  }
  static float one(const uint8_t* row, size_t i) {
    float x;
    std::memcpy(&x, row + 4 * i, 4);
    return x;
  }
};
struct ReadF16 {
  static constexpr size_t kBytes = 2;
  static constexpr float kScale = 1;
  static HWY_INLINE F load(const uint8_t* row, size_t i) {
    const hn::Rebind<hwy::float16_t, Floats> halves;
    return hn::PromoteTo(kFloats,
                         hn::LoadU(halves, reinterpret_cast<const hwy::float16_t*>(row) + i));
  }
  static float one(const uint8_t* row, size_t i) {
    uint16_t h;
    std::memcpy(&h, row + 2 * i, 2);
    return f16_to_f32(h);
  }
};
struct ReadBf16 {
  static constexpr size_t kBytes = 2;
  static constexpr float kScale = 1;
  static HWY_INLINE F load(const uint8_t* row, size_t i) {
    const hn::Rebind<hwy::bfloat16_t, Floats> halves;
    return hn::PromoteTo(kFloats,
                         hn::LoadU(halves, reinterpret_cast<const hwy::bfloat16_t*>(row) + i));
  }
  static float one(const uint8_t* row, size_t i) {
    uint16_t b;
    std::memcpy(&b, row + 2 * i, 2);
    return bf16_to_f32(b);
  }
};
/// By way of f16, 2^8 too small, which goes into the logit's or the probability's factor. The NaN
/// code, which a saturating encoder writes for NaN only, reads as 480.
struct ReadE4m3 {
  static constexpr size_t kBytes = 1;
  static constexpr float kScale = 256;
  static HWY_INLINE F load(const uint8_t* row, size_t i) {
    const hn::Rebind<uint8_t, Floats> bytes;
    const hn::Rebind<uint16_t, Floats> words;
    const hn::Rebind<hwy::float16_t, Floats> halves;
    const auto w = hn::PromoteTo(words, hn::LoadU(bytes, row + i));
    const auto sign = hn::ShiftLeft<8>(hn::And(w, hn::Set(words, 0x80)));
    const auto rest = hn::ShiftLeft<7>(hn::And(w, hn::Set(words, 0x7F)));
    return hn::PromoteTo(kFloats, hn::BitCast(halves, hn::Or(sign, rest)));
  }
  static float one(const uint8_t* row, size_t i) {
    const uint32_t code = row[i];
    return f16_to_f32(static_cast<uint16_t>(((code & 0x80U) << 8) | ((code & 0x7FU) << 7)));
  }
};
struct ReadE5m2 {
  static constexpr size_t kBytes = 1;
  static constexpr float kScale = 1;
  static HWY_INLINE F load(const uint8_t* row, size_t i) {
    const hn::Rebind<uint8_t, Floats> bytes;
    const hn::Rebind<uint16_t, Floats> words;
    const hn::Rebind<hwy::float16_t, Floats> halves;
    const auto w = hn::PromoteTo(words, hn::LoadU(bytes, row + i));
    return hn::PromoteTo(kFloats, hn::BitCast(halves, hn::ShiftLeft<8>(w)));
  }
  static float one(const uint8_t* row, size_t i) {
    return f16_to_f32(static_cast<uint16_t>(row[i] << 8));
  }
};

/// Asks for row `t` of the tile that comes next; null asks for nothing.
HWY_INLINE void fetch_row(const uint8_t* tile, size_t t, size_t bytes) {
  for (size_t i = 0; tile != nullptr && i < bytes; i += 64) {
    hwy::Prefetch(tile + t * bytes + i);
  }
}

/// Dot products of one row with `kHeads` queries, [kHeads, width] apart.
template <class Read, size_t kHeads>
HWY_INLINE void dot_row(const uint8_t* row, const float* query, size_t width, float* out) {
  F sum[kHeads][2];
  for (size_t h = 0; h < kHeads; ++h) {
    sum[h][0] = hn::Zero(kFloats);
    sum[h][1] = hn::Zero(kFloats);
  }
  const size_t n = lanes();
  size_t i = 0;
  for (; i + 2 * n <= width; i += 2 * n) {
    const F a = Read::load(row, i);
    const F b = Read::load(row, i + n);
    for (size_t h = 0; h < kHeads; ++h) {
      sum[h][0] = hn::MulAdd(a, hn::LoadU(kFloats, query + h * width + i), sum[h][0]);
      sum[h][1] = hn::MulAdd(b, hn::LoadU(kFloats, query + h * width + i + n), sum[h][1]);
    }
  }
  for (size_t h = 0; h < kHeads; ++h) {
    out[h] = hn::GetLane(hn::SumOfLanes(kFloats, hn::Add(sum[h][0], sum[h][1])));
  }
  for (; i < width; ++i) {
    const float x = Read::one(row, i);
    for (size_t h = 0; h < kHeads; ++h) {
      out[h] += x * query[h * width + i];
    }
  }
}

/// logits[h][key] = factor * <query h, row>.
template <class Read, size_t kHeads>
void qk_rows(const uint8_t* rows, const uint8_t* next, size_t count, const float* query,
             size_t width, float factor, float* logits) {
  for (size_t t = 0; t < count; ++t) {
    fetch_row(next, t, width * Read::kBytes);
    float dots[kHeads];
    dot_row<Read, kHeads>(rows + t * width * Read::kBytes, query, width, dots);
    for (size_t h = 0; h < kHeads; ++h) {
      logits[h * kRunTokens + t] = dots[h] * factor;
    }
  }
}

/// sums[h] += probabilities[h][key] * factor * row, channels in slabs that stay in registers.
template <class Read, size_t kHeads>
void pv_rows(const uint8_t* rows, const uint8_t* next, size_t count, const float* probabilities,
             size_t width, float factor, float* sums) {
  constexpr size_t kSlab = kHeads == 1 ? 8 : 2;  // vectors a head
  const size_t n = lanes();
  const size_t stride = width * Read::kBytes;
  size_t i = 0;
  for (; i + n <= width;) {
    const size_t vectors = std::min(kSlab, (width - i) / n);
    F sum[kHeads][kSlab];
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t v = 0; v < kSlab; ++v) {
        sum[h][v] = hn::Zero(kFloats);
      }
    }
    if (vectors == kSlab) {
      for (size_t t = 0; t < count; ++t) {
        fetch_row(i == 0 ? next : nullptr, t, stride);
        for (size_t v = 0; v < kSlab; ++v) {
          const F x = Read::load(rows + t * stride, i + v * n);
          for (size_t h = 0; h < kHeads; ++h) {
            sum[h][v] =
                hn::MulAdd(x, hn::Set(kFloats, probabilities[h * kRunTokens + t]), sum[h][v]);
          }
        }
      }
    } else {
      for (size_t t = 0; t < count; ++t) {
        for (size_t h = 0; h < kHeads; ++h) {
          const F x = Read::load(rows + t * stride, i);
          sum[h][0] = hn::MulAdd(x, hn::Set(kFloats, probabilities[h * kRunTokens + t]), sum[h][0]);
        }
      }
    }
    const size_t done = vectors == kSlab ? kSlab : 1;
    for (size_t h = 0; h < kHeads; ++h) {
      for (size_t v = 0; v < done; ++v) {
        float* to = sums + h * width + i + v * n;
        hn::StoreU(hn::MulAdd(sum[h][v], hn::Set(kFloats, factor), hn::LoadU(kFloats, to)), kFloats,
                   to);
      }
    }
    i += done * n;
  }
  for (; i < width; ++i) {
    for (size_t t = 0; t < count; ++t) {
      const float x = Read::one(rows + t * stride, i) * factor;
      for (size_t h = 0; h < kHeads; ++h) {
        sums[h * width + i] += x * probabilities[h * kRunTokens + t];
      }
    }
  }
}

/// Four heads at a time while there are four, so that a row is converted once for them.
template <class Read>
void qk_all(const uint8_t* rows, const uint8_t* next, size_t count, const float* query,
            size_t heads, size_t width, float factor, float* logits) {
  size_t h = 0;
  for (; h + 4 <= heads; h += 4) {
    qk_rows<Read, 4>(rows, h == 0 ? next : nullptr, count, query + h * width, width, factor,
                     logits + h * kRunTokens);
  }
  for (; h < heads; ++h) {
    qk_rows<Read, 1>(rows, h == 0 ? next : nullptr, count, query + h * width, width, factor,
                     logits + h * kRunTokens);
  }
}
template <class Read>
void pv_all(const uint8_t* rows, const uint8_t* next, size_t count, const float* probabilities,
            size_t heads, size_t width, float factor, float* sums) {
  size_t h = 0;
  for (; h + 4 <= heads; h += 4) {
    pv_rows<Read, 4>(rows, h == 0 ? next : nullptr, count, probabilities + h * kRunTokens, width,
                     factor, sums + h * width);
  }
  for (; h < heads; ++h) {
    pv_rows<Read, 1>(rows, h == 0 ? next : nullptr, count, probabilities + h * kRunTokens, width,
                     factor, sums + h * width);
  }
}

constexpr bool is_fp8(Coding coding) {
  return coding == Coding::kFp8E4m3 || coding == Coding::kFp8E5m2;
}

template <class Read>
void qk_float(const Run& run, const QueryForms& query, float* logits) {
  const DecodeShape& s = run.input->shape;
  const float scale = is_fp8(run.coding) ? run.input->params.key.fp8_scale : 1.0F;
  size_t key = 0;
  for (size_t i = 0; i < run.tiles.size(); ++i) {
    const KvTile& tile = run.tiles[i];
    const auto* next = reinterpret_cast<const uint8_t*>(next_tile(run, i, Role::kKey));
    const auto* rows =
        reinterpret_cast<const uint8_t*>(tile.key) + size_t{tile.begin} * s.width * Read::kBytes;
    qk_all<Read>(rows, next, tile.end - tile.begin, query.plain.data(), s.heads, s.width,
                 s.scale * scale * Read::kScale, logits + key);
    key += tile.end - tile.begin;
  }
}

template <class Read>
void pv_float(const Run& run, const float* probabilities, float* sums) {
  const DecodeShape& s = run.input->shape;
  const float scale = is_fp8(run.coding) ? run.input->params.value.fp8_scale : 1.0F;
  size_t key = 0;
  for (size_t i = 0; i < run.tiles.size(); ++i) {
    const KvTile& tile = run.tiles[i];
    const auto* next = reinterpret_cast<const uint8_t*>(next_tile(run, i, Role::kValue));
    const auto* rows =
        reinterpret_cast<const uint8_t*>(tile.value) + size_t{tile.begin} * s.width * Read::kBytes;
    pv_all<Read>(rows, next, tile.end - tile.begin, probabilities + key, s.heads, s.width,
                 scale * Read::kScale, sums);
    key += tile.end - tile.begin;
  }
}

void qk_decoded(const Run& run, const QueryForms& query, float* logits) {
  const DecodeShape& s = run.input->shape;
  std::vector<float> rows(size_t{s.block_tokens} * s.width);
  size_t key = 0;
  for (const KvTile& tile : run.tiles) {
    decode_tile_raw({tile.coding, Role::kKey, s.block_tokens, s.width}, run.input->params.key,
                    tile.key, rows.data());
    qk_all<ReadF32>(reinterpret_cast<const uint8_t*>(rows.data() + size_t{tile.begin} * s.width),
                    nullptr, tile.end - tile.begin, query.plain.data(), s.heads, s.width, s.scale,
                    logits + key);
    key += tile.end - tile.begin;
  }
}

void pv_decoded(const Run& run, const float* probabilities, float* sums) {
  const DecodeShape& s = run.input->shape;
  std::vector<float> rows(size_t{s.block_tokens} * s.width);
  size_t key = 0;
  for (const KvTile& tile : run.tiles) {
    decode_tile_raw({tile.coding, Role::kValue, s.block_tokens, s.width}, run.input->params.value,
                    tile.value, rows.data());
    pv_all<ReadF32>(reinterpret_cast<const uint8_t*>(rows.data() + size_t{tile.begin} * s.width),
                    nullptr, tile.end - tile.begin, probabilities + key, s.heads, s.width, 1.0F,
                    sums);
    key += tile.end - tile.begin;
  }
}

Loops float_loops_here(Coding coding) {
  switch (coding) {
    case Coding::kF32:
      return {&qk_float<ReadF32>, &pv_float<ReadF32>};
    case Coding::kF16:
      return {&qk_float<ReadF16>, &pv_float<ReadF16>};
    case Coding::kBf16:
      return {&qk_float<ReadBf16>, &pv_float<ReadBf16>};
    case Coding::kFp8E4m3:
      return {&qk_float<ReadE4m3>, &pv_float<ReadE4m3>};
    case Coding::kFp8E5m2:
      return {&qk_float<ReadE5m2>, &pv_float<ReadE5m2>};
    default:
      return {};
  }
}
Loops decoded_loops_here() {
  return {&qk_decoded, &pv_decoded};
}

void softmax_here(float* logits, uint32_t heads, uint32_t keys, const SoftmaxState& state) {
  const size_t n = lanes();
  constexpr float kNone = -HUGE_VALF;
  for (size_t h = 0; h < heads; ++h) {
    float* row = logits + h * kRunTokens;
    const float run_top = *std::max_element(row, row + keys);
    const float top = std::max(state.top[h], run_top);
    if (top == kNone) {  // every key so far is masked
      std::fill_n(row, keys, 0.0F);
      state.factor[h] = 1;
      continue;
    }
    F sum = hn::Zero(kFloats);
    size_t t = 0;
    for (; t + n <= keys; t += n) {
      const F p = hn::Exp(kFloats, hn::Sub(hn::LoadU(kFloats, row + t), hn::Set(kFloats, top)));
      hn::StoreU(p, kFloats, row + t);
      sum = hn::Add(sum, p);
    }
    float total = hn::GetLane(hn::SumOfLanes(kFloats, sum));
    for (; t < keys; ++t) {
      row[t] = std::exp(row[t] - top);
      total += row[t];
    }
    state.factor[h] = std::exp(state.top[h] - top);
    state.total[h] = state.total[h] * state.factor[h] + total;
    state.top[h] = top;
  }
}

void scale_row_here(float* row, uint32_t width, float factor) {
  for (uint32_t i = 0; i < width; ++i) {
    row[i] *= factor;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(float_loops_here);
HWY_EXPORT(decoded_loops_here);
HWY_EXPORT(softmax_here);
HWY_EXPORT(scale_row_here);

Loops float_loops(Coding coding) {
  return HWY_DYNAMIC_DISPATCH(float_loops_here)(coding);
}
Loops decoded_loops() {
  return HWY_DYNAMIC_DISPATCH(decoded_loops_here)();
}
void softmax_run(float* logits, uint32_t heads, uint32_t keys, const SoftmaxState& state) {
  HWY_DYNAMIC_DISPATCH(softmax_here)(logits, heads, keys, state);
}
void scale_row(float* row, uint32_t width, float factor) {
  HWY_DYNAMIC_DISPATCH(scale_row_here)(row, width, factor);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
