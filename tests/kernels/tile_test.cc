// Tiles of every coding: sizes against runtime/layout's bytes-per-block function, relative error on
// Gaussian values against the table, determinism, traps.
#include "kernels/formats.h"
#include "runtime/base/rng.h"
#include "runtime/layout/block_bytes.h"
#include "tests/kernels/vector_file.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;

namespace {

float normal(Rng& rng) {
  const double u = (static_cast<double>(rng.next() >> 11) + 0.5) * 0x1.0p-53;
  const double v = static_cast<double>(rng.next() >> 11) * 0x1.0p-53;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v));
}

std::vector<float> normals(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<float> x(count);
  for (float& value : x) {
    value = normal(rng);
  }
  return x;
}

/// Mean squared error over mean square, over `rounds` tiles.
double relative_error(const TileShape& shape, size_t rounds) {
  const size_t count = size_t{shape.tokens} * shape.width;
  std::vector<std::byte> tile(tile_bytes(shape));
  std::vector<float> back(count);
  double error = 0;
  double power = 0;
  for (size_t round = 0; round < rounds; ++round) {
    const std::vector<float> x = normals(count, 1000 + round);
    encode_tile(shape, {}, x.data(), tile.data());
    decode_tile(shape, {}, tile.data(), back.data());
    for (size_t i = 0; i < count; ++i) {
      const double difference = static_cast<double>(x[i]) - back[i];
      error += difference * difference;
      power += static_cast<double>(x[i]) * x[i];
    }
  }
  return error / power;
}

double table(const std::string& method) {
  const VectorFile file("gauss_error.json");
  const Json rows = file.root()["rows"];
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows.at(i)["method"].text() == method) {
      return rows.at(i)["rel_mse"].number();
    }
  }
  FAIL("no row " << method);
  return 0;
}

}  // namespace

TEST_CASE("names, numbers and bytes agree with runtime/layout, for every coding") {
  for (const CodingInfo& info : all_codings()) {
    const auto format = static_cast<troupe::Format>(info.coding);
    REQUIRE(format_name(format) == info.name);
    REQUIRE(format_info(format).code_bits == info.bits);
    for (const uint32_t tokens : {16U, 32U, 64U}) {
      for (const uint32_t width : {32U, 64U, 96U, 128U, 576U}) {
        const TileShape key{info.coding, Role::kKey, tokens, width};
        const TileShape value{info.coding, Role::kValue, tokens, width};
        const bool kivi = info.coding == Coding::kKivi4 || info.coding == Coding::kKivi2;
        if (kivi && tokens % kKiviGroup != 0) {
          REQUIRE(check_tile(key).code() == Code::kInvalidArgument);
          continue;
        }
        REQUIRE(check_tile(key));
        REQUIRE(check_tile(value));
        KvLayout layout;
        layout.block_tokens = tokens;
        layout.groups.push_back(attention_group("all", Attention::kGqa, {3, 5, width}));
        INFO(info.name << " tokens " << tokens << " width " << width);
        REQUIRE(bytes_per_block(layout, format) == 15 * (tile_bytes(key) + tile_bytes(value)));
      }
    }
  }
}

TEST_CASE("relative error on Gaussian values is the table's, within 3 %") {
  const auto check = [](Coding coding, Role role, uint32_t width, const std::string& method) {
    const TileShape shape{coding, role, 64, width};
    // half a million values: the sampling error is well below the band.
    const double error = relative_error(shape, 64 * 128 / width);
    INFO(method);
    CHECK(error == Approx(table(method)).epsilon(0.03));
  };
  check(Coding::kFp8E4m3, Role::kKey, 128, "fp8 e4m3 scale 1");
  check(Coding::kFp8E5m2, Role::kValue, 128, "fp8 e5m2 scale 1");
  check(Coding::kInt8, Role::kKey, 128, "sym absmax b=8 g=128");
  check(Coding::kInt8, Role::kValue, 64, "sym absmax b=8 g=64");
  check(Coding::kInt4, Role::kKey, 128, "asym int4, integer zp, range includes 0, g=128");
  check(Coding::kInt4, Role::kValue, 64, "asym int4, integer zp, range includes 0, g=64");
  check(Coding::kKivi4, Role::kKey, 128, "asym min-max b=4 g=32");
  check(Coding::kKivi4, Role::kValue, 128, "asym min-max b=4 g=32");
  check(Coding::kKivi2, Role::kKey, 64, "asym min-max b=2 g=32");
  check(Coding::kKivi2, Role::kValue, 64, "asym min-max b=2 g=32");
  check(Coding::kTq4, Role::kKey, 128, "Hadamard+Lloyd-Max d=128 b=4");
  check(Coding::kTq3, Role::kKey, 128, "Hadamard+Lloyd-Max d=128 b=3");
  check(Coding::kTq2, Role::kKey, 128, "Hadamard+Lloyd-Max d=128 b=2");
  check(Coding::kTq4, Role::kKey, 64, "Hadamard+Lloyd-Max d=64 b=4");
  check(Coding::kTq4, Role::kValue, 128, "asym min-max b=4 g=128");
  check(Coding::kTq3, Role::kValue, 128, "asym min-max b=3 g=128");
  check(Coding::kTq2, Role::kValue, 128, "asym min-max b=2 g=128");
  CHECK(relative_error({Coding::kF16, Role::kKey, 64, 128}, 16) < 1e-6);
  CHECK(relative_error({Coding::kBf16, Role::kKey, 64, 128}, 16) < 1e-5);
  CHECK(relative_error({Coding::kF32, Role::kKey, 64, 128}, 1) == 0);
}

