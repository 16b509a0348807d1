// `troupe policy`: list what is there, check a library, start a new one.
#include "apps/policy/policy_commands.h"
#include "runtime/plugin/registry.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace troupe {
namespace {

int list(const std::string& dir_option, bool json) {
  const std::string dir = dir_option.empty() ? plugin::default_policy_dir() : dir_option;
  std::error_code error;
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(dir, error)) {
    if (entry.path().extension() == ".so") {
      files.push_back(entry.path().string());
    }
  }
  if (error) {
    fprintf(stderr, "troupe policy list: %s: %s\n", dir.c_str(), error.message().c_str());
    return 2;
  }
  std::sort(files.begin(), files.end());
  const plugin::Loader loader({});
  printf(json ? "{\"policies\": [" : "");
  bool first = true;
  for (const std::string& file : files) {  // notes only: no code of a library runs here
    const auto image = loader.inspect(file);
    if (json) {
      if (image) {
        printf("%s\n  {\"id\": \"%s\", \"version\": \"%s\", \"kind\": %u, \"abi\": \"%u.%u\"}",
               first ? "" : ",", image->note.id, image->note.version, image->note.kind,
               image->note.abi_major, image->note.abi_minor);
        first = false;
      }
    } else if (image) {
      printf("%-16s version %-6s kind %u  ABI %u.%u\n", image->note.id, image->note.version,
             image->note.kind, image->note.abi_major, image->note.abi_minor);
    } else {
      printf("%s\n", image.status().text().c_str());
    }
  }
  printf(json ? "\n]}\n" : "");
  return 0;
}

CLI::App* declare_debug(CLI::App& app, policy_app::DebugOptions& o) {
  CLI::App* command = app.add_subcommand("debug", "stop under gdb at one decision of a trace");
  command->footer("Example:\n  troupe policy debug ./mine.so --trace t.jsonl --until 1000");
  command->add_option("file", o.policy, "library or name, :param=value behind it")->required();
  command->add_option("--trace", o.trace, "as for troupe lab")->required();
  command->add_option("--until", o.until, "decision to stop at, from 1")
      ->required()
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 62));
  command->add_option("--size", o.size, "share of the unique blocks, or blocks")
      ->capture_default_str();
  command->add_option("--semantics", o.semantics, "prefix or object")
      ->check(CLI::IsMember({"prefix", "object"}))
      ->capture_default_str();
  command->add_option("--seed", o.seed, "for policies that draw")->capture_default_str();
  command->add_flag("--print", o.print, "show the command line of gdb and end");
  command->add_flag("--batch", o.batch, "print the stack at the decision and end");
  command->add_flag("--here", o.here, "run without a debugger of its own: you have attached one");
  return command;
}

}  // namespace

int policy_main(int argc, char** argv) {
  CLI::App app("Policies: list, check, debug and start them", "troupe policy");
  app.require_subcommand(1);
  app.footer(
      "Example:\n  troupe policy new mine && troupe policy check mine/build/policies/mine.so");
  std::string dir;
  bool json = false;
  CLI::App* list_command =
      app.add_subcommand("list", "policies of a folder, read from their notes");
  list_command->add_option("--policy-dir", dir, "folder to look in");
  list_command->add_flag("--json", json, "for machines");
  policy_app::CheckOptions check_options;
  CLI::App* check_command = app.add_subcommand("check", "run the conformance kit on a library");
  check_command->add_option("file", check_options.path, "the library")->required();
  check_command->add_option("--filter", check_options.filter,
                            "only tests whose name has this part");
  check_command->add_option("--one", check_options.one, "run one test in this process");
  check_command->add_option("--seed", check_options.seed, "repeat a failure")
      ->capture_default_str();
  check_command->add_option("--seconds", check_options.seconds, "limit of one test")
      ->check(CLI::Range(1U, 3600U))
      ->capture_default_str();
  check_command->add_flag("--in-process", check_options.in_process, "all here, for a debugger");
  policy_app::NewOptions new_options;
  bool no_build = false;
  CLI::App* new_command = app.add_subcommand("new", "a ready project for a policy of your own");
  new_command->add_option("name", new_options.name, "a-z, 0-9, _")->required();
  new_command->add_option("--dir", new_options.dir, "folder to make (default: ./NAME)");
  new_command->add_flag("--no-build", no_build, "only write the files");
  policy_app::DebugOptions debug_options;
  CLI::App* debug_command = declare_debug(app, debug_options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (list_command->parsed()) {
    return list(dir, json);
  }
  if (check_command->parsed()) {
    return policy_app::check(check_options);
  }
  if (debug_command->parsed()) {
    return policy_app::debug(debug_options);
  }
  new_options.build = !no_build;
  return policy_app::create(new_options);
}

}  // namespace troupe
