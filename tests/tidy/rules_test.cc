// Every rule finds what it forbids and leaves alone what it allows.
#include "tests/tidy/rules.h"

#include <catch2/catch.hpp>

namespace troupe::tidy {
namespace {

using Rule = void (*)(const Source&, Violations&);

Violations run(Rule rule, std::string path, std::string text) {
  Violations out;
  rule({std::move(path), std::move(text)}, out);
  return out;
}
size_t count(Rule rule, std::string path, std::string text) {
  return run(rule, std::move(path), std::move(text)).size();
}
std::string include(std::string_view path) {
  return "#include \"" + std::string(path) + "\"\n";
}
std::string system(std::string_view path) {
  return "  #  include <" + std::string(path) + ">\n";
}

}  // namespace

TEST_CASE("code_only blanks comments and literals and keeps lines") {
  CHECK(code_only("a // b\nc") == "a     \nc");
  CHECK(code_only("a /* b\n c */ d") == "a     \n      d");
  CHECK(code_only("f(\"rand()\\\" x\", 'q', 1'000);") == "f(\"          \", ' ', 1'000);");
  CHECK(code_only("R\"(a\"\n//)\" b").find("b") != std::string::npos);
  CHECK(code_only("R\"(a\"\n//)\" b").find("a") == std::string::npos);
}

TEST_CASE("rule: file size") {
  std::string text;
  for (size_t i = 0; i < kFileLinesMax; ++i) {
    text += "x\n";
  }
  CHECK(count(check_size, "io/a.cc", text) == 0);
  CHECK(count(check_size, "io/a.cc", text + "x\n") == 1);
}

TEST_CASE("rule: columns, counted in characters") {
  CHECK(count(check_columns, "io/a.cc", std::string(100, 'x') + "\n") == 0);
  CHECK(count(check_columns, "io/a.cc", std::string(101, 'x') + "\n") == 1);
  std::string dashes;
  for (int i = 0; i < 100; ++i) {
    dashes += "…";
  }
  CHECK(count(check_columns, "io/a.cc", dashes) == 0);
  CHECK(run(check_columns, "io/a.cc", "a\n" + dashes + "x\n").at(0).line == 2);
  CHECK(count(check_columns, "io/a.cc", "// https://" + std::string(120, 'x')) == 0);
}

TEST_CASE("rule: function length") {
  const auto function = [](const std::string& head, const std::string& indent, size_t lines) {
    std::string text = head + " {\n";
    for (size_t i = 0; i < lines; ++i) {
      text += indent + "  work();\n";
    }
    return text + indent + "}\n";
  };
  CHECK(count(check_function_lengths, "io/a.cc", function("void f()", "", 70)) == 0);
  CHECK(count(check_function_lengths, "io/a.cc", function("void f()", "", 71)) == 1);
  CHECK(count(check_function_lengths, "io/a.cc", function("TEST_CASE(\"x\")", "", 71)) == 1);
  CHECK(count(check_function_lengths, "io/a.cc",
              "class A {\n" + function("  void f() const", "  ", 71) + "};\n") == 1);
  CHECK(count(check_function_lengths, "io/a.cc", function("namespace x", "", 200)) == 0);
  const std::string table =
      "int f() {\n  static const int t[] = {\n" + std::string(100, '\n') + "  };\n";
  CHECK(count(check_function_lengths, "io/a.cc", table + "}\n") == 0);
  CHECK(count(check_function_lengths, "io/a.cc", table + std::string(71, '\n') + "}\n") == 1);
  CHECK(count(check_function_lengths, "io/a.cc", function("class A : public B", "", 200)) == 0);
}

TEST_CASE("rule: characters") {
  CHECK(count(check_characters, "io/a.cc", "a\n") == 0);
  CHECK(count(check_characters, "io/a.cc", "\ta\n") == 1);
  CHECK(count(check_characters, "io/a.cc", "a \n") == 1);
  CHECK(count(check_characters, "io/a.cc", "a\r\n") == 1);
  CHECK(count(check_characters, "io/a.cc", "a") == 1);
}

TEST_CASE("rule: header form") {
  CHECK(count(check_header_form, "io/a.h", "// Story.\n#pragma once\n") == 0);
  CHECK(count(check_header_form, "io/a.h", "#pragma once\n") == 1);
  CHECK(count(check_header_form, "io/a.h", "// Story.\n") == 1);
  CHECK(count(check_header_form, "policies/abi/a.h", "/* Story. */\n") == 0);
  CHECK(count(check_header_form, "io/a.cc", "int x;\n") == 0);
}

TEST_CASE("rule: bans everywhere name the replacement") {
  const Violations found =
      run(check_everywhere_bans, "io/a.cc", "x;\nstd::this_thread::sleep_for(1s);\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 2);
  CHECK(found[0].text.find("an event or a message") != std::string::npos);
  CHECK(count(check_everywhere_bans, "io/a.cc", "using namespace std;\n") == 1);
  CHECK(count(check_everywhere_bans, "io/a.cc", "snprintf(a, 1, b);\n") == 0);
  CHECK(count(check_everywhere_bans, "io/a.cc", "sprintf(a, b);\n") == 1);
  CHECK(count(check_everywhere_bans, "io/a.cc", "// sleep_for is not used\n") == 0);
  CHECK(count(check_everywhere_bans, "io/a.cc", std::string("// TO") + "DO later\n") == 1);
  CHECK(count(check_everywhere_bans, "io/a.cc", std::string("// FIX") + "ME\n") == 1);
}

TEST_CASE("rule: deterministic folders have no clock, entropy, thread, file, hash order or float") {
  const char* const bad[] = {"std::chrono::seconds x;",
                             "auto t = time(nullptr);",
                             "auto t = ::time(nullptr);",
                             "int r = std::rand();",
                             "std::random_device d;",
                             "std::thread t;",
                             "std::mutex m;",
                             "std::atomic<int> a;",
                             "std::ifstream f;",
                             "fopen(\"x\", \"r\");",
                             "getenv(\"X\");",
                             "std::unordered_map<int, int> m;",
                             "double sum = 0;",
                             "float x;",
                             "std::map<Block*, int> m;",
                             "std::set<const Row*> s;",
                             "auto p = (uintptr_t)x;",
                             "thread_local int x;"};
  for (const char* line : bad) {
    CAPTURE(line);
    CHECK(count(check_deterministic_bans, "actors/gateway/a.cc", line) == 1);
    CHECK(count(check_deterministic_bans, "policies/builtin/a.cc", line) == 1);
    CHECK(count(check_deterministic_bans, "actors/movers/a.cc", line) == 0);
    CHECK(count(check_deterministic_bans, "io/a.cc", line) == 0);
  }
  const char* const good[] = {
      "// rand() and double",        "uint64_t runtime(int);", "x.time();",           "p->rand();",
      "std::map<uint64_t, Row*> m;", "int strand(int);",       "log(\"std::mutex\");"};
  for (const char* line : good) {
    CAPTURE(line);
    CHECK(count(check_deterministic_bans, "actors/gateway/a.cc", line) == 0);
  }
}

TEST_CASE("rule: the include table") {
  struct Case {
    const char* from;
    const char* to;
    bool good;
  };
  const Case cases[] = {
      {"runtime/base/a.h", "runtime/base/b.h", true},
      {"runtime/base/a.h", "runtime/core/b.h", false},
      {"runtime/layout/a.h", "runtime/base/b.h", true},
      {"runtime/layout/a.h", "runtime/core/b.h", false},
      {"runtime/ingress/a.h", "runtime/layout/b.h", true},
      {"runtime/ingress/a.h", "runtime/core/b.h", false},
      {"runtime/core/a.h", "schemas/b.capnp.h", true},
      {"runtime/core/a.h", "runtime/shell/b.h", false},
      {"runtime/shell/a.cc", "runtime/trace/b.h", true},
      {"runtime/shell/a.cc", "actors/gateway/b.h", false},
      {"runtime/inline/a.cc", "runtime/shell/b.h", false},
      {"actors/gateway/a.cc", "actors/gateway/b.h", true},
      {"actors/gateway/a.cc", "runtime/core/b.h", true},
      {"actors/gateway/a.cc", "actors/scheduler/b.h", false},
      {"actors/gateway/a.cc", "io/b.h", false},
      {"actors/movers/a.cc", "io/b.h", true},
      {"actors/movers/a.cc", "kernels/b.h", true},
      {"actors/movers/a.cc", "actors/gateway/b.h", false},
      {"actors/wiring.cc", "actors/gateway/b.h", true},
      {"actors/wiring.cc", "io/b.h", false},
      {"policies/builtin/a.cc", "policies/sdk/b.h", true},
      {"policies/builtin/a.cc", "runtime/core/b.h", false},
      {"kernels/cpu/a.cc", "kernels/b.h", true},
      {"kernels/cpu/a.cc", "io/b.h", false},
      {"io/a.cc", "runtime/base/b.h", true},
      {"io/a.cc", "runtime/core/b.h", false},
      {"apps/run/a.cc", "actors/gateway/b.h", true},
      {"tests/io/a.cc", "apps/run/b.h", true},
      {"runtime/core/a.cc", "apps/run/b.h", false},
      {"io/a.cc", "tests/io/b.h", false},
      {"io/a.cc", "b.h", false},
  };
  for (const Case& c : cases) {
    CAPTURE(c.from, c.to);
    CHECK((count(check_includes, c.from, include(c.to)) == 0) == c.good);
  }
  CHECK(count(check_includes, "new/a.cc", "int x;\n") == 1);
  CHECK(count(check_includes, "new/a.md", include("x.h")) == 0);
}

TEST_CASE("rule: a library's headers stay in the folder that owns it") {
  CHECK(count(check_includes, "runtime/shell/a.cc", system("caf/actor.hpp")) == 0);
  CHECK(count(check_includes, "actors/gateway/a.cc", system("caf/actor.hpp")) == 1);
  CHECK(count(check_includes, "io/posix/a.cc", system("liburing.h")) == 1);
  CHECK(count(check_includes, "io/uring/a.cc", system("liburing.h")) == 0);
  CHECK(count(check_includes, "runtime/core/a.cc", system("spdlog/spdlog.h")) == 1);
  CHECK(count(check_includes, "actors/gateway/a.cc", system("vector")) == 0);
}

TEST_CASE("rule: dead headers and folders without a README") {
  Violations out;
  check_dead_headers(
      {{"io/a.h", ""}, {"io/b.h", include("io/b.h")}, {"io/c.cc", include("io/a.h")}}, out);
  REQUIRE(out.size() == 1);
  CHECK(out[0].path == "io/b.h");
  out.clear();
  check_folder_readmes({{"runtime/base/a.h", ""},
                        {"io/uring/a.cc", ""},
                        {"io/README.md", ""},
                        {"tests/io/a.cc", ""}},
                       out);
  REQUIRE(out.size() == 1);
  CHECK(out[0].path == "runtime/base/README.md");
  std::string text;
  for (size_t i = 0; i < kReadmeLinesMax; ++i) {
    text += "x\n";
  }
  CHECK(count(check_readme, "io/README.md", text) == 0);
  CHECK(count(check_readme, "io/README.md", text + "x\n") == 1);
  CHECK(count(check_readme, "README.md", text + "x\n") == 0);
}

}  // namespace troupe::tidy
