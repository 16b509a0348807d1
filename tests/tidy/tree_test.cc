// All rules over this repository (the working directory is its root).
#include "tests/tidy/rules.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace troupe::tidy {
namespace {

namespace fs = std::filesystem;

bool ends(const std::string& text, std::string_view with) {
  return text.size() >= with.size() &&
         text.compare(text.size() - with.size(), with.size(), with) == 0;
}

bool is_checked(const std::string& path) {
  return is_cpp(path) || ends(path, "/README.md") || ends(path, ".capnp") || ends(path, ".cc.in");
}

std::vector<Source> read_tree() {
  std::vector<Source> sources;
  for (const char* top :
       {"runtime", "actors", "policies", "kernels", "io", "apps", "schemas", "tests", "configs"}) {
    if (!fs::exists(top)) {
      continue;
    }
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(top)) {
      const std::string path = entry.path().generic_string();
      if (entry.is_regular_file() && is_checked(path)) {
        std::ifstream file(path, std::ios::binary);
        std::ostringstream text;
        text << file.rdbuf();
        sources.push_back({path, text.str()});
      }
    }
  }
  std::sort(sources.begin(), sources.end(),
            [](const Source& a, const Source& b) { return a.path < b.path; });
  return sources;
}

void report(const Violations& violations) {
  std::string text;
  for (const Violation& v : violations) {
    text += v.path + (v.line == 0 ? "" : ":" + std::to_string(v.line)) + ": " + v.text + "\n";
  }
  INFO(text);
  CHECK(violations.empty());
}

}  // namespace

TEST_CASE("the tree is there") {
  const std::vector<Source> sources = read_tree();
  REQUIRE(sources.size() > 50);
  CHECK(std::any_of(sources.begin(), sources.end(),
                    [](const Source& s) { return s.path == "runtime/base/status.h"; }));
}

TEST_CASE("every #include is allowed by the table") {
  Violations violations;
  for (const Source& source : read_tree()) {
    check_includes(source, violations);
  }
  report(violations);
}

TEST_CASE("sizes and form") {
  Violations violations;
  for (const Source& source : read_tree()) {
    check_characters(source, violations);
    check_readme(source, violations);
    if (is_cpp(source.path)) {
      check_size(source, violations);
      check_columns(source, violations);
      check_function_lengths(source, violations);
      check_header_form(source, violations);
    }
  }
  report(violations);
}

TEST_CASE("banned identifiers") {
  Violations violations;
  for (const Source& source : read_tree()) {
    if (is_cpp(source.path)) {
      check_everywhere_bans(source, violations);
      check_deterministic_bans(source, violations);
    }
  }
  report(violations);
}

TEST_CASE("no dead headers, and a README in every folder") {
  Violations violations;
  const std::vector<Source> sources = read_tree();
  check_dead_headers(sources, violations);
  check_folder_readmes(sources, violations);
  report(violations);
}

}  // namespace troupe::tidy
