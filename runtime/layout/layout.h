// KvLayout: what a model caches per token, as data, so that no part of the runtime knows a model by
// name. A layout is a list of layer groups (layers that share one life: same planes, window and
// retention); a group is a list of planes (one kind of cached data with its own width and token
// rate); a block holds the planes of `block_tokens` consecutive tokens of one group of one shard,
// block-major and contiguous. Bytes: block_bytes.h.
#pragma once

#include "runtime/base/status.h"
#include "runtime/layout/format.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// What a plane holds. Values are part of fingerprints: append only.
enum class PlaneKind : uint8_t {
  kKey = 0,
  kValue,
  kKeyValue,  // one vector serves as K and V (stored before RoPE, rotated on the way)
  kLatent,    // MLA's compressed vector
  kRopeKey,   // MLA's shared rotated key; never quantized
  kIndexer,   // keys of a sparse-attention indexer; keep their own dtype
  kState,     // recurrent state or convolution tail; keeps its own dtype
};

/// How the layers of a group attend. Append only.
enum class Attention : uint8_t {
  kMha = 0,
  kMqa,
  kGqa,
  kMla,
  kKvShared,
  kSlidingWindow,  // heads as in MHA/GQA, of which only the last `window_tokens` tokens are needed
  kRecurrent,      // a state per sequence position that is checkpointed with its block
};

/// Values per token of a plane: 1 / `per_tokens`, or, as a state, one per block.
struct TokenRate {
  uint32_t per_tokens = 1;  // 1: every token; 4: one for four tokens; 128 …
  bool state = false;
  friend bool operator==(const TokenRate&, const TokenRate&) noexcept = default;
};

struct Plane {
  PlaneKind kind = PlaneKind::kKey;
  uint32_t layers = 0;
  uint32_t heads = 0;  // kv heads of the whole model, before tensor-parallel splitting
  uint32_t width = 0;  // values of one head
  Format dtype =
      Format::kBf16;  // as the model computes it; planes that are never quantized keep it
  TokenRate rate;
  friend bool operator==(const Plane&, const Plane&) noexcept = default;
};

struct LayerGroup {
  std::string name;
  Attention attention = Attention::kGqa;
  uint32_t window_tokens = 0;  // 0: all tokens; only with kSlidingWindow
  std::vector<Plane> planes;
  friend bool operator==(const LayerGroup&, const LayerGroup&) noexcept = default;
};

/// Which part of each block this rank holds. The shards of one block are one set. Heads are split
/// over the tensor-parallel ranks (a plane with fewer heads than ranks is replicated); a
/// context-parallel rank holds the token range [token_first, token_first + token_count) of every
/// block.
struct Shard {
  uint32_t tensor_rank = 0;
  uint32_t tensor_size = 1;
  uint32_t context_rank = 0;
  uint32_t context_size = 1;
  uint32_t token_first = 0;
  uint32_t token_count = 0;  // 0: all tokens of the block, only with context_size 1
  friend bool operator==(const Shard&, const Shard&) noexcept = default;
};

struct KvLayout {
  std::string model;
  std::string revision;
  uint32_t block_tokens = 16;
  bool keys_before_rope = false;  // K cached unrotated (position-independent reuse)
  std::vector<LayerGroup> groups;
  Shard shard;
  friend bool operator==(const KvLayout&, const KvLayout&) noexcept = default;
};

std::string_view plane_kind_name(PlaneKind kind) noexcept;
std::string_view attention_name(Attention attention) noexcept;
/// By name ("gqa", "mla", "sliding_window" …). Error: invalid argument, listing the names.
Expected<Attention> parse_attention(std::string_view name);

/// Everything that bytes_per_block relies on. Errors: invalid argument, naming group, plane, value
/// and limit (a token rate that does not divide the block, heads that the ranks do not divide …).
Status validate(const KvLayout& layout);

/// Equal for equal layout and format, whatever the process; exchanged and stored, so that another
/// side's block is another namespace and never garbage. [layout must pass validate]
uint64_t layout_fingerprint(const KvLayout& layout, Format format) noexcept;

/// One line a human can compare when fingerprints differ.
std::string describe(const KvLayout& layout);

/// The usual layouts. Both have one group of `layers` layers; `dtype` is the model's own.
struct AttentionShape {
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  Format dtype = Format::kBf16;
};
/// K and V planes of `attention` (MHA, MQA, GQA, sliding window; K=V shared: one plane).
LayerGroup attention_group(std::string name, Attention attention, const AttentionShape& shape,
                           uint32_t window_tokens = 0);
/// Latent and rope-key planes of multi-head latent attention (DeepSeek-V2, 2024).
LayerGroup mla_group(std::string name, uint32_t layers, uint32_t latent_width, uint32_t rope_width,
                     Format dtype = Format::kBf16);

}  // namespace troupe
