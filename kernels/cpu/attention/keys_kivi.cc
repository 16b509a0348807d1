// Logits from KIVI's keys, whose codes run along the tokens of a channel: the scales go into the
// query (once per group of 32 tokens), then words of two channels are interleaved, multiplied and
// added, and the sums are those of 32 tokens. Codes of tokens outside the tile's range are read and
// thrown away.
#include "kernels/cpu/attention/run.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/keys_kivi.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target.
#include "kernels/cpu/attention/words-inl.h"

#include <algorithm>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// How the codes of one group of a channel lie in words: kivi4 eight words of four codes, so that a
/// 128-bit block is one channel; kivi2 four words of eight codes, a block is two channels.
template <class Source>
struct Group {
  static constexpr size_t kBytes = kKiviGroup * (16 / Source::kPlanes) / 8;
  static constexpr size_t kChannelsPerBlock = 16 / kBytes;
  static constexpr size_t kChannels = kBlocks * kChannelsPerBlock;  // of a vector
  static constexpr bool kTwo = kChannelsPerBlock == 2;
};

/// Vector of words of channels c, c + 1, … of a group whose first channel's codes are at `codes`.
template <class Source>
HWY_INLINE W load_channels(const uint8_t* codes, size_t row_bytes, size_t c) {
  using G = Group<Source>;
  if (row_bytes == G::kBytes) {
    return Source::raw(codes + c * G::kBytes);  // blocks of 32 tokens: channels are neighbours
  }
  alignas(64) uint8_t gathered[2 * kN];
  for (size_t i = 0; i < G::kChannels; ++i) {
    std::memcpy(gathered + i * G::kBytes, codes + (c + i) * row_bytes, G::kBytes);
  }
  return Source::raw(gathered);
}

/// Query times scales, as pairs in the order in which interleaved words meet them; returns what all
/// 32 logits have in common (query times minima).
template <class Source>
float fold_query(const float* query, const float* scales, const float* minima, size_t width,
                 float* folded, Weights& out) {
  using G = Group<Source>;
  const hn::CappedTag<float, 8> floats;
  auto sum = hn::Zero(floats);
  for (size_t c = 0; c < width; c += hn::Lanes(floats)) {  // width is a multiple of eight
    const auto q = hn::LoadU(floats, query + c);
    hn::StoreU(hn::Mul(q, hn::LoadU(floats, scales + c)), floats, folded + c);
    sum = hn::MulAdd(q, hn::LoadU(floats, minima + c), sum);
  }
  const float common = hn::GetLane(hn::SumOfLanes(floats, sum));
  out.steps.resize(width);
  out.step = quantize(folded, width, kQuerySteps, out.steps.data());
  out.pairs.resize(width / 2 * 4);
  int32_t* to = out.pairs.data();
  const int16_t* q = out.steps.data();
  for (size_t c = 0; c < width; c += 2 * G::kChannels) {
    for (size_t half = 0; half < G::kChannelsPerBlock; ++half) {
      for (size_t b = 0; b < kBlocks; ++b) {
        const size_t channel = c + b * G::kChannelsPerBlock + half;
        const auto both = static_cast<int32_t>(
            static_cast<uint16_t>(q[channel]) |
            (static_cast<uint32_t>(static_cast<uint16_t>(q[channel + G::kChannels])) << 16));
        const hn::CappedTag<int32_t, 4> block;
        for (size_t i = 0; i < 4; i += hn::Lanes(block)) {
          hn::StoreU(hn::Set(block, both), block, to + i);
        }
        to += 4;
      }
    }
  }
  return common;
}

/// Integer sums of planes first … + kCount of 32 tokens for kHeads heads: sums[h][token].
template <class Source, size_t kCount, size_t kHeads>
HWY_INLINE void sum_planes(const uint8_t* codes, size_t row_bytes, size_t width,
                           const Weights* weights, size_t first, int32_t sums[][kKiviGroup]) {
  using G = Group<Source>;
  constexpr size_t kHalves = G::kTwo ? 1 : 2;  // two channels of a block share their tokens' sums
  S acc[kHeads][kCount][kHalves];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t k = 0; k < kCount; ++k) {
      for (size_t i = 0; i < kHalves; ++i) {
        acc[h][k][i] = hn::Zero(kSums);
      }
    }
  }
  constexpr size_t kStride = kBlocks * 4 * G::kChannelsPerBlock;
  for (size_t c = 0, at = 0; c < width; c += 2 * G::kChannels, at += kStride) {
    const W a = load_channels<Source>(codes, row_bytes, c);
    const W b = load_channels<Source>(codes, row_bytes, c + G::kChannels);
    const W low = hn::InterleaveLower(kWords, a, b);
    const W high = hn::InterleaveUpper(kWords, a, b);
    for (size_t h = 0; h < kHeads; ++h) {
      const int32_t* pairs = weights[h].pairs.data() + at;
      const W p = hn::BitCast(kWords, hn::LoadU(kSums, pairs));
      const W q = G::kTwo ? hn::BitCast(kWords, hn::LoadU(kSums, pairs + kBlocks * 4)) : p;
      for (size_t k = 0; k < kCount; ++k) {
        acc[h][k][0] = madd(acc[h][k][0], Source::plane(low, first + k), p);
        acc[h][k][kHalves - 1] = madd(acc[h][k][kHalves - 1], Source::plane(high, first + k), q);
      }
    }
  }
  alignas(64) int32_t out[kN / 2];
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t k = 0; k < kCount; ++k) {
      for (size_t i = 0; i < kHalves; ++i) {
        hn::Store(acc[h][k][i], kSums, out);
        for (size_t word = 0; word < 4; ++word) {
          int32_t sum = 0;
          for (size_t block = 0; block < kBlocks; ++block) {
            sum += out[block * 4 + word];
          }
          sums[h][(i * 4 + word) * Source::kPlanes + first + k] = sum;
        }
      }
    }
  }
}

