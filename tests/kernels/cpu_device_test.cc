// The CPU device as its callers see it: the same checks inline, by hand and on worker threads.
#include "kernels/cpu/cpu_device.h"

#include "kernels/cpu/bytes.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <cstring>
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

/// Runs `ops` on `stream` to completion and returns the completion.
Completion run(Device& device, StreamId stream, const std::vector<Op>& ops,
               std::vector<OpResult>& results) {
  results.assign(ops.size(), OpResult{Code::kInternal, 0});
  REQUIRE(device.submit(stream, Batch{ops, results}, 42));
  REQUIRE(device.synchronize(stream));
  std::vector<Completion> done(2);
  REQUIRE(device.poll(done) == 1);
  return done[0];
}

}  // namespace

TEST_CASE("fill, store with checksum, load and verify give the same bytes back") {
  const auto execution =
      GENERATE(CpuExecution::kInline, CpuExecution::kThreads, CpuExecution::kManual);
  Bench b(execution);
  const StreamId stream = b.stream();
  std::vector<Op> fill;
  std::vector<Op> store;
  std::vector<Op> wipe;
  std::vector<Op> load;
  std::vector<Op> verify;
  for (size_t i = 0; i < kBlocks; ++i) {
    fill.push_back(make_op(OpKind::kFill, b.on_device(i), {}, 1000 + i));
    store.push_back(make_op(OpKind::kCopy, b.on_host(kBlocks - 1 - i), b.on_device(i)));
    store.back().with_checksum = true;
    wipe.push_back(make_op(OpKind::kFill, b.on_device(i), {}, 5));
    load.push_back(make_op(OpKind::kCopy, b.on_device(i), b.on_host(kBlocks - 1 - i)));
    verify.push_back(make_op(OpKind::kVerify, {}, b.on_device(i), 1000 + i));
  }
  std::vector<OpResult> results;
  REQUIRE(run(*b.device, stream, fill, results).failed == 0);
  REQUIRE(run(*b.device, stream, store, results).failed == 0);
  for (size_t i = 0; i < kBlocks; ++i) {
    REQUIRE(results[i].value == checksum_bytes(b.memory.data() + i * kBlock, kBlock));
  }
  REQUIRE(run(*b.device, stream, wipe, results).failed == 0);
  const Completion wiped = run(*b.device, stream, verify, results);
  REQUIRE(wiped.code == Code::kOk);
  REQUIRE(wiped.failed == kBlocks);
  REQUIRE(results[0].code == Code::kCorrupt);
  REQUIRE(results[0].value < 8);
  REQUIRE(run(*b.device, stream, load, results).failed == 0);
  const Completion last = run(*b.device, stream, verify, results);
  REQUIRE(last.user_data == 42);
  REQUIRE(last.stream == stream);
  REQUIRE(last.failed == 0);
  REQUIRE(results[kBlocks - 1].value == kNoMismatch);
}

TEST_CASE("a long pipeline over two streams and events keeps its order on threads") {
  Bench b(CpuExecution::kThreads, 4);
  const StreamId compute = b.stream();
  const StreamId copy = b.stream();
  const EventId produced = b.device->create_event().value();
  const EventId copied = b.device->create_event().value();
  constexpr size_t kRounds = 200;
  std::vector<std::vector<Op>> ops(kRounds * 3);
  std::vector<std::vector<OpResult>> results(kRounds * 3);
  const auto submit = [&](StreamId stream, size_t at) {
    results[at].resize(ops[at].size());
    REQUIRE(b.device->submit(stream, Batch{ops[at], results[at]}, at));
  };
  for (size_t round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < 8; ++i) {  // producer fills, the other stream copies out and checks
      ops[3 * round].push_back(make_op(OpKind::kFill, b.on_device(i), {}, round * 8 + i));
      ops[3 * round + 1].push_back(make_op(OpKind::kCopy, b.on_host(i), b.on_device(i)));
      ops[3 * round + 2].push_back(make_op(OpKind::kVerify, {}, b.on_host(i), round * 8 + i));
    }
    if (round != 0) {
      REQUIRE(b.device->wait(compute, copied));
    }
    submit(compute, 3 * round);
    REQUIRE(b.device->record(compute, produced));
    REQUIRE(b.device->wait(copy, produced));
    submit(copy, 3 * round + 1);
    REQUIRE(b.device->record(copy, copied));
    submit(copy, 3 * round + 2);
  }
  REQUIRE(b.device->synchronize(compute));
  REQUIRE(b.device->synchronize(copy));
  std::vector<Completion> done(kRounds * 3 + 1);
  REQUIRE(b.device->poll(done) == kRounds * 3);
  for (size_t i = 0; i < kRounds * 3; ++i) {
    REQUIRE(done[i].failed == 0);
  }
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
