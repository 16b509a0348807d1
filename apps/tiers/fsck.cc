#include "apps/json/json_writer.h"
#include "apps/tiers/tiers.h"
#include "io/store/disk_store.h"
#include "io/store/inspect.h"

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <vector>

namespace troupe::apps {
namespace {

struct Findings {
  uint64_t good = 0;
  std::map<std::string, uint64_t> bad;  // by reason
  std::vector<Slot> bad_slots;
  std::vector<io::BlockRecord> lost;  // whole on the disk, unknown to the index
  std::vector<Slot> quarantined;
  std::vector<io::SizeClass> classes;
  std::string note;
  uint64_t adopted = 0;
};

Status look(const std::string& directory, Findings& findings) {
  const auto store = io::inspect_store(directory);
  TROUPE_TRY(store.status());
  findings.note = store->report.reason;
  findings.classes = store->layout.classes();
  findings.quarantined = store->table.quarantined();
  TROUPE_TRY(io::verify_store(directory, store.value(), [&](const io::RecordCheck& check) {
    if (check.error == 0 && check.fault == io::RecordFault::kNone) {
      ++findings.good;
      return;
    }
    ++findings.bad[check.error != 0 ? "unreadable" : io::record_fault_name(check.fault)];
    findings.bad_slots.push_back(check.row.slot);
  }));
  return io::scan_store(directory, store.value(),
                        [&](const io::BlockRecord& record) { findings.lost.push_back(record); });
}

/// Drops what is bad, takes in what is whole, frees quarantined slots (nothing on them is
/// believed).
Status repair(const std::string& directory, bool rebuild, Findings& findings) {
  auto store = io::DiskStore::open({.directory = directory,
                                    .classes = findings.classes,
                                    .durability = io::Durability::kCrash,
                                    .capacity_bytes = UINT64_MAX});
  TROUPE_TRY(store.status());
  for (const Slot& slot : findings.bad_slots) {
    TROUPE_TRY((*store)->drop(slot));
  }
  for (const Slot& slot : findings.quarantined) {
    (*store)->reinstate(slot);
  }
  for (const io::BlockRecord& record : findings.lost) {
    // A live row over the same place verified, and stays.
    if (rebuild && (*store)->find(record.slot) == nullptr) {
      findings.adopted += (*store)->adopt(record) ? 1 : 0;
    }
  }
  constexpr int64_t kCloseNs = 60'000'000'000;
  return (*store)->close((*store)->policy_state(), kCloseNs);
}

void print(const Findings& f, bool repaired, bool json_asked) {
  if (json_asked) {
    JsonWriter json;
    json.begin_object().field("good", f.good).field("bad", f.bad_slots.size());
    json.key("reasons").begin_object();
    for (const auto& [reason, count] : f.bad) {
      json.field(reason, count);
    }
    json.end_object().field("unindexed", f.lost.size());
    json.field("quarantined_runs", f.quarantined.size()).field("note", f.note);
    json.field("repaired", repaired).field("adopted", f.adopted).end_object();
    std::fputs(json.take().c_str(), stdout);
    return;
  }
  std::printf("%" PRIu64
              " records verify, %zu do not, %zu whole ones are not in the index, "
              "%zu quarantined runs\n",
              f.good, f.bad_slots.size(), f.lost.size(), f.quarantined.size());
  for (const auto& [reason, count] : f.bad) {
    std::printf("  %-16s %" PRIu64 "\n", reason.c_str(), count);
  }
  if (!f.note.empty()) {
    std::printf("metadata: %s\n", f.note.c_str());
  }
  if (repaired) {
    std::printf("repaired: %zu dropped, %" PRIu64 " taken into the index, %zu runs freed\n",
                f.bad_slots.size(), f.adopted, f.quarantined.size());
  }
}

}  // namespace

int fsck_main(int argc, char** argv) {
  CLI::App app(
      "Verifies every record of a disk tier. Without --repair nothing is changed.\nExample: troupe "
      "fsck /var/lib/troupe --repair");
  std::string directory;
  bool repair_asked = false, rebuild = false, json = false;
  app.add_option("directory", directory, "the store's directory")->required();
  CLI::Option* repair_flag = app.add_flag(
      "--repair", repair_asked, "drop records that do not verify, free quarantined slots");
  app.add_flag(
         "--rebuild", rebuild,
         "with --repair, for a lost index: take every whole record on the disk into it again, "
         "blocks that were dropped or purged since included")
      ->needs(repair_flag);
  app.add_flag("--json", json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Findings findings;
  Status status = look(directory, findings);
  if (status && repair_asked) {
    status = repair(directory, rebuild, findings);
  }
  if (!status) {
    std::fprintf(stderr, "troupe fsck: %s\n", status.to_string().c_str());
    return status.code() == Code::kFailedPrecondition || status.code() == Code::kUnsupported ? 3
                                                                                             : 1;
  }
  print(findings, repair_asked, json);
  return findings.bad_slots.empty() || repair_asked ? 0 : 1;
}

}  // namespace troupe::apps
