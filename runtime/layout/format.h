// Formats: how a block's values are stored. Only the names and the widths of their codes live here;
// what scales and norms cost is in block_bytes.cc, how values are coded in kernels/.
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <span>
#include <string_view>

namespace troupe {

/// Values are stored on disk and in keys: append only.
enum class Format : uint8_t {
  kF32 = 0,
  kF16,
  kBf16,
  kFp8E4m3,
  kFp8E5m2,
  kInt8,   // symmetric, one scale per token and head
  kInt4,   // rotated, asymmetric, one scale per token and head
  kKivi4,  // KIVI (Liu et al. 2024): K per channel, V per token
  kKivi2,
  kNuq4,  // KVQuant (Hooper et al. 2024): non-uniform codes, 1 % outliers apart
  kNuq3,
  kNuq2,
  kTq4,  // rotated Lloyd-Max codes (TurboQuant, Zandieh et al. 2025), V uniform
  kTq3,
  kTq2,
};

struct FormatInfo {
  Format format;
  std::string_view name;
  uint32_t code_bits;  // of one value, without metadata
  std::string_view note;
};

/// All formats, in the order of the enum.
std::span<const FormatInfo> all_formats() noexcept;
const FormatInfo& format_info(Format format) noexcept;
std::string_view format_name(Format format) noexcept;
/// By name, case-sensitive. Error: invalid argument, listing the names.
Expected<Format> parse_format(std::string_view name);

}  // namespace troupe
