// Codes of 1 to 8 bits as a little-endian bit stream: code j of a row starts at bit j * bits. So
// even 4-bit codes lie in low nibbles, a 32-bit word holds 16 codes of 2 bits (KIVI), and eight
// codes of 3 bits are three bytes (vLLM's 3-bit rotation format).
#pragma once

#include "kernels/math/host_device.h"

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

TROUPE_HD constexpr size_t packed_bytes(size_t codes, uint32_t bits) noexcept {
  return (codes * bits + 7) / 8;
}

/// Adds code `j` to a row that was zero before.
TROUPE_HD inline void pack_code(uint8_t* row, size_t j, uint32_t bits, uint32_t code) noexcept {
  const size_t at = j * bits;
  const uint32_t shifted = code << (at % 8);
  row[at / 8] = static_cast<uint8_t>(row[at / 8] | shifted);
  if (at % 8 + bits > 8) {
    row[at / 8 + 1] = static_cast<uint8_t>(row[at / 8 + 1] | (shifted >> 8));
  }
}

TROUPE_HD inline uint32_t unpack_code(const uint8_t* row, size_t j, uint32_t bits) noexcept {
  const size_t at = j * bits;
  uint32_t word = row[at / 8];
  if (at % 8 + bits > 8) {
    word |= static_cast<uint32_t>(row[at / 8 + 1]) << 8;
  }
  return (word >> (at % 8)) & ((1U << bits) - 1);
}

}  // namespace troupe::kernels
