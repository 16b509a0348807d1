// Trace forms, and that every kind of wrong line is refused with its number and the reason.
#include "apps/trace_input/trace_reader.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

using troupe::TraceReader;
using troupe::TraceRequest;

namespace {

class TempFile {
 public:
  TempFile(const std::string& suffix, const std::string& content) {
    std::string path = "/tmp/troupe_trace_XXXXXX" + suffix;
    const int fd = mkstemps(path.data(), static_cast<int>(suffix.size()));
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    close(fd);
    path_ = path;
  }
  ~TempFile() { unlink(path_.c_str()); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string error_of(const std::string& line) {
  const TempFile file(".jsonl", "{\"timestamp\": 0, \"hash_ids\": [1]}\n" + line + "\n");
  auto reader = TraceReader::open(file.path());
  REQUIRE(reader);
  TraceRequest request;
  auto first = (*reader)->next(request);
  REQUIRE(first);
  REQUIRE(*first);
  auto second = (*reader)->next(request);
  return second ? "" : second.status().text();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a Mooncake line and a token-level line are read in full") {
  const TempFile file(".jsonl",
                      "{\"timestamp\": 27482, \"input_length\": 6955, \"output_length\": 52, "
                      "\"hash_ids\": [46, 47]}\r\n"
                      "\n"
                      "{\"timestamp\": 1.5, \"tenant\": \"a\\u00e9\\n\", \"parent\": 3, "
                      "\"pause_ms\": 20.5, \"tokens\": [7,8],"
                      " \"hints\": \"pin\", \"extra\": {\"x\": [1, null, \"s\"]}, \"session_id\": "
                      "9, \"block_size\": 16}");
  auto reader = TraceReader::open(file.path());
  REQUIRE(reader);
  TraceRequest r;
  REQUIRE((*reader)->next(r).value());
  CHECK(r.timestamp_ms == 27482);
  CHECK(r.input_length == 6955);
  CHECK(r.output_length == 52);
  CHECK(r.session_id == -1);
  CHECK(r.block_size == 512);
  CHECK(r.hash_ids == std::vector<uint64_t>{46, 47});
  REQUIRE((*reader)->next(r).value());
  CHECK(r.line == 3);
  CHECK(r.tenant == "a\u00e9\n");
  CHECK(r.parent == 3);
  CHECK(r.pause_ms == 20.5);
  CHECK(r.hints == "pin");
  CHECK(r.session_id == 9);
  CHECK(r.block_size == 16);
  CHECK(r.tokens == std::vector<uint32_t>{7, 8});
  CHECK(r.hash_ids.empty());
  CHECK_FALSE((*reader)->next(r).value());
  CHECK_FALSE((*reader)->next(r).value());
}

TEST_CASE("wrong lines are refused with line, field and value") {
  CHECK(contains(error_of("{\"input_length\": -4}"), ":2: input_length is -4, the least is 0"));
  CHECK(contains(error_of("{\"output_length\": 1.5}"), "output_length must be a whole number"));
  CHECK(contains(error_of("{\"hash_ids\": [1, 2.5]}"), "hash_ids[1] must be a whole number"));
  CHECK(contains(error_of("{\"hash_ids\": [1, -2]}"), "hash_ids[1] must be a whole number"));
  CHECK(contains(error_of("{\"hash_ids\": [\"a\"]}"), "hash_ids[0]"));
  CHECK(contains(error_of("{\"hash_ids\": [18446744073709551615]}"), "is above"));
  CHECK(contains(error_of("{\"hash_ids\": [1"), "expected ',' or ']'"));
  CHECK(contains(error_of("{\"hash_ids\": 7}"), "must be a list"));
  CHECK(contains(error_of("{\"timestamp\": \"x\"}"), "timestamp must be a number"));
  CHECK(contains(error_of("{\"timestamp\": -1}"), "outside"));
  CHECK(contains(error_of("{\"block_size\": 0}"), "the least is 1"));
  CHECK(contains(error_of("[1]"), "must be a JSON object"));
  CHECK(contains(error_of("{} x"), "text after the object"));
  CHECK(contains(error_of("{\"tokens\": [4294967296]}"), "is above 4294967295"));
  CHECK(contains(error_of("{\"a\": " + std::string(50, '[') + "}"), "nested deeper"));
  CHECK(contains(error_of("\x1b[2J\xff\x01{}"), "at '?[2J??{}'"));  // nothing that a terminal obeys
}

TEST_CASE("a reader stays at its end after an error") {
  const TempFile file(".jsonl", "{\"hash_ids\": [x]}\n{\"hash_ids\": [1]}\n");
  auto reader = TraceReader::open(file.path());
  REQUIRE(reader);
  TraceRequest r;
  CHECK_FALSE((*reader)->next(r));
  CHECK_FALSE((*reader)->next(r).value());
}

TEST_CASE("oracleGeneral records and CSV rows become requests of one block") {
  std::string bytes(48, '\0');
  const uint32_t time = 5;
  const uint64_t id = 0x123456789AULL;
  memcpy(bytes.data() + 24, &time, 4);
  memcpy(bytes.data() + 28, &id, 8);
  const TempFile oracle(".oracleGeneral", bytes);
  auto reader = TraceReader::open(oracle.path());
  REQUIRE(reader);
  TraceRequest r;
  REQUIRE((*reader)->next(r).value());
  REQUIRE((*reader)->next(r).value());
  CHECK(r.timestamp_ms == 5000);
  CHECK(r.hash_ids == std::vector<uint64_t>{id});
  CHECK_FALSE((*reader)->next(r).value());

  const TempFile cut(".oracleGeneral", bytes.substr(0, 30));
  auto cut_reader = TraceReader::open(cut.path());
  REQUIRE(cut_reader);
  REQUIRE((*cut_reader)->next(r).value());
  CHECK(
      contains((*cut_reader)->next(r).status().text(), "record 2: the file ends inside a record"));

  const TempFile csv(".csv", "time,id,size\n1,77,4096\n2,78\n3,x,1\n");
  auto rows = TraceReader::open(csv.path());
  REQUIRE(rows);
  REQUIRE((*rows)->next(r).value());
  CHECK(r.hash_ids == std::vector<uint64_t>{77});
  REQUIRE((*rows)->next(r).value());
  CHECK(r.timestamp_ms == 2000);
  CHECK(contains((*rows)->next(r).status().text(), ":4: expected time,id"));
}

TEST_CASE("Azure arrivals carry lengths and times from the first row") {
  const TempFile csv(".csv",
                     "TIMESTAMP,ContextTokens,GeneratedTokens\n"
                     "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n");
  auto reader = TraceReader::open(csv.path());
  REQUIRE(reader);
  TraceRequest r;
  REQUIRE((*reader)->next(r).value());
  CHECK(r.timestamp_ms == 0);
  REQUIRE((*reader)->next(r).value());
  CHECK(r.timestamp_ms == Approx(4314.579).margin(0.01));
  CHECK(r.input_length == 396);
  CHECK(r.output_length == 109);
  CHECK(r.hash_ids.empty());
}

TEST_CASE("missing files, unknown names and damaged zstd are errors, not empty traces") {
  CHECK(contains(TraceReader::open("/nonexistent/x.jsonl").status().text(), "No such file"));
  CHECK(contains(TraceReader::open("/tmp/unknown.name").status().text(), "known are .jsonl"));
  const TempFile damaged(".jsonl.zst", std::string("\x28\xB5\x2F\xFD\x04garbage", 12));
  auto reader = TraceReader::open(damaged.path());
  REQUIRE(reader);
  TraceRequest r;
  CHECK(contains((*reader)->next(r).status().text(), "zstd"));
}
