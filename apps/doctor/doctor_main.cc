#include "apps/doctor/doctor_main.h"

#include "apps/doctor/checks.h"
#include "apps/json/json_writer.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace troupe {
namespace {

constexpr int kBroken = 1;
constexpr int kBadArguments = 2;

void print_table(const std::vector<Finding>& findings) {
  for (const Finding& f : findings) {
    std::printf("%-8s %-14s %s\n", std::string(health_name(f.health)).c_str(), f.name.c_str(),
                f.found.c_str());
    if (!f.remedy.empty()) {
      std::printf("%-8s %-14s -> %s\n", "", "", f.remedy.c_str());
    }
  }
}

void print_json(const std::vector<Finding>& findings) {
  JsonWriter json;
  json.begin_object();
  for (const Finding& f : findings) {
    json.key(f.name).begin_object().field("health", health_name(f.health));
    json.field("found", f.found).field("remedy", f.remedy).end_object();
  }
  json.end_object();
  std::fputs(json.take().c_str(), stdout);
}

}  // namespace

int doctor_main(int argc, char** argv) {
  CLI::App app("What this machine offers and lacks, each with its remedy.", "troupe doctor");
  app.footer("Example: troupe doctor --directory /var/lib/troupe");
  std::string directory = ".";
  bool json = false;
  app.add_option("--directory", directory, "where a disk tier would live (default: here)");
  app.add_flag("--json", json, "machine-readable");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadArguments;
  }
  const std::vector<Finding> findings = examine(directory);
  (json ? print_json : print_table)(findings);
  bool broken = false;
  for (const Finding& f : findings) {
    broken = broken || f.health == Health::kBroken;
  }
  return broken ? kBroken : 0;
}

}  // namespace troupe
