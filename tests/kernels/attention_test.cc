// Decode attention against the double reference: random shapes and ranges in every coding, mixed
// codings along one sequence, splits and merges, masks, empty parts, and the worked vectors.
#include "kernels/attention.h"

#include "kernels/math/half.h"
#include "runtime/base/rng.h"
#include "tests/kernels/vector_file.h"

#include <catch2/catch.hpp>
#include <hwy/targets.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

float uniform(Rng& rng) {
  return static_cast<float>(static_cast<double>(rng.next() >> 40) * 0x1.0p-24 * 2 - 1);
}
float bell(Rng& rng) {  // near enough to a Gaussian, variance 1
  float sum = 0;
  for (int i = 0; i < 12; ++i) {
    sum += uniform(rng);
  }
  return sum / 2;
}

/// A sequence of random blocks with its query.
struct Sequence {
  DecodeInput input;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<KvTile> tiles;
  std::vector<float> query;
  std::vector<float> bias;

  Sequence(const DecodeShape& shape, uint64_t seed) : rng(seed) {
    input.shape = shape;
    query.resize(size_t{shape.heads} * shape.width);
    for (float& x : query) {
      x = bell(rng);
    }
  }
  /// A block of random values; tokens outside [begin, end) of float codings become NaN.
  void add(Coding coding, uint32_t begin, uint32_t end) {
    const size_t count = size_t{input.shape.block_tokens} * input.shape.width;
    std::vector<float> x(count);
    KvTile tile{nullptr, nullptr, coding, begin, end};
    for (const Role role : {Role::kKey, Role::kValue}) {
      for (size_t i = 0; i < count; ++i) {
        const size_t token = i / input.shape.width;
        const bool hidden =
            (token < begin || token >= end) && (coding == Coding::kF16 || coding == Coding::kF32);
        x[i] = hidden ? NAN : bell(rng);
      }
      const TileShape shape{coding, role, input.shape.block_tokens, input.shape.width};
      bytes.emplace_back(tile_bytes(shape));
      const TileParams& params = role == Role::kKey ? input.params.key : input.params.value;
      encode_tile(shape, params, x.data(), bytes.back().data());
      (role == Role::kKey ? tile.key : tile.value) = bytes.back().data();
    }
    tiles.push_back(tile);
    refresh();
  }
  void mask(uint64_t one_in) {
    bias.clear();
    for (size_t i = 0; i < count_keys(tiles); ++i) {
      bias.push_back(rng.chance(1, one_in) ? kMasked : uniform(rng));
    }
    refresh();
  }
  void refresh() {
    input.tiles = tiles;
    input.query = query.data();
    input.key_bias = bias.empty() ? nullptr : bias.data();
  }
  Rng rng;
};

struct Result {
  std::vector<float> out;
  std::vector<float> lse;
  std::vector<float> logits;
};

Result run(const DecodeInput& input, bool reference) {
  const size_t keys = count_keys(input.tiles);
  Result r;
  r.out.assign(size_t{input.shape.heads} * input.shape.width, NAN);
  r.lse.assign(input.shape.heads, NAN);
  r.logits.assign(size_t{input.shape.heads} * keys, NAN);
  const DecodeOutput output{r.out.data(), r.lse.data(), r.logits.data()};
  if (reference) {
    decode_attention_reference(input, output);
  } else {
    DecodeScratch scratch;
    decode_attention(input, output, scratch);
  }
  return r;
}

/// Root of the relative mean square difference.
double difference(const std::vector<float>& a, const std::vector<float>& b) {
  double error = 0;
  double power = 1e-30;
  for (size_t i = 0; i < a.size(); ++i) {
    error += std::pow(static_cast<double>(a[i]) - b[i], 2);
    power += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(error / power);
}

/// What the fast loops may add to what the coding already costs.
double bound(Coding coding) {
  switch (coding) {
    case Coding::kF32:
    case Coding::kF16:
    case Coding::kBf16:
    case Coding::kFp8E4m3:
    case Coding::kFp8E5m2:
    case Coding::kTq3:
      return 2e-5;
    case Coding::kTq4:
      return 1e-2;  // int8 centroids
    default:
      return 1e-3;  // 14-bit query, 15-bit probabilities
  }
}

void compare(const Sequence& sequence, double limit) {
  const Result fast = run(sequence.input, false);
  const Result exact = run(sequence.input, true);
  REQUIRE(difference(fast.out, exact.out) <= limit);
  for (size_t h = 0; h < exact.lse.size(); ++h) {
    REQUIRE(fast.lse[h] == Approx(exact.lse[h]).margin(limit * 10).epsilon(1e-5));
  }
  for (size_t i = 0; i < exact.logits.size(); ++i) {
    if (std::isinf(exact.logits[i])) {
      REQUIRE(fast.logits[i] == exact.logits[i]);
    } else {
      REQUIRE(fast.logits[i] == Approx(exact.logits[i]).margin(limit * 10).epsilon(1e-5));
    }
  }
}

uint32_t pick(Rng& rng, std::initializer_list<uint32_t> values) {
  return *(values.begin() + rng.below(values.size()));
}

}  // namespace

