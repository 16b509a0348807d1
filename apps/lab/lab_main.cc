#include "apps/lab/lab_main.h"

#include "apps/lab/report.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace troupe {
namespace {

using namespace lab;

constexpr int kRunFailed = 1;
constexpr int kWrongArguments = 2;
constexpr uint32_t kJobsMax = 256;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  size_t from = 0;
  while (from <= text.size()) {
    size_t comma = text.find(',', from);
    // "name:a=1,b=2": a comma inside parameters is followed by name=value.
    while (comma != std::string::npos) {
      const std::string rest = text.substr(comma + 1, text.find(',', comma + 1) - comma - 1);
      const bool param = rest.find('=') != std::string::npos &&
                         rest.find(':') == std::string::npos && text.find(':', from) < comma;
      if (!param) {
        break;
      }
      comma = text.find(',', comma + 1);
    }
    out.push_back(text.substr(from, comma == std::string::npos ? comma : comma - from));
    if (comma == std::string::npos) {
      break;
    }
    from = comma + 1;
  }
  return out;
}

struct Arguments {
  std::string trace;
  std::string policies = "vllm_lru,s3fifo_leaf,troupe,opt";
  std::string sizes = "1%,3%,10%,30%";
  std::string semantics = "prefix";
  std::string json_path;
  std::string html_path;
  std::string policy_dir;
  uint32_t jobs = 1;
  uint64_t seed = 1;
  uint64_t requests = 0;
  std::string isolation = "none";
  bool no_serving = false;
  bool sessions = false;
};

int fail(int code, const std::string& text) {
  fprintf(stderr, "troupe lab: %s\n", text.c_str());
  return code;
}

bool write_file(const std::string& path, const std::string& text) {
  FILE* f = path == "-" ? stdout : fopen(path.c_str(), "wbe");
  if (f == nullptr) {
    return false;
  }
  const bool ok = fwrite(text.data(), 1, text.size(), f) == text.size();
  return (path == "-" ? fflush(f) : fclose(f)) == 0 && ok;
}

void declare(CLI::App& app, Arguments& a) {
  app.footer(
      "Example:\n  troupe lab --trace t.jsonl.zst --policy lru,s3fifo,./mine.so,opt --size "
      "1%,10%,4096 --json -");
  app.add_option("--trace", a.trace, "JSONL, oracleGeneral or CSV, plain or .zst")->required();
  app.add_option("--policy", a.policies,
                 "names, paths (with a slash), name:param=value; opt is the offline bound")
      ->capture_default_str();
  app.add_option("--size", a.sizes, "shares of the unique blocks (3%) or block counts")
      ->capture_default_str();
  app.add_option("--semantics", a.semantics, "prefix or object")
      ->check(CLI::IsMember({"prefix", "object"}))
      ->capture_default_str();
  app.add_option("--jobs", a.jobs, "runs at a time")
      ->check(CLI::Range(1U, kJobsMax))
      ->capture_default_str();
  app.add_option("--json", a.json_path, "write results here, - for standard output");
  app.add_option("--html", a.html_path, "write a page with curves here");
  app.add_option("--seed", a.seed, "for policies that draw")->capture_default_str();
  app.add_option("--requests", a.requests, "only the first so many requests (0: all)");
  app.add_option("--policy-dir", a.policy_dir, "folder of policies that are named without a slash");
  app.add_option("--isolation", a.isolation, "process: each policy in a process of its own")
      ->check(CLI::IsMember({"none", "process"}))
      ->capture_default_str();
  app.add_flag("--sessions", a.sessions, "list every session's hits in the JSON");
  app.add_flag("--no-serving", a.no_serving, "leave the modelled time to first token out");
}

}  // namespace

int lab_main(int argc, char** argv) {
  CLI::App app("Policies over a trace, next to the offline bound", "troupe lab");
  Arguments a;
  declare(app, a);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongArguments;
  }
  Plan plan;
  plan.policies = split(a.policies);
  plan.semantics = a.semantics == "prefix" ? Semantics::kPrefix : Semantics::kObject;
  plan.jobs = a.jobs;
  plan.seed = a.seed;
  plan.serving = !a.no_serving;
  plan.sessions = a.sessions;
  plugin::Registry registry(
      a.policy_dir.empty() ? plugin::default_policy_dir() : a.policy_dir, {},
      a.isolation == "process" ? std::optional(plugin::HostedOptions{}) : std::nullopt);
  for (const std::string& policy : plan.policies) {
    const std::string name = policy.substr(0, policy.find(':'));
    if (name != "opt") {
      const Status there = registry.check(name);
      if (!there) {
        return fail(kWrongArguments, "policy '" + name + "': " + there.text());
      }
    }
  }
  auto trace = load_trace(a.trace, a.requests);
  if (!trace) {
    return fail(kWrongArguments, trace.status().text());
  }
  for (const std::string& text : split(a.sizes)) {
    auto size = parse_size(text, trace->unique);
    if (!size) {
      return fail(kWrongArguments, size.status().text());
    }
    plan.sizes.push_back(*size);
  }
  const bool bar = isatty(STDERR_FILENO) != 0;
  const auto results = run(*trace, plan, registry, [&](size_t done, size_t all) {
    if (bar) {
      fprintf(stderr, "\r%zu of %zu runs%s", done, all, done == all ? "\n" : "");
    }
  });
  if (a.json_path != "-") {
    fputs(table(*trace, plan, results).c_str(), stdout);
  }
  if (!a.json_path.empty() && !write_file(a.json_path, json(*trace, plan, results))) {
    return fail(kRunFailed, a.json_path + ": cannot be written");
  }
  if (!a.html_path.empty() && !write_file(a.html_path, html(*trace, plan, results))) {
    return fail(kRunFailed, a.html_path + ": cannot be written");
  }
  for (const Result& r : results) {
    if (!r.error.empty()) {
      return fail(kRunFailed,
                  r.policy + " at " + std::to_string(r.size.blocks) + " blocks: " + r.error);
    }
  }
  return 0;
}

}  // namespace troupe
