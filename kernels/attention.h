// Paged decode attention for one layer and one kv head: all query heads of the group against the
// blocks of a sequence, read in whatever coding each block has. On a request's way: the engine's
// step (9), and every check of what a format costs in accuracy. Online softmax over runs of blocks
// (Milakov, Gimelshein 2018); states merge by log-sum-exp, so a long sequence may be split over
// threads or merged with another part (FlashDecoding, 2023). Invariants: rows outside a tile's
// [begin, end) are never read (they may hold NaN); a query without any key, or whose keys are all
// masked, gets output 0 and lse -infinity; logits and sums are f32.
#pragma once

#include "kernels/formats.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace troupe::kernels {

/// Tokens of a block that attention takes at most.
constexpr uint32_t kAttentionBlockMax = 256;

/// One block's K and V of this layer and kv head. Borrowed.
struct KvTile {
  const std::byte* key = nullptr;    // tile of Role::kKey
  const std::byte* value = nullptr;  // tile of Role::kValue
  Coding coding = Coding::kF16;
  uint32_t begin = 0;  // tokens [begin, end) of the tile take part
  uint32_t end = 0;
};

struct DecodeShape {
  uint32_t heads = 1;         // query heads that share this kv head
  uint32_t width = 0;         // values of a head
  uint32_t block_tokens = 0;  // tokens that a tile holds
  float scale = 1.0F;         // of the logits, usually 1 / sqrt(width)
};

/// Parameters of the namespace for K and V tiles.
struct DecodeParams {
  TileParams key;
  TileParams value;
};

struct DecodeInput {
  DecodeShape shape;
  DecodeParams params;
  std::span<const KvTile> tiles;
  const float* query = nullptr;  // [heads, width]
  /// Added to the logits of each key, equal for all heads; -infinity masks a key. May be null.
  const float* key_bias = nullptr;  // [keys]
};

struct DecodeOutput {
  float* out = nullptr;     // [heads, width]
  float* lse = nullptr;     // [heads]: log of the sum of exp(logit), natural
  float* logits = nullptr;  // [heads, keys] with scale and bias, for scorers; may be null
};

/// Keys that take part: sum of end - begin.
size_t count_keys(std::span<const KvTile> tiles) noexcept;

/// Errors: invalid_argument (a tile shape that its coding can't hold, an empty or too long range,
/// heads 0 or over 256,
/// blocks of more than kAttentionBlockMax tokens). Both attention functions assert it.
Status check_decode(const DecodeInput& input);

/// The specification, in double precision from fully decoded tiles.
void decode_attention_reference(const DecodeInput& input, const DecodeOutput& output);

/// Memory that a thread reuses from call to call.
class DecodeScratch {
 public:
  DecodeScratch();
  ~DecodeScratch();
  DecodeScratch(const DecodeScratch&) = delete;
  DecodeScratch& operator=(const DecodeScratch&) = delete;
  struct Parts;
  Parts& parts() noexcept { return *parts_; }

 private:
  std::unique_ptr<Parts> parts_;
};

/// The fast one: reads tiles in their coding, int8 to 2-bit codes by integer dot products with a
/// 14-bit query and 15-bit probabilities, which adds less than 1e-4 of a row's largest term.
/// [any thread, one scratch each]
void decode_attention(const DecodeInput& input, const DecodeOutput& output, DecodeScratch& scratch);

/// Merges the state (out, lse) of another part into `into`; either may be empty (lse -infinity).
/// out [heads, width].
struct PartialState {
  float* out = nullptr;
  float* lse = nullptr;
};
void merge_partial(const PartialState& into, const PartialState& other, uint32_t heads,
                   uint32_t width) noexcept;

}  // namespace troupe::kernels
