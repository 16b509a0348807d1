// The fault matrix: each fault of the injector on each backend, reads and writes, and what the
// device must make of it. Silent lies (torn, lost, flipped, misdirected) pass the device, by
// design: block records catch those (record_test, store tests). Here: they must pass as success, so
// that this suite would notice if the injector stopped injecting.
#include "io/depth_governor.h"
#include "tests/io/io_fixture.h"

#include <catch2/catch.hpp>

#include <cerrno>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

constexpr uint64_t kBlock = 65536;
constexpr uint64_t kBlocks = 32;

enum class Outcome { kRight, kError, kSilentlyWrong };

struct Row {
  Fault fault;
  Outcome read, write;
  int error = 0;
};

// A fault that strikes once.
const Row kOnce[] = {
    {Fault::kEio, Outcome::kRight, Outcome::kError, EIO},
    {Fault::kEnospc, Outcome::kError, Outcome::kError, ENOSPC},
    {Fault::kEintr, Outcome::kRight, Outcome::kRight},
    {Fault::kEagain, Outcome::kRight, Outcome::kRight},
    {Fault::kEcanceled, Outcome::kRight, Outcome::kRight},
    {Fault::kShort, Outcome::kRight, Outcome::kRight},
    {Fault::kZero, Outcome::kRight, Outcome::kRight},
    {Fault::kTorn, Outcome::kSilentlyWrong, Outcome::kSilentlyWrong},
    {Fault::kLost, Outcome::kSilentlyWrong, Outcome::kSilentlyWrong},
    {Fault::kBitFlip, Outcome::kSilentlyWrong, Outcome::kSilentlyWrong},
    {Fault::kMisdirect, Outcome::kSilentlyWrong, Outcome::kSilentlyWrong},
    {Fault::kDelay, Outcome::kRight, Outcome::kRight},
    {Fault::kDuplicate, Outcome::kRight, Outcome::kRight},
    {Fault::kStranger, Outcome::kRight, Outcome::kRight},
};

struct Bench {
  Arena arena;
  std::vector<std::byte> model;
  std::shared_ptr<FaultInjector> faults = std::make_shared<FaultInjector>(3);
  Rig rig;

  explicit Bench(const NamedBackend& backend) {
    auto made = Arena::create(kBlock * kBlocks, {.alignment = 4096});
    TROUPE_ASSERT(made.is_ok());
    arena = std::move(made).value();
    DeviceSetup setup;
    setup.file_bytes = {kBlock * (kBlocks + 1)};
    setup.chunk_bytes = 16384;
    setup.faults = faults;
    rig = backend.open(setup);
    if (backend.name.find("fixed") != std::string::npos) {
      const std::span<std::byte> all[] = {arena.bytes()};
      TROUPE_ASSERT(rig.device->register_buffers(all).is_ok());
    }
    model.resize(arena.size());
    fill(model, 99);
    std::memcpy(arena.data(), model.data(), model.size());
    transfer(IoOp::kWrite);
  }

  std::map<uint64_t, IoCompletion> transfer(IoOp op) {
    std::vector<IoRequest> batch;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      batch.push_back({.op = op,
                       .offset = i * kBlock,
                       .buffer = arena.data() + i * kBlock,
                       .length = kBlock,
                       .user_data = i});
    }
    TROUPE_ASSERT(rig.device->submit(batch).is_ok());
    return finish(*rig.device);
  }
  uint64_t wrong_blocks() const {
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      wrong +=
          std::memcmp(arena.data() + i * kBlock, model.data() + i * kBlock, kBlock) != 0 ? 1 : 0;
    }
    return wrong;
  }
};

void check_outcome(Bench& bench, IoOp op, const Row& row) {
  // The fault strikes in the middle of a full queue.
  bench.faults->add({.fault = row.fault, .op = op, .nth = 37});
  const auto done = bench.transfer(op);
  REQUIRE(done.size() == kBlocks);
  CHECK(bench.faults->fired(row.fault) == 1);
  bench.faults->clear();
  uint64_t failed = 0;
  for (const auto& [id, completion] : done) {
    if (completion.error != 0) {
      ++failed;
      CHECK(completion.error == row.error);
      CHECK(completion.bytes < kBlock);
    } else {
      CHECK(completion.bytes == kBlock);
    }
  }
  const Outcome outcome = op == IoOp::kRead ? row.read : row.write;
  CHECK(failed == (outcome == Outcome::kError ? 1 : 0));
  if (op == IoOp::kWrite) {
    std::memset(bench.arena.data(), 0, bench.arena.size());
    for (const auto& [id, completion] : bench.transfer(IoOp::kRead)) {
      CHECK(completion.error == 0);
    }
  }
  if (outcome == Outcome::kRight) {
    CHECK(bench.wrong_blocks() == 0);
  } else if (outcome == Outcome::kSilentlyWrong) {
    CHECK(bench.wrong_blocks() >= 1);
    CHECK(bench.wrong_blocks() <= 2);
  } else {
    CHECK(bench.wrong_blocks() <= 1);
  }
  const IoStats& stats = bench.rig.device->stats();
  CHECK(stats.unknown_results ==
        (row.fault == Fault::kDuplicate || row.fault == Fault::kStranger ? 1 : 0));
}

}  // namespace

