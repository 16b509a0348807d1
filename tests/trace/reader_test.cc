// runtime/trace reader: a lane is hostile input. Cut anywhere, it is its valid prefix; damaged
// anywhere, it is the rest, with a count; no length in it is believed.
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/trace/lane_reader.h"
#include "runtime/trace/recorder.h"
#include "tests/shell/relay.h"
#include "tests/trace/temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <xxhash.h>

namespace troupe {
namespace {

using test::TempDir;
using trace::LaneReader;
using trace::LaneRecord;
using trace::RecordType;

constexpr uint64_t kRounds = 12;

/// Records kRounds through the relays; returns the path of the first relay's only segment.
std::string record_small(const TempDir& dir, bool compress) {
  auto storage = trace::open_directory({dir.path(), compress, 1});
  REQUIRE(storage);
  Troupe troupe = test::make_relays();
  test::CountingClient client;
  trace::RecorderOptions options;
  options.lossless = true;
  options.config = "x = 1\n";
  trace::Recorder recorder(troupe, **storage, options);
  {
    InlineDispatcher dispatcher(troupe, client, {});
    recorder.attach(dispatcher);
    client.dispatcher = &dispatcher;
    client.left = kRounds - 1;
    client.post(1);
    REQUIRE(dispatcher.run());
  }
  REQUIRE(recorder.close().is_ok());
  REQUIRE((*storage)->finish().is_ok());
  return dir.file(std::string("001.first.000000.lane") + (compress ? ".zst" : ""));
}

/// Leaves only the lane that a test works on, which is quicker.
void remove_other_lanes(const TempDir& dir, const std::string& path) {
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path() != path) {
      std::filesystem::remove(entry.path());
    }
  }
}

struct Outcome {
  bool listed = false;
  uint64_t deliveries = 0;
  uint64_t last = 0;
  bool ascending = true;
  trace::LaneProblems problems;
};
Outcome read_lane(const std::string& directory, trace::ReadLimits limits = {}) {
  Outcome outcome;
  std::vector<std::string> notices;
  auto lanes = trace::list_lanes(directory, limits, notices);
  if (!lanes) {
    return outcome;
  }
  for (const trace::LaneFiles& files : *lanes) {
    if (files.info.actor != "first") {
      continue;
    }
    outcome.listed = true;
    LaneReader reader(files, limits);
    LaneRecord record;
    while (reader.next(record)) {
      if (record.type == RecordType::kDelivery) {
        outcome.ascending = outcome.ascending && record.seq > outcome.last;
        outcome.last = record.seq;
        ++outcome.deliveries;
      }
    }
    outcome.problems = reader.problems();
  }
  return outcome;
}

TEST_CASE("a lane cut at any byte is its valid prefix, with a notice") {
  for (const bool compress : {false, true}) {
    TempDir dir;
    const std::string path = record_small(dir, compress);
    remove_other_lanes(dir, path);
    const std::vector<char> whole = test::bytes_of(path);
    REQUIRE(read_lane(dir.path()).problems.clean());
    uint64_t before = 0;
    for (size_t cut = 0; cut < whole.size(); ++cut) {
      test::write_bytes(path, {whole.begin(), whole.begin() + static_cast<int64_t>(cut)});
      const Outcome outcome = read_lane(dir.path());
      if (!outcome.listed) {
        CHECK(before == 0);
        continue;
      }
      CHECK(outcome.deliveries == outcome.last);  // 1, 2, 3 … without a hole
      CHECK(outcome.deliveries >= before);
      CHECK(outcome.problems.damaged == 0);
      // The last bytes of a compressed file are its own checksum only.
      CHECK((outcome.problems.cut || (compress && outcome.deliveries == kRounds)));
      CHECK_FALSE(outcome.problems.notices.empty());
      before = outcome.deliveries;
    }
    CHECK(before == kRounds);
  }
}

