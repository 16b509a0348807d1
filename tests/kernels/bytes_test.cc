// The byte loops against plain references: every length around the borders of vectors, stripes and
// hash blocks, aligned and not, with both cache hints.
#include "kernels/cpu/bytes.h"

#include "kernels/pattern.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <vector>
#include <xxhash.h>

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr size_t kGuard = 64;

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  Rng rng(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& b : bytes) {
    b = static_cast<uint8_t>(rng.next());
  }
  return bytes;
}

std::vector<size_t> lengths() {
  std::vector<size_t> all;
  for (size_t n = 1; n <= 400; ++n) {
    all.push_back(n);
  }
  for (const size_t base : {512U, 1024U, 2048U, 4096U, 65536U}) {
    for (size_t n = base - 2; n <= base + 66; ++n) {
      all.push_back(n);
    }
  }
  all.push_back(1000003);
  return all;
}

/// A buffer whose first byte lies `shift` bytes after a multiple of 64, with guard bytes around.
struct Buffer {
  Buffer(size_t bytes, size_t shift) : store(bytes + 3 * kGuard, 0xA5) {
    const auto address = reinterpret_cast<uintptr_t>(store.data()) + kGuard;
    data = store.data() + kGuard + (64 - address % 64) % 64 + shift;
    size = bytes;
  }
  bool guards_intact() const {
    for (const uint8_t* p = store.data(); p != store.data() + store.size(); ++p) {
      if ((p < data || p >= data + size) && *p != 0xA5) {
        return false;
      }
    }
    return true;
  }
  std::vector<uint8_t> store;
  uint8_t* data = nullptr;
  size_t size = 0;
};

}  // namespace

TEST_CASE("copy and checksum equal memcpy and libxxhash at every length") {
  const std::vector<uint8_t> source = random_bytes(1000003 + 8, 11);
  for (const size_t n : lengths()) {
    for (const size_t shift : {size_t{0}, size_t{3}}) {
      const uint8_t* from = source.data() + shift;
      for (const CacheHint hint : {CacheHint::kKeep, CacheHint::kStream}) {
        Buffer plain(n, shift);
        Buffer fused(n, shift);
        copy_bytes(plain.data, from, n, hint);
        const uint64_t value = copy_checksum(fused.data, from, n, hint);
        INFO("bytes " << n << " shift " << shift);
        REQUIRE(std::memcmp(plain.data, from, n) == 0);
        REQUIRE(std::memcmp(fused.data, from, n) == 0);
        REQUIRE(plain.guards_intact());
        REQUIRE(fused.guards_intact());
        REQUIRE(value == XXH3_64bits(from, n));
        REQUIRE(checksum_bytes(from, n) == value);
      }
    }
  }
}

TEST_CASE("fill writes the pattern, at every length and position") {
  for (const size_t n : lengths()) {
    for (const uint64_t position : {uint64_t{0}, uint64_t{8}, uint64_t{4096}, uint64_t{5}}) {
      Buffer kept(n, 0);
      Buffer streamed(n, 0);
      fill_pattern(kept.data, n, n, position, CacheHint::kKeep);
      fill_pattern(streamed.data, n, n, position, CacheHint::kStream);
      INFO("bytes " << n << " position " << position);
      for (size_t i = 0; i < n; ++i) {
        if (kept.data[i] != pattern_byte(n, position + i)) {
          FAIL("byte " << i);
        }
      }
      REQUIRE(std::memcmp(kept.data, streamed.data, n) == 0);
      REQUIRE(kept.guards_intact());
      REQUIRE(streamed.guards_intact());
      REQUIRE(verify_pattern(kept.data, n, n, position) == n);
    }
  }
}

TEST_CASE("verify names the first byte that differs") {
  constexpr size_t kBytes = 5000;
  Rng rng(3);
  Buffer buffer(kBytes, 0);
  for (int round = 0; round < 2000; ++round) {
    const uint64_t position = rng.below(3) * 4;
    fill_pattern(buffer.data, kBytes, 77, position, CacheHint::kKeep);
    const size_t first = rng.below(kBytes);
    const size_t second = first + rng.below(kBytes - first);
    const auto flip = static_cast<uint8_t>(1U << rng.below(8));
    buffer.data[first] = static_cast<uint8_t>(buffer.data[first] ^ flip);
    if (second != first) {
      buffer.data[second] = static_cast<uint8_t>(buffer.data[second] ^ 0x80U);
    }
    REQUIRE(verify_pattern(buffer.data, kBytes, 77, position) == first);
  }
}

TEST_CASE("another seed or a shifted block does not verify") {
  constexpr size_t kBytes = 4096;
  Buffer buffer(kBytes, 0);
  Rng rng(5);
  for (int round = 0; round < 1000; ++round) {
    const uint64_t seed = rng.next();
    fill_pattern(buffer.data, kBytes, seed, 0, CacheHint::kKeep);
    REQUIRE(verify_pattern(buffer.data, kBytes, seed + 1, 0) < 8);  // words of seeds never meet
    REQUIRE(verify_pattern(buffer.data, kBytes, seed, 8) < 8);
    REQUIRE(verify_pattern(buffer.data, kBytes, seed, 4096) < 8);
  }
}
