// runtime/trace recorder: lanes say what happened; storage that fails, fills up or hangs costs gaps
// that are told, and never a wait; tokens do not reach the disk.
#include "runtime/trace/recorder.h"

#include "runtime/core/wire.h"
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/shell/shell.h"
#include "runtime/trace/frame_tokens.h"
#include "runtime/trace/lane_reader.h"
#include "tests/shell/relay.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <latch>
#include <thread>

namespace troupe {
namespace {

using test::CountingClient;
using test::make_relays;
using test::TempDir;
using trace::LaneRecord;
using trace::Recorder;
using trace::RecorderOptions;
using trace::RecordType;

/// A directory whose writes fail, or hang, on demand.
class FaultyStorage final : public trace::LaneStorage {
 public:
  explicit FaultyStorage(const std::string& directory) {
    auto opened = trace::open_directory({directory, false, 1});
    TROUPE_ASSERT(opened.is_ok());
    under_ = std::move(opened).value();
  }
  Expected<std::unique_ptr<trace::LaneFile>> create(const std::string& name) override {
    if (budget == 0) {
      return Status(Code::kNoCapacity, "no space left (injected)");
    }
    auto file = under_->create(name);
    if (!file) {
      return file.status();
    }
    return std::unique_ptr<trace::LaneFile>(std::make_unique<File>(*this, std::move(file).value()));
  }
  void sealed(const std::string& name) override { under_->sealed(name); }
  Status finish() override { return under_->finish(); }

  std::atomic<uint64_t> budget{UINT64_MAX};  // bytes that can still be written
  std::atomic<bool> hang{false};
  std::latch hanging{1};
  std::latch release{1};

