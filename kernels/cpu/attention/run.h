// Between the driver of decode attention (decode.cc) and its loops (rows_float.cc, keys_int.cc,
// keys_kivi.cc, values_int.cc): a run is a piece of the sequence in one coding, short enough for
// its probabilities and codes to stay in the L1 cache. Every loop works on one run.
#pragma once

#include "kernels/attention.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe::kernels {

/// 256 keys: 1 KiB of f32 logits a head, and at most 32 KiB of int8 codes of width 128.
constexpr uint32_t kRunTokens = kAttentionBlockMax;
/// Integer loops: 127 * 2^13 * 1024 and 255 * 2^14 * 256 stay below 2^31.
constexpr uint32_t kIntWidthMax = 1024;
constexpr float kQuerySteps = 8191.0F;         // 14-bit query
constexpr float kProbabilitySteps = 16383.0F;  // 15-bit probability times scale
/// Vectors of the integer loops have at most so many 16-bit words: widths in multiples of 64 fit.
constexpr uint32_t kWordsMax = 16;

/// The query in the forms that loops read, per head; made once per call and rotation.
struct QueryForms {
  std::vector<float> plain;      // [heads, width], rotated and normalised
  std::vector<int16_t> natural;  // [heads, width] in steps
  std::vector<int16_t> planes;   // [heads, width] in the order of nibble_planes (words-inl.h)
  std::vector<float> step;       // [heads]
  std::vector<int32_t> sum;      // [heads] of natural
  bool ready = false;
};

/// What a run's values need before their integer loops start. Kept from run to run.
struct ValueRun {
  size_t pairs = 0;
  size_t slots = 1;                                 // scales of a token
  std::array<const uint8_t*, 2 * kRunTokens> rows;  // of each pair; an odd tile repeats its last
  std::array<int32_t, kRunTokens> key_of;           // first key of each pair
  std::array<bool, kRunTokens> single;              // the pair's second key does not exist
  std::vector<float> scale;                         // [keys, slots]
  std::vector<float> minimum;                       // [keys, slots]
};

/// One head's integer weights: a pair (two 16-bit halves of an int32) per pair of tokens, or, where
/// channels have groups, per pair and group, four times (a 128-bit block each).
struct Weights {
  std::vector<int32_t> pairs;
  std::vector<float> bias;   // [slots]: sum of probability times minimum
  std::vector<float> exact;  // [keys, slots]: probability times scale
  std::vector<int16_t> steps;
  float step = 0;
};

struct IntScratch {
  ValueRun values;
  std::array<Weights, 4> weights;  // heads go four at a time
  std::vector<float> folded;       // [width]
};

struct Run {
  IntScratch* scratch = nullptr;
  std::span<const KvTile> tiles;
  const KvTile* after = nullptr;  // the tile after the run
  uint32_t keys = 0;
  Coding coding = Coding::kF16;
  const DecodeInput* input = nullptr;
};

/// logits [heads, kRunTokens] = scale * <query, key>.
using QkLoop = void (*)(const Run& run, const QueryForms& query, float* logits);
/// sums [heads, width] += probabilities [heads, kRunTokens] x values (rotated, if the coding is).
using PvLoop = void (*)(const Run& run, const float* probabilities, float* sums);

/// Loops for a coding and width on this machine.
struct Loops {
  QkLoop qk = nullptr;
  PvLoop pv = nullptr;
};
Loops float_loops(Coding coding);  // f32 f16 bf16 fp8
/// Loops over integer codes; null where the coding or the width has none: use decoded_loops.
QkLoop integer_key_loop(Coding coding, uint32_t width);  // rows of tokens
QkLoop channel_key_loop(Coding coding, uint32_t width);  // rows of channels: KIVI
PvLoop integer_value_loop(Coding coding, uint32_t width);
/// Any coding and width, by way of decode_tile_raw.
Loops decoded_loops();

/// The tile after tile `i` of the run in this role: that of the next tile, of the values after the
/// last key tile, of the next run after the last value tile; null at the end. Tiles lie anywhere in
/// the pool, where hardware prefetchers don't follow, so loops fetch it row by row while they work.
const std::byte* next_tile(const Run& run, size_t i, Role role) noexcept;

void prepare_integer_query(const DecodeShape& shape, QueryForms& forms);

/// In: logits [heads, kRunTokens] of `keys` keys. Out: exp(logit - top) in place, with tops and
/// totals [heads] brought up to date; factor [heads]: what earlier sums must be multiplied by.
struct SoftmaxState {
  float* top = nullptr;
  float* total = nullptr;
  float* factor = nullptr;
};
void softmax_run(float* logits, uint32_t heads, uint32_t keys, const SoftmaxState& state);
void scale_row(float* row, uint32_t width, float factor);

}  // namespace troupe::kernels
