#include "tests/kernels/device_suite.h"

#include "kernels/cpu/bytes.h"

#include <catch2/catch.hpp>

namespace troupe::kernels::suite {
namespace {

Op make(OpKind kind, Location dst, Location src, uint32_t bytes, uint64_t seed) {
  Op op;
  op.kind = kind;
  op.bytes = bytes;
  op.dst = dst;
  op.src = src;
  op.seed = seed;
  return op;
}

/// One batch to the end; its results.
std::vector<OpResult> run(Device& device, StreamId stream, const std::vector<Op>& ops,
                          uint32_t failed_expected) {
  std::vector<OpResult> results(ops.size(), OpResult{Code::kInternal, 1});
  REQUIRE(device.submit(stream, Batch{ops, results}, 42));
  const Completion done = drain(device, stream, 1).front();
  REQUIRE(done.code == Code::kOk);
  REQUIRE(done.user_data == 42);
  REQUIRE(done.failed == failed_expected);
  return results;
}

}  // namespace

std::vector<Completion> drain(Device& device, StreamId stream, size_t count) {
  REQUIRE(device.synchronize(stream));
  std::vector<Completion> done(count + 1);
  size_t have = 0;
  while (have < count) {  // after synchronize each poll must make progress
    const size_t more = device.poll(std::span(done).subspan(have));
    REQUIRE(more > 0);
    have += more;
  }
  REQUIRE(have == count);
  REQUIRE(device.poll(std::span(done).last(1)) == 0);
  done.resize(count);
  return done;
}

void round_trip(Device& device, std::span<std::byte> host, size_t blocks, uint32_t block_bytes) {
  REQUIRE(host.size() >= blocks * block_bytes);
  const RegionId region = device.add_region(host).value();
  const StreamId stream = device.create_stream().value();
  const auto low = [&](size_t i) { return Location{kDeviceRegion, i * block_bytes}; };
  const auto high = [&](size_t i) { return Location{kDeviceRegion, (blocks + i) * block_bytes}; };
  const auto out = [&](size_t i) { return Location{region, (blocks - 1 - i) * block_bytes}; };
  std::vector<Op> fill;
  std::vector<Op> store;
  std::vector<Op> wipe;
  std::vector<Op> load;
  std::vector<Op> verify;
  std::vector<Op> move;
  std::vector<Op> verify_moved;
  for (size_t i = 0; i < blocks; ++i) {
    fill.push_back(make(OpKind::kFill, low(i), {}, block_bytes, 100 + i));
    fill.back().position = 8 * i;
    store.push_back(make(OpKind::kCopy, out(i), low(i), block_bytes, 0));
    store.back().with_checksum = true;
    wipe.push_back(make(OpKind::kFill, low(i), {}, block_bytes, 1));
    load.push_back(make(OpKind::kCopy, low(i), out(i), block_bytes, 0));
    load.back().with_checksum = true;
    verify.push_back(make(OpKind::kVerify, {}, low(i), block_bytes, 100 + i));
    verify.back().position = 8 * i;
    verify.push_back(make(OpKind::kChecksum, {}, low(i), block_bytes, 0));
    move.push_back(make(OpKind::kCopy, high(i), low(blocks - 1 - i), block_bytes, 0));
    move.back().with_checksum = i % 2 == 0;
    verify_moved.push_back(make(OpKind::kVerify, {}, high(blocks - 1 - i), block_bytes, 100 + i));
    verify_moved.back().position = 8 * i;
  }
  run(device, stream, fill, 0);
  const std::vector<OpResult> stored = run(device, stream, store, 0);
  for (size_t i = 0; i < blocks; ++i) {
    const std::byte* at = host.data() + out(i).offset;
    REQUIRE(verify_pattern(at, block_bytes, 100 + i, 8 * i) == block_bytes);
    REQUIRE(stored[i].value == checksum_bytes(at, block_bytes));
  }
  run(device, stream, wipe, 0);
  const auto n = static_cast<uint32_t>(blocks);
  const std::vector<OpResult> wiped = run(device, stream, verify, n);
  REQUIRE(wiped[0].code == Code::kCorrupt);
  REQUIRE(wiped[0].value < 8);
  const std::vector<OpResult> loaded = run(device, stream, load, 0);
  const std::vector<OpResult> verified = run(device, stream, verify, 0);
  for (size_t i = 0; i < blocks; ++i) {
    REQUIRE(loaded[i].value == stored[i].value);
    REQUIRE(verified[2 * i].value == kNoMismatch);
    REQUIRE(verified[2 * i + 1].value == stored[i].value);
  }
  const std::vector<OpResult> moved = run(device, stream, move, 0);
  for (size_t i = 0; i < blocks; ++i) {
    REQUIRE(moved[i].value == (i % 2 == 0 ? stored[blocks - 1 - i].value : 0));
  }
  run(device, stream, verify_moved, 0);
  host[out(0).offset + block_bytes / 2] ^= std::byte{4};  // one bit, and its place is found
  run(device, stream, load, 0);
  const std::vector<OpResult> broken = run(device, stream, verify, 1);
  REQUIRE(broken[0].code == Code::kCorrupt);
  REQUIRE(broken[0].value == block_bytes / 2);
}

void producer_consumer(Device& device, std::span<std::byte> host, size_t rounds,
                       uint32_t block_bytes) {
  constexpr size_t kBlocks = 8;
  REQUIRE(host.size() >= kBlocks * block_bytes);
  const RegionId region = device.add_region(host).value();
  const StreamId compute = device.create_stream().value();
  const StreamId copy = device.create_stream().value();
  const EventId produced = device.create_event().value();
  const EventId copied = device.create_event().value();
  std::vector<std::vector<Op>> ops(rounds * 3);
  std::vector<std::vector<OpResult>> results(rounds * 3);
  const auto submit = [&](StreamId stream, size_t at) {
    results[at].resize(ops[at].size());
    REQUIRE(device.submit(stream, Batch{ops[at], results[at]}, at));
  };
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < kBlocks; ++i) {
      const Location low{kDeviceRegion, i * block_bytes};
      const Location high{kDeviceRegion, (kBlocks + i) * block_bytes};
      const Location out{region, i * block_bytes};
      ops[3 * round].push_back(make(OpKind::kFill, low, {}, block_bytes, round * kBlocks + i));
      ops[3 * round + 1].push_back(make(OpKind::kCopy, out, low, block_bytes, 0));
      ops[3 * round + 2].push_back(make(OpKind::kCopy, high, out, block_bytes, 0));
    }
    if (round != 0) {
      REQUIRE(device.wait(compute, copied));
    }
    submit(compute, 3 * round);
    REQUIRE(device.record(compute, produced));
    REQUIRE(device.wait(copy, produced));
    submit(copy, 3 * round + 1);
    REQUIRE(device.record(copy, copied));
    submit(copy, 3 * round + 2);
  }
  REQUIRE(device.synchronize(compute));
  for (const Completion& done : drain(device, copy, rounds * 3)) {
    REQUIRE(done.code == Code::kOk);
    REQUIRE(done.failed == 0);
  }
  for (size_t i = 0; i < kBlocks; ++i) {
    REQUIRE(verify_pattern(host.data() + i * block_bytes, block_bytes, (rounds - 1) * kBlocks + i,
                           0) == block_bytes);
  }
}

}  // namespace troupe::kernels::suite
