// Plain double-precision attention over decoded tiles, checks, and the merge of partial states.
#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace troupe::kernels {
namespace {

constexpr uint32_t kHeadsMax = 256;

}  // namespace

size_t count_keys(std::span<const KvTile> tiles) noexcept {
  size_t keys = 0;
  for (const KvTile& tile : tiles) {
    keys += tile.end - tile.begin;
  }
  return keys;
}

Status check_decode(const DecodeInput& input) {
  const DecodeShape& shape = input.shape;
  if (shape.heads == 0 || shape.heads > kHeadsMax) {
    return {Code::kInvalidArgument, "attention with " + std::to_string(shape.heads) +
                                        " query heads: must be 1 to " + std::to_string(kHeadsMax)};
  }
  if (shape.block_tokens > kAttentionBlockMax) {
    return {Code::kInvalidArgument, "attention over blocks of " +
                                        std::to_string(shape.block_tokens) + " tokens: at most " +
                                        std::to_string(kAttentionBlockMax)};
  }
  for (size_t i = 0; i < input.tiles.size(); ++i) {
    const KvTile& tile = input.tiles[i];
    const bool seen = i != 0 && tile.coding == input.tiles[i - 1].coding;
    if (!seen) {
      TROUPE_TRY(check_tile({tile.coding, Role::kKey, shape.block_tokens, shape.width}));
      TROUPE_TRY(check_tile({tile.coding, Role::kValue, shape.block_tokens, shape.width}));
    }
    if (tile.begin >= tile.end || tile.end > shape.block_tokens) {
      return {Code::kInvalidArgument,
              "tile " + std::to_string(i) + " takes part from token " + std::to_string(tile.begin) +
                  " to " + std::to_string(tile.end) + " of " + std::to_string(shape.block_tokens)};
    }
  }
  return Status::ok();
}

void decode_attention_reference(const DecodeInput& input, const DecodeOutput& output) {
  TROUPE_ASSERT(check_decode(input).is_ok());
  const DecodeShape& s = input.shape;
  const size_t keys = count_keys(input.tiles);
  std::vector<float> decoded(size_t{s.block_tokens} * s.width);
  std::vector<float> k;  // [keys, width]
  std::vector<float> v;
  for (const KvTile& tile : input.tiles) {
    const auto append = [&](Role role, const TileParams& params, const std::byte* bytes,
                            std::vector<float>& to) {
      decode_tile({tile.coding, role, s.block_tokens, s.width}, params, bytes, decoded.data());
      to.insert(to.end(), decoded.begin() + tile.begin * s.width,
                decoded.begin() + tile.end * s.width);
    };
    append(Role::kKey, input.params.key, tile.key, k);
    append(Role::kValue, input.params.value, tile.value, v);
  }
  for (size_t h = 0; h < s.heads; ++h) {
    std::vector<double> logits(keys);
    double top = -std::numeric_limits<double>::infinity();
    for (size_t t = 0; t < keys; ++t) {
      double dot = 0;
      for (size_t i = 0; i < s.width; ++i) {
        dot += static_cast<double>(input.query[h * s.width + i]) * k[t * s.width + i];
      }
      logits[t] = dot * s.scale + (input.key_bias != nullptr ? input.key_bias[t] : 0.0F);
      top = std::max(top, logits[t]);
      if (output.logits != nullptr) {
        output.logits[h * keys + t] = static_cast<float>(logits[t]);
      }
    }
    std::vector<double> sum(s.width, 0.0);
    double total = 0;
    for (size_t t = 0; t < keys && std::isfinite(top); ++t) {
      const double p = std::exp(logits[t] - top);
      total += p;
      for (size_t i = 0; i < s.width && p != 0; ++i) {
        sum[i] += p * v[t * s.width + i];
      }
    }
    output.lse[h] = static_cast<float>(total > 0 ? top + std::log(total)
                                                 : -std::numeric_limits<double>::infinity());
    for (size_t i = 0; i < s.width; ++i) {
      output.out[h * s.width + i] = total > 0 ? static_cast<float>(sum[i] / total) : 0.0F;
    }
  }
}

void merge_partial(const PartialState& into, const PartialState& other, uint32_t heads,
                   uint32_t width) noexcept {
  constexpr float kEmpty = -std::numeric_limits<float>::infinity();
  for (size_t h = 0; h < heads; ++h) {
    const float top = std::max(into.lse[h], other.lse[h]);
    if (top == kEmpty) {  // both empty: -inf - -inf would be NaN
      continue;
    }
    const float a = std::exp(into.lse[h] - top);
    const float b = std::exp(other.lse[h] - top);
    const float inverse = 1.0F / (a + b);
    for (size_t i = h * width; i < (h + 1) * width; ++i) {
      into.out[i] = (into.out[i] * a + other.out[i] * b) * inverse;
    }
    into.lse[h] = top + std::log(a + b);
  }
}

}  // namespace troupe::kernels
