// `troupe gen`: reproducible, the stated medians and shares, ids that mean what traces promise, and
// lines that the trace reader takes.
#include "apps/gen/gen_main.h"
#include "apps/gen/workload.h"
#include "apps/trace_input/trace_reader.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

namespace troupe {
namespace {

std::vector<WorkloadRequest> make(const WorkloadParams& params) {
  std::vector<WorkloadRequest> out;
  const Status status = generate(params, [&out](const WorkloadRequest& r) {
    out.push_back(r);
    return Status::ok();
  });
  INFO(status.text());
  REQUIRE(status.is_ok());
  return out;
}

std::string text_of(const WorkloadParams& params) {
  std::string out;
  for (const WorkloadRequest& r : make(params)) {
    append_jsonl(r, params.block_tokens, out);
  }
  return out;
}

double median(std::vector<double> values) {
  REQUIRE_FALSE(values.empty());
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(std::vector<std::string> args) {
  args.insert(args.begin(), "troupe gen");
  std::vector<char*> argv;
  for (std::string& arg : args) {
    argv.push_back(arg.data());
  }
  return gen_main(static_cast<int>(argv.size()), argv.data());
}

}  // namespace

TEST_CASE("same parameters and seed give the same bytes, another seed others") {
  WorkloadParams params{.seed = 3, .sessions = 8};
  const std::string first = text_of(params);
  CHECK(first == text_of(params));
  params.seed = 4;
  CHECK(first != text_of(params));
}

TEST_CASE("the default figures are those of the public traffic") {
  const WorkloadParams params{.seed = 11, .sessions = 600, .block_tokens = 512};
  std::map<uint64_t, std::array<double, 3>> sessions;  // turns, input, output
  std::set<uint64_t> subagents;
  std::set<int64_t> forked_from;
  std::map<uint64_t, uint64_t> session_of;
  uint64_t followups = 0;
  uint64_t within_1s = 0;
  uint64_t within_10s = 0;
  for (const WorkloadRequest& r : make(params)) {
    session_of[r.request_id] = r.session_id;
    if (r.subagent) {
      if (subagents.insert(r.session_id).second) {
        forked_from.insert(static_cast<int64_t>(session_of[static_cast<uint64_t>(r.parent)]));
      }
      continue;
    }
    auto& s = sessions[r.session_id];
    s[0] += 1;
    s[1] += static_cast<double>(r.input_length);
    s[2] += static_cast<double>(r.output_length);
    if (r.pause_ms >= 0) {
      ++followups;
      within_1s += r.pause_ms <= 1000 ? 1U : 0U;
      within_10s += r.pause_ms <= 10000 ? 1U : 0U;
    }
  }
  REQUIRE(sessions.size() == 600);
  std::array<std::vector<double>, 3> columns;
  for (const auto& [id, s] : sessions) {
    for (size_t i = 0; i < 3; ++i) {
      columns[i].push_back(s[i]);
    }
  }
  CHECK(median(columns[0]) == Approx(43).epsilon(0.08));
  CHECK(median(columns[1]) == Approx(142000).epsilon(0.12));
  CHECK(median(columns[2]) == Approx(444).epsilon(0.12));
  const auto share = [](uint64_t part, uint64_t all) {
    return static_cast<double>(part) / static_cast<double>(all);
  };
  CHECK(share(within_1s, followups) == Approx(0.86).margin(0.01));
  CHECK(share(within_10s, followups) == Approx(0.95).margin(0.01));
  CHECK(share(forked_from.size(), 600) == Approx(0.44).margin(0.06));
}

TEST_CASE("equal id means equal whole prefix, and every full block is listed") {
  const WorkloadParams params{.seed = 5,
                              .tenants = 3,
                              .sessions = 12,
                              .turns_median = 8,
                              .session_input_median = 24000,
                              .documents = 5,
                              .tokens = true};
  std::map<uint64_t, std::vector<uint32_t>> prefix_of;
  std::map<std::vector<uint32_t>, uint64_t> id_of;
  std::map<uint64_t, WorkloadRequest> by_request;
  std::map<uint64_t, uint32_t> tenant_of;
  double last = 0;
  size_t shared_documents = 0;
  for (const WorkloadRequest& r : make(params)) {
    REQUIRE(r.tokens.size() == r.input_length);
    REQUIRE(r.hash_ids.size() == r.input_length / params.block_tokens);
    CHECK(r.timestamp_ms >= last);
    last = r.timestamp_ms;
    for (size_t i = 0; i < r.hash_ids.size(); ++i) {
      const auto end = static_cast<std::ptrdiff_t>((i + 1) * params.block_tokens);
      const std::vector<uint32_t> prefix(r.tokens.begin(), r.tokens.begin() + end);
      REQUIRE(prefix_of.try_emplace(r.hash_ids[i], prefix).first->second == prefix);
      REQUIRE(id_of.try_emplace(prefix, r.hash_ids[i]).first->second == r.hash_ids[i]);
      REQUIRE(tenant_of.try_emplace(r.hash_ids[i], r.tenant).first->second == r.tenant);
    }
    if (r.parent >= 0) {  // a turn continues what its parent said: prompt, then the answer
      const WorkloadRequest& parent = by_request.at(static_cast<uint64_t>(r.parent));
      CHECK(r.tenant == parent.tenant);
      CHECK(r.subagent == (r.session_id != parent.session_id || parent.subagent));
      REQUIRE(r.tokens.size() > parent.tokens.size() + parent.output_length);
      REQUIRE(std::equal(parent.tokens.begin(), parent.tokens.end(), r.tokens.begin()));
    } else if (!by_request.empty()) {
      shared_documents += r.hash_ids.size() > 80 ? 1U : 0U;
    }
    by_request[r.request_id] = r;
  }
  CHECK(shared_documents > 0);
  // ids are dense
  CHECK(prefix_of.rbegin()->first + 1 == prefix_of.size());
}

TEST_CASE("what gen writes, the trace reader reads back field by field") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() /
                                     ("troupe_gen_" + std::to_string(::getpid()) + ".jsonl");
  REQUIRE(run({"--out", path.string(), "--sessions", "5", "--seed", "9", "--tokens"}) == 0);
  const std::vector<WorkloadRequest> expected = make({.seed = 9, .sessions = 5, .tokens = true});
  Expected<std::unique_ptr<TraceReader>> reader = TraceReader::open(path.string());
  REQUIRE(reader.is_ok());
  TraceRequest got;
  for (const WorkloadRequest& r : expected) {
    const Expected<bool> more = (*reader)->next(got);
    INFO(more.status().text());
    REQUIRE(more.is_ok());
    REQUIRE(*more);
    CHECK(got.timestamp_ms == Approx(r.timestamp_ms));
    CHECK(got.input_length == static_cast<int64_t>(r.input_length));
    CHECK(got.output_length == static_cast<int64_t>(r.output_length));
    CHECK(got.session_id == static_cast<int64_t>(r.session_id));
    CHECK(got.request_id == static_cast<int64_t>(r.request_id));
    CHECK(got.parent == r.parent);
    CHECK(got.tenant == "tenant-" + std::to_string(r.tenant));
    CHECK(got.block_size == 16);
    CHECK(got.hash_ids == r.hash_ids);
    CHECK(got.tokens == r.tokens);
    CHECK((got.pause_ms < 0) == (r.pause_ms < 0));
  }
  CHECK_FALSE((*reader)->next(got).value());
  std::filesystem::remove(path);
}

TEST_CASE("bad parameters are all named at once, and an unwritable file is an error") {
  WorkloadParams bad;
  bad.sessions = 0;
  bad.zipf = -1;
  bad.followup_1s_percent = 96;
  const std::string text = check(bad).text();
  CHECK(text.find("sessions 0 is not in 1 … ") != std::string::npos);
  CHECK(text.find("zipf -1 is not in 0 … 10") != std::string::npos);
  CHECK(text.find("followup_1s_percent 96 is not in 0 … 95") != std::string::npos);
  CHECK(run({"--out", "/nonexistent/x.jsonl", "--sessions", "1"}) == 1);
  CHECK(run({"--sessions", "1"}) == 2);
  CHECK(run({"--out", "-", "--tenants", "0"}) == 2);
}

}  // namespace troupe
