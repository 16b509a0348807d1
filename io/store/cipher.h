// Payload encryption of ephemeral stores: AES-256-GCM under a key that lives only in this process,
// so that a drive taken away (or kept by a crash) holds noise. The tag stands for the checksum, and
// the record's identity is authenticated with it. Invariants: the key lies in locked, undumped
// memory where the kernel allows, and is wiped at the end; a nonce is (random boot epoch, counter)
// and never used twice.
#pragma once

#include "io/arena.h"
#include "io/record.h"

#include <array>
#include <cstdint>
#include <memory>
#include <span>

namespace troupe::io {

class PayloadCipher {
 public:
  /// A fresh random key. unavailable: no randomness or no AES-256-GCM to be had.
  static Expected<std::unique_ptr<PayloadCipher>> create();
  ~PayloadCipher();
  PayloadCipher(const PayloadCipher&) = delete;
  PayloadCipher& operator=(const PayloadCipher&) = delete;

  /// `out` may be `plain`. Sets nonce, tag and the encrypted flag of `record`, whose other identity
  /// fields must be final.
  Status seal(BlockRecord& record, std::span<const std::byte> plain, std::span<std::byte> out);
  /// In place. corrupt when tag or identity do not fit; the bytes are then undefined.
  Status open(const BlockRecord& record, std::span<std::byte> bytes);

 private:
  struct Context;
  PayloadCipher();
  Arena key_;
  std::unique_ptr<Context> context_;
  uint32_t epoch_ = 0;
  uint64_t counter_ = 0;
};

}  // namespace troupe::io
