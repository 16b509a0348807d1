// `troupe policy check` finds every bad plug-in of the zoo and names what is wrong; the process
// that checks lives on whatever they do.
#include <catch2/catch.hpp>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <sys/wait.h>

namespace {

// Which test must fail, and with which words.
const std::map<std::string, std::pair<std::string, std::string>> kExpected = {
    {"note_other_kind", {"describes_itself", "the note names kind 2"}},
    {"extra_export", {"exports_entry_points_only", "one_more_symbol"}},
    {"clock", {"imports_are_allowed", "clock_gettime"}},
    {"opens_file", {"imports_are_allowed", "imports "}},
    {"opens_socket", {"imports_are_allowed", "imports "}},
    {"forks", {"imports_are_allowed", "imports "}},
    {"events_fail", {"victims_are_legal", "gave -4"}},
    {"crash_events", {"victims_are_legal", "killed by"}},
    {"refuses_unknown_kind", {"empty_and_unknown_calls", "unknown kind is refused"}},
    {"trusts_handles", {"empty_and_unknown_calls", "beyond the capacity is accepted"}},
    {"loses_refused", {"survives_refusal", "has a resident child"}},
    {"names_pinned", {"victims_are_legal", "is in use"}},
    {"names_parents", {"victims_are_legal", "has a resident child"}},
    {"hangs", {"victims_are_legal", "did not end within"}},
    {"crashes", {"victims_are_legal", "killed by"}},
    {"aborts", {"victims_are_legal", "killed by"}},
    {"exits", {"victims_are_legal", "ended the process with exit code 0"}},
    {"recurses", {"victims_are_legal", "killed by"}},
    {"fails", {"victims_are_legal", "victims gave -4"}},
    {"too_few", {"victims_are_legal", "wanted and there"}},
    {"none", {"victims_are_legal", "0 victims named"}},
    {"out_of_range", {"victims_are_legal", "is no handle"}},
    {"twice", {"victims_are_legal", "is not resident, or was named twice"}},
    {"reversed", {"victims_are_legal", "has a resident child"}},
    {"count_too_large", {"victims_are_legal", "room was"}},
    {"overruns_victims", {"victims_are_legal", "killed by"}},
    {"global_state", {"victims_are_legal", "wanted and there"}},
    {"crashes_at_end", {"lives_and_dies", "killed by"}},
    {"frees_twice", {"lives_and_dies", "killed by"}},
    {"state_not_canonical", {"state_round_trip", "block records differ"}},
    {"state_takes_anything", {"state_refuses_damage", "unknown schema is accepted"}},
    {"state_lost", {"state_round_trip", "block records differ"}},
    {"global_too_large", {"state_round_trip", "the limit is 65536"}},
    {"id_prefix", {"refuses_unknown_ids", "create accepted the id"}},
    {"ignores_params", {"refuses_unknown_ids", "create accepted the parameters"}},
    {"writes_past_struct", {"host_structs_of_other_sizes", "wrote past the struct_size"}},
    {"create_hangs", {"lives_and_dies", "did not end within"}},
    {"desc_crashes", {"describes_itself", "killed by"}}};

int run(const std::string& command, std::string& output) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "re");
  REQUIRE(pipe != nullptr);
  char buffer[1024];
  for (size_t n = fread(buffer, 1, sizeof buffer, pipe); n > 0;
       n = fread(buffer, 1, sizeof buffer, pipe)) {
    output.append(buffer, n);
  }
  const int status = pclose(pipe);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string check(const std::string& name, const std::string& test, int expected_code) {
  std::string output;
  const int code = run(std::string(TROUPE_PROGRAM) + " policy check " TROUPE_ZOO "/" + name +
                           ".so --seconds 3 --filter " + test,
                       output);
  INFO(output);
  CHECK(code == expected_code);
  return output;
}

}  // namespace

TEST_CASE("each bad plug-in fails the test that is meant for it, with the reason",
          "[T:policy_crash_contained]") {
  std::stringstream names(ZOO_CHECK);
  size_t seen = 0;
  for (std::string name; std::getline(names, name, ','); ++seen) {
    const auto& [test, words] = kExpected.at(name);
    const std::string output = check(name, test, 1);
    INFO(name << ": " << output);
    CHECK(output.find("FAIL " + test) != std::string::npos);
    CHECK(output.find(words) != std::string::npos);
    CHECK(output.find("0 passed, 1 failed") != std::string::npos);
  }
  CHECK(seen == kExpected.size());
}

TEST_CASE("the same library with nothing wrong passes all of them") {
  std::string output;
  const int code =
      run(std::string(TROUPE_PROGRAM) + " policy check " TROUPE_ZOO "/nothing_wrong.so", output);
  INFO(output);
  CHECK(code == 0);
  CHECK(output.find(" 0 failed") != std::string::npos);
}
