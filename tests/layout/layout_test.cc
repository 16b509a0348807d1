// Bytes per block against values computed by hand (the arithmetic stands beside each), and the
// checks of a layout. Llama-3.1-8B's shape: 32 layers, 8 kv heads, head width 128.
#include "runtime/layout/block_bytes.h"

#include <catch2/catch.hpp>

#include <set>

namespace troupe {
namespace {

KvLayout layout_of(std::vector<LayerGroup> groups, uint32_t block_tokens = 16) {
  KvLayout layout{"test", "r1", block_tokens, false, std::move(groups), {}};
  const Status status = validate(layout);
  INFO(status.to_string());
  REQUIRE(status.is_ok());
  return layout;
}

KvLayout llama8b(uint32_t block_tokens = 16) {
  return layout_of({attention_group("full", Attention::kGqa, {32, 8, 128})}, block_tokens);
}

/// One layer, one head, width 128, one token a block.
KvLayout one_head(uint32_t block_tokens = 1) {
  return layout_of({attention_group("full", Attention::kMqa, {1, 1, 128})}, block_tokens);
}

}  // namespace

TEST_CASE("16-bit blocks of the well-known shapes") {
  // 2 planes · 32 layers · 8 heads · 128 · 2 B = 131,072 B a token
  CHECK(bytes_per_block(llama8b(), Format::kBf16) == 131072U * 16);
  CHECK(bytes_per_block(llama8b(), Format::kF16) == 131072U * 16);
  CHECK(bytes_per_block(llama8b(), Format::kF32) == 262144U * 16);
  // MHA: 2 · 32 · 32 · 128 · 2 = 524,288; MQA: 2 · 32 · 1 · 128 · 2 = 16,384
  CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kMha, {32, 32, 128})}),
                        Format::kF16) == 524288U * 16);
  CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kMqa, {32, 1, 128})}),
                        Format::kF16) == 16384U * 16);
  // K=V shared: half of GQA
  CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kKvShared, {32, 8, 128})}),
                        Format::kF16) == 65536U * 16);
}

TEST_CASE("Llama 3.1 70B: 40 GiB at 131,072 tokens, 80 GiB at batch 8 of 32,768") {
  const KvLayout layout = layout_of({attention_group("full", Attention::kGqa, {80, 8, 128})});
  CHECK(paged_bytes(layout, Format::kBf16, 131072) == 42949672960ULL);
  CHECK(8 * paged_bytes(layout, Format::kBf16, 32768) == 80ULL << 30);
}

TEST_CASE("MLA: 576 values a token and layer, 656 bytes in FlashMLA's fp8 record") {
  const KvLayout layout = layout_of({mla_group("mla", 61, 512, 64)}, 64);
  CHECK(bytes_per_block(layout, Format::kBf16) == 61U * 64 * 1152);
  // 512 codes + 4 f32 scales + 64 bf16 rope values
  CHECK(bytes_per_block(layout, Format::kFp8E4m3) == 61U * 64 * (512 + 16 + 128));
  // int8: one scale for the latent; the rope key stays bf16
  CHECK(bytes_per_block(layout, Format::kInt8) == 61U * 64 * (512 + 4 + 128));
}

TEST_CASE("metadata of per-token formats, K + V of one head of 128", "[T:scales_travel]") {
  const KvLayout layout = one_head();
  CHECK(bytes_per_block(layout, Format::kFp8E4m3) == 256);
  CHECK(bytes_per_block(layout, Format::kFp8E5m2) == 256);
  CHECK(bytes_per_block(layout, Format::kInt8) == 2 * (128 + 4));  // 264
  CHECK(bytes_per_block(layout, Format::kInt4) == 2 * (64 + 4));   // 136
  CHECK(bytes_per_block(layout, Format::kTq4) == 66 + 68);         // 134
  CHECK(bytes_per_block(layout, Format::kTq3) == 50 + 52);         // 102
  CHECK(bytes_per_block(layout, Format::kTq2) == 34 + 36);
}

