// The suite of every device on a real GPU. Without a driver, or without the library (no nvcc at
// build time), the reason is printed and the test counts as skipped.
#include "kernels/cuda_loader.h"
#include "tests/kernels/device_suite.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr int kSkipped = 4;

std::unique_ptr<Device> open_or_skip(uint64_t memory_bytes) {
  CudaLoadOptions options;
  options.library_path = TROUPE_CUDA_LIBRARY;
  options.memory_bytes = memory_bytes;
  auto device = load_cuda_device(options);
  if (!device && device.status().code() == Code::kUnavailable) {
    std::fprintf(stderr, "skipped: %s\n", device.status().text().c_str());
    std::exit(kSkipped);
  }
  REQUIRE(device.is_ok());
  return std::move(*device);
}

}  // namespace

TEST_CASE("round trip on a GPU, sizes around slices and hash blocks") {
  for (const uint32_t bytes : {256U, 4096U, 65536U, 65552U, 1048576U, 300016U}) {
    constexpr size_t kBlocks = 40;
    auto device = open_or_skip(2 * kBlocks * uint64_t{bytes});
    std::vector<std::byte> host(kBlocks * bytes);
    INFO("block bytes " << bytes);
    suite::round_trip(*device, host, kBlocks, bytes);
  }
}

TEST_CASE("events order two streams on a GPU") {
  constexpr uint32_t kBytes = 1 << 20;
  auto device = open_or_skip(16 * uint64_t{kBytes});
  std::vector<std::byte> host(8 * kBytes);
  suite::producer_consumer(*device, host, 100, kBytes);
}
