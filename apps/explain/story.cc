#include "apps/explain/story.h"

#include "actors/roles.h"
#include "apps/explain/observer.h"
#include "apps/run/assembly.h"
#include "runtime/replay/lane_replay.h"

namespace troupe {
namespace {

/// The policies do not run here, so whichever the recording names, none is loaded.
class NoRegistry final : public policy::Registry {
 public:
  NoRegistry() : under_(make_registry()) {}
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(std::string_view,
                                                                  uint32_t capacity, uint64_t seed,
                                                                  std::string_view) const override {
    return under_->make_eviction("lru", capacity, seed, "");
  }

 private:
  std::unique_ptr<policy::Registry> under_;
};

const trace::LaneFiles* lane_of(const std::vector<trace::LaneFiles>& lanes, Address address) {
  for (const trace::LaneFiles& files : lanes) {
    if (files.info.address == address) {
      return &files;
    }
  }
  return nullptr;
}

void read_swaps(const std::vector<trace::LaneFiles>& lanes, Story& story) {
  for (uint16_t slot = 0; slot < 3; ++slot) {
    const trace::LaneFiles* files = lane_of(lanes, address_of(Role::kPolicySlot, slot));
    if (files == nullptr) {
      continue;
    }
    trace::LaneReader reader(*files, {});
    trace::LaneRecord record;
    while (reader.next(record)) {
      if (record.type == trace::RecordType::kDelivery && record.has_payload &&
          record.header.kind == Kind::SWAP_POLICY) {
        FrameReader frame(record.payload);
        story.swaps.push_back({static_cast<uint8_t>(slot), record.header.tick,
                               frame.message().getSwapPolicy().getName().cStr()});
      }
    }
  }
}

}  // namespace

const char* miss_name(Miss miss) noexcept {
  constexpr const char* kNames[] = {"unknown",
                                    "never stored",
                                    "evicted",
                                    "other domain",
                                    "differs from the nearest cached prefix",
                                    "load failed",
                                    "purged",
                                    "not yet published",
                                    "over deadline",
                                    "moving between tiers",
                                    "alignment",
                                    "not looked up"};
  return kNames[static_cast<size_t>(miss)];
}

std::string Story::policy_at(uint8_t tier, Tick at) const {
  std::string name = policy;
  for (const Swap& swap : swaps) {
    name = swap.tier == tier && !(at < swap.at) ? swap.name : name;
  }
  return name;
}

Expected<Story> tell_story(const std::vector<trace::LaneFiles>& lanes) {
  const trace::LaneFiles* files = lane_of(lanes, address_of(Role::kPrefixIndex));
  if (files == nullptr) {
    return Status(Code::kNotFound, "the recording has no lane of prefix_index");
  }
  if (files->info.edges_mode) {
    return Status(Code::kFailedPrecondition,
                  "the recording is in edges mode; explaining needs a full one "
                  "(troupe run --record DIR --record-mode full)");
  }
  auto config = parse_config(files->info.config, "the recording's configuration");
  if (!config) {
    return config.status();
  }
  if (config->block_tokens == 0) {
    return Status(Code::kInvalidArgument, "the recording's configuration has no block_tokens");
  }
  Story story;
  story.policy = config->eviction_policy;
  config->eviction_policy = "lru";
  const NoRegistry registry;
  auto troupe = build_replay_troupe(*config, registry);
  if (!troupe) {
    return troupe.status();
  }
  Actor* actor = nullptr;
  for (const Member& member : troupe->members) {
    actor = member.address == files->info.address ? member.actor.get() : actor;
  }
  const auto* index = dynamic_cast<ActorOf<PrefixIndex>*>(actor);
  TROUPE_ASSERT(index != nullptr);  // build_troupe makes one
  read_swaps(lanes, story);
  StoryObserver observer(story, index->core().tree(), static_cast<uint32_t>(config->block_tokens));
  replay::LaneReplayOptions options;
  options.on_step = [&](uint64_t seq, const Frame& in, const std::vector<Outgoing>& out) {
    observer.on_step(seq, in, out);
  };
  trace::LaneReader reader(*files, {});
  const auto report = replay::replay_lane(reader, *actor, replay::LaneSearch(lanes, {}), options);
  story.notices = report.problems.notices;
  if (report.divergence) {
    return Status(Code::kFailedPrecondition,
                  "this build does not replay the recording: " + report.divergence->text());
  }
  if (!report.stopped.empty()) {
    story.notices.push_back("explained up to delivery " + std::to_string(report.counts.deliveries) +
                            ": " + report.stopped);
  }
  observer.finish();
  return story;
}

}  // namespace troupe
