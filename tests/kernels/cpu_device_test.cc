// The CPU device as its callers see it: the same checks inline, by hand and on worker threads.
#include "kernels/cpu/cpu_device.h"

#include "tests/kernels/device_suite.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr size_t kBlock = 16384;
constexpr size_t kBlocks = 96;

struct Bench {
  explicit Bench(CpuExecution execution, uint32_t threads = 2, StreamLimits limits = {})
      : memory(kBlock * kBlocks), host(kBlock * kBlocks) {
    CpuDeviceOptions options;
    options.memory = memory;
    options.execution = execution;
    options.worker_threads = threads;
    options.limits = limits;
    auto made = CpuDevice::create(options);
    REQUIRE(made.is_ok());
    device = std::move(*made);
    auto region = device->add_region(host);
    REQUIRE(region.is_ok());
    host_region = *region;
  }
  StreamId stream() { return device->create_stream().value(); }
  Location on_device(size_t block) const { return {kDeviceRegion, block * kBlock}; }
  Location on_host(size_t block) const { return {host_region, block * kBlock}; }

  std::vector<std::byte> memory;
  std::vector<std::byte> host;
  std::unique_ptr<CpuDevice> device;
  RegionId host_region;
};

Op make_op(OpKind kind, Location dst, Location src, uint64_t seed = 0) {
  Op op;
  op.kind = kind;
  op.bytes = kBlock;
  op.dst = dst;
  op.src = src;
  op.seed = seed;
  return op;
}

}  // namespace

TEST_CASE("the suite of every device passes inline, by hand and on threads") {
  const auto execution =
      GENERATE(CpuExecution::kInline, CpuExecution::kThreads, CpuExecution::kManual);
  Bench b(execution, 4);
  std::vector<std::byte> host(b.memory.size() / 2);
  suite::round_trip(*b.device, host, kBlocks / 2, kBlock);
  Bench pipeline(execution, 4);
  suite::producer_consumer(*pipeline.device, host, 200, kBlock);
}

TEST_CASE("the wake-up comes once per quiet time, and poll then finds the completion") {
  Bench b(CpuExecution::kInline);
  int calls = 0;
  b.device->set_wakeup([](void* context) { ++*static_cast<int*>(context); }, &calls);
  const StreamId stream = b.stream();
  const std::vector<Op> ops = {make_op(OpKind::kFill, b.on_device(0), {}, 1)};
  std::vector<OpResult> results(1);
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 1));
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 2));
  REQUIRE(calls == 1);
  std::vector<Completion> done(1);
  REQUIRE(b.device->poll(done) == 1);
  REQUIRE(done[0].user_data == 1);
  REQUIRE(b.device->poll(done) == 1);
  REQUIRE(done[0].user_data == 2);
  REQUIRE(b.device->poll(done) == 0);
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 3));
  REQUIRE(calls == 2);
}

TEST_CASE("bad work is refused by name and leaves nothing behind") {
  Bench b(CpuExecution::kInline);
  const StreamId stream = b.stream();
  std::vector<OpResult> results(1);
  const auto refuse = [&](const Op& op, const char* words) {
    const std::vector<Op> ops = {op};
    const Status status = b.device->submit(stream, Batch{ops, results}, 0);
    CHECK(status.code() == Code::kInvalidArgument);
    CHECK_THAT(status.text(), Catch::Contains(words));
  };
  Op op = make_op(OpKind::kCopy, b.on_device(0), b.on_host(kBlocks));
  refuse(op, "src offset 1572864 leaves region 1 of 1572864 bytes");
  op = make_op(OpKind::kCopy, {RegionId(9), 0}, b.on_host(0));
  refuse(op, "dst region 9 of 2 known");
  op = make_op(OpKind::kFill, {kDeviceRegion, UINT64_MAX - 3}, {});
  refuse(op, "leaves region 0");
  op = make_op(OpKind::kCopy, {kDeviceRegion, 100}, {kDeviceRegion, 0});
  refuse(op, "overlap");
  op = make_op(OpKind::kFill, b.on_device(0), {});
  op.with_checksum = true;
  refuse(op, "only copies take with_checksum");
  op = make_op(OpKind::kFill, b.on_device(0), {});
  op.bytes = 0;
  refuse(op, "at least 1 byte");
  op.kind = static_cast<OpKind>(9);
  refuse(op, "unknown kind 9");
  REQUIRE(b.device->submit(stream, Batch{}, 0).code() == Code::kInvalidArgument);
  const std::vector<Op> one = {make_op(OpKind::kFill, b.on_device(0), {})};
  REQUIRE(b.device->submit(stream, Batch{one, {}}, 0).code() == Code::kInvalidArgument);
  REQUIRE(b.device->submit(StreamId(7), Batch{one, results}, 0).code() == Code::kInvalidArgument);
  REQUIRE(b.device->synchronize(StreamId(7)).code() == Code::kInvalidArgument);
  std::vector<Completion> done(1);
  REQUIRE(b.device->poll(done) == 0);
}

TEST_CASE("limits answer with no_capacity, and polling makes room") {
  StreamLimits limits;
  limits.streams_max = 1;
  limits.events_max = 1;
  limits.batches_max = 2;
  limits.commands_max = 8;
  Bench b(CpuExecution::kInline, 1, limits);
  const StreamId stream = b.stream();
  REQUIRE(b.device->create_stream().status().code() == Code::kNoCapacity);
  REQUIRE(b.device->create_event().is_ok());
  REQUIRE(b.device->create_event().status().code() == Code::kNoCapacity);
  const std::vector<Op> ops = {make_op(OpKind::kFill, b.on_device(0), {}, 1)};
  std::vector<OpResult> results(1);
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 1));
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 2));
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 3).code() == Code::kNoCapacity);
  std::vector<Completion> done(1);
  REQUIRE(b.device->poll(done) == 1);
  REQUIRE(b.device->submit(stream, Batch{ops, results}, 3));
}

TEST_CASE("options out of range are refused") {
  CpuDeviceOptions options;
  REQUIRE(CpuDevice::create(options).status().code() == Code::kInvalidArgument);
  std::vector<std::byte> memory(1);
  options.memory = memory;
  options.execution = CpuExecution::kThreads;
  options.worker_threads = 257;
  const auto refused = CpuDevice::create(options);
  REQUIRE(refused.status().code() == Code::kInvalidArgument);
  REQUIRE_THAT(refused.status().text(), Catch::Contains("257"));
}
