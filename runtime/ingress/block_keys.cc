// OpenSSL's low-level SHA-256 is used on purpose: the EVP interface costs more than the hash of a
// block.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "runtime/ingress/block_keys.h"

#include <openssl/sha.h>

#include <cstring>

#include "runtime/base/assert.h"

namespace troupe {
namespace {

constexpr size_t kBlock = 64;  // bytes of one SHA-256 compression

/// Field types of the root encoding; numbers are part of every key, so they only grow.
enum class Field : uint8_t {
  kModel = 1, kRevision, kFormat, kLayout, kBlockTokens, kShard, kDomain, kAdapter, kMedia, kRope,
};

void put(std::vector<uint8_t>& out, Field field, const void* data, size_t size) {
  out.push_back(static_cast<uint8_t>(field));
  const auto length = static_cast<uint64_t>(size);
  for (int i = 0; i < 8; ++i) {
    out.push_back(static_cast<uint8_t>(length >> (8 * i)));
  }
  const auto* bytes = static_cast<const uint8_t*>(data);
  out.insert(out.end(), bytes, bytes + size);
}

void put_u32(std::vector<uint8_t>& out, Field field, std::span<const uint32_t> values) {
  std::vector<uint8_t> bytes;
  for (const uint32_t v : values) {
    for (int i = 0; i < 4; ++i) {
      bytes.push_back(static_cast<uint8_t>(v >> (8 * i)));
    }
  }
  put(out, field, bytes.data(), bytes.size());
}

/// State after one whole compression of secret ‖ tag, zero-padded.
std::array<uint32_t, 8> keyed_state(const std::array<uint8_t, 32>& secret, std::string_view tag) {
  std::array<uint8_t, kBlock> prefix{};
  std::memcpy(prefix.data(), secret.data(), secret.size());
  TROUPE_ASSERT(tag.size() <= kBlock - secret.size());
  std::memcpy(prefix.data() + secret.size(), tag.data(), tag.size());
  SHA256_CTX ctx;
  SHA256_Init(&ctx);
  SHA256_Transform(&ctx, prefix.data());
  std::array<uint32_t, 8> state{};
  std::memcpy(state.data(), ctx.h, sizeof(ctx.h));
  return state;
}

BlockKey key_of(const SHA256_CTX& ctx) noexcept {
  BlockKey key;
  for (int i = 0; i < 4; ++i) {
    key.w[i] = (static_cast<uint64_t>(ctx.h[2 * i]) << 32) | ctx.h[2 * i + 1];
  }
  return key;
}

/// Continues from a keyed state (64 bytes absorbed) with any number of bytes.
class Continued {
 public:
  explicit Continued(const std::array<uint32_t, 8>& state) {
    SHA256_Init(&ctx_);
    std::memcpy(ctx_.h, state.data(), sizeof(ctx_.h));
    ctx_.Nl = kBlock * 8;
  }
  void add(const void* data, size_t size) { SHA256_Update(&ctx_, data, size); }
  BlockKey finish() {
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256_Final(digest, &ctx_);  // leaves the state words in ctx_.h
    return key_of(ctx_);
  }

 private:
  SHA256_CTX ctx_;
};

}  // namespace

KeyContext::KeyContext(const std::array<uint8_t, 32>& secret, const KeyNamespace& name)
    : block_state_(keyed_state(secret, "troupe block 1")),
      root_state_(keyed_state(secret, "troupe root 1")) {
  put(name_, Field::kModel, name.model.data(), name.model.size());
  put(name_, Field::kRevision, name.revision.data(), name.revision.size());
  put(name_, Field::kFormat, name.format.data(), name.format.size());
  put(name_, Field::kLayout, name.layout.data(), name.layout.size());
  put_u32(name_, Field::kBlockTokens, std::array{name.block_tokens});
  put_u32(name_, Field::kShard, std::array{name.shard_rank, name.shard_count});
}

BlockKey KeyContext::root(const KeyDomain& domain) const {
  std::vector<uint8_t> fields = name_;
  put_u32(fields, Field::kDomain, std::array{domain.domain});
  put(fields, Field::kAdapter, domain.adapter.data(), domain.adapter.size());
  for (const auto& digest : domain.media) {
    put(fields, Field::kMedia, digest.data(), digest.size());
  }
  put_u32(fields, Field::kRope, std::array{static_cast<uint32_t>(domain.rope), domain.rope_offset});
  Continued hash(root_state_);
  hash.add(fields.data(), fields.size());
  return hash.finish();
}

BlockKey KeyContext::block(const BlockKey& parent, std::span<const uint32_t> tokens) const {
  // parent 32 ‖ count 4 ‖ tokens; little-endian, as on every machine this runs on.
  const auto count = static_cast<uint32_t>(tokens.size());
  const size_t size = sizeof(parent) + sizeof(count) + tokens.size_bytes();
  constexpr size_t kPadding = 9;  // 0x80 and the bit length
  if (size + kPadding > 2 * kBlock) {
    Continued hash(block_state_);
    hash.add(&parent, sizeof(parent));
    hash.add(&count, sizeof(count));
    hash.add(tokens.data(), tokens.size_bytes());
    return hash.finish();
  }
  // Up to 22 tokens: two compressions (or one), padded by hand, without OpenSSL's buffering.
  alignas(16) std::array<uint8_t, 2 * kBlock> message{};
  std::memcpy(message.data(), &parent, sizeof(parent));
  std::memcpy(message.data() + 32, &count, sizeof(count));
  if (!tokens.empty()) {
    std::memcpy(message.data() + 36, tokens.data(), tokens.size_bytes());
  }
  message[size] = 0x80;
  const size_t blocks = size + kPadding > kBlock ? 2 : 1;
  const uint64_t bits = (kBlock + size) * 8;
  for (size_t i = 0; i < 8; ++i) {
    message[blocks * kBlock - 1 - i] = static_cast<uint8_t>(bits >> (8 * i));
  }
  SHA256_CTX ctx;
  std::memcpy(ctx.h, block_state_.data(), sizeof(ctx.h));
  SHA256_Transform(&ctx, message.data());
  if (blocks == 2) {
    SHA256_Transform(&ctx, message.data() + kBlock);
  }
  return key_of(ctx);
}

void KeyContext::chain(const BlockKey& parent, std::span<const uint32_t> tokens,
                       uint32_t block_tokens, std::span<BlockKey> out) const {
  TROUPE_ASSERT(block_tokens > 0 && out.size() == tokens.size() / block_tokens);
  BlockKey key = parent;
  for (size_t i = 0; i < out.size(); ++i) {
    key = block(key, tokens.subspan(i * block_tokens, block_tokens));
    out[i] = key;
  }
}

}  // namespace troupe
