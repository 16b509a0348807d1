// Who may include whom: the table of the design, one row a folder. A folder may always include
// itself.
#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace troupe::tidy {
namespace {

struct Row {
  std::string_view folder;
  std::vector<std::string_view> may;  // prefixes; "" allows everything
};

constexpr std::string_view kBase = "runtime/base/";
constexpr std::string_view kLayout = "runtime/layout/";
constexpr std::string_view kCore = "runtime/core/";
constexpr std::string_view kTrace = "runtime/trace/";
constexpr std::string_view kSchemas = "schemas/";

/// The longest prefix of a path decides. An actor's own folder is a row by itself (see row_of).
const std::vector<Row>& rows() {
  static const std::vector<Row> table = {
      {kBase, {}},
      {kLayout, {kBase}},
      {"runtime/ingress/", {kBase, kLayout}},
      {kSchemas, {}},
      {kCore, {kBase, kLayout, kSchemas}},
      {kTrace, {kBase, kLayout, kSchemas, kCore}},
      {"runtime/plugin/", {kBase, kSchemas, kCore, "policies/abi/"}},
      {"runtime/shell/", {kBase, kSchemas, kCore, kTrace}},
      {"runtime/inline/", {kBase, kSchemas, kCore, kTrace}},
      {"runtime/replay/", {kBase, kSchemas, kCore, kTrace}},
      {"actors/", {kBase, kLayout, kSchemas, kCore}},
      {"actors/movers/", {kBase, kLayout, kSchemas, kCore, "io/", "kernels/"}},
      {"policies/abi/", {}},
      {"policies/sdk/", {"policies/abi/"}},
      {"policies/builtin/", {"policies/sdk/", "policies/abi/"}},
      {"policies/template/", {"policies/sdk/", "policies/abi/"}},
      {"policies/check/", {"policies/sdk/", "policies/abi/", "runtime/plugin/", kBase, kCore}},
      {"kernels/", {kBase, kLayout}},
      {"io/", {kBase}},
      {"apps/", {""}},
      {"tests/", {""}},
  };
  return table;
}

struct ThirdParty {
  std::string_view prefix;
  std::vector<std::string_view> folders;
};

/// Heavy or replaceable libraries stay in the folder that owns them; tests may use what they test.
const std::vector<ThirdParty>& third_parties() {
  static const std::vector<ThirdParty> table = {
      {"caf/", {"runtime/shell/"}},
      {"spdlog/", {kBase}},
      {"liburing", {"io/uring/"}},
      {"linux/io_uring", {"io/uring/", "apps/doctor/"}},
      {"toml++/", {"apps/config/", "apps/models/", "apps/run/"}},
      {"CLI/", {"apps/"}},
      {"catch2/", {"tests/"}},
      {"openssl/", {"runtime/ingress/", "runtime/plugin/", "io/store/", "tests/"}},
      {"capnp/", {kCore, kTrace, kSchemas, "tests/"}},
      {"kj/", {kCore, kTrace, kSchemas}},
      {"hwy/", {"kernels/", "tests/kernels/"}},
      {"cuda", {"kernels/cuda/", "kernels/math/"}},
      {"xxhash", {"kernels/", "io/", kTrace, "runtime/replay/", "tests/"}},
      {"zstd", {"apps/trace_input/", kTrace, "tests/"}},
      {"prometheus/", {"apps/"}},
  };
  return table;
}

bool starts(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

/// The folder that a path counts as: "actors/gateway/" for an actor, the row's prefix otherwise.
std::string_view folder_of(std::string_view path) {
  std::string_view best;
  for (const Row& row : rows()) {
    if (starts(path, row.folder) && row.folder.size() > best.size()) {
      best = row.folder;
    }
  }
  if (best == "actors/") {
    const size_t slash = path.find('/', best.size());
    return slash == std::string_view::npos ? best : path.substr(0, slash + 1);
  }
  return best;
}

const Row* row_of(std::string_view path) {
  const Row* best = nullptr;
  for (const Row& row : rows()) {
    if (starts(path, row.folder) && (best == nullptr || row.folder.size() > best->folder.size())) {
      best = &row;
    }
  }
  return best;
}

struct Include {
  size_t line = 0;
  bool quoted = false;
  std::string path;
};

std::vector<Include> includes_of(std::string_view text) {
  std::vector<Include> out;
  size_t number = 1;
  for (size_t at = 0; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!starts(line, "#")) {
      continue;
    }
    line.remove_prefix(1);
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!starts(line, "include")) {
      continue;
    }
    const size_t open = line.find_first_of("<\"");
    if (open == std::string_view::npos) {
      continue;
    }
    const size_t close = line.find(line[open] == '<' ? '>' : '"', open + 1);
    if (close != std::string_view::npos) {
      out.push_back(
          {number, line[open] == '"', std::string(line.substr(open + 1, close - open - 1))});
    }
  }
  return out;
}

