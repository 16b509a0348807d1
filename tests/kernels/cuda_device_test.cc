// The CUDA backend's logic over the fake driver: the suite of every device, then every possible
// error at every call.
#include "kernels/cuda/cuda_device.h"

#include "kernels/cuda_loader.h"
#include "kernels/pattern.h"
#include "tests/kernels/device_suite.h"
#include "tests/kernels/fake_driver.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace troupe;
using namespace troupe::kernels;
using troupe::kernels::cuda::CudaDevice;
using troupe::kernels::cuda::CudaDeviceOptions;
using troupe::kernels::cuda::FakeDriver;

namespace {

constexpr uint32_t kBlock = 4096;

CudaDeviceOptions options_for(const FakeDriver& driver, uint64_t blocks) {
  CudaDeviceOptions options;
  options.memory_bytes = blocks * kBlock;
  options.driver = driver.table();
  options.module_image = "image";
  return options;
}

Op fill_op(uint64_t block, uint64_t seed) {
  Op op;
  op.kind = OpKind::kFill;
  op.bytes = kBlock;
  op.dst = {kDeviceRegion, block * kBlock};
  op.seed = seed;
  return op;
}

Op copy_op(RegionId to, RegionId from, uint64_t block) {
  Op op;
  op.with_checksum = true;
  op.bytes = kBlock;
  op.dst = {to, block * kBlock};
  op.src = {from, block * kBlock};
  return op;
}

/// What happened in one scripted life of a device.
struct Life {
  size_t accepted = 0;
  size_t completed = 0;
  size_t completed_ok = 0;
  bool created = false;
  bool all_ok = true;
};

/// Creates, fills, stores, loads and verifies with two streams; goes on after errors like a caller
/// that only looks at each Status, and polls until every accepted batch has completed.
Life live(const FakeDriver& driver) {
  Life life;
  std::vector<std::byte> host(8 * kBlock);
  auto made = CudaDevice::create(options_for(driver, 8));
  life.created = made.is_ok();
  if (!made) {
    life.all_ok = false;
    return life;
  }
  Device& device = **made;
  const auto region = device.add_region(host);
  const auto first = device.create_stream();
  const auto second = device.create_stream();
  const auto event = device.create_event();
  if (!region || !first || !second || !event) {
    life.all_ok = false;
    return life;
  }
  int wakes = 0;
  device.set_wakeup([](void* count) { ++*static_cast<int*>(count); }, &wakes);
  std::vector<std::vector<Op>> ops(4);
  std::vector<std::vector<OpResult>> results(4, std::vector<OpResult>(4));
  for (uint64_t i = 0; i < 4; ++i) {
    ops[0].push_back(fill_op(i, i + 1));
    ops[1].push_back(copy_op(*region, kDeviceRegion, i));
    ops[2].push_back(copy_op(kDeviceRegion, *region, i));
    ops[3].push_back(fill_op(i, i + 1));
    ops[3].back().kind = OpKind::kVerify;
    ops[3].back().src = ops[3].back().dst;
  }
  const auto note = [&life](const Status& status) { life.all_ok = life.all_ok && status.is_ok(); };
  const auto submit = [&](StreamId stream, size_t i) {
    const Status status = device.submit(stream, Batch{ops[i], results[i]}, i);
    note(status);
    life.accepted += status.is_ok() ? 1 : 0;
  };
  submit(*first, 0);
  note(device.record(*first, *event));
  note(device.wait(*second, *event));
  submit(*second, 1);
  submit(*second, 2);
  submit(*second, 3);
  std::vector<Completion> done(8);
  for (int i = 0; i < 200 && life.completed < life.accepted; ++i) {
    const size_t count = device.poll(done);
    for (size_t c = 0; c < count; ++c) {
      life.completed_ok += done[c].code == Code::kOk && done[c].failed == 0 ? 1 : 0;
    }
    life.completed += count;
  }
  note(device.synchronize(*second));
  note(device.health());
  REQUIRE(device.poll(done) == 0);
  return life;
}

}  // namespace

TEST_CASE("the suite of every device passes over the fake driver") {
  FakeDriver driver;
  {
    std::vector<std::byte> host(12 * 16384);
    auto options = options_for(driver, 0);
    options.memory_bytes = 24 * 16384;
    auto device = CudaDevice::create(options);
    REQUIRE(device.is_ok());
    suite::round_trip(**device, host, 12, 16384);
    REQUIRE((*device)->facts().on_gpu);
  }
  REQUIRE(driver.leaks().empty());
  {
    std::vector<std::byte> host(8 * kBlock);
    auto device = CudaDevice::create(options_for(driver, 16));
    REQUIRE(device.is_ok());
    suite::producer_consumer(**device, host, 50, kBlock);
  }
  REQUIRE(driver.leaks().empty());
}

TEST_CASE("any error at any call: no leak, one completion per accepted batch, no wrong success") {
  uint64_t calls = 0;
  {
    FakeDriver driver;
    const Life life = live(driver);
    REQUIRE(life.all_ok);
    REQUIRE(life.completed_ok == 4);
    calls = driver.calls();
    REQUIRE(driver.leaks().empty());
  }
  REQUIRE(calls > 60);
  for (const cuda::Result error : {2, 700, 719, 999}) {
    for (const bool sticky : {false, true}) {
      for (uint64_t at = 1; at <= calls; ++at) {
        FakeDriver driver;
        driver.fail_at(at, error, sticky);
        const Life life = live(driver);
        INFO("error " << error << " at call " << at << (sticky ? " sticky" : " once"));
        REQUIRE(life.completed == life.accepted);
        REQUIRE(driver.leaks().empty());
        if (life.all_ok) {  // the failed call was one that may fail, such as pinning
          REQUIRE(life.completed_ok == 4);
        }
      }
    }
  }
}

