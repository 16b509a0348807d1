// One suite over every backend: what BlockDevice promises holds for all of them, without faults.
#include "tests/io/io_fixture.h"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::io;
using namespace troupe::io::test;

namespace {

Arena make_arena(size_t bytes) {
  auto arena = Arena::create(bytes, {.alignment = 4096});
  TROUPE_ASSERT(arena.is_ok());
  return std::move(arena).value();
}

/// Opens every backend in turn, registers `arena` where the name says so, and calls `body`.
void over_backends(const DeviceSetup& setup, Arena& arena,
                   const std::function<void(Rig&, const std::string&)>& body) {
  for (const NamedBackend& backend : backends()) {
    INFO("backend: " << backend.name);
    Rig rig = backend.open(setup);
    if (backend.name.find("fixed") != std::string::npos) {
      const std::span<std::byte> all[] = {arena.bytes()};
      REQUIRE(rig.device->register_buffers(all).is_ok());
    }
    body(rig, backend.name);
  }
}

}  // namespace

TEST_CASE("random writes read back, each request completes once", "[io][conformance]") {
  constexpr uint64_t kFile = uint64_t{8} << 20;
  Arena arena = make_arena(size_t{4} << 20);
  over_backends({}, arena, [&](Rig& rig, const std::string&) {
    Rng rng(11);
    std::vector<std::byte> model(kFile);
    uint64_t user_data = 0;
    for (int round = 0; round < 20; ++round) {
      // Up to eight disjoint writes of 4 KiB to 500 KiB, then the same ranges read.
      std::vector<IoRequest> writes;
      for (uint64_t i = 0; i < 8; ++i) {
        const uint64_t pages = 1 + rng.below(125);
        const uint64_t offset = i * (kFile / 8) + rng.below(kFile / 8 / 4096 - pages) * 4096;
        std::byte* memory = arena.data() + i * (size_t{512} << 10);
        const uint64_t fill_seed = rng.next();
        fill({memory, pages * 4096}, fill_seed);
        std::memcpy(model.data() + offset, memory, pages * 4096);
        writes.push_back({.op = IoOp::kWrite,
                          .offset = offset,
                          .buffer = memory,
                          .length = pages * 4096,
                          .user_data = ++user_data});
      }
      REQUIRE(rig.device->submit(writes).is_ok());
      auto written = finish(*rig.device);
      REQUIRE(written.size() == writes.size());
      for (IoRequest& request : writes) {
        CHECK(written.at(request.user_data).error == 0);
        CHECK(written.at(request.user_data).bytes == request.length);
        request.op = IoOp::kRead;
        std::memset(request.buffer, 0, request.length);
      }
      REQUIRE(rig.device->submit(writes).is_ok());
      for (const auto& [id, completion] : finish(*rig.device)) {
        CHECK(completion.error == 0);
      }
      for (const IoRequest& request : writes) {
        CHECK(std::memcmp(request.buffer, model.data() + request.offset, request.length) == 0);
      }
    }
    CHECK(rig.device->stats().in_flight_max <= rig.device->capabilities().depth);
    CHECK(rig.device->stats().failed == 0);
    CHECK(rig.device->stats().unknown_results == 0);
  });
}

TEST_CASE("a tail follows its buffer on disk, over chunk borders too", "[io][conformance]") {
  Arena arena = make_arena(size_t{2} << 20);
  over_backends({}, arena, [&](Rig& rig, const std::string&) {
    for (const uint64_t length :
         {uint64_t{4096}, uint64_t{61440}, uint64_t{65536}, uint64_t{266240}}) {
      for (const uint64_t tail : {uint64_t{4096}, uint64_t{65536}, uint64_t{131072}}) {
        std::byte* head_memory = arena.data();
        std::byte* tail_memory = arena.data() + (size_t{1} << 20);
        fill({head_memory, length}, length);
        fill({tail_memory, tail}, tail + 1);
        CHECK(run(*rig.device, {.op = IoOp::kWrite,
                                .offset = 8192,
                                .buffer = head_memory,
                                .length = length,
                                .tail = tail_memory,
                                .tail_length = tail})
                  .bytes == length + tail);
        std::vector<std::byte> expected(head_memory, head_memory + length);
        expected.insert(expected.end(), tail_memory, tail_memory + tail);
        std::memset(arena.data(), 0, arena.size());
        // As one piece, and as two cut elsewhere.
        CHECK(run(*rig.device, {.offset = 8192, .buffer = head_memory, .length = length + tail})
                  .error == 0);
        CHECK(std::memcmp(head_memory, expected.data(), expected.size()) == 0);
        std::memset(arena.data(), 0, arena.size());
        CHECK(run(*rig.device, {.offset = 8192,
                                .buffer = head_memory,
                                .length = 4096,
                                .tail = tail_memory,
                                .tail_length = length + tail - 4096})
                  .error == 0);
        CHECK(std::memcmp(head_memory, expected.data(), 4096) == 0);
        CHECK(std::memcmp(tail_memory, expected.data() + 4096, expected.size() - 4096) == 0);
      }
    }
    CHECK(rig.device->stats().chunks > rig.device->stats().reads + rig.device->stats().writes);
  });
}

