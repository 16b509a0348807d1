// The shared math against the worked vectors: codes and bit patterns exact, floats 1e-5 relative.
#include "kernels/math/fp8.h"
#include "kernels/math/hadamard.h"
#include "kernels/math/half.h"
#include "kernels/math/int_token_head.h"
#include "kernels/math/lloyd_max.h"
#include "kernels/math/minmax.h"
#include "kernels/math/pack.h"
#include "tests/kernels/vector_file.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace troupe::kernels;

namespace {

bool same_float(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || bits_of(a) == bits_of(b);
}

/// Compiler's own f16 where there is one: an independent conversion.
float reference_f16_to_f32(uint16_t h) {
  const int sign = (h & 0x8000) != 0 ? -1 : 1;
  const int exponent = (h >> 10) & 31;
  const int mantissa = h & 1023;
  if (exponent == 31) {
    return mantissa != 0 ? NAN : static_cast<float>(sign) * INFINITY;
  }
  const double value =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(sign * value);
}

/// Nearest finite fp8 by search over the decode table: ties to the even code.
template <class Kind>
uint8_t search_fp8(float x) {
  if (std::isnan(x)) {
    return kFp8Nan;
  }
  const uint8_t sign = std::signbit(x) ? 0x80 : 0;
  const double magnitude = std::fabs(static_cast<double>(x));
  uint8_t best = 0;
  double best_distance = INFINITY;
  for (uint8_t code = 0; code <= Kind::kMaxCode; ++code) {
    const double distance = std::fabs(static_cast<double>(fp8_to_f32<Kind>(code)) - magnitude);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  if (std::isinf(x)) {
    best = Kind::kMaxCode;
  }
  return static_cast<uint8_t>(sign | best);
}

template <class Kind>
void check_fp8_exhaustive() {
  for (uint32_t h = 0; h < 65536; ++h) {
    const float x = reference_f16_to_f32(static_cast<uint16_t>(h));
    const uint8_t code = f32_to_fp8<Kind>(x);
    if (code != search_fp8<Kind>(x)) {
      FAIL("f16 0x" << std::hex << h << " gave 0x" << +code << ", not 0x" << +search_fp8<Kind>(x));
    }
  }
}

}  // namespace

TEST_CASE("f16 and bf16 conversions over all codes and around every border") {
  for (uint32_t h = 0; h < 65536; ++h) {
    const auto code = static_cast<uint16_t>(h);
    const float value = f16_to_f32(code);
    if (!same_float(value, reference_f16_to_f32(code))) {
      FAIL("f16 0x" << std::hex << h);
    }
    if (!std::isnan(value) && f32_to_f16(value) != code) {
      FAIL("f16 0x" << std::hex << h << " does not come back");
    }
    const float wide = bf16_to_f32(code);
    if (!std::isnan(wide) && f32_to_bf16(wide) != code) {
      FAIL("bf16 0x" << std::hex << h << " does not come back");
    }
    if (std::isnan(value) || std::isinf(value) || code == 0x7BFF || code == 0xFBFF) {
      continue;
    }
    // Half way to the next code: to even; a hair beyond: up.
    const double next = reference_f16_to_f32(static_cast<uint16_t>(code + 1));
    const auto middle = static_cast<float>((static_cast<double>(value) + next) / 2);
    const auto even = static_cast<uint16_t>(code % 2 == 0 ? code : code + 1);
    REQUIRE(f32_to_f16(middle) == even);
    REQUIRE(f32_to_f16(float_of(bits_of(middle) + 1)) == code + 1);
    REQUIRE(f32_to_f16(float_of(bits_of(middle) - 1)) == code);
  }
  REQUIRE(f32_to_f16(65519.0F) == 0x7BFF);
  REQUIRE(f32_to_f16(65520.0F) == 0x7C00);
  REQUIRE(f32_to_f16_finite(1e9F) == 0x7BFF);
  REQUIRE(f32_to_f16_finite(-INFINITY) == 0xFBFF);
  REQUIRE(f32_to_f16_finite(NAN) == 0);
  REQUIRE(f32_to_bf16(float_of(0x3F808000U)) == 0x3F80);  // tie to even
  REQUIRE(f32_to_bf16(float_of(0x3F818000U)) == 0x3F82);
  REQUIRE(std::isnan(bf16_to_f32(f32_to_bf16(float_of(0x7F800001U)))));
}

TEST_CASE("fp8: vectors, both decode tables, and all 65,536 f16 inputs") {
  const VectorFile file("fp8.json");
  const Json root = file.root();
  for (size_t i = 0; i < root["encode"].size(); ++i) {
    const Json row = root["encode"].at(i);
    const float x = float_of(row["f32_bits"].hex());
    INFO("f32 " << row["f32_bits"].text());
    REQUIRE(f32_to_fp8<E4m3>(x) == row["e4m3_sat"].hex());
    REQUIRE(f32_to_fp8<E4m3, false>(x) == row["e4m3_nosat"].hex());
    REQUIRE(f32_to_fp8<E5m2>(x) == row["e5m2_sat"].hex());
    REQUIRE(f32_to_fp8<E5m2, false>(x) == row["e5m2_nosat"].hex());
  }
  REQUIRE(root["decode_e4m3"].size() == 256);
  for (uint32_t code = 0; code < 256; ++code) {
    INFO("code " << code);
    REQUIRE(same_float(fp8_to_f32<E4m3>(static_cast<uint8_t>(code)),
                       root["decode_e4m3"].at(code).f32()));
    REQUIRE(same_float(fp8_to_f32<E5m2>(static_cast<uint8_t>(code)),
                       root["decode_e5m2"].at(code).f32()));
  }
  check_fp8_exhaustive<E4m3>();
  check_fp8_exhaustive<E5m2>();
}

TEST_CASE("int8 per token and head: scales and codes") {
  const VectorFile file("int_token_head.json");
  const Json rows = file.root()["int8"];
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> x = rows.at(r)["x"].floats();
    float absmax = 0;
    for (const float value : x) {
      absmax = std::max(absmax, std::fabs(value));
    }
    const float scale = int8_scale(absmax);
    REQUIRE(scale == rows.at(r)["scale"].f32());
    for (size_t i = 0; i < x.size(); ++i) {
      const int8_t code = int8_code(x[i], 1.0F / scale);
      REQUIRE(code == static_cast<int>(rows.at(r)["codes"].at(i).number()));
      REQUIRE(static_cast<float>(code) * scale == rows.at(r)["deq"].at(i).f32());
    }
  }
  REQUIRE(int8_scale(0) == file.root()["int8_zero_row"]["scale"].f32());
  REQUIRE(int8_code(0, 1.0F / int8_scale(0)) == 0);
}

