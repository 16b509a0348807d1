#include "runtime/layout/layout.h"

#include "runtime/base/digest.h"

#include <array>

namespace troupe {
namespace {

constexpr std::array<std::string_view, 7> kPlaneNames = {
    "key", "value", "key_value", "latent", "rope_key", "indexer", "state"};
constexpr std::array<std::string_view, 7> kAttentionNames = {
    "mha", "mqa", "gqa", "mla", "kv_shared", "sliding_window", "recurrent"};
// Far above any model; keeps every product of validate and block_bytes inside 64 bits.
constexpr uint32_t kMaxLayers = 4096;
constexpr uint32_t kMaxHeads = 4096;
constexpr uint32_t kMaxWidth = 1U << 24;
constexpr uint32_t kMaxBlockTokens = 4096;

void add_text(Digest& digest, std::string_view text) {
  digest.add_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

Status bad(const std::string& where, const std::string& what) {
  return {Code::kInvalidArgument, "layout: " + where + ": " + what};
}

Status in_range(const std::string& where, const char* what, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) {
    return Status::ok();
  }
  return bad(where, std::string(what) + " " + std::to_string(value) + " is not in 1 … " +
                        std::to_string(most));
}

Status validate_shard(const KvLayout& layout) {
  const Shard& shard = layout.shard;
  if (shard.tensor_size == 0 || shard.tensor_rank >= shard.tensor_size) {
    return bad("shard", "tensor rank " + std::to_string(shard.tensor_rank) + " of " +
                            std::to_string(shard.tensor_size));
  }
  if (shard.context_size == 0 || shard.context_rank >= shard.context_size) {
    return bad("shard", "context rank " + std::to_string(shard.context_rank) + " of " +
                            std::to_string(shard.context_size));
  }
  if (shard.token_count == 0 && (shard.context_size != 1 || shard.token_first != 0)) {
    return bad("shard", "a context-parallel shard needs its token range");
  }
  if (uint64_t{shard.token_first} + shard.token_count > layout.block_tokens) {
    return bad("shard", "tokens " + std::to_string(shard.token_first) + " + " +
                            std::to_string(shard.token_count) + " exceed the block of " +
                            std::to_string(layout.block_tokens));
  }
  return Status::ok();
}

Status validate_plane(const KvLayout& layout, const LayerGroup& group, const Plane& plane) {
  const std::string where =
      "group " + group.name + ", plane " + std::string(plane_kind_name(plane.kind));
  TROUPE_TRY(in_range(where, "layers", plane.layers, kMaxLayers));
  TROUPE_TRY(in_range(where, "heads", plane.heads, kMaxHeads));
  TROUPE_TRY(in_range(where, "width", plane.width, kMaxWidth));
  const Shard& shard = layout.shard;
  if (plane.heads >= shard.tensor_size ? plane.heads % shard.tensor_size != 0
                                       : shard.tensor_size % plane.heads != 0) {
    return bad(where, std::to_string(plane.heads) + " heads do not split over " +
                          std::to_string(shard.tensor_size) + " tensor-parallel ranks");
  }
  if (plane.rate.state != (plane.kind == PlaneKind::kState)) {
    return bad(where, "a state plane, and no other, has the token rate `state`");
  }
  if (plane.rate.state) {
    return Status::ok();
  }
  const uint32_t per = plane.rate.per_tokens;
  TROUPE_TRY(in_range(where, "token rate 1 /", per, kMaxBlockTokens));
  const uint32_t first = shard.token_first;
  const uint32_t count = shard.token_count == 0 ? layout.block_tokens : shard.token_count;
  if (layout.block_tokens % per != 0 || first % per != 0 || count % per != 0) {
    return bad(where, "keeps one value for " + std::to_string(per) +
                          " tokens, which does not divide the tokens " + std::to_string(first) +
                          " + " + std::to_string(count) + " of a block of " +
                          std::to_string(layout.block_tokens));
  }
  return Status::ok();
}

}  // namespace

std::string_view plane_kind_name(PlaneKind kind) noexcept {
  return kPlaneNames[static_cast<size_t>(kind)];
}

std::string_view attention_name(Attention attention) noexcept {
  return kAttentionNames[static_cast<size_t>(attention)];
}

Expected<Attention> parse_attention(std::string_view name) {
  std::string known;
  for (size_t i = 0; i < kAttentionNames.size(); ++i) {
    if (kAttentionNames[i] == name) {
      return static_cast<Attention>(i);
    }
    known += known.empty() ? "" : " ";
    known += kAttentionNames[i];
  }
  return {Code::kInvalidArgument, "attention \"" + std::string(name) + "\" is none of: " + known};
}

Status validate(const KvLayout& layout) {
  TROUPE_TRY(
      in_range("model " + layout.model, "block_tokens", layout.block_tokens, kMaxBlockTokens));
  TROUPE_TRY(validate_shard(layout));
  if (layout.groups.empty()) {
    return bad("model " + layout.model, "no layer group");
  }
  for (const LayerGroup& group : layout.groups) {
    if (group.planes.empty()) {
      return bad("group " + group.name, "no plane");
    }
    if ((group.window_tokens != 0) != (group.attention == Attention::kSlidingWindow)) {
      return bad("group " + group.name, "window_tokens " + std::to_string(group.window_tokens) +
                                            " with attention " +
                                            std::string(attention_name(group.attention)));
    }
    for (const Plane& plane : group.planes) {
      TROUPE_TRY(validate_plane(layout, group, plane));
    }
  }
  return Status::ok();
}

uint64_t layout_fingerprint(const KvLayout& layout, Format format) noexcept {
  constexpr uint64_t kVersion = 1;
  Digest digest;
  digest.add(kVersion).add(static_cast<uint64_t>(format)).add(layout.block_tokens);
  digest.add(layout.keys_before_rope ? 1 : 0);
  add_text(digest, layout.model);
  add_text(digest, layout.revision);
  const Shard& s = layout.shard;
  digest.add(s.tensor_rank).add(s.tensor_size).add(s.context_rank).add(s.context_size);
  digest.add(s.token_first).add(s.token_count).add(layout.groups.size());
  for (const LayerGroup& group : layout.groups) {
    add_text(digest, group.name);
    digest.add(static_cast<uint64_t>(group.attention)).add(group.window_tokens);
    digest.add(group.planes.size());
    for (const Plane& p : group.planes) {
      digest.add(static_cast<uint64_t>(p.kind)).add(p.layers).add(p.heads).add(p.width);
      digest.add(static_cast<uint64_t>(p.dtype)).add(p.rate.per_tokens).add(p.rate.state ? 1 : 0);
    }
  }
  return digest.value();
}

std::string describe(const KvLayout& layout) {
  std::string text = layout.model + (layout.revision.empty() ? "" : "@" + layout.revision) +
                     " block " + std::to_string(layout.block_tokens);
  if (layout.keys_before_rope) {
    text += " keys-before-rope";
  }
  const Shard& s = layout.shard;
  if (s.tensor_size != 1 || s.context_size != 1) {
    text += " tp " + std::to_string(s.tensor_rank) + "/" + std::to_string(s.tensor_size) + " cp " +
            std::to_string(s.context_rank) + "/" + std::to_string(s.context_size) + " tokens " +
            std::to_string(s.token_first) + "+" + std::to_string(s.token_count);
  }
  for (const LayerGroup& group : layout.groups) {
    text += "; " + group.name + " " + std::string(attention_name(group.attention));
    if (group.window_tokens != 0) {
      text += " window " + std::to_string(group.window_tokens);
    }
    for (const Plane& p : group.planes) {
      text += " " + std::string(plane_kind_name(p.kind)) + "[" + std::to_string(p.layers) + "x" +
              std::to_string(p.heads) + "x" + std::to_string(p.width) + " " +
              std::string(format_name(p.dtype));
      if (p.rate.state) {
        text += " state";
      } else if (p.rate.per_tokens != 1) {
        text += " 1/" + std::to_string(p.rate.per_tokens);
      }
      text += "]";
    }
  }
  return text;
}

LayerGroup attention_group(std::string name, Attention attention, const AttentionShape& shape,
                           uint32_t window_tokens) {
  Plane plane{.kind = PlaneKind::kKey,
              .layers = shape.layers,
              .heads = shape.kv_heads,
              .width = shape.head_dim,
              .dtype = shape.dtype,
              .rate = {}};
  LayerGroup group{std::move(name), attention, window_tokens, {}};
  if (attention == Attention::kKvShared) {
    plane.kind = PlaneKind::kKeyValue;
    group.planes = {plane};
    return group;
  }
  Plane value = plane;
  value.kind = PlaneKind::kValue;
  group.planes = {plane, value};
  return group;
}

LayerGroup mla_group(std::string name, uint32_t layers, uint32_t latent_width, uint32_t rope_width,
                     Format dtype) {
  LayerGroup group{std::move(name), Attention::kMla, 0, {}};
  group.planes = {{.kind = PlaneKind::kLatent,
                   .layers = layers,
                   .heads = 1,
                   .width = latent_width,
                   .dtype = dtype,
                   .rate = {}},
                  {.kind = PlaneKind::kRopeKey,
                   .layers = layers,
                   .heads = 1,
                   .width = rope_width,
                   .dtype = dtype,
                   .rate = {}}};
  return group;
}

}  // namespace troupe