TEST_CASE("a sticky error kills the device once and for all, and says so") {
  FakeDriver driver;
  auto device = std::move(CudaDevice::create(options_for(driver, 4))).value();
  const StreamId stream = device->create_stream().value();
  const std::vector<Op> ops = {fill_op(0, 1)};
  std::vector<OpResult> results(1);
  REQUIRE(device->submit(stream, Batch{ops, results}, 7));
  driver.fail_at(1, 700, true);
  std::vector<Completion> done(2);
  REQUIRE(device->poll(done) == 1);
  REQUIRE(done[0].user_data == 7);
  REQUIRE(done[0].code == Code::kUnavailable);
  REQUIRE(results[0].code == Code::kUnavailable);
  REQUIRE(device->health().code() == Code::kUnavailable);
  REQUIRE_THAT(device->health().text(), Catch::Contains("CUDA_ERROR_ILLEGAL_ADDRESS"));
  const Status refused = device->submit(stream, Batch{ops, results}, 8);
  REQUIRE(refused.code() == Code::kUnavailable);
  REQUIRE_THAT(refused.text(), Catch::Contains("GPU is dead"));
  REQUIRE(device->create_stream().status().code() == Code::kUnavailable);
}

TEST_CASE("refused pinning is a fact, not an error") {
  FakeDriver driver;
  auto device = std::move(CudaDevice::create(options_for(driver, 4))).value();
  std::vector<std::byte> host(kBlock);
  driver.fail_at(2, 801, false);  // after cuCtxSetCurrent
  REQUIRE(device->add_region(host).is_ok());
  REQUIRE_THAT(device->facts().note, Catch::Contains("not pinned"));
}

TEST_CASE("the kernel-op ring wraps, fills up and recovers") {
  FakeDriver driver;
  auto options = options_for(driver, 16);
  options.ring_ops = 16;
  auto device = std::move(CudaDevice::create(options)).value();
  const StreamId stream = device->create_stream().value();
  std::vector<Op> ops;
  for (uint64_t i = 0; i < 16; ++i) {
    ops.push_back(fill_op(i, i));
  }
  std::vector<OpResult> results(17);
  std::vector<Completion> done(4);
  const auto submit = [&](size_t count) {
    return device->submit(
        stream, Batch{std::span(ops).first(count), std::span(results).first(count)}, count);
  };
  for (size_t count = 1; count <= 16; ++count) {  // every size at every ring position, when idle
    for (size_t other = 1; other <= 16; ++other) {
      REQUIRE(submit(count));
      REQUIRE(suite::drain(*device, stream, 1).front().failed == 0);
      REQUIRE(submit(other));
      REQUIRE(suite::drain(*device, stream, 1).front().failed == 0);
    }
  }
  REQUIRE(submit(10));
  REQUIRE(submit(7).code() == Code::kNoCapacity);
  REQUIRE(submit(6));
  REQUIRE(suite::drain(*device, stream, 2).size() == 2);
  ops.push_back(fill_op(0, 0));
  const Status too_many = submit(17);
  REQUIRE(too_many.code() == Code::kInvalidArgument);
  REQUIRE_THAT(too_many.text(), Catch::Contains("17 kernel ops"));
}

TEST_CASE("work that a GPU can't take is refused by name") {
  FakeDriver driver;
  auto device = std::move(CudaDevice::create(options_for(driver, 4))).value();
  std::vector<std::byte> host(4 * kBlock);
  const RegionId region = device->add_region(host).value();
  const StreamId stream = device->create_stream().value();
  std::vector<OpResult> results(1);
  std::vector<Op> ops = {copy_op(region, region, 0)};
  ops[0].dst.offset = kBlock;
  REQUIRE_THAT(device->submit(stream, Batch{ops, results}, 0).text(),
               Catch::Contains("host memory only"));
  ops[0] = fill_op(0, 1);
  ops[0].dst.region = region;
  REQUIRE(device->submit(stream, Batch{ops, results}, 0).code() == Code::kInvalidArgument);
  ops[0] = copy_op(kDeviceRegion, region, 0);
  ops[0].bytes = 240;
  REQUIRE_THAT(device->submit(stream, Batch{ops, results}, 0).text(),
               Catch::Contains("more than 240"));
  ops[0].bytes = 241;
  REQUIRE(device->submit(stream, Batch{ops, results}, 0));
  REQUIRE(suite::drain(*device, stream, 1).front().failed == 0);
}

TEST_CASE("a missing backend library is unavailable, by name") {
  CudaLoadOptions options;
  options.library_path = "/nonexistent/libtroupe_cuda.so";
  options.memory_bytes = 1;
  const auto device = load_cuda_device(options);
  REQUIRE(device.status().code() == Code::kUnavailable);
  REQUIRE_THAT(device.status().text(), Catch::Contains("/nonexistent/libtroupe_cuda.so"));
}
