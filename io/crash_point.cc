#include "io/crash_point.h"

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string>
#include <unistd.h>

namespace troupe::io {
namespace {

constexpr std::string_view kNames[] = {
    "data.write.before",      "data.write.after",       "journal.append.before",
    "journal.append.torn",    "journal.append.after",   "journal.sync.before",
    "journal.sync.after",     "journal.rotate.before",  "journal.rotate.after",
    "snapshot.begin.after",   "snapshot.slice.torn",    "snapshot.slice.after",
    "snapshot.end.after",     "snapshot.sync.after",    "snapshot.rename.after",
    "snapshot.remove.before", "snapshot.remove.after",  "superblock.write.before",
    "superblock.write.torn",  "superblock.write.after", "superblock.rename.after",
    "recovery.read.after",    "recovery.done",          "close.sync.before",
    "close.snapshot.after"};

struct Plan {
  std::string name;
  long visit = 0;
  Plan() {
    const char* text = std::getenv("TROUPE_CRASH_AT");
    if (text == nullptr) {
      return;
    }
    const std::string whole(text);
    const size_t colon = whole.rfind(':');
    name = whole.substr(0, colon);
    visit = colon == std::string::npos ? 1 : std::strtol(whole.c_str() + colon + 1, nullptr, 10);
  }
};

const Plan& plan() {
  static const Plan instance;
  return instance;
}

std::atomic<long> visits{0};

}  // namespace

bool crash_is_due(std::string_view name) noexcept {
  if (plan().visit == 0 || plan().name != name) {
    return false;
  }
  return visits.load() + 1 == plan().visit;
}

void crash_point(std::string_view name) noexcept {
  if (plan().visit == 0 || plan().name != name) {
    return;
  }
  if (visits.fetch_add(1) + 1 == plan().visit) {
    kill(getpid(), SIGKILL);
  }
}

std::span<const std::string_view> crash_point_names() noexcept {
  return kNames;
}

}  // namespace troupe::io
