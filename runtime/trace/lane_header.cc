// LaneInfo as bytes (schemas/trace.capnp LaneHeader) and back.
#include "runtime/core/wire.h"
#include "runtime/trace/segment_writer.h"
#include "schemas/trace.capnp.h"

#include <capnp/serialize.h>

namespace troupe::trace {
namespace {

/// Plug-ins that one header may name; more is no recording of ours.
constexpr uint32_t kPluginsMax = 4096;

LaneInfo read_header(wire::LaneHeader::Reader header) {
  LaneInfo info;
  info.version = header.getVersion();
  info.build_id = header.getBuildId().cStr();
  info.schema_id = header.getSchemaId();
  info.config.assign(header.getConfig().begin(), header.getConfig().size());
  info.seed = header.getSeed();
  info.actor = header.getActor().cStr();
  info.address = Address(header.getAddress());
  info.segment = header.getSegment();
  for (const auto plugin : header.getPlugins()) {
    const auto sha256 = plugin.getSha256();
    info.plugins.push_back({plugin.getName().cStr(), {sha256.begin(), sha256.end()}});
  }
  info.permuted = header.getPermuted();
  info.recording = header.getRecording();
  info.edge = header.getEdge();
  info.edges_mode = header.getMode() == 2;
  info.digest_every = header.getDigestEvery();
  return info;
}

}  // namespace

std::vector<uint64_t> encode_header(const LaneInfo& info) {
  capnp::MallocMessageBuilder builder;
  auto header = builder.initRoot<wire::LaneHeader>();
  header.setVersion(info.version);
  header.setBuildId(info.build_id.c_str());
  header.setSchemaId(info.schema_id);
  header.setConfig({info.config.c_str(), info.config.size()});
  header.setSeed(info.seed);
  header.setActor(info.actor.c_str());
  header.setAddress(info.address.v);
  header.setSegment(info.segment);
  auto plugins = header.initPlugins(static_cast<capnp::uint>(info.plugins.size()));
  for (capnp::uint i = 0; i < plugins.size(); ++i) {
    plugins[i].setName(info.plugins[i].name.c_str());
    plugins[i].setSha256(data_of(info.plugins[i].sha256));
  }
  header.setPermuted(info.permuted);
  header.setRecording(info.recording);
  header.setEdge(info.edge);
  header.setMode(info.edges_mode ? 2 : 1);
  header.setDigestEvery(info.digest_every);
  const kj::Array<capnp::word> flat = capnp::messageToFlatArray(builder);
  std::vector<uint64_t> words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * sizeof(capnp::word));
  return words;
}

Expected<LaneInfo> decode_header(std::span<const uint64_t> words) {
  try {
    capnp::FlatArrayMessageReader reader(
        kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size()));
    const auto header = reader.getRoot<wire::LaneHeader>();
    if (header.getVersion() != kLaneVersion) {
      return Status(Code::kUnsupported, "lane version " + std::to_string(header.getVersion()) +
                                            "; this build reads version " +
                                            std::to_string(kLaneVersion));
    }
    if (header.getMode() != 1 && header.getMode() != 2) {
      return Status(Code::kUnsupported,
                    "lane mode " + std::to_string(header.getMode()) + " is not 1 or 2");
    }
    if (header.getPlugins().size() > kPluginsMax) {
      return Status(Code::kCorrupt, "the header names " +
                                        std::to_string(header.getPlugins().size()) +
                                        " plug-ins, more than " + std::to_string(kPluginsMax));
    }
    return read_header(header);
  } catch (const kj::Exception& error) {
    return Status(Code::kCorrupt, std::string("the header: ") + error.getDescription().cStr());
  }
}

}  // namespace troupe::trace