TEST_CASE("one byte changed anywhere is found, and costs what it touches only") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  remove_other_lanes(dir, path);
  const std::vector<char> whole = test::bytes_of(path);
  uint64_t headers = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    std::vector<char> bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
    test::write_bytes(path, bad);
    const Outcome outcome = read_lane(dir.path());
    if (!outcome.listed) {
      ++headers;
      continue;
    }
    CHECK(outcome.ascending);
    CHECK_FALSE(outcome.problems.clean());
    CHECK(outcome.deliveries + 1 >= kRounds);
  }
  CHECK(headers > 100);
  CHECK(headers < whole.size() / 2);
}

/// Word offsets of the records of a plain segment.
std::vector<size_t> record_offsets(const std::vector<char>& bytes) {
  std::vector<size_t> offsets;
  trace::FileHead head;
  trace::load_from(head, bytes.data());
  size_t at = sizeof(head) / 8 + head.header_words;
  while (at * 8 < bytes.size()) {
    offsets.push_back(at);
    trace::RecordHead record;
    trace::load_from(record, bytes.data() + at * 8);
    at += sizeof(record) / 8 + record.words;
  }
  return offsets;
}

TEST_CASE("records in another order are refused where they stand wrong") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  const std::vector<char> whole = test::bytes_of(path);
  const std::vector<size_t> offsets = record_offsets(whole);
  REQUIRE(offsets.size() == 2 * kRounds + 1);
  // The pairs of deliveries 3 and 4 change places.
  std::vector<char> bad(whole.begin(), whole.begin() + static_cast<int64_t>(offsets[4] * 8));
  const auto add = [&](size_t from, size_t to) {
    bad.insert(bad.end(), whole.begin() + static_cast<int64_t>(offsets[from] * 8),
               whole.begin() + static_cast<int64_t>(offsets[to] * 8));
  };
  add(6, 8);
  add(4, 6);
  add(8, offsets.size() - 1);
  bad.insert(bad.end(), whole.begin() + static_cast<int64_t>(offsets.back() * 8), whole.end());
  test::write_bytes(path, bad);
  const Outcome outcome = read_lane(dir.path());
  CHECK(outcome.ascending);
  CHECK(outcome.deliveries == kRounds - 1);
  CHECK(outcome.problems.missing == 1);
  CHECK(outcome.problems.damaged == 2);
}

/// Writes `words` of a lane with right checksums, as an attacker would.
void forge(std::vector<char>& bytes, size_t word, uint32_t words_field) {
  trace::FileHead head;
  trace::load_from(head, bytes.data());
  std::memcpy(bytes.data() + word * 8 + 4, &words_field, sizeof(words_field));
  const uint64_t sum = XXH3_64bits_withSeed(bytes.data() + word * 8 + 16,
                                            16 + uint64_t{words_field} * 8, head.checksum);
  std::memcpy(bytes.data() + word * 8 + 8, &sum, sizeof(sum));
}

TEST_CASE("lengths in a lane are not believed") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  const std::vector<char> whole = test::bytes_of(path);
  const std::vector<size_t> offsets = record_offsets(whole);
  for (const uint32_t words : {0xFFFFFFFFU, 0x7FFFFFFFU, trace::kRecordWordsMax, 2000U}) {
    std::vector<char> bad = whole;
    std::memcpy(bad.data() + offsets[2] * 8 + 4, &words, sizeof(words));
    test::write_bytes(path, bad);
    const Outcome outcome = read_lane(dir.path());
    CHECK(outcome.deliveries == kRounds - 1);
    CHECK(outcome.problems.damaged >= 1);
  }
  std::vector<char> bad = whole;
  forge(bad, offsets[2], 2);  // a delivery shorter than its fixed part, under a right checksum
  test::write_bytes(path, bad);
  const Outcome outcome = read_lane(dir.path());
  CHECK(outcome.deliveries == kRounds - 1);
  bad = whole;
  const uint32_t header_words = 0xFFFFFFFFU;
  std::memcpy(bad.data() + 8, &header_words, sizeof(header_words));
  test::write_bytes(path, bad);
  CHECK_FALSE(read_lane(dir.path()).listed);
}