TEST_CASE("int4 per token and head: scale word, packing, and the range that covers zero") {
  const VectorFile file("int_token_head.json");
  const Json rows = file.root()["int4"];
  size_t one_sided = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> x = rows.at(r)["x"].floats();
    float low = *std::min_element(x.begin(), x.end());
    float high = *std::max_element(x.begin(), x.end());
    if (rows.at(r)["cover_zero"].flag()) {
      one_sided += low > 0 ? 1U : 0U;
      low = std::min(low, 0.0F);
      high = std::max(high, 0.0F);
    }
    const Int4Row row = int4_row(low, high);
    INFO("row " << r);
    REQUIRE(row.scale == rows.at(r)["scale_before_mask"].f32());
    REQUIRE(row.zero == static_cast<int>(rows.at(r)["zp"].number()));
    REQUIRE(int4_pack_row(row) == rows.at(r)["scale_word_with_zp"].hex());
    std::vector<uint8_t> packed(x.size() / 2);
    for (size_t i = 0; i < x.size(); ++i) {
      const uint8_t code = int4_code(x[i], row);
      REQUIRE(code == static_cast<int>(rows.at(r)["codes"].at(i).number()));
      pack_code(packed.data(), i, 4, code);
      const Int4Row stored = int4_unpack_row(int4_pack_row(row));
      REQUIRE(int4_value(code, stored) == rows.at(r)["deq"].at(i).f32());
    }
    for (size_t i = 0; i < packed.size(); ++i) {
      REQUIRE(packed[i] == rows.at(r)["packed_low_nibble_first"].at(i).hex());
    }
  }
  REQUIRE(one_sided > 0);  // the trap is among the rows
}

