// The style rules that a machine can check, as functions from sources to violations. rules_test.cc
// tests each rule on small samples; tree_test.cc runs all of them over this repository. A violation
// names the file, the line, what is wrong, and what to write instead. After TigerBeetle's tidy.zig.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::tidy {

struct Source {
  std::string path;  // from the root, with forward slashes
  std::string text;
};

struct Violation {
  std::string path;
  size_t line = 0;  // from 1; 0: the whole file
  std::string text;
};
using Violations = std::vector<Violation>;

constexpr size_t kFileLinesMax = 500;
constexpr size_t kFunctionLinesMax = 70;
constexpr size_t kColumnsMax = 100;
constexpr size_t kReadmeLinesMax = 30;

/// The text with comments and the insides of literals blanked, line ends kept.
std::string code_only(std::string_view text);
bool is_cpp(std::string_view path);

// rules_text.cc: one file at a time
void check_size(const Source& source, Violations& out);
void check_columns(const Source& source, Violations& out);
void check_function_lengths(const Source& source, Violations& out);
void check_characters(const Source& source, Violations& out);   // tabs, control, trailing blanks
void check_header_form(const Source& source, Violations& out);  // #pragma once, a story at the top
void check_everywhere_bans(const Source& source, Violations& out);
/// Clocks, entropy, threads, files, unordered containers, floats: in actors (movers apart),
/// policies.
void check_deterministic_bans(const Source& source, Violations& out);
void check_readme(const Source& source, Violations& out);

// rules_include.cc
void check_includes(const Source& source, Violations& out);
/// Headers that nobody includes, and folders with code but without a README.
void check_dead_headers(const std::vector<Source>& sources, Violations& out);
void check_folder_readmes(const std::vector<Source>& sources, Violations& out);

}  // namespace troupe::tidy
