#include "apps/doctor/checks.h"

#include <catch2/catch.hpp>

#include <set>

namespace troupe {

TEST_CASE("every check says what it found, and what is not well has a remedy") {
  std::set<std::string> names;
  for (const Finding& f : examine(".")) {
    CAPTURE(f.name, f.found);
    CHECK(names.insert(f.name).second);
    CHECK_FALSE(f.found.empty());
    CHECK(f.remedy.empty() == (f.health == Health::kOk));
  }
  for (const char* name :
       {"io_uring", "memlock", "huge_pages", "shared_memory", "gpu", "direct_io"}) {
    CHECK(names.count(name) == 1);
  }
}

TEST_CASE("a directory that is not there is broken, and named") {
  const Finding f = check_direct_io("/nonexistent/tier");
  CHECK(f.health == Health::kBroken);
  CHECK(f.found.find("/nonexistent/tier: ENOENT") == 0);
}

TEST_CASE("limits below what the tiers want are called lacking") {
  CHECK(check_memlock(8ULL << 20, false).health == Health::kLacking);
  CHECK(check_memlock(64ULL << 20, false).health == Health::kOk);
  CHECK(check_memlock(0, true).health == Health::kOk);
  const char* none =
      "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n";
  CHECK(check_huge_pages(none, "always madvise [never]").health == Health::kLacking);
  CHECK(check_huge_pages(none, "always [madvise] never").health == Health::kOk);
  const Finding some =
      check_huge_pages("HugePages_Total: 8\nHugePages_Free: 3\nHugepagesize: 2048 kB", "[never]");
  CHECK(some.health == Health::kOk);
  CHECK(some.found == "3 of 8 reserved pages of 2048 KiB free, transparent: off");
}

}  // namespace troupe