TEST_CASE("KIVI: scales per channel for K, per 32 channels for V") {
  // block 32: K codes 128 · 32 · 2 / 8 = 1,024, K scales 128 · 1 · 4 = 512;
  //           V codes 32 · 32 = 1,024, V scales 32 · 4 · 4 = 512
  CHECK(bytes_per_block(one_head(32), Format::kKivi2) == 3072);
  // 3.0 bits a value: 3,072 · 8 / (2 · 128 · 32)
  CHECK(bytes_per_block(one_head(32), Format::kKivi2) * 8 == 3U * 2 * 128 * 32);
  // 4 bits: codes double
  CHECK(bytes_per_block(one_head(32), Format::kKivi4) == 5120);
}

TEST_CASE("a KIVI group that does not divide a block or a head is refused, with both numbers") {
  CHECK(validate(one_head(32), Format::kKivi2).is_ok());
  CHECK(validate(one_head(96), Format::kKivi4).is_ok());
  for (const uint32_t block : {1U, 16U, 31U, 48U}) {
    CHECK(validate(one_head(block), Format::kBf16).is_ok());
    for (const Format format : {Format::kKivi2, Format::kKivi4}) {
      const Status status = validate(one_head(block), format);
      CHECK(status.code() == Code::kInvalidArgument);
      CHECK(status.text().find("block of " + std::to_string(block)) != std::string::npos);
      CHECK(status.text().find("group of 32") != std::string::npos);
    }
  }
  // Along a head for V; what is never quantized does not matter.
  const KvLayout narrow = layout_of({attention_group("g", Attention::kGqa, {1, 8, 80})}, 32);
  CHECK(validate(narrow, Format::kKivi2).text().find("width of 80") != std::string::npos);
  // A token rate thins a block's entries, a shard of tokens too.
  Plane rare{PlaneKind::kKey, 2, 4, 32, Format::kF16, {.per_tokens = 4, .state = false}};
  CHECK_FALSE(validate(layout_of({{"sparse", Attention::kGqa, 0, {rare}}}, 64), Format::kKivi4));
  CHECK(validate(layout_of({{"sparse", Attention::kGqa, 0, {rare}}}, 128), Format::kKivi4));
}

TEST_CASE("KVQuant: one value in a hundred apart, V with offset and range") {
  // 8 heads · 128 = 1,024 values a token: 3-bit codes 384 B, 11 outliers of 4 B; V 4 B more
  const KvLayout layout = layout_of({attention_group("g", Attention::kGqa, {1, 8, 128})});
  CHECK(bytes_per_block(layout, Format::kNuq3) == 16U * ((384 + 44) + (384 + 44 + 4)));
  CHECK(bytes_per_block(layout, Format::kNuq4) == 16U * ((512 + 44) + (512 + 44 + 4)));
  CHECK(bytes_per_block(layout, Format::kNuq2) == 16U * ((256 + 44) + (256 + 44 + 4)));
}

TEST_CASE("token rates and states", "[T:hybrid_state_atomic]") {
  Plane rare{PlaneKind::kKey, 2, 4, 32, Format::kF16, {.per_tokens = 4, .state = false}};
  Plane rarest{
      PlaneKind::kIndexer, 1, 1, 128, Format::kFp8E4m3, {.per_tokens = 128, .state = false}};
  Plane state{PlaneKind::kState, 3, 2, 4096, Format::kF32, {.per_tokens = 1, .state = true}};
  const KvLayout layout = layout_of(
      {{"sparse", Attention::kGqa, 0, {rare, rarest}}, {"ssm", Attention::kRecurrent, 0, {state}}},
      128);
  // 2 layers · 32 entries · 4 heads · 32 · 2 B, and 1 entry of 128 codes with one f32 scale
  CHECK(bytes_per_block(layout, 0, Format::kF16) == 2U * 32 * 4 * 32 * 2 + 132);
  // 3 layers · 2 heads · 4,096 · 4 B once a block, in every format
  CHECK(bytes_per_block(layout, 1, Format::kF16) == 98304);
  CHECK(bytes_per_block(layout, 1, Format::kKivi2) == 98304);
  CHECK(bytes_per_block(layout, Format::kF16) == 16384 + 132 + 98304);
}