TEST_CASE("each fault, once, in the middle of a full queue", "[io][faults]") {
  for (const NamedBackend& backend : backends()) {
    for (const Row& row : kOnce) {
      for (const IoOp op : {IoOp::kRead, IoOp::kWrite}) {
        INFO(backend.name << ", " << fault_name(row.fault)
                          << (op == IoOp::kRead ? " read" : " write"));
        Bench bench(backend);
        if (op == IoOp::kRead) {
          std::memset(bench.arena.data(), 0, bench.arena.size());
        } else {
          fill(bench.model, 100);  // new content, so that a lost write shows
          std::memcpy(bench.arena.data(), bench.model.data(), bench.model.size());
        }
        check_outcome(bench, op, row);
      }
    }
  }
}

TEST_CASE("a fault that never stops ends in an error, not in a loop", "[io][faults]") {
  const std::pair<Fault, int> kAlways[] = {{Fault::kEio, EIO},
                                           {Fault::kEintr, EINTR},
                                           {Fault::kEagain, EAGAIN},
                                           {Fault::kEcanceled, ECANCELED},
                                           {Fault::kZero, ENODATA}};
  for (const NamedBackend& backend : backends()) {
    for (const auto& [fault, error] : kAlways) {
      INFO(backend.name << ", " << fault_name(fault));
      Bench bench(backend);
      bench.faults->add({.fault = fault, .op = IoOp::kRead, .nth = 0, .period = 1});
      const auto done = bench.transfer(IoOp::kRead);
      CHECK(done.size() == kBlocks);
      for (const auto& [id, completion] : done) {
        CHECK(completion.error == error);
        CHECK(completion.bytes == 0);
      }
    }
  }
}

TEST_CASE("short transfers everywhere still move every byte", "[io][faults]") {
  for (const NamedBackend& backend : backends()) {
    INFO(backend.name);
    Bench bench(backend);
    bench.faults->add({.fault = Fault::kShort, .num = 1, .den = 2});
    fill(bench.model, 5);
    std::memcpy(bench.arena.data(), bench.model.data(), bench.model.size());
    for (const auto& [id, completion] : bench.transfer(IoOp::kWrite)) {
      CHECK(completion.error == 0);
    }
    std::memset(bench.arena.data(), 0, bench.arena.size());
    for (const auto& [id, completion] : bench.transfer(IoOp::kRead)) {
      CHECK(completion.error == 0);
    }
    CHECK(bench.wrong_blocks() == 0);
    CHECK(bench.rig.device->stats().continued > 100);
  }
}

TEST_CASE("a hang holds its own request only; the late result completes it once", "[io][faults]") {
  for (const NamedBackend& backend : backends()) {
    INFO(backend.name);
    Bench bench(backend);
    bench.faults->add({.fault = Fault::kHang, .op = IoOp::kRead, .nth = 5});
    std::vector<IoRequest> batch;
    for (uint64_t i = 0; i < kBlocks; ++i) {
      batch.push_back({.offset = i * kBlock,
                       .buffer = bench.arena.data() + i * kBlock,
                       .length = kBlock,
                       .user_data = i});
    }
    REQUIRE(bench.rig.device->submit(batch).is_ok());
    IoCompletion done[8];
    size_t count = 0;
    while (count < kBlocks - 1) {
      count += bench.rig.device->wait(done, -1);
    }
    CHECK(bench.rig.device->outstanding() == 1);
    CHECK(bench.rig.device->poll(done) == 0);
    bench.faults->release_hangs();
    CHECK(bench.rig.device->wait(done, 0) + bench.rig.device->wait(done, -1) == 1);
    CHECK(done[0].user_data == 1);  // chunk 5 of 16 KiB chunks lies in block 1
    CHECK(done[0].error == 0);
    CHECK(bench.wrong_blocks() == 0);
  }
}