TEST_CASE("encoding is a function of the values, writes its bytes and no others") {
  for (const CodingInfo& info : all_codings()) {
    for (const Role role : {Role::kKey, Role::kValue}) {
      const TileShape shape{info.coding, role, 32, 96};
      const std::vector<float> x = normals(32 * 96, 3);
      std::vector<std::byte> first(tile_bytes(shape) + 16, std::byte{0x11});
      std::vector<std::byte> second(tile_bytes(shape) + 16, std::byte{0xEE});
      encode_tile(shape, {}, x.data(), first.data());
      encode_tile(shape, {}, x.data(), second.data());
      INFO(info.name);
      REQUIRE(std::memcmp(first.data(), second.data(), tile_bytes(shape)) == 0);
      REQUIRE(first.back() == std::byte{0x11});
      REQUIRE(second[tile_bytes(shape)] == std::byte{0xEE});
    }
  }
}

TEST_CASE("groups without spread, zero rows and bad values decode to finite numbers") {
  constexpr uint32_t kTokens = 32;
  constexpr uint32_t kWidth = 64;
  for (const CodingInfo& info : all_codings()) {
    if (info.bits > 8) {
      continue;  // float formats keep NaN and infinities as they are
    }
    for (const Role role : {Role::kKey, Role::kValue}) {
      const TileShape shape{info.coding, role, kTokens, kWidth};
      std::vector<std::byte> tile(tile_bytes(shape));
      std::vector<float> back(kTokens * kWidth);
      INFO(info.name << (role == Role::kKey ? " key" : " value"));
      std::vector<float> x(kTokens * kWidth, 0.0F);
      encode_tile(shape, {}, x.data(), tile.data());
      decode_tile(shape, {}, tile.data(), back.data());
      REQUIRE(back == x);
      const bool grouped = info.coding == Coding::kKivi4 || info.coding == Coding::kKivi2;
      if (grouped) {
        std::fill(x.begin(), x.end(), 1.5F);
        encode_tile(shape, {}, x.data(), tile.data());
        decode_tile(shape, {}, tile.data(), back.data());
        REQUIRE(back == x);  // scale 0, minimum exact
      }
      if (info.coding == Coding::kFp8E4m3 || info.coding == Coding::kFp8E5m2) {
        continue;  // NaN has a code of its own there
      }
      x = normals(kTokens * kWidth, 4);
      x[5] = NAN;
      x[70] = INFINITY;
      x[200] = -INFINITY;
      encode_tile(shape, {}, x.data(), tile.data());
      decode_tile(shape, {}, tile.data(), back.data());
      for (const float value : back) {
        REQUIRE(std::isfinite(value));
      }
    }
  }
}

TEST_CASE("a row of one sign keeps its error under int4, where a range without zero clips") {
  const TileShape shape{Coding::kInt4, Role::kKey, 1, 64};
  std::vector<float> x(64);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 2.0F + 0.02F * static_cast<float>(i);
  }
  std::vector<std::byte> tile(tile_bytes(shape));
  std::vector<float> back(64);
  encode_tile(shape, {}, x.data(), tile.data());
  decode_tile(shape, {}, tile.data(), back.data());
  double error = 0;
  double power = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - back[i], 2);
    power += static_cast<double>(x[i]) * x[i];
  }
  REQUIRE(error / power < 0.02);
}

TEST_CASE("shapes that a coding can't hold are configuration errors, by name") {
  const auto text = [](const TileShape& shape) { return check_tile(shape).text(); };
  REQUIRE_THAT(text({Coding::kKivi2, Role::kKey, 16, 128}),
               Catch::Contains("block of 16 is no multiple of the group of 32"));
  REQUIRE_THAT(text({Coding::kKivi4, Role::kValue, 32, 80}), Catch::Contains("width 80"));
  REQUIRE_THAT(text({Coding::kInt8, Role::kKey, 0, 80}), Catch::Contains("0 tokens"));
  REQUIRE_THAT(text({Coding::kInt8, Role::kKey, 16, 5000}), Catch::Contains("5000"));
  REQUIRE_THAT(text({static_cast<Coding>(10), Role::kKey, 16, 64}), Catch::Contains("coding 10"));
}
