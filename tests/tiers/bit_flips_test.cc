// Bits that flip on their way to the disk, on it, and on their way back, in whole runs until so
// many have flipped: none may reach a request. How many: the program's argument, else 100,000.
#define CATCH_CONFIG_RUNNER
#include "tests/tiers/fault_runs.h"

#include <catch2/catch.hpp>

#include <cstdlib>

namespace troupe {
namespace {
uint64_t flips_wanted = 100'000;
}  // namespace

TEST_CASE("flipped bits on the disk: no wrong byte is served", "[T:bitflip_on_disk]") {
  const Workload work = test::small_workload(2000);
  for (const io::BackendChoice backend : test::disk_backends()) {
    uint64_t flipped = 0;
    uint64_t found = 0;
    uint64_t runs = 0;
    uint64_t verified = 0;
    for (uint64_t seed = 1; flipped < flips_wanted / 2; ++seed) {
      RunOptions options;
      options.disk.backend = backend;
      options.disk.faults = std::make_shared<io::FaultInjector>(seed);
      // From one bit in many records to one in every other: seldom ones are mixed with good loads.
      options.disk.faults->add({.fault = io::Fault::kBitFlip, .num = 1, .den = 2 + seed % 8});
      const RunReport report = test::run_checked(work, test::small_config(), options);
      REQUIRE(report.mismatches == 0);
      const uint64_t now = options.disk.faults->fired(io::Fault::kBitFlip);
      REQUIRE(now > 0);
      flipped += now;
      found += report.disk.store.corrupt;
      verified += report.verified_bytes;
      ++runs;
    }
    std::printf("%s: %llu bits flipped in %llu runs, %llu records found corrupt, 0 wrong bytes in "
                "%llu MiB that were reused\n",
                test::backend_name(backend), static_cast<unsigned long long>(flipped),
                static_cast<unsigned long long>(runs), static_cast<unsigned long long>(found),
                static_cast<unsigned long long>(verified >> 20));
    CHECK(found > flipped / 20);
  }
}

}  // namespace troupe

int main(int argc, char** argv) {
  if (argc == 2 && std::atoll(argv[1]) > 0) {
    troupe::flips_wanted = static_cast<uint64_t>(std::atoll(argv[1]));
    argc = 1;
  }
  return Catch::Session().run(argc, argv);
}