TEST_CASE("several files keep their bytes apart", "[io][conformance]") {
  Arena arena = make_arena(65536);
  DeviceSetup setup;
  setup.file_bytes = {65536, 131072, 65536};
  over_backends(setup, arena, [&](Rig& rig, const std::string&) {
    for (uint32_t file = 0; file < 3; ++file) {
      std::memset(arena.data(), static_cast<int>(file + 1), 4096);
      CHECK(run(*rig.device, {.op = IoOp::kWrite,
                              .file = file,
                              .offset = 4096,
                              .buffer = arena.data(),
                              .length = 4096})
                .error == 0);
    }
    for (uint32_t file = 0; file < 3; ++file) {
      CHECK(run(*rig.device, {.file = file, .offset = 4096, .buffer = arena.data(), .length = 4096})
                .error == 0);
      CHECK(arena.bytes()[0] == static_cast<std::byte>(file + 1));
      CHECK(arena.bytes()[4095] == static_cast<std::byte>(file + 1));
    }
    CHECK(run(*rig.device, {.op = IoOp::kSync, .file = 2, .user_data = 9}).error == 0);
    CHECK(rig.device->stats().syncs == 1);
  });
}

TEST_CASE("reading over the end says how far it came", "[io][conformance]") {
  Arena arena = make_arena(262144);
  DeviceSetup setup;
  setup.file_bytes = {131072};
  over_backends(setup, arena, [&](Rig& rig, const std::string&) {
    const IoCompletion over =
        run(*rig.device, {.offset = 65536, .buffer = arena.data(), .length = 262144});
    CHECK(over.error == ENODATA);
    CHECK(over.bytes == 65536);
    const IoCompletion beyond =
        run(*rig.device, {.offset = 1 << 20, .buffer = arena.data(), .length = 4096});
    CHECK(beyond.error == ENODATA);
    CHECK(beyond.bytes == 0);
  });
}

TEST_CASE("a batch with one wrong request is refused whole, by name", "[io][conformance]") {
  Arena arena = make_arena(65536);
  over_backends({}, arena, [&](Rig& rig, const std::string&) {
    const IoRequest good{.buffer = arena.data(), .length = 4096, .user_data = 1};
    std::vector<IoRequest> wrong(10, good);
    wrong[0].file = 1;
    wrong[1].offset = 512;
    wrong[2].length = 0;
    wrong[3].length = 100;
    wrong[4].buffer = nullptr;
    wrong[5].buffer = arena.data() + 1;
    wrong[6].priority = 3;
    wrong[7].tail_length = 4096;
    wrong[8].op = static_cast<IoOp>(9);
    wrong[9].offset = uint64_t{1} << 63;
    for (IoRequest& request : wrong) {
      request.user_data = 4711;
      const IoRequest batch[] = {good, request};
      const Status status = rig.device->submit(batch);
      CHECK(status.code() == Code::kInvalidArgument);
      CHECK(status.text().find("request 4711") != std::string::npos);
    }
    CHECK(rig.device->outstanding() == 0);
    CHECK(rig.device->stats().chunks == 0);
  });
}

TEST_CASE("the queue is bounded and says so", "[io][conformance]") {
  Arena arena = make_arena(65536);
  DeviceSetup setup;
  setup.queue_limit = 8;
  setup.depth = 2;
  over_backends(setup, arena, [&](Rig& rig, const std::string&) {
    const std::vector<IoRequest> nine(9, {.buffer = arena.data(), .length = 4096});
    CHECK(rig.device->room() == 8);
    const Status refused = rig.device->submit(nine);
    CHECK(refused.code() == Code::kNoCapacity);
    CHECK(refused.text().find("room for 8 of 8") != std::string::npos);
    std::vector<IoRequest> eight(nine.begin(), nine.end() - 1);
    for (uint64_t i = 0; i < eight.size(); ++i) {
      eight[i].user_data = i;
    }
    REQUIRE(rig.device->submit(eight).is_ok());
    CHECK(rig.device->room() == 0);
    CHECK(finish(*rig.device).size() == 8);
    CHECK(rig.device->room() == 8);
    CHECK(rig.device->stats().in_flight_max <= 2);
  });
}