TEST_CASE("the shards of a block add up to the block") {
  KvLayout layout = llama8b(16);
  const uint64_t whole = bytes_per_block(layout, Format::kInt8);
  for (const uint32_t size : {2U, 4U, 8U}) {
    layout.shard = {.tensor_rank = size - 1, .tensor_size = size};
    REQUIRE(validate(layout).is_ok());
    CHECK(bytes_per_block(layout, Format::kInt8) * size == whole);
  }
  layout.shard = {.tensor_rank = 0, .tensor_size = 16};  // heads are replicated on pairs of ranks
  REQUIRE(validate(layout).is_ok());
  CHECK(bytes_per_block(layout, Format::kInt8) * 8 == whole);
  uint64_t sum = 0;
  for (const auto& [first, count] : {std::pair{0U, 12U}, std::pair{12U, 4U}}) {
    layout.shard = {0, 1, first == 0 ? 0U : 1U, 2, first, count};
    REQUIRE(validate(layout).is_ok());
    sum += bytes_per_block(layout, Format::kInt8);
  }
  CHECK(sum == whole);
}

TEST_CASE("a sliding window keeps the blocks it can touch") {
  const KvLayout layout =
      layout_of({attention_group("full", Attention::kGqa, {1, 1, 64}),
                 attention_group("local", Attention::kSlidingWindow, {1, 1, 64}, 1024)});
  CHECK(blocks_per_sequence(layout, 0, 100000) == 6250);
  CHECK(blocks_per_sequence(layout, 1, 100000) == 65);  // ceil(1023 / 16) + 1
  CHECK(blocks_per_sequence(layout, 1, 100) == 7);
  CHECK(blocks_per_sequence(layout, 1, 0) == 0);
  // the bound is reached: 1,024 tokens ending anywhere touch 64 or 65 blocks, never more
  uint64_t most = 0;
  for (uint64_t end = 1024; end < 1024 + 16; ++end) {
    most = std::max(most, (end - 1) / 16 - (end - 1024) / 16 + 1);
  }
  CHECK(most == 65);
}

TEST_CASE("blocks grow with every dimension, in every format") {
  for (const FormatInfo& info : all_formats()) {
    CAPTURE(info.name);
    const uint64_t small = bytes_per_block(
        layout_of({attention_group("g", Attention::kGqa, {2, 2, 64})}), info.format);
    CHECK(small > 0);
    CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kGqa, {4, 2, 64})}),
                          info.format) == 2 * small);
    CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kGqa, {2, 4, 64})}),
                          info.format) > small);
    CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kGqa, {2, 2, 128})}),
                          info.format) > small);
    CHECK(bytes_per_block(layout_of({attention_group("g", Attention::kGqa, {2, 2, 64})}, 32),
                          info.format) > small);
    // never smaller than the codes alone
    CHECK(small * 8 >= uint64_t{2} * 2 * 2 * 64 * 16 * info.code_bits);
  }
}

TEST_CASE("names of formats and attentions are read back") {
  for (const FormatInfo& info : all_formats()) {
    const Expected<Format> parsed = parse_format(info.name);
    REQUIRE(parsed.is_ok());
    CHECK(parsed.value() == info.format);
  }
  const Expected<Format> unknown = parse_format("int3");
  REQUIRE_FALSE(unknown.is_ok());
  CHECK(unknown.status().text().find("int3") != std::string::npos);
  CHECK(unknown.status().text().find("kivi2") != std::string::npos);
  CHECK(parse_attention("mla").value() == Attention::kMla);
  CHECK_FALSE(parse_attention("").is_ok());
}

