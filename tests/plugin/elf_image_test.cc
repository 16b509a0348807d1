// The ELF reader takes hostile bytes: no prefix and no flipped byte of a real library makes it read
// outside (run under AddressSanitizer in CI) or hang.
#include "runtime/plugin/elf_image.h"

#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <iterator>

using namespace troupe;
using namespace troupe::plugin;

namespace {

std::vector<uint8_t> library() {
  std::ifstream in(std::string(TROUPE_POLICIES) + "/lru.so", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

TEST_CASE("a built-in's note, exports and imports are read without loading it") {
  const auto image = read_elf(library());
  REQUIRE(image);
  CHECK(std::string(image->note.id) == "lru");
  CHECK(image->note.kind == TROUPE_KIND_EVICTION);
  CHECK(image->exports_symbol(TROUPE_CREATE_SYMBOL));
  CHECK(image->exports.size() == 2);
  CHECK(image->unique_symbols.empty());
  CHECK(check_loadable(*image));
}

TEST_CASE("no prefix of a library is taken for a whole one that can run") {
  const auto bytes = library();
  REQUIRE(bytes.size() > 4096);
  for (size_t n = 0; n < bytes.size(); n += 97) {
    CHECK_FALSE(read_elf({bytes.data(), n}));
  }
}

TEST_CASE("flipped bytes in the headers give an answer, whatever it is") {
  const auto bytes = library();
  Rng rng(11);
  size_t refused = 0;
  for (int round = 0; round < 4000; ++round) {
    auto damaged = bytes;
    for (int flips = 0; flips < 3; ++flips) {
      const auto at = static_cast<size_t>(rng.below(rng.chance(1, 2) ? 1024 : bytes.size()));
      damaged[at] = static_cast<uint8_t>(rng.next());
    }
    refused += read_elf(damaged) ? 0 : 1;
  }
  CHECK(refused > 100);
}