TEST_CASE("close waits for all in flight and ends the device", "[io][conformance]") {
  Arena arena = make_arena(size_t{1} << 20);
  over_backends({}, arena, [&](Rig& rig, const std::string&) {
    std::vector<IoRequest> writes;
    for (uint64_t i = 0; i < 32; ++i) {
      writes.push_back({.op = IoOp::kWrite,
                        .offset = i * 32768,
                        .buffer = arena.data() + i * 32768,
                        .length = 32768,
                        .user_data = i});
    }
    REQUIRE(rig.device->submit(writes).is_ok());
    CHECK(rig.device->close(-1).is_ok());
    CHECK(rig.device->stats().writes == 32);
    CHECK(rig.device->submit(writes).code() == Code::kUnavailable);
    IoCompletion none[1];
    CHECK(rig.device->poll(none) == 0);
    CHECK(rig.device->wait(none, -1) == 0);
    rig.device->wake();
    CHECK(rig.device->close(0).is_ok());
  });
}

TEST_CASE("wake ends a wait that nothing else would end", "[io][conformance]") {
  Arena arena = make_arena(65536);
  DeviceSetup setup;
  setup.faults = std::make_shared<FaultInjector>();
  setup.faults->add({.fault = Fault::kHang, .nth = 0});
  for (const NamedBackend& backend : backends()) {
    INFO("backend: " << backend.name);
    setup.faults->clear();
    setup.faults->add({.fault = Fault::kHang, .nth = 0});
    Rig rig = backend.open(setup);
    const IoRequest request{.buffer = arena.data(), .length = 4096, .user_data = 5};
    REQUIRE(rig.device->submit({&request, 1}).is_ok());
    IoCompletion done[1];
    for (int i = 0; i < 3; ++i) {
      rig.device->wake();
      CHECK(rig.device->wait(done, 60'000'000'000) == 0);
    }
    // One that comes between a wait and a poll is kept for the next wait, which would never end.
    CHECK(rig.device->wait(done, 0) == 0);
    rig.device->wake();
    CHECK(rig.device->poll(done) == 0);
    CHECK(rig.device->wait(done, -1) == 0);
    CHECK(rig.device->close(0).code() == Code::kDeadline);
    setup.faults->release_hangs();
    CHECK(rig.device->close(-1).is_ok());
  }
}

TEST_CASE("wrong device options are refused by name", "[io]") {
  ScratchDir dir;
  const auto open_with = [&](auto change) {
    BlockDeviceOptions options;
    auto file = open_data_file({.directory = dir.path(), .name = "f", .bytes = 4096});
    TROUPE_ASSERT(file.is_ok());
    options.files.push_back(std::move(file->fd));
    change(options);
    return open_block_device(std::move(options)).status();
  };
  CHECK(open_with([](BlockDeviceOptions& o) { o.depth = 0; }).text().find("depth 0") == 0);
  CHECK(open_with([](BlockDeviceOptions& o) { o.depth = 2000; }).code() == Code::kInvalidArgument);
  CHECK(open_with([](BlockDeviceOptions& o) { o.chunk_bytes = 5000; }).code() ==
        Code::kInvalidArgument);
  CHECK(open_with([](BlockDeviceOptions& o) { o.alignment = 3000; }).code() ==
        Code::kInvalidArgument);
  CHECK(open_with([](BlockDeviceOptions& o) { o.queue_limit = 0; }).code() ==
        Code::kInvalidArgument);
  CHECK(open_with([](BlockDeviceOptions& o) { o.files.clear(); }).code() == Code::kInvalidArgument);
  CHECK(open_with([](BlockDeviceOptions&) {}).is_ok());
}

TEST_CASE("data files are reserved at their exact size, private, and errors are actionable",
          "[io]") {
  ScratchDir dir;
  CHECK(open_data_file({.directory = dir.path(), .name = "a", .bytes = 1 << 20}).is_ok());
  CHECK(std::filesystem::file_size(dir.path() + "/a") == 1 << 20);
  CHECK(open_data_file({.directory = dir.path(), .name = "a", .bytes = 1 << 16}).is_ok());
  CHECK(std::filesystem::file_size(dir.path() + "/a") == 1 << 16);
  CHECK(std::filesystem::status(dir.path() + "/a").permissions() ==
        (std::filesystem::perms::owner_read | std::filesystem::perms::owner_write));
  CHECK(open_data_file({.directory = dir.path(), .name = "", .bytes = 1 << 16}).is_ok());
  CHECK(std::distance(std::filesystem::directory_iterator(dir.path()), {}) == 1);
  CHECK(open_data_file({.directory = dir.path() + "/no", .name = "a", .bytes = 4096})
            .status()
            .code() == Code::kNotFound);
  CHECK(open_data_file({.directory = dir.path(), .name = "a", .bytes = 0}).status().code() ==
        Code::kInvalidArgument);
  const auto huge =
      open_data_file({.directory = dir.path(), .name = "b", .bytes = uint64_t{1} << 44});
  REQUIRE(!huge.is_ok());
  CHECK(huge.status().code() == Code::kNoCapacity);
}
