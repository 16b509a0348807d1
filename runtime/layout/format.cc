#include "runtime/layout/format.h"

#include <array>
#include <string>

namespace troupe {
namespace {

constexpr std::array<FormatInfo, 15> kFormats = {{
    {Format::kF32, "f32", 32, "IEEE single"},
    {Format::kF16, "f16", 16, "IEEE half"},
    {Format::kBf16, "bf16", 16, "bfloat16"},
    {Format::kFp8E4m3, "fp8_e4m3", 8,
     "scale per tensor, from the checkpoint; latents: f32 per 128"},
    {Format::kFp8E5m2, "fp8_e5m2", 8,
     "scale per tensor, from the checkpoint; latents: f32 per 128"},
    {Format::kInt8, "int8", 8, "f32 scale per token and head"},
    {Format::kInt4, "int4", 4, "f32 scale with the zero point inside, per token and head"},
    {Format::kKivi4, "kivi4", 4,
     "K: f16 scale and minimum per channel and 32 tokens; V: per 32 channels"},
    {Format::kKivi2, "kivi2", 2, "as kivi4"},
    {Format::kNuq4, "nuq4", 4,
     "1 % outliers as f16 + u16 index; V: f16 offset and range per token"},
    {Format::kNuq3, "nuq3", 3, "as nuq4"},
    {Format::kNuq2, "nuq2", 2, "as nuq4"},
    {Format::kTq4, "tq4", 4, "K: f16 norm per token and head; V: f16 scale and minimum"},
    {Format::kTq3, "tq3", 3, "as tq4"},
    {Format::kTq2, "tq2", 2, "as tq4"},
}};

}  // namespace

std::span<const FormatInfo> all_formats() noexcept {
  return kFormats;
}

const FormatInfo& format_info(Format format) noexcept {
  const auto index = static_cast<size_t>(format);
  TROUPE_ASSERT(index < kFormats.size() && kFormats[index].format == format);
  return kFormats[index];
}

std::string_view format_name(Format format) noexcept {
  return format_info(format).name;
}

Expected<Format> parse_format(std::string_view name) {
  std::string known;
  for (const FormatInfo& info : kFormats) {
    if (info.name == name) {
      return info.format;
    }
    known += known.empty() ? "" : " ";
    known += info.name;
  }
  return {Code::kInvalidArgument, "format \"" + std::string(name) + "\" is none of: " + known};
}

}  // namespace troupe