TEST_CASE("impossible layouts are refused with the plane, the value and the limit") {
  const KvLayout good = llama8b();
  std::vector<std::pair<KvLayout, std::string>> cases;
  const auto add = [&](std::string expected, auto change) {
    KvLayout layout = good;
    change(layout);
    cases.emplace_back(layout, std::move(expected));
  };
  add("block_tokens 0", [](KvLayout& l) { l.block_tokens = 0; });
  add("no layer group", [](KvLayout& l) { l.groups.clear(); });
  add("no plane", [](KvLayout& l) { l.groups[0].planes.clear(); });
  add("layers 0", [](KvLayout& l) { l.groups[0].planes[0].layers = 0; });
  add("width 0", [](KvLayout& l) { l.groups[0].planes[1].width = 0; });
  add("heads 4097", [](KvLayout& l) { l.groups[0].planes[1].heads = 4097; });
  add("window_tokens 64", [](KvLayout& l) { l.groups[0].window_tokens = 64; });
  add("one value for 128", [](KvLayout& l) { l.groups[0].planes[0].rate.per_tokens = 128; });
  add("state plane", [](KvLayout& l) { l.groups[0].planes[0].rate.state = true; });
  add("do not split over 3", [](KvLayout& l) { l.shard.tensor_size = 3; });
  add("tensor rank 2 of 2", [](KvLayout& l) { l.shard = {.tensor_rank = 2, .tensor_size = 2}; });
  add("token range", [](KvLayout& l) { l.shard.context_size = 2; });
  add("exceed the block", [](KvLayout& l) { l.shard = {0, 1, 0, 2, 8, 9}; });
  for (const auto& [layout, expected] : cases) {
    const Status status = validate(layout);
    CAPTURE(expected, status.text());
    REQUIRE_FALSE(status.is_ok());
    CHECK(status.text().find(expected) != std::string::npos);
  }
}

TEST_CASE("[T:layout_fingerprint] every field alone makes another fingerprint") {
  const KvLayout good = llama8b();
  std::set<uint64_t> seen{layout_fingerprint(good, Format::kBf16)};
  CHECK(layout_fingerprint(llama8b(), Format::kBf16) == *seen.begin());
  size_t expected = 1;
  const auto differs = [&](auto change) {
    KvLayout layout = good;
    change(layout);
    seen.insert(layout_fingerprint(layout, Format::kBf16));
    CHECK(seen.size() == ++expected);
  };
  differs([](KvLayout& l) { l.model = "tes"; });
  differs([](KvLayout& l) { l.revision = "r2"; });
  differs([](KvLayout& l) {
    l.model = "testr";
    l.revision = "1";
  });  // not a concatenation
  differs([](KvLayout& l) { l.block_tokens = 32; });
  differs([](KvLayout& l) { l.keys_before_rope = true; });
  differs([](KvLayout& l) { l.groups[0].name = "x"; });
  differs([](KvLayout& l) { l.groups[0].attention = Attention::kMha; });
  differs([](KvLayout& l) { l.groups[0].window_tokens = 1; });
  differs([](KvLayout& l) { l.groups.push_back(l.groups[0]); });
  differs([](KvLayout& l) { l.groups[0].planes.pop_back(); });  // fused K and V is another layout
  differs([](KvLayout& l) { l.groups[0].planes[0].kind = PlaneKind::kKeyValue; });
  differs([](KvLayout& l) { l.groups[0].planes[0].layers = 31; });
  differs([](KvLayout& l) { l.groups[0].planes[0].heads = 4; });
  differs([](KvLayout& l) { l.groups[0].planes[0].width = 64; });
  differs([](KvLayout& l) { l.groups[0].planes[0].dtype = Format::kF16; });
  differs([](KvLayout& l) { l.groups[0].planes[0].rate.per_tokens = 2; });
  differs([](KvLayout& l) { l.groups[0].planes[0].rate.state = true; });
  differs([](KvLayout& l) { l.shard.tensor_rank = 1; });
  differs([](KvLayout& l) { l.shard.tensor_size = 2; });
  differs([](KvLayout& l) { l.shard.context_rank = 1; });
  differs([](KvLayout& l) { l.shard.context_size = 2; });
  differs([](KvLayout& l) { l.shard.token_first = 1; });
  differs([](KvLayout& l) { l.shard.token_count = 1; });
  seen.insert(layout_fingerprint(good, Format::kF16));
  CHECK(seen.size() == ++expected);
  CHECK(describe(good) == "test@r1 block 16; full gqa key[32x8x128 bf16] value[32x8x128 bf16]");
}

}  // namespace troupe