namespace {

/// One KIVI case: groups along axis 0 (tokens) or axis 1 (channels).
void check_kivi(const Json& c, bool f16_params) {
  const auto bits = static_cast<uint32_t>(c["bits"].number());
  const auto group = static_cast<size_t>(c["group"].number());
  const bool along_tokens = c["axis"].text() == "tokens";
  const size_t rows = c["x"].size();
  const size_t columns = c["x"].at(0).size();
  const std::vector<float> x = c["x"].flat();
  const Json scales = c[f16_params ? "scale_fp16" : "scale_f32"];
  const Json zeros = c[f16_params ? "zero_fp16" : "zero_f32"];
  const Json codes = c[f16_params ? "codes_fp16_params" : "codes"];
  const Json values = c[f16_params ? "deq_fp16_params_f32_math" : "deq_f32"];
  const size_t lines = along_tokens ? columns : rows;
  const size_t length = along_tokens ? rows : columns;
  for (size_t line = 0; line < lines; ++line) {
    for (size_t first = 0; first < length; first += group) {
      const auto at = [&](size_t i) {
        return along_tokens ? std::pair{first + i, line} : std::pair{line, first + i};
      };
      float low = INFINITY;
      float high = -INFINITY;
      for (size_t i = 0; i < group; ++i) {
        const float value = x[at(i).first * columns + at(i).second];
        low = std::min(low, value);
        high = std::max(high, value);
      }
      MinMaxGroup params = minmax_group(low, high, bits);
      params = f16_params ? minmax_rounded(params) : params;
      const size_t g = first / group;
      const Json scale = along_tokens ? scales.at(g).at(line) : scales.at(line).at(g);
      const Json zero = along_tokens ? zeros.at(g).at(line) : zeros.at(line).at(g);
      REQUIRE(params.scale == scale.f32());
      REQUIRE(params.zero == zero.f32());
      for (size_t i = 0; i < group; ++i) {
        const auto [r, k] = at(i);
        INFO("row " << r << " column " << k);
        const uint8_t code = minmax_code(x[r * columns + k], params, bits);
        REQUIRE(code == static_cast<int>(codes.at(r).at(k).number()));
        REQUIRE(minmax_value(code, params) == Approx(values.at(r).at(k).number()).epsilon(1e-5));
      }
    }
  }
}

void check_words(const Json& c, const char* name, bool along_tokens) {
  const auto bits = static_cast<uint32_t>(c["bits"].number());
  const Json codes = c["codes"];
  const Json words = c[name];
  for (size_t line = 0; line < words.size(); ++line) {
    const size_t length = along_tokens ? codes.size() : codes.at(0).size();
    std::vector<uint8_t> row(packed_bytes(length, bits));
    for (size_t i = 0; i < length; ++i) {
      const Json code = along_tokens ? codes.at(i).at(line) : codes.at(line).at(i);
      pack_code(row.data(), i, bits, static_cast<uint32_t>(code.number()));
      REQUIRE(unpack_code(row.data(), i, bits) == static_cast<uint32_t>(code.number()));
    }
    REQUIRE(row.size() == 4 * words.at(line).size());
    for (size_t w = 0; w < words.at(line).size(); ++w) {
      uint32_t word = 0;
      std::memcpy(&word, row.data() + 4 * w, 4);
      REQUIRE(word == words.at(line).at(w).hex());
    }
  }
}

}  // namespace

TEST_CASE("KIVI groups and packed words") {
  const VectorFile file("kivi.json");
  const Json root = file.root();
  check_kivi(root["case_4x8_g4_2bit_K_per_channel"], false);
  check_kivi(root["case_4x8_g4_2bit_K_per_channel"], true);
  check_kivi(root["case_4x8_g4_2bit_V_per_token"], false);
  check_kivi(root["case_4x8_g4_2bit_V_per_token"], true);
  for (const char* name : {"case_16x4_g4_2bit_K", "case_16x4_g4_4bit_K", "case_2x16_g8_2bit_V",
                           "case_2x16_g8_4bit_V", "case_ties"}) {
    check_kivi(root[name], false);
  }
  for (const char* name : {"case_16x4_g4_2bit_K", "case_16x4_g4_4bit_K"}) {
    check_words(root[name], "packed_words_per_channel_along_tokens", true);
  }
  for (const char* name : {"case_2x16_g8_2bit_V", "case_2x16_g8_4bit_V"}) {
    check_words(root[name], "packed_words_per_token_along_channels", false);
  }
}