namespace {

void compare_all_codings(int rounds) {
  Rng rng(1);
  for (const CodingInfo& info : all_codings()) {
    const bool kivi = info.coding == Coding::kKivi4 || info.coding == Coding::kKivi2;
    for (int round = 0; round < rounds; ++round) {
      DecodeShape shape;
      shape.heads = pick(rng, {1, 2, 3, 4, 5, 8});
      shape.width =
          kivi ? pick(rng, {32, 64, 96, 128, 576}) : pick(rng, {1, 8, 64, 80, 96, 128, 192, 576});
      shape.block_tokens = kivi ? pick(rng, {32, 64, 128}) : pick(rng, {1, 16, 32, 64, 256});
      shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.width));
      Sequence sequence(shape, 100 + static_cast<uint64_t>(round));
      sequence.input.params.key.fp8_scale = 0.5F;
      sequence.input.params.value.fp8_scale = 2.0F;
      const uint64_t blocks = 1 + rng.below(6);
      for (uint64_t b = 0; b < blocks; ++b) {
        const auto begin = static_cast<uint32_t>(rng.below(shape.block_tokens));
        const auto length = static_cast<uint32_t>(1 + rng.below(shape.block_tokens - begin));
        const bool whole = rng.chance(1, 2);
        sequence.add(info.coding, whole ? 0 : begin, whole ? shape.block_tokens : begin + length);
      }
      if (rng.chance(1, 3)) {
        sequence.mask(4);
      }
      INFO(info.name << " width " << shape.width << " heads " << shape.heads << " block "
                     << shape.block_tokens << " round " << round);
      compare(sequence, bound(info.coding));
    }
  }
}

}  // namespace

TEST_CASE("every coding over random shapes, ranges, heads and masks, on every SIMD target") {
  // Targets that this machine runs and this build has; AVX-512 is compiled and seldom run.
  for (const int64_t target : {HWY_SSSE3, HWY_SSE4, HWY_AVX2, HWY_AVX3, HWY_NEON}) {
    hwy::SetSupportedTargetsForTest(0);
    if ((hwy::SupportedTargets() & target) == 0) {
      continue;
    }
    hwy::SetSupportedTargetsForTest(target);
    INFO("target " << hwy::TargetName(target));
    compare_all_codings(6);
  }
  hwy::SetSupportedTargetsForTest(0);
  compare_all_codings(20);
}

TEST_CASE("mixed codings along one sequence, with a partial last block") {
  for (const uint32_t width : {64U, 128U, 96U}) {
    Sequence sequence({4, width, 32, 1.0F / std::sqrt(static_cast<float>(width))}, width);
    Rng rng(9);
    for (int i = 0; i < 40; ++i) {
      const CodingInfo& info = all_codings()[rng.below(all_codings().size())];
      sequence.add(info.coding, 0, 32);
    }
    sequence.add(Coding::kF16, 0, 7);
    compare(sequence, 1e-2);
  }
}

TEST_CASE("f16 over long sequences stays within 1e-3 of the reference on unrounded values") {
  DecodeShape shape{2, 128, 16, 1.0F / std::sqrt(128.0F)};
  Sequence wide(shape, 5);
  Sequence half(shape, 5);  // the same values
  for (int i = 0; i < 200; ++i) {
    wide.add(Coding::kF32, 0, 16);
    half.add(Coding::kF16, 0, 16);
  }
  REQUIRE(difference(run(half.input, false).out, run(wide.input, true).out) < 1e-3);
}

TEST_CASE("splits merge to the whole, whatever the cut, and an empty part changes nothing") {
  Sequence sequence({4, 64, 16, 0.125F}, 3);
  for (int i = 0; i < 30; ++i) {
    sequence.add(i % 3 == 0 ? Coding::kInt8 : Coding::kF16, 0, 16);
  }
  const Result whole = run(sequence.input, true);
  for (const size_t cut : {size_t{0}, size_t{1}, size_t{17}, size_t{30}}) {
    DecodeInput left = sequence.input;
    left.tiles = sequence.input.tiles.first(cut);
    DecodeInput right = sequence.input;
    right.tiles = sequence.input.tiles.subspan(cut);
    Result a = run(left, false);
    Result b = run(right, false);
    if (cut == 0) {
      REQUIRE(a.lse[0] == kMasked);
      REQUIRE(a.out == std::vector<float>(4 * 64, 0.0F));
    }
    merge_partial({a.out.data(), a.lse.data()}, {b.out.data(), b.lse.data()}, 4, 64);
    INFO("cut at " << cut);
    REQUIRE(difference(a.out, whole.out) < 1e-3);
    REQUIRE(a.lse[3] == Approx(whole.lse[3]).epsilon(1e-4));
  }
  Result none = run({{4, 64, 16, 0.125F}, {}, {}, sequence.query.data(), nullptr}, false);
  const Result other = none;
  merge_partial({none.out.data(), none.lse.data()},
                {const_cast<float*>(other.out.data()), const_cast<float*>(other.lse.data())}, 4,
                64);
  REQUIRE(none.lse[0] == kMasked);
  REQUIRE(none.out[0] == 0.0F);
}