 private:
  struct File final : trace::LaneFile {
    File(FaultyStorage& storage_in, std::unique_ptr<trace::LaneFile> under_in)
        : storage(storage_in), under(std::move(under_in)) {}
    Status append(std::span<const uint8_t> bytes) override {
      if (storage.hang.exchange(false)) {
        storage.hanging.count_down();
        storage.release.wait();
      }
      const uint64_t left = storage.budget.load();
      if (bytes.size() > left) {
        (void)under->append(bytes.first(static_cast<size_t>(left)));  // a torn write
        storage.budget = 0;
        return Status(Code::kNoCapacity, "no space left (injected)");
      }
      storage.budget = left == UINT64_MAX ? left : left - bytes.size();
      return under->append(bytes);
    }
    Status truncate(uint64_t bytes) override { return under->truncate(bytes); }
    FaultyStorage& storage;
    std::unique_ptr<trace::LaneFile> under;
  };
  std::unique_ptr<trace::LaneStorage> under_;
};

struct Run {
  explicit Run(trace::LaneStorage& storage, RecorderOptions options = {})
      : recorder(troupe, storage, std::move(options)) {
    dispatcher = std::make_unique<InlineDispatcher>(troupe, client, InlineDispatcher::Options{});
    recorder.attach(*dispatcher);
    client.dispatcher = dispatcher.get();
  }
  void go(uint64_t rounds) {
    client.left = rounds - 1;
    client.post(1);
    REQUIRE(dispatcher->run());
  }
  Troupe troupe = make_relays();
  CountingClient client;
  Recorder recorder;
  std::unique_ptr<InlineDispatcher> dispatcher;
};

std::vector<trace::LaneFiles> lanes_in(const std::string& directory) {
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(directory, {}, notices);
  REQUIRE(lanes);
  CHECK(notices.empty());
  return std::move(lanes).value();
}

struct Tally {
  uint64_t deliveries = 0;
  uint64_t stepped = 0;
  uint64_t payload_words = 0;
  uint64_t states = 0;
  std::vector<std::pair<uint64_t, uint64_t>> gaps;
  trace::LaneProblems problems;
  std::optional<uint64_t> final_state;
};
Tally read_all(const trace::LaneFiles& files) {
  Tally tally;
  trace::LaneReader reader(files, {});
  LaneRecord record;
  while (reader.next(record)) {
    tally.deliveries += record.type == RecordType::kDelivery ? 1 : 0;
    tally.stepped += record.type == RecordType::kStepped ? 1 : 0;
    tally.payload_words += record.payload.size();
    tally.states += record.state ? 1 : 0;
    if (record.type == RecordType::kGap) {
      tally.gaps.emplace_back(record.first_seq, record.seq);
    }
  }
  tally.problems = reader.problems();
  tally.final_state = reader.final_state();
  return tally;
}

TEST_CASE("lanes hold every delivery and its outcome, over several segments, compressed") {
  TempDir dir;
  auto storage = trace::open_directory({dir.file("lanes"), true, 3});
  REQUIRE(storage);
  RecorderOptions options;
  options.limits.segment_bytes = 64 * 1024;
  options.digest_every = 100;
  options.digest_rest = 0;
  options.config = "block_tokens = 16\n";
  options.build_id = "test";
  options.plugins = {{"lru", std::vector<uint8_t>(32, 7)}};
  options.lossless = true;
  uint64_t digest = 0;
  {
    Run run(**storage, options);
    run.go(3000);
    digest = test::relay(run.troupe, 0).digest().value();
    run.dispatcher.reset();
    REQUIRE(run.recorder.close().is_ok());
    const trace::RecorderStats stats = run.recorder.stats();
    CHECK(stats.total.lost == 0);
    CHECK(stats.total.records == 3000 * 7);
    CHECK(stats.total.segments > 12);
  }
  REQUIRE((*storage)->finish().is_ok());
  const auto lanes = lanes_in(dir.file("lanes"));
  REQUIRE(lanes.size() == 4);
  CHECK(lanes[1].paths.size() > 3);
  for (const std::string& path : lanes[1].paths) {
    CHECK(path.substr(path.size() - 4) == ".zst");
  }
  CHECK(lanes[1].info.actor == "first");
  CHECK_FALSE(lanes[1].info.edge);
  CHECK(lanes[3].info.edge);
  CHECK(lanes[0].info.config == options.config);
  CHECK(lanes[2].info.plugins.at(0).sha256 == options.plugins[0].sha256);
  for (const auto& files : lanes) {
    const Tally tally = read_all(files);
    CHECK(tally.problems.clean());
    CHECK(tally.deliveries == 3000);
    CHECK(tally.stepped == (files.info.actor == "client" ? 0U : 3000U));
    CHECK(tally.states == (files.info.actor == "client" ? 0U : 30U));
  }
  CHECK(read_all(lanes[1]).final_state == digest);
}

TEST_CASE("edges mode keeps payloads from outside only, and the order of the rest") {
  TempDir dir;
  auto storage = trace::open_directory({dir.file("lanes"), false, 1});
  RecorderOptions options;
  options.mode = RecorderOptions::Mode::kEdges;
  options.lossless = true;
  {
    Run run(**storage, options);
    run.go(100);
    run.dispatcher.reset();
    REQUIRE(run.recorder.close().is_ok());
  }
  const auto lanes = lanes_in(dir.file("lanes"));
  CHECK(read_all(lanes[1]).payload_words > 0);   // from the client
  CHECK(read_all(lanes[2]).payload_words == 0);  // from the first relay
  CHECK(read_all(lanes[0]).payload_words > 0);   // from the third, a mover
  CHECK(read_all(lanes[2]).deliveries == 100);
}

/// Gets prompts; sends them on.
class Admitter {
 public:
  void step(const Envelope& in, StepContext& cx) noexcept {
    const auto spec = in.message.getSubmit().getSpec();
    cx.out.send(Kind::ADMIT, data_words(spec.getTokens().size()),
                [&](auto m) { m.initAdmit().initSpec().setTokens(spec.getTokens()); });
  }
  Digest digest() const noexcept { return {}; }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }
};

struct NoClient : ClientPort {
  void on_frame(const Frame&) override {}
};

TEST_CASE("token values never reach the disk, small message or large, while equality does") {
  for (const size_t count : {size_t{40}, size_t{5000}}) {
    TempDir dir;
    auto storage = trace::open_directory({dir.file("lanes"), false, 1});
    Troupe troupe;
    troupe.client = Address(0);
    troupe.members.push_back({Address(1), std::make_unique<ActorOf<Admitter>>("gateway"), false});
    troupe.routes.add({Address(0), Kind::SUBMIT, 0, Address(1)});
    troupe.routes.add({Address(1), Kind::ADMIT, 0, Address(0)});
    NoClient client;
    std::vector<uint32_t> tokens(count);
    for (size_t i = 0; i < count; ++i) {
      tokens[i] = 0xCAFE0000U + static_cast<uint32_t>(i % 10);
    }
    RecorderOptions options;
    options.token_key = 99;
    options.lossless = true;
    {
      Recorder recorder(troupe, **storage, options);
      InlineDispatcher dispatcher(troupe, client, {});
      recorder.attach(dispatcher);
      dispatcher.post(Kind::SUBMIT, Tick{1}, data_words(count * 4),
                      [&](auto m) { m.initSubmit().initSpec().setTokens(data_of(tokens)); });
      REQUIRE(dispatcher.run());
      REQUIRE(recorder.close().is_ok());
    }
    for (const auto& files : lanes_in(dir.file("lanes"))) {
      for (const std::string& path : files.paths) {
        const std::vector<char> bytes = test::bytes_of(path);
        const char canary[] = {'\xFE', '\xCA'};  // upper half of every token
        const auto at = std::search(bytes.begin(), bytes.end(), canary, canary + 2);
        CHECK(at == bytes.end());
      }
      trace::LaneReader reader(files, {});
      LaneRecord record;
      REQUIRE(reader.next(record));
      const auto kept = trace::tokens_in(record.header.kind, record.payload);
      REQUIRE(kept.size() == count);
      CHECK(kept[3] == trace::TokenCipher(99).apply(tokens[3]));
      CHECK(kept[3] == kept[13]);
    }
  }
}

TEST_CASE("a full disk costs a gap, which is written down once there is room") {
  TempDir dir;
  FaultyStorage storage(dir.file("lanes"));
  RecorderOptions options;
  options.lossless = true;  // nothing is lost for slowness here
  Run run(storage, options);
  run.go(1000);
  REQUIRE(run.recorder.flush(std::chrono::hours(1)).is_ok());
  storage.budget = 5000;
  run.go(3000);
  REQUIRE(run.recorder.flush(std::chrono::hours(1)).is_ok());
  storage.budget = UINT64_MAX;
  run.go(5000);
  run.dispatcher.reset();
  const Status closed = run.recorder.close();
  CHECK(closed.code() == Code::kNoCapacity);
  const trace::RecorderStats stats = run.recorder.stats();
  CHECK(stats.total.lost > 0);
  CHECK(stats.total.storage_errors > 0);
  uint64_t missing = 0;
  for (const auto& files : lanes_in(dir.file("lanes"))) {
    const Tally tally = read_all(files);
    CHECK(tally.problems.damaged == 0);
    CHECK_FALSE(tally.problems.cut);
    CHECK(tally.deliveries + tally.problems.missing >= 9000);
    REQUIRE_FALSE(tally.gaps.empty());
    missing += tally.problems.missing;
  }
  CHECK(missing == stats.total.lost);
}

TEST_CASE("storage that hangs makes nobody wait; what is lost meanwhile is told") {
  TempDir dir;
  FaultyStorage storage(dir.file("lanes"));
  RecorderOptions options;
  options.ring_bytes = 16 * 1024;
  Run run(storage, options);
  run.go(10);
  storage.hang = true;
  std::thread flusher([&] { (void)run.recorder.flush(std::chrono::hours(1)); });
  storage.hanging.wait();
  run.go(5000);  // returns, though the writer does not
  CHECK(run.client.frames == 5010);
  storage.release.count_down();
  flusher.join();
  run.go(10);
  run.dispatcher.reset();
  REQUIRE(run.recorder.close().is_ok());
  const trace::RecorderStats stats = run.recorder.stats();
  CHECK(stats.total.lost > 4 * 4000);
  for (const auto& files : lanes_in(dir.file("lanes"))) {
    const Tally tally = read_all(files);
    CHECK(tally.problems.damaged == 0);
    REQUIRE_FALSE(tally.gaps.empty());
    CHECK(tally.deliveries + tally.problems.missing >= 5020);
  }
}

TEST_CASE("the size limit of a lane ends it with a gap that says so") {
  TempDir dir;
  auto storage = trace::open_directory({dir.file("lanes"), false, 1});
  RecorderOptions options;
  options.limits.segment_bytes = 8 * 1024;
  options.limits.lane_bytes = 40 * 1024;
  options.lossless = true;
  {
    Run run(**storage, options);
    run.go(2000);
    run.dispatcher.reset();
    REQUIRE(run.recorder.close().is_ok());
  }
  for (const auto& files : lanes_in(dir.file("lanes"))) {
    uint64_t bytes = 0;
    for (const std::string& path : files.paths) {
      bytes += test::bytes_of(path).size();
    }
    CHECK(bytes < 48 * 1024);
    const Tally tally = read_all(files);
    REQUIRE(tally.gaps.size() == 1);
    CHECK(tally.gaps[0].second == 2000);
    CHECK(tally.problems.notices.back().find("size limit") != std::string::npos);
  }
}

TEST_CASE("a troupe on CAF is recorded by many threads at once") {
  TempDir dir;
  auto storage = trace::open_directory({dir.file("lanes"), false, 1});
  RecorderOptions options;
  options.lossless = true;
  options.ring_bytes = 16 * 1024;  // so that actors have to wait
  Troupe troupe = make_relays();
  CountingClient client;
  {
    Recorder recorder(troupe, **storage, options);
    {
      CafDispatcher dispatcher(troupe, client, {});
      recorder.attach(dispatcher);
      client.dispatcher = &dispatcher;
      std::vector<std::thread> threads;
      for (uint64_t t = 0; t < 3; ++t) {
        threads.emplace_back([&client] {
          for (uint64_t i = 0; i < 1000; ++i) {
            client.post(i);
          }
        });
      }
      for (std::thread& thread : threads) {
        thread.join();
      }
      REQUIRE(dispatcher.run());
    }
    REQUIRE(recorder.close().is_ok());
    CHECK(recorder.stats().total.lost == 0);
  }
  for (const auto& files : lanes_in(dir.file("lanes"))) {
    const Tally tally = read_all(files);
    CHECK(tally.problems.clean());
    CHECK(tally.deliveries == 3000);
  }
}

TEST_CASE("a directory that holds a recording is not written over") {
  TempDir dir;
  test::write_bytes(dir.file("005.x.000000.lane.zst"), {'x'});
  const auto storage = trace::open_directory({dir.path(), false, 1});
  REQUIRE_FALSE(storage);
  CHECK(storage.status().code() == Code::kFailedPrecondition);
  CHECK(trace::open_directory({dir.file("a"), true, 0}).status().code() == Code::kOutOfRange);
}

}  // namespace
}  // namespace troupe
