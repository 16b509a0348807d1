#include "io/store/cipher.h"

#include "io/wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <cstring>

namespace troupe::io {
namespace {

constexpr size_t kKeyBytes = 32;

unsigned char* raw(std::byte* p) noexcept {
  return reinterpret_cast<unsigned char*>(p);
}
const unsigned char* raw(const std::byte* p) noexcept {
  return reinterpret_cast<const unsigned char*>(p);
}

/// What the tag binds to the payload besides its bytes.
std::array<std::byte, 104> identity_of(const BlockRecord& record) {
  std::array<std::byte, 104> bytes{};
  const std::span<std::byte> out(bytes);
  put_le(out, 0, record.namespace_fingerprint);
  put_le(out, 8, record.domain);
  put_le(out, 12, record.payload_bytes);
  put_le(out, 16, record.key);
  put_le(out, 48, record.parent);
  put_le(out, 80, record.sequence);
  put_le(out, 88, record.slot.first.v);
  put_le(out, 92, record.slot.count);
  put_le(out, 96, record.slot.generation);
  put_le(out, 100, record.format);
  return bytes;
}

}  // namespace

struct PayloadCipher::Context {
  EVP_CIPHER_CTX* seal = EVP_CIPHER_CTX_new();
  EVP_CIPHER_CTX* open = EVP_CIPHER_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() {
    EVP_CIPHER_CTX_free(seal);
    EVP_CIPHER_CTX_free(open);
  }
};

PayloadCipher::PayloadCipher() : context_(std::make_unique<Context>()) {}

PayloadCipher::~PayloadCipher() {
  if (key_.size() > 0) {
    OPENSSL_cleanse(key_.data(), key_.size());
  }
}

Expected<std::unique_ptr<PayloadCipher>> PayloadCipher::create() {
  std::unique_ptr<PayloadCipher> cipher(new PayloadCipher());
  auto page = Arena::create(4096, {.alignment = 4096, .huge_pages = false, .pin = true});
  if (!page) {
    return page.status();
  }
  cipher->key_ = std::move(page).value();
  if (RAND_bytes(raw(cipher->key_.data()), kKeyBytes) != 1 ||
      RAND_bytes(reinterpret_cast<unsigned char*>(&cipher->epoch_), sizeof(cipher->epoch_)) != 1) {
    return {Code::kUnavailable, "no random bytes for the key of this run"};
  }
  const unsigned char* key = raw(cipher->key_.data());
  Context& context = *cipher->context_;
  if (context.seal == nullptr || context.open == nullptr ||
      EVP_EncryptInit_ex(context.seal, EVP_aes_256_gcm(), nullptr, key, nullptr) != 1 ||
      EVP_DecryptInit_ex(context.open, EVP_aes_256_gcm(), nullptr, key, nullptr) != 1) {
    return {Code::kUnavailable, "this OpenSSL has no AES-256-GCM"};
  }
  return cipher;
}

Status PayloadCipher::seal(BlockRecord& record, std::span<const std::byte> plain,
                           std::span<std::byte> out) {
  TROUPE_ASSERT(out.size() == plain.size());
  record.flags |= kRecordEncrypted;
  put_le(std::span<std::byte>(record.nonce), 0, epoch_);
  put_le(std::span<std::byte>(record.nonce), 4, ++counter_);
  const auto identity = identity_of(record);
  EVP_CIPHER_CTX* c = context_->seal;
  int done = 0;
  const bool sealed =
      EVP_EncryptInit_ex(c, nullptr, nullptr, nullptr, raw(record.nonce.data())) == 1 &&
      EVP_EncryptUpdate(c, nullptr, &done, raw(identity.data()), identity.size()) == 1 &&
      EVP_EncryptUpdate(c, raw(out.data()), &done, raw(plain.data()),
                        static_cast<int>(plain.size())) == 1 &&
      EVP_EncryptFinal_ex(c, raw(out.data()) + done, &done) == 1 &&
      EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, 16, record.tag.data()) == 1;
  return sealed ? Status::ok() : Status(Code::kInternal, "AES-256-GCM refused to encrypt");
}

Status PayloadCipher::open(const BlockRecord& record, std::span<std::byte> bytes) {
  const auto identity = identity_of(record);
  auto tag = record.tag;
  EVP_CIPHER_CTX* c = context_->open;
  int done = 0;
  const bool opened =
      EVP_DecryptInit_ex(c, nullptr, nullptr, nullptr, raw(record.nonce.data())) == 1 &&
      EVP_DecryptUpdate(c, nullptr, &done, raw(identity.data()), identity.size()) == 1 &&
      EVP_DecryptUpdate(c, raw(bytes.data()), &done, raw(bytes.data()),
                        static_cast<int>(bytes.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, 16, tag.data()) == 1 &&
      EVP_DecryptFinal_ex(c, raw(bytes.data()) + done, &done) == 1;
  return opened ? Status::ok() : Status(Code::kCorrupt, "the encrypted payload does not verify");
}

}  // namespace troupe::io
