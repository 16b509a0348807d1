#include "apps/tiers/tiers.h"

#include "apps/json/json_writer.h"
#include "io/store/inspect.h"

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>
#include <map>
#include <utility>

namespace troupe::apps {
namespace {

struct Share {
  uint64_t blocks = 0;
  uint64_t payload_bytes = 0;
};
using Shares = std::map<std::pair<uint64_t, uint16_t>, Share>;  // by namespace and format

std::string hex(uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value);
  return text;
}

Shares shares_of(const io::Inspection& store) {
  Shares shares;
  store.table.for_each(0, store.table.granules(), [&](const io::BlockRecord& record) {
    Share& share = shares[{record.namespace_fingerprint, record.format}];
    ++share.blocks;
    share.payload_bytes += record.payload_bytes;
  });
  return shares;
}

void print_table(const std::string& directory, const io::Inspection& store, const Shares& shares) {
  const uint64_t free =
      store.table.granules() - store.table.live_granules() - store.table.quarantined_granules();
  std::printf("store        %s%s%s\n", directory.c_str(), store.report.reason.empty() ? "" : ": ",
              store.report.reason.c_str());
  for (size_t i = 0; i < store.layout.classes().size(); ++i) {
    const io::SizeClass& one = store.layout.classes()[i];
    std::printf("class %-6zu %u granules of %u bytes\n", i, one.granules, one.granule_bytes);
  }
  std::printf("capacity     %u granules: %" PRIu64 " live, %" PRIu64 " free, %" PRIu64
              " quarantined\n",
              store.table.granules(), store.table.live_granules(), free,
              store.table.quarantined_granules());
  std::printf("bytes        %" PRIu64 " data, %" PRIu64 " metadata, %" PRIu64 " policy state\n",
              store.data_bytes, store.meta_bytes, store.policy_bytes);
  std::printf("blocks       %" PRIu64 "\n", store.table.live_rows());
  for (const auto& [key, share] : shares) {
    std::printf("  namespace  %s format %u: %" PRIu64 " blocks, %" PRIu64 " bytes\n",
                hex(key.first).c_str(), key.second, share.blocks, share.payload_bytes);
  }
}

void print_json(const std::string& directory, const io::Inspection& store, const Shares& shares) {
  JsonWriter json;
  json.begin_object().field("directory", directory).field("cold", store.report.cold);
  json.field("note", store.report.reason).key("classes").begin_array();
  for (const io::SizeClass& one : store.layout.classes()) {
    json.begin_object().field("granule_bytes", one.granule_bytes);
    json.field("granules", one.granules).end_object();
  }
  json.end_array().field("granules", store.table.granules());
  json.field("live", store.table.live_granules());
  json.field("free", store.table.granules() - store.table.live_granules() -
                         store.table.quarantined_granules());
  json.field("quarantined", store.table.quarantined_granules());
  json.field("blocks", store.table.live_rows()).field("data_bytes", store.data_bytes);
  json.field("metadata_bytes", store.meta_bytes).field("policy_bytes", store.policy_bytes);
  json.key("namespaces").begin_array();
  for (const auto& [key, share] : shares) {
    json.begin_object().field("namespace", hex(key.first)).field("format", key.second);
    json.field("blocks", share.blocks).field("payload_bytes", share.payload_bytes).end_object();
  }
  json.end_array().end_object();
  std::fputs(json.take().c_str(), stdout);
}

}  // namespace

int tiers_main(int argc, char** argv) {
  CLI::App app(
      "What a disk tier's directory holds. Changes nothing.\nExample: troupe tiers /var/lib/troupe "
      "--json");
  std::string directory;
  bool json = false;
  app.add_option("directory", directory, "the store's directory")->required();
  app.add_flag("--json", json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const auto store = io::inspect_store(directory);
  if (!store) {
    std::fprintf(stderr, "troupe tiers: %s\n", store.status().to_string().c_str());
    const Code code = store.status().code();
    return code == Code::kFailedPrecondition || code == Code::kUnsupported ? 3 : 1;
  }
  const Shares shares = shares_of(store.value());
  json ? print_json(directory, store.value(), shares)
       : print_table(directory, store.value(), shares);
  return 0;
}

}  // namespace troupe::apps