template <class Source, size_t kHeads>
void qk_group(const Run& run, const KvTile& tile, size_t group, const float* query, float* logits) {
  const DecodeShape& s = run.input->shape;
  const TileShape shape{tile.coding, Role::kKey, s.block_tokens, s.width};
  const size_t row_bytes = tile_row_bytes(shape);
  const std::byte* params = tile.key + tile_params_offset(shape);
  const size_t all = s.block_tokens / kKiviGroup * s.width;
  alignas(64) float scales[kIntWidthMax];
  alignas(64) float minima[kIntWidthMax];
  load_halves(params + 2 * group * s.width, s.width, scales);
  load_halves(params + 2 * (all + group * s.width), s.width, minima);
  IntScratch& scratch = *run.scratch;
  scratch.folded.resize(s.width);
  float common[kHeads];
  for (size_t h = 0; h < kHeads; ++h) {
    common[h] = fold_query<Source>(query + h * s.width, scales, minima, s.width,
                                   scratch.folded.data(), scratch.weights[h]);
  }
  int32_t sums[kHeads][kKiviGroup];
  const auto* codes = reinterpret_cast<const uint8_t*>(tile.key) + group * Group<Source>::kBytes;
  constexpr size_t kCount = kHeads == 1 ? Source::kPlanes : Source::kPlanes / 4;
  for (size_t first = 0; first < Source::kPlanes; first += kCount) {
    sum_planes<Source, kCount, kHeads>(codes, row_bytes, s.width, scratch.weights.data(), first,
                                       sums);
  }
  const size_t begin = std::max<size_t>(tile.begin, group * kKiviGroup);
  const size_t end = std::min<size_t>(tile.end, (group + 1) * kKiviGroup);
  for (size_t h = 0; h < kHeads; ++h) {
    for (size_t t = begin; t < end; ++t) {
      const auto dot = static_cast<float>(sums[h][t - group * kKiviGroup]);
      logits[h * kRunTokens + t - tile.begin] =
          (dot * scratch.weights[h].step + common[h]) * s.scale;
    }
  }
}

template <class Source>
void qk_kivi(const Run& run, const QueryForms& query, float* logits) {
  const DecodeShape& s = run.input->shape;
  size_t key = 0;
  const TileShape shape{run.coding, Role::kKey, s.block_tokens, s.width};
  for (size_t i = 0; i < run.tiles.size(); ++i) {
    const KvTile& tile = run.tiles[i];
    fetch(next_tile(run, i, Role::kKey), tile_bytes(shape));
    for (size_t group = tile.begin / kKiviGroup; group * kKiviGroup < tile.end; ++group) {
      size_t h = 0;
      for (; h + 4 <= s.heads; h += 4) {
        qk_group<Source, 4>(run, tile, group, query.plain.data() + h * s.width,
                            logits + h * kRunTokens + key);
      }
      for (; h < s.heads; ++h) {
        qk_group<Source, 1>(run, tile, group, query.plain.data() + h * s.width,
                            logits + h * kRunTokens + key);
      }
    }
    key += tile.end - tile.begin;
  }
}

QkLoop kivi_loop_here(Coding coding) {
  switch (coding) {
    case Coding::kKivi4:
      return &qk_kivi<NibbleWords>;
    case Coding::kKivi2:
      return &qk_kivi<CrumbWords>;
    default:
      return nullptr;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(kivi_loop_here);

QkLoop channel_key_loop(Coding coding, uint32_t width) {
  if (width % 8 != 0 || width > kIntWidthMax) {  // two vectors of channels
    return nullptr;
  }
  return HWY_DYNAMIC_DISPATCH(kivi_loop_here)(coding);
}

}  // namespace troupe::kernels
#endif  // HWY_ONCE
