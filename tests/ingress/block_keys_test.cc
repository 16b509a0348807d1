// runtime/ingress: a key is a function of every field that a cached block depends on, and of
// nothing else.
#include <catch2/catch.hpp>
#include <set>

#include "runtime/base/rng.h"
#include "runtime/ingress/block_keys.h"

namespace troupe {
namespace {

std::array<uint8_t, 32> secret(uint8_t first = 7) {
  std::array<uint8_t, 32> s{};
  s[0] = first;
  return s;
}

KeyNamespace base() { return {"llama", "rev1", "f16", "layout", 16, 0, 1}; }

std::vector<uint32_t> some_tokens(size_t n, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint32_t> tokens(n);
  for (uint32_t& t : tokens) {
    t = static_cast<uint32_t>(rng.below(128000));
  }
  return tokens;
}

}  // namespace

TEST_CASE("[T:key_domain_separation] every field alone makes another key") {
  std::vector<KeyNamespace> names(8, base());
  names[1].model = "llam";
  names[2].revision = "rev2";
  names[3].format = "fp8_e4m3";
  names[4].layout = "layout2";
  names[5].block_tokens = 32;
  names[6].shard_rank = 1;
  names[7].shard_count = 2;
  std::vector<BlockKey> roots;
  for (const KeyNamespace& name : names) {
    roots.push_back(KeyContext(secret(), name).root({}));
  }
  roots.push_back(KeyContext(secret(8), base()).root({}));
  const KeyContext keys(secret(), base());
  const std::array<uint8_t, 32> image_a{1};
  const std::array<uint8_t, 32> image_b{2};
  const std::array<std::array<uint8_t, 32>, 2> both{image_a, image_b};
  const std::array<std::array<uint8_t, 32>, 2> swapped{image_b, image_a};
  roots.push_back(keys.root({.domain = 1, .adapter = {}, .media = {}}));
  roots.push_back(keys.root({.domain = 0, .adapter = "x", .media = {}}));
  roots.push_back(keys.root({.domain = 0, .adapter = {}, .media = std::span(&image_a, 1)}));
  roots.push_back(keys.root({.domain = 0, .adapter = {}, .media = both}));
  roots.push_back(keys.root({.domain = 0, .adapter = {}, .media = swapped}));
  roots.push_back(keys.root({.domain = 0, .adapter = {}, .media = {}, .rope = 1}));
  roots.push_back(
      keys.root({.domain = 0, .adapter = {}, .media = {}, .rope = 0, .rope_offset = 1}));
  const std::set<BlockKey> distinct(roots.begin(), roots.end());
  CHECK(distinct.size() == roots.size());
  CHECK(KeyContext(secret(), base()).root({}) == roots[0]);
}

TEST_CASE("moving a byte between neighbouring fields never gives the same key") {
  std::set<BlockKey> seen;
  const std::string text = "abcdefgh";
  for (size_t i = 0; i <= text.size(); ++i) {
    for (size_t j = i; j <= text.size(); ++j) {
      KeyNamespace name = base();
      name.model = text.substr(0, i);
      name.revision = text.substr(i, j - i);
      name.format = text.substr(j);
      seen.insert(KeyContext(secret(), name).root({}));
    }
  }
  CHECK(seen.size() == (text.size() + 1) * (text.size() + 2) / 2);
}

TEST_CASE("the short path and the general one hash the same encoding") {
  // 22 tokens are the last that fit the short path; a chain over any sizes must not depend on which
  // path ran, so a block of n tokens is compared with one hashed by an independent implementation.
  const KeyContext keys(secret(), base());
  const BlockKey root = keys.root({});
  std::set<BlockKey> seen;
  for (size_t n = 0; n <= 64; ++n) {
    seen.insert(keys.block(root, some_tokens(n, 3)));
  }
  CHECK(seen.size() == 65);
  // Golden values: they are on disks and in lanes, so they never change.
  CHECK(keys.block(root, some_tokens(16, 3)).w[0] == 0xd00211b70189ac16ULL);
  CHECK(keys.block(root, some_tokens(22, 3)).w[0] == 0x84b55adbf89ca05cULL);
  CHECK(keys.block(root, some_tokens(23, 3)).w[0] == 0x47d62d288555af2eULL);
  CHECK(keys.block(root, some_tokens(512, 3)).w[0] == 0x81e3cf623c2cb852ULL);
}

TEST_CASE("a chain depends on all tokens before, and on their division into blocks") {
  const KeyContext keys(secret(), base());
  const BlockKey root = keys.root({});
  std::vector<uint32_t> tokens = some_tokens(16 * 40, 5);
  std::vector<BlockKey> a(40);
  keys.chain(root, tokens, 16, a);
  for (size_t change : {0UL, 17UL, 639UL}) {
    std::vector<uint32_t> other = tokens;
    ++other[change];
    std::vector<BlockKey> b(40);
    keys.chain(root, other, 16, b);
    for (size_t i = 0; i < 40; ++i) {
      CHECK((a[i] == b[i]) == (i < change / 16));
    }
  }
  std::vector<BlockKey> wide(20);
  keys.chain(root, tokens, 32, wide);
  CHECK_FALSE(wide[0] == a[1]);
}

}  // namespace troupe