TEST_CASE("a payload that is no message is damage, under a right checksum too") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  std::vector<char> bad = test::bytes_of(path);
  const std::vector<size_t> offsets = record_offsets(bad);
  trace::RecordHead head;
  trace::load_from(head, bad.data() + offsets[4] * 8);
  const size_t payload = offsets[4] + (sizeof(head) + sizeof(trace::DeliveryBody)) / 8;
  const uint64_t outside = 0x0001000100000FFCULL;  // root: a struct 1023 words further on
  std::memcpy(bad.data() + payload * 8, &outside, sizeof(outside));
  forge(bad, offsets[4], head.words);
  test::write_bytes(path, bad);
  const Outcome outcome = read_lane(dir.path());
  CHECK(outcome.deliveries == kRounds - 1);
  CHECK(outcome.problems.missing == 1);
}

TEST_CASE("a file full of record heads does not keep the reader busy") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  std::vector<char> bytes = test::bytes_of(path);
  const size_t from = record_offsets(bytes)[0] * 8;
  bytes.resize(from + (4U << 20));
  for (size_t at = from; at < bytes.size(); at += 8) {
    const uint32_t words = 100000;
    std::memcpy(bytes.data() + at, &trace::kRecordMagic, 4);
    std::memcpy(bytes.data() + at + 4, &words, 4);
  }
  test::write_bytes(path, bytes);
  const Outcome outcome = read_lane(dir.path());  // 50 GB to hash, were it not bounded
  CHECK(outcome.deliveries == 0);
  const auto& notices = outcome.problems.notices;
  CHECK(std::any_of(notices.begin(), notices.end(), [](const std::string& text) {
    return text.find("too damaged") != std::string::npos;
  }));
}

TEST_CASE("what unpacks to more than the limit is refused") {
  TempDir dir;
  const std::string path = record_small(dir, true);
  trace::ReadLimits limits;
  limits.segment_bytes = 1000;
  const Outcome outcome = read_lane(dir.path(), limits);
  CHECK(outcome.deliveries == 0);
  CHECK(outcome.problems.damaged == 1);
  CHECK(outcome.problems.notices.at(0).find("longer than 1000 bytes") != std::string::npos);
}

TEST_CASE("files that are no lanes, other versions and mixed recordings are told apart") {
  TempDir dir;
  const std::string path = record_small(dir, false);
  std::vector<std::string> notices;
  CHECK(trace::list_lanes(dir.file("nowhere"), {}, notices).status().code() == Code::kNotFound);
  test::write_bytes(dir.file("empty.lane"), {});
  test::write_bytes(dir.file("text.lane"), std::vector<char>(100, 'x'));
  std::filesystem::create_symlink("/etc/passwd", dir.file("link.lane"));
  const auto lanes = trace::list_lanes(dir.path(), {}, notices);
  REQUIRE(lanes);
  CHECK(lanes->size() == 4);
  CHECK(notices.size() == 3);

  trace::LaneInfo info = (*lanes)[1].info;
  const auto rewrite = [&](const trace::LaneInfo& changed) {
    const std::vector<uint64_t> header = trace::encode_header(changed);
    trace::FileHead head;
    head.header_words = static_cast<uint32_t>(header.size());
    head.checksum = XXH3_64bits(header.data(), header.size() * 8);
    std::vector<char> bytes(sizeof(head) + header.size() * 8);
    std::memcpy(bytes.data(), &head, sizeof(head));
    std::memcpy(bytes.data() + sizeof(head), header.data(), header.size() * 8);
    test::write_bytes(dir.file("other.lane"), bytes);
  };
  info.version = 2;
  info.segment = 7;
  rewrite(info);
  notices.clear();
  REQUIRE(trace::list_lanes(dir.path(), {}, notices));
  CHECK(std::any_of(notices.begin(), notices.end(), [](const std::string& text) {
    return text.find("lane version 2") != std::string::npos;
  }));
  info.version = 1;
  info.recording += 1;
  rewrite(info);
  CHECK(trace::list_lanes(dir.path(), {}, notices).status().code() == Code::kInvalidArgument);
  trace::ReadLimits few;
  few.segments = 2;
  CHECK(trace::list_lanes(dir.path(), few, notices).status().code() == Code::kNoCapacity);
}

}  // namespace
}  // namespace troupe