namespace {

template <uint32_t kBits>
void check_book(const Json& gaussian, const Json& turbo) {
  const Json book = gaussian[std::to_string(kBits).c_str()];
  constexpr uint32_t kCodes = 1U << kBits;
  for (uint32_t code = 0; code < kCodes; ++code) {
    const auto centroid = book["centroids"].at(code).f32();
    REQUIRE(lloyd_value<kBits>(code) == Approx(centroid).epsilon(1e-6));
    REQUIRE(lloyd_code<kBits>(centroid) == code);
  }
  for (uint32_t i = 0; i + 1 < kCodes; ++i) {
    const auto border = book["boundaries"].at(i).f32();
    REQUIRE(lloyd_code<kBits>(border) == i + 1);  // on the border: up
    REQUIRE(lloyd_code<kBits>(std::nextafter(border, -10.0F)) == i);
  }
  std::vector<float> x = turbo["x"].floats();
  const size_t d = x.size();
  double square = 0;
  for (const float value : x) {
    square += static_cast<double>(value) * value;
  }
  const auto norm = static_cast<float>(std::sqrt(square));
  REQUIRE(norm == Approx(turbo["norm"].number()));
  hadamard(x.data(), d);
  const Json expected = turbo["cases"][std::to_string(kBits).c_str()];
  std::vector<uint8_t> packed(packed_bytes(d, kBits));
  std::vector<float> raw(d);
  for (size_t i = 0; i < d; ++i) {
    const float unit = x[i] / norm;  // times sqrt(d) over sqrt(d): H is not normalised
    REQUIRE(unit / std::sqrt(static_cast<float>(d)) ==
            Approx(turbo["rotated_unit"].at(i).number()).epsilon(1e-5));
    const uint32_t code = lloyd_code<kBits>(unit);
    REQUIRE(code == static_cast<uint32_t>(expected["codes"].at(i).number()));
    pack_code(packed.data(), i, kBits, code);
    raw[i] = lloyd_value<kBits>(code);
  }
  for (size_t i = 0; i < packed.size(); ++i) {
    REQUIRE(packed[i] == expected["packed_le_bitstream"].at(i).hex());
  }
  hadamard(raw.data(), d);
  for (size_t i = 0; i < d; ++i) {
    const float xhat = raw[i] * norm / static_cast<float>(d);
    REQUIRE(xhat == Approx(expected["xhat"].at(i).number()).epsilon(1e-5).margin(1e-5));
  }
}

}  // namespace

TEST_CASE("Lloyd-Max books, and TurboQuant's codes, packing and reconstruction") {
  const VectorFile lloyd("lloyd_max.json");
  const VectorFile turbo("turboquant.json");
  check_book<2>(lloyd.root()["gaussian"], turbo.root());
  check_book<3>(lloyd.root()["gaussian"], turbo.root());
  check_book<4>(lloyd.root()["gaussian"], turbo.root());
}

TEST_CASE("rotations undo themselves and keep lengths, at widths with and without a power of two") {
  for (const size_t width : {8U, 64U, 128U, 96U, 80U, 576U, 7U}) {
    std::vector<float> x(width);
    double square = 0;
    for (size_t i = 0; i < width; ++i) {
      x[i] = static_cast<float>((i * 37) % 19) - 9.0F;
      square += static_cast<double>(x[i]) * x[i];
    }
    const std::vector<float> before = x;
    rotate_signed(x.data(), width, kRotationSeed);
    double rotated = 0;
    for (const float value : x) {
      rotated += static_cast<double>(value) * value;
    }
    REQUIRE(rotated == Approx(square * static_cast<double>(hadamard_block(width))).epsilon(1e-5));
    unrotate_signed(x.data(), width, kRotationSeed);
    for (size_t i = 0; i < width; ++i) {
      REQUIRE(x[i] == Approx(before[i]).margin(1e-4));
    }
  }
}
