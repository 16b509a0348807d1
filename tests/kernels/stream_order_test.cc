// Happens-before: work runs in every random legal order, one op at a time, and what events and
// streams promise must hold in each. The same programs without their event must go wrong in some
// order, or this test would prove nothing.
#include "kernels/cpu/cpu_device.h"
#include "runtime/base/rng.h"

#include <catch2/catch.hpp>

#include <vector>

using namespace troupe;
using namespace troupe::kernels;

namespace {

constexpr size_t kBytes = 256;

Op op(OpKind kind, uint64_t dst, uint64_t src, uint64_t seed) {
  Op o;
  o.kind = kind;
  o.bytes = kBytes;
  o.dst = {kDeviceRegion, dst * kBytes};
  o.src = {kDeviceRegion, src * kBytes};
  o.seed = seed;
  return o;
}

struct Program {
  std::unique_ptr<CpuDevice> device;
  std::vector<std::byte> memory = std::vector<std::byte>(kBytes * 64);
  std::vector<std::vector<Op>> ops;
  std::vector<std::vector<OpResult>> results;

  Program() {
    CpuDeviceOptions options;
    options.memory = memory;
    options.execution = CpuExecution::kManual;
    device = std::move(CpuDevice::create(options)).value();
    ops.reserve(256);
    results.reserve(256);
  }
  void submit(StreamId stream, std::vector<Op> batch) {
    results.emplace_back(batch.size(), OpResult{Code::kInternal, 0});
    ops.push_back(std::move(batch));
    REQUIRE(device->submit(stream, Batch{ops.back(), results.back()}, ops.size()));
  }
  uint32_t run_all(uint64_t seed) {
    Rng rng(seed);
    while (device->run_one(rng.next())) {
    }
    std::vector<Completion> done(ops.size());
    REQUIRE(device->poll(done) == ops.size());
    uint32_t failed = 0;
    for (const Completion& completion : done) {
      failed += completion.failed;
    }
    return failed;
  }
};

/// Producer fills eight blocks, consumer copies and checks them; `with_event` orders the two.
uint32_t produce_and_consume(bool with_event, uint64_t seed) {
  Program p;
  const StreamId producer = p.device->create_stream().value();
  const StreamId consumer = p.device->create_stream().value();
  const EventId event = p.device->create_event().value();
  for (uint64_t round = 0; round < 4; ++round) {
    std::vector<Op> fill;
    std::vector<Op> copy;
    std::vector<Op> check;
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t at = round * 8 + i;
      fill.push_back(op(OpKind::kFill, at, 0, 100 + at));
      copy.push_back(op(OpKind::kCopy, 32 + at, at, 0));
      check.push_back(op(OpKind::kVerify, 0, 32 + at, 100 + at));
    }
    p.submit(producer, fill);
    REQUIRE(p.device->record(producer, event));
    if (with_event) {
      REQUIRE(p.device->wait(consumer, event));
    }
    p.submit(consumer, copy);
    p.submit(consumer, check);
  }
  return p.run_all(seed);
}

}  // namespace

TEST_CASE("an event orders two streams in every legal order", "[T:store_waits_compute_event]") {
  uint32_t broken_without = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    REQUIRE(produce_and_consume(true, seed) == 0);
    broken_without += produce_and_consume(false, seed) != 0 ? 1U : 0U;
  }
  REQUIRE(broken_without > 100);
}

TEST_CASE("recording an event again does not move waits that were queued before") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    Program p;
    const StreamId first = p.device->create_stream().value();
    const StreamId second = p.device->create_stream().value();
    const StreamId third = p.device->create_stream().value();
    const EventId event = p.device->create_event().value();
    p.submit(first, {op(OpKind::kFill, 1, 0, 7)});
    REQUIRE(p.device->record(first, event));
    REQUIRE(p.device->wait(third, event));  // means `first`, also after the next line
    REQUIRE(p.device->record(second, event));
    p.submit(third, {op(OpKind::kVerify, 0, 1, 7)});
    INFO("seed " << seed);
    REQUIRE(p.run_all(seed) == 0);
  }
}

TEST_CASE("a chain of waits without work between passes as soon as its first event is reached") {
  Program p;
  std::vector<StreamId> streams;
  for (int i = 0; i < 5; ++i) {
    streams.push_back(p.device->create_stream().value());
  }
  p.submit(streams[0], {op(OpKind::kFill, 1, 0, 9)});
  for (size_t i = 1; i < streams.size(); ++i) {
    const EventId event = p.device->create_event().value();
    REQUIRE(p.device->record(streams[i - 1], event));
    REQUIRE(p.device->wait(streams[i], event));
  }
  p.submit(streams.back(), {op(OpKind::kVerify, 0, 1, 9)});
  REQUIRE(p.run_all(1) == 0);
}

TEST_CASE("waiting for an event that was never recorded is refused") {
  Program p;
  const StreamId stream = p.device->create_stream().value();
  const EventId event = p.device->create_event().value();
  REQUIRE(p.device->wait(stream, event).code() == Code::kFailedPrecondition);
  REQUIRE(p.device->wait(stream, EventId(5)).code() == Code::kInvalidArgument);
  REQUIRE(p.device->record(StreamId(3), event).code() == Code::kInvalidArgument);
}

TEST_CASE("synchronize by hand runs what the stream needs from others") {
  Program p;
  const StreamId first = p.device->create_stream().value();
  const StreamId second = p.device->create_stream().value();
  const EventId event = p.device->create_event().value();
  p.submit(second, {op(OpKind::kFill, 1, 0, 3)});
  REQUIRE(p.device->record(second, event));
  REQUIRE(p.device->wait(first, event));
  p.submit(first, {op(OpKind::kVerify, 0, 1, 3)});
  REQUIRE(p.device->synchronize(first));
  REQUIRE(p.results[1][0].code == Code::kOk);
}