TEST_CASE("an error in the middle reports the bytes before it, without a hole", "[io][faults]") {
  for (const NamedBackend& backend : backends()) {
    INFO(backend.name);
    Bench bench(backend);
    bench.faults->add({.fault = Fault::kEnospc, .op = IoOp::kWrite, .nth = 5});
    const IoCompletion done = run(
        *bench.rig.device,
        {.op = IoOp::kWrite, .buffer = bench.arena.data(), .length = 20 * 16384, .user_data = 1});
    CHECK(done.error == ENOSPC);
    CHECK(done.bytes == 5 * 16384);
  }
}

TEST_CASE("reads pass queued writes, urgent ones pass normal ones, writes do not starve", "[io]") {
  auto faults = std::make_shared<FaultInjector>();
  DeviceSetup setup;
  setup.depth = 1;
  setup.chunk_bytes = 4096;
  Rig rig = open_memory(setup, CompletionOrder::kCranked);
  auto arena = Arena::create(size_t{1} << 20, {.alignment = 4096});
  REQUIRE(arena.is_ok());
  std::vector<IoRequest> batch;
  const auto add = [&](IoOp op, uint8_t priority, uint64_t id) {
    batch.push_back({.op = op,
                     .priority = priority,
                     .offset = id * 4096,
                     .buffer = arena->data() + id * 4096,
                     .length = 4096,
                     .user_data = id});
  };
  // A write holds the only place; behind it a big write, a background read, normal and urgent ones.
  add(IoOp::kWrite, kPriorityNormal, 0);
  batch.push_back({.op = IoOp::kWrite,
                   .offset = 262144,
                   .buffer = arena->data() + 262144,
                   .length = 5 * 4096,
                   .user_data = 1});
  add(IoOp::kRead, kPriorityBackground, 2);
  for (uint64_t id = 3; id < 13; ++id) {
    add(IoOp::kRead, kPriorityNormal, id);
  }
  add(IoOp::kRead, kPriorityUrgent, 13);
  REQUIRE(rig.device->submit({&batch[0], 1}).is_ok());
  REQUIRE(rig.device->submit(std::span(batch).subspan(1)).is_ok());
  std::vector<uint64_t> order;
  IoCompletion done[4];
  while (rig.device->outstanding() > 0) {
    const size_t count = rig.device->wait(done, -1);
    for (size_t i = 0; i < count; ++i) {
      order.push_back(done[i].user_data);
    }
  }
  // One write chunk has its turn after eight reads; request 1 ends only after its five chunks.
  CHECK(order == std::vector<uint64_t>{0, 13, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2, 1});
}

TEST_CASE("equal seeds give equal completions", "[io]") {
  const auto order_of = [](uint64_t seed) {
    auto faults = std::make_shared<FaultInjector>(seed);
    faults->add({.fault = Fault::kShort, .num = 1, .den = 3});
    faults->add({.fault = Fault::kEio, .num = 1, .den = 9});
    DeviceSetup setup;
    setup.faults = faults;
    setup.chunk_bytes = 8192;
    Rig rig = open_memory(setup, CompletionOrder::kSeeded, seed);
    auto arena = Arena::create(size_t{2} << 20, {.alignment = 4096});
    TROUPE_ASSERT(arena.is_ok());
    std::vector<IoRequest> batch;
    for (uint64_t i = 0; i < 64; ++i) {
      batch.push_back({.op = i % 3 == 0 ? IoOp::kWrite : IoOp::kRead,
                       .offset = i * 32768,
                       .buffer = arena->data() + i * 32768,
                       .length = 32768,
                       .user_data = i});
    }
    TROUPE_ASSERT(rig.device->submit(batch).is_ok());
    std::vector<std::pair<uint64_t, int>> order;
    IoCompletion done[8];
    while (rig.device->outstanding() > 0) {
      const size_t count = rig.device->poll(done);
      for (size_t i = 0; i < count; ++i) {
        order.emplace_back(done[i].user_data, done[i].error);
      }
    }
    return order;
  };
  CHECK(order_of(1) == order_of(1));
  CHECK(order_of(1) != order_of(2));
}

TEST_CASE("the governor gives way when reads get slow, and comes back", "[io]") {
  DepthGovernor governor(16);
  CHECK(governor.write_limit(false) == 16);
  for (int i = 0; i < 32 * 20; ++i) {
    governor.on_read(100'000, 65536);
  }
  CHECK(governor.write_limit(true) == 16);
  for (int i = 0; i < 32 * 8; ++i) {
    governor.on_read(5'000'000, 65536);
  }
  CHECK(governor.write_limit(true) == 1);
  CHECK(governor.write_limit(false) == 16);
  for (int i = 0; i < 32 * 20; ++i) {
    governor.on_read(110'000, 65536);
  }
  CHECK(governor.write_limit(true) == 16);
}
