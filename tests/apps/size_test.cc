// `troupe size` against published and hand-computed figures.
#include "apps/size/size_main.h"
#include "apps/size/size_report.h"

#include <catch2/catch.hpp>

namespace troupe {
namespace {

SizeReport report(const char* model, SizeQuestion q) {
  const Expected<ModelEntry> entry = find_model(known_models(), model);
  REQUIRE(entry.is_ok());
  if (q.max_tokens == 0) {
    q.max_tokens = q.context_tokens;
  }
  const Expected<SizeReport> r = size_report(*entry, q);
  INFO(r.status().text());
  REQUIRE(r.is_ok());
  return *r;
}

uint64_t one_token(const char* model) {
  const double bytes = report(model, {.format = Format::kBf16, .context_tokens = 16}).token_bytes;
  return static_cast<uint64_t>(bytes);
}

int run(std::vector<std::string> args) {
  args.insert(args.begin(), "troupe size");
  std::vector<char*> argv;
  for (std::string& arg : args) {
    argv.push_back(arg.data());
  }
  return size_main(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("Llama 3.1 70B at its full context is 40 GiB, a batch of 8 at 32,768 is 80 GiB") {
  const SizeReport full =
      report("llama-3.1-70b", {.format = Format::kBf16, .context_tokens = 131072});
  CHECK(full.sequence_bytes == 42949672960ULL);
  CHECK(full.token_bytes == 327680);
  const SizeReport batch =
      report("Llama-3.1-70B", {.format = Format::kF16, .context_tokens = 32768, .batch = 8});
  CHECK(batch.batch_bytes == 85899345920ULL);
}

TEST_CASE("bytes per token of the table's models, 16 bit") {
  CHECK(one_token("llama-2-7b") == 524288);       // 2 · 32 · 32 · 128 · 2
  CHECK(one_token("llama-3.1-8b") == 131072);     // 2 · 32 · 8 · 128 · 2
  CHECK(one_token("llama-3.1-405b") == 516096);   // 2 · 126 · 8 · 128 · 2
  CHECK(one_token("qwen2.5-7b") == 57344);        // 2 · 28 · 4 · 128 · 2
  CHECK(one_token("qwen3-8b") == 147456);         // 2 · 36 · 8 · 128 · 2
  CHECK(one_token("mistral-7b-v0.3") == 131072);  // 2 · 32 · 8 · 128 · 2
  CHECK(one_token("deepseek-v3") == 70272);       // 61 · (512 + 64) · 2
  CHECK(one_token("gemma-3-27b") == 507904);      // 2 · 62 · 16 · 128 · 2
  CHECK(one_token("smollm2-135m") == 23040);      // 2 · 30 · 3 · 64 · 2
}

TEST_CASE("sliding windows bound what a long sequence keeps") {
  const SizeReport r = report("gemma-3-27b", {.format = Format::kBf16, .context_tokens = 131072});
  // global: 131,072 tokens · 2 · 10 · 16 · 128 · 2; local: 65 blocks of 16 tokens · 2 · 52 · 16 ·
  // 128 · 2
  CHECK(r.sequence_bytes == 131072ULL * 81920 + 65ULL * 16 * 425984);
  CHECK(r.token_bytes_beyond_windows == 81920);
  // contiguous keeps exactly the window
  CHECK(r.contiguous_sequence_bytes == 131072ULL * 81920 + 1024ULL * 425984);
}

TEST_CASE("contiguous preallocation against paged") {
  const SizeReport r = report("llama-3.1-8b", {.format = Format::kBf16,
                                               .context_tokens = 1000,
                                               .max_tokens = 4096,
                                               .batch = 4,
                                               .memory_bytes = 80ULL << 30});
  CHECK(r.sequence_bytes == 63ULL * 16 * 131072);  // 1,000 tokens in 63 blocks
  CHECK(r.contiguous_sequence_bytes == 4096ULL * 131072);
  CHECK(r.contiguous_batch_bytes == 4 * 4096ULL * 131072);
  CHECK(r.paged_waste == Approx(8.0 / 1008));
  CHECK(r.contiguous_waste == Approx(1 - 1000.0 / 4096));
  CHECK(r.paged_fits == 650);       // 80 GiB / 132,120,576
  CHECK(r.contiguous_fits == 160);  // 80 GiB / 512 MiB
}

TEST_CASE("every model of the table works in every format") {
  CHECK(known_models().size() >= 15);
  for (const ModelEntry& model : known_models()) {
    CAPTURE(model.name);
    CHECK_FALSE(model.source.empty());
    for (const FormatInfo& info : all_formats()) {
      const Expected<SizeReport> r = size_report(model, {.format = info.format,
                                                         .block_tokens = 32,
                                                         .context_tokens = 1024,
                                                         .max_tokens = 4096});
      REQUIRE(r.is_ok());
      CHECK(r->sequence_bytes > 0);
      CHECK(r->sequence_bytes <= r->contiguous_sequence_bytes + 2 * r->block_bytes);
    }
  }
}

TEST_CASE("sizes are read with units") {
  CHECK(parse_bytes("4096").value() == 4096);
  CHECK(parse_bytes("80GiB").value() == 80ULL << 30);
  CHECK(parse_bytes("1.5 TiB").value() == 3ULL << 39);
  CHECK(parse_bytes("10GB").value() == 10000000000ULL);
  for (const char* bad : {"", "x", "-1", "1.2.3GiB", "4 gib", "1e9", "99999999999TiB"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_bytes(bad).is_ok());
  }
  CHECK(bytes_text(42949672960ULL) == "42,949,672,960 bytes (40.00 GiB)");
  CHECK(bytes_text(999) == "999 bytes (999.00 B)");
}

TEST_CASE("bad tables and bad arguments are named") {
  const auto error = [](std::string_view toml) {
    return parse_models(toml, "t.toml").status().text();
  };
  const std::string good =
      "[[model]]\nname='m'\nsource='s'\ncontext=1\ndtype='bf16'\n[[model.group]]\nname='g'\n"
      "attention='gqa'\nlayers=1\nkv_heads=1\nhead_dim=8\n";
  CHECK(parse_models(good, "t.toml").is_ok());
  CHECK(error("x = ").find("t.toml, line 1") == 0);
  CHECK(error("a = 1").find("no [[model]]") != std::string::npos);
  CHECK(error(good + "heads=3\n") == "t.toml, line 12: unknown key heads");
  CHECK(error(good + good).find("stands there twice") != std::string::npos);
  CHECK(error("[[model]]\nname='m'\nsource='s'\ncontext=-1\ndtype='bf16'\n") ==
        "t.toml, line 4: context -1 must be a whole number in 1 … 4294967295");
  CHECK(error("[[model]]\nname='m'\nsource='s'\ncontext=1\ndtype='int3'\n").find("line 5") !=
        std::string::npos);
  CHECK(run({"--model", "llama-3.1-70b", "--context", "131072"}) == 0);
  CHECK(run({"--model", "gpt-9"}) == 2);
  CHECK(run({"--model", "llama-3.1-8b", "--format", "int3"}) == 2);
  CHECK(run({"--model", "llama-3.1-8b", "--context", "0"}) == 2);
  CHECK(run({"--model", "llama-3.1-8b", "--context", "5", "--max-context", "4"}) == 2);
  CHECK(run({"--model", "llama-3.1-8b", "--memory", "lots"}) == 2);
  CHECK(run({"--model", "llama-3.1-8b", "--block-tokens", "0"}) == 2);
  CHECK(run({"--model", "llama-3.1-405b", "--context", "4294967296", "--batch", "4294967296"}) ==
        2);
  CHECK(run({"--no-such-flag"}) == 2);
}

}  // namespace troupe
