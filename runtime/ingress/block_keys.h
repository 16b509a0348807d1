// Block keys: computed once, here, at the ingress port, before the first recorded message. A key is
// a keyed SHA-256 over typed, length-prefixed fields, chained by the parent's key:
//   root  = H(secret, "root",  TLV(namespace), TLV(domain), TLV(adapter), TLV(media) …)
//   key_i = H(secret, "block", key_{i-1}, token count, tokens)
// Every field has a type tag and a length, so no two different inputs meet in one encoding (a LoRA
// named like a salt is another key). 32 bytes are kept and compared in full. Cores never hash
// content. Construction after vLLM's chained block hashes; the keying answers CVE-2025-25183
// (predictable hash) and the tags vllm#44701 (confusable fields).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/block_key.h"

namespace troupe {

/// What a cached block depends on besides tokens. A difference in any field is another key.
struct KeyNamespace {
  std::string model;
  std::string revision;
  std::string format;        // of the cached values, with its parameters
  std::string layout;        // fingerprint of the KvLayout
  uint32_t block_tokens = 0;
  uint32_t shard_rank = 0;
  uint32_t shard_count = 1;
};

/// What a request's chain starts from, beside the namespace.
struct KeyDomain {
  uint32_t domain = 0;                 // isolation domain, from the authenticated tenant
  std::string_view adapter;            // LoRA name and revision, empty: none
  std::span<const std::array<uint8_t, 32>> media;  // full-width digests, in order of position
  uint8_t rope = 0;                    // 0: cached after RoPE at its own position; 1: before
  uint32_t rope_offset = 0;            // position of the first token
};

/// Makes keys for one namespace under one secret. Copyable; all methods are const. [any thread]
class KeyContext {
 public:
  KeyContext(const std::array<uint8_t, 32>& secret, const KeyNamespace& name);

  /// Parent of a chain's first block.
  BlockKey root(const KeyDomain& domain) const;
  /// Keys of all full blocks of `tokens`: out[i] is that of tokens [i*block_tokens,
  /// (i+1)*block_tokens). out.size() must be tokens.size() / block_tokens.
  void chain(const BlockKey& parent, std::span<const uint32_t> tokens, uint32_t block_tokens,
             std::span<BlockKey> out) const;
  /// Key of one block of any number of tokens, a partial tail for example.
  BlockKey block(const BlockKey& parent, std::span<const uint32_t> tokens) const;

 private:
  std::array<uint32_t, 8> block_state_{};  // SHA-256 state after the keyed prefix of "block"
  std::array<uint32_t, 8> root_state_{};
  std::vector<uint8_t> name_;              // encoded namespace
};

}  // namespace troupe