TEST_CASE("a row whose keys are all masked gives zeros and lse -infinity, also first or last") {
  for (const bool at_end : {false, true}) {
    Sequence sequence({1, 64, 256, 0.125F}, 7);
    sequence.add(Coding::kInt4, 0, 256);
    sequence.add(Coding::kInt4, 0, 256);
    sequence.bias.assign(512, 0.0F);
    std::fill_n(sequence.bias.begin() + (at_end ? 256 : 0), 256, kMasked);
    sequence.refresh();
    compare(sequence, 1e-3);
    sequence.bias.assign(512, kMasked);
    sequence.refresh();
    const Result none = run(sequence.input, false);
    REQUIRE(none.lse[0] == kMasked);
    REQUIRE(none.out == std::vector<float>(64, 0.0F));
  }
}

TEST_CASE("worked vectors: merge of three parts, and a paged cache with NaN in unused slots") {
  const VectorFile file("attention_merge.json");
  const Json root = file.root();
  const std::vector<float> q = root["q"].floats();
  const Json paged = root["paged"];
  const auto block = static_cast<uint32_t>(paged["block_size"].number());
  const auto context = static_cast<uint32_t>(paged["context_len"].number());
  DecodeInput input;
  input.shape = {1, 4, block, root["scale"].f32()};
  input.query = q.data();
  std::vector<std::vector<float>> stored;
  std::vector<KvTile> tiles;
  for (uint32_t i = 0; i * block < context; ++i) {
    const auto physical = static_cast<size_t>(paged["block_table"].at(i).number());
    stored.push_back(paged["k_cache"].at(physical).flat());
    stored.push_back(paged["v_cache"].at(physical).flat());
    tiles.push_back({reinterpret_cast<const std::byte*>(stored[2 * i].data()),
                     reinterpret_cast<const std::byte*>(stored[2 * i + 1].data()), Coding::kF32, 0,
                     std::min(block, context - i * block)});
  }
  input.tiles = tiles;
  for (const bool reference : {true, false}) {
    const Result r = run(input, reference);
    REQUIRE(r.lse[0] == Approx(paged["lse"].number()).epsilon(1e-5));
    for (size_t i = 0; i < 4; ++i) {
      REQUIRE(r.out[i] == Approx(paged["o"].at(i).number()).epsilon(1e-5));
    }
  }
  std::vector<float> out(4, 0.0F);
  float lse = kMasked;
  for (size_t part = 0; part < root["parts_4_4_4"].size(); ++part) {
    std::vector<float> o = root["parts_4_4_4"].at(part)["o"].floats();
    float part_lse = root["parts_4_4_4"].at(part)["lse"].f32();
    merge_partial({out.data(), &lse}, {o.data(), &part_lse}, 1, 4);
  }
  REQUIRE(lse == Approx(root["full"]["lse"].number()).epsilon(1e-5));
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(out[i] == Approx(root["merged_o"].at(i).number()).epsilon(1e-5));
  }
}

TEST_CASE("bad attention input is refused by name") {
  Sequence sequence({1, 64, 16, 0.125F}, 2);
  sequence.add(Coding::kF16, 0, 16);
  const auto text = [&] { return check_decode(sequence.input).text(); };
  REQUIRE(check_decode(sequence.input));
  sequence.tiles[0].end = 17;
  REQUIRE_THAT(text(), Catch::Contains("from token 0 to 17 of 16"));
  sequence.tiles[0].begin = sequence.tiles[0].end = 5;
  REQUIRE_THAT(text(), Catch::Contains("from token 5 to 5"));
  sequence.tiles[0] = {nullptr, nullptr, Coding::kKivi4, 0, 16};
  REQUIRE_THAT(text(), Catch::Contains("group of 32"));
  sequence.input.shape.heads = 0;
  REQUIRE_THAT(text(), Catch::Contains("0 query heads"));
  sequence.input.shape.heads = 1;
  sequence.input.shape.block_tokens = 512;
  REQUIRE_THAT(text(), Catch::Contains("512 tokens"));
}