bool allowed(std::string_view from, std::string_view to) {
  const std::string_view own = folder_of(from);
  if (starts(to, own) && own != "actors/") {
    return true;
  }
  if (own == "actors/") {  // wiring sees all actors
    if (starts(to, "actors/")) {
      return true;
    }
  } else if (starts(own, "actors/") && to == "actors/roles.h") {
    return true;
  }
  const Row* row = row_of(from);
  return row != nullptr && std::any_of(row->may.begin(), row->may.end(),
                                       [to](std::string_view p) { return starts(to, p); });
}

}  // namespace

void check_includes(const Source& source, Violations& out) {
  if (!is_cpp(source.path)) {
    return;
  }
  if (row_of(source.path) == nullptr) {
    out.push_back({source.path, 0, "its folder is not in the include table (tests/tidy)"});
    return;
  }
  for (const Include& include : includes_of(source.text)) {
    if (!include.quoted) {
      for (const ThirdParty& library : third_parties()) {
        const bool there = std::any_of(library.folders.begin(), library.folders.end(),
                                       [&](std::string_view f) { return starts(source.path, f); });
        if (starts(include.path, library.prefix) && !there) {
          out.push_back({source.path, include.line,
                         "<" + include.path + "> belongs to " + std::string(library.folders[0]) +
                             ": use what that folder offers"});
        }
      }
    } else if (row_of(include.path) == nullptr) {
      if (include.path.find('/') != std::string::npos || !starts(source.path, "apps/") ||
          include.path.size() < 4 || include.path.substr(include.path.size() - 4) != ".inc") {
        out.push_back({source.path, include.line,
                       "\"" + include.path + "\": write the path from the root of the repository"});
      }
    } else if (!allowed(source.path, include.path)) {
      out.push_back({source.path, include.line,
                     std::string(folder_of(source.path)) + " may not include " + include.path +
                         ": see the table in tests/tidy/rules_include.cc"});
    }
  }
}

void check_dead_headers(const std::vector<Source>& sources, Violations& out) {
  std::set<std::string> included;
  for (const Source& source : sources) {
    for (const Include& include : includes_of(source.text)) {
      if (include.path != source.path) {
        included.insert(include.path);
      }
    }
  }
  for (const Source& source : sources) {
    const bool header =
        source.path.size() > 2 && source.path.substr(source.path.size() - 2) == ".h";
    // What plug-in authors include need not be included here.
    const bool exported =
        starts(source.path, "policies/abi/") || starts(source.path, "policies/sdk/");
    if (header && !exported && included.count(source.path) == 0) {
      out.push_back({source.path, 0, "nobody includes this header: remove it"});
    }
  }
}

void check_folder_readmes(const std::vector<Source>& sources, Violations& out) {
  std::map<std::string, bool> has_readme;  // folder with code -> README there
  std::set<std::string> paths;
  for (const Source& source : sources) {
    paths.insert(source.path);
  }
  for (const Source& source : sources) {
    if (!is_cpp(source.path) || starts(source.path, "tests/")) {
      continue;
    }
    // runtime/x, actors/x, apps/x, policies/x; kernels, io and schemas as one; sub-folders count as
    // theirs.
    const size_t first = source.path.find('/');
    const std::string top = source.path.substr(0, first);
    const size_t second = source.path.find('/', first + 1);
    const bool one = top == "kernels" || top == "io" || top == "schemas";
    const std::string folder =
        one || second == std::string::npos ? top : source.path.substr(0, second);
    has_readme[folder] = paths.count(folder + "/README.md") != 0;
  }
  for (const auto& [folder, there] : has_readme) {
    if (!there) {
      out.push_back({folder + "/README.md", 0,
                     "missing: purpose, place on a request's way, invariants, how to add a thing"});
    }
  }
}

}  // namespace troupe::tidy
