#include "runtime/plugin/adapter.h"

#include <algorithm>

namespace troupe::plugin {
namespace {

static_assert(static_cast<uint32_t>(policy::Event::kInsert) == TROUPE_EVENT_INSERT);
static_assert(static_cast<uint32_t>(policy::Event::kSupersede) == TROUPE_EVENT_SUPERSEDE);

class PluginEviction final : public policy::EvictionPolicy {
 public:
  explicit PluginEviction(EvictionInstance instance) : instance_(std::move(instance)) {}

  std::string_view name() const noexcept override { return instance_.desc().id; }
  bool may_over_evict() const noexcept override {
    return (instance_.desc().flags & TROUPE_FLAG_MAY_OVER_EVICT) != 0;
  }

  void on_events(const policy::Events& in) noexcept override {
    troupe_events out{};
    out.struct_size = sizeof out;
    out.kind = static_cast<uint32_t>(in.kind);
    out.ordinal = in.request;
    out.session = in.session;
    out.at = in.at.ns;
    out.block_bytes = in.bytes;
    out.tenant = in.tenant;
    out.hints = in.hints;
    out.count = static_cast<uint32_t>(in.blocks.size());
    out.blocks = in.blocks.data();
    out.parents = in.parents.empty() ? nullptr : in.parents.data();
    out.depths = in.depths.empty() ? nullptr : in.depths.data();
    out.tokens = in.tokens.empty() ? nullptr : in.tokens.data();
    out.keys = in.keys.size() < in.blocks.size() ? nullptr : in.keys.data();
    // The ABI promises deepest first; the runtime tells of new blocks root first.
    if (in.kind == policy::Event::kInsert && in.depths.size() > 1 &&
        in.depths.front() < in.depths.back()) {
      reverse(in, out);
    }
    // A failing policy answers no question either, and its slot fills in: nothing to do here.
    failed_ |= instance_.table().on_events(instance_.self(), &out, 1, sizeof out) != TROUPE_OK;
  }

  void victims(uint32_t wanted, const policy::HostView& view, std::vector<uint32_t>& victims,
               std::vector<int64_t>& scores) noexcept override {
    if (failed_ || wanted == 0) {
      return;
    }
    const uint32_t room = may_over_evict() ? instance_.options().capacity : wanted;
    const size_t first = victims.size();
    victims.resize(first + room);
    scores_.resize(room);
    const troupe_block_view blocks{sizeof blocks,       static_cast<uint32_t>(view.uses.size()),
                                   view.uses.data(),    view.children.data(),
                                   view.parents.data(), view.resident.data()};
    troupe_victims_call call{};
    call.struct_size = sizeof call;
    call.want = wanted;
    call.room = std::max(room, wanted);
    call.victims = victims.data() + first;
    call.scores = scores_.data();
    call.view = &blocks;
    const int32_t code = instance_.table().victims(instance_.self(), &call);
    failed_ = code != TROUPE_OK || call.named > call.room;
    victims.resize(first + (failed_ ? 0 : call.named));
    if (!failed_ && call.scored != 0 && first == 0) {
      scores.assign(scores_.begin(), scores_.begin() + call.named);
    }
  }

  Status save(StateSink& sink) const override { return save_policy(instance_, sink); }
  Status load(StateSource& source) override { return load_policy(instance_, source); }

  uint64_t digest() const noexcept override { return instance_.digest(); }

 private:
  void reverse(const policy::Events& in, troupe_events& out) {
    const auto turned = [](std::span<const uint32_t> from, std::vector<uint32_t>& to) {
      to.assign(from.rbegin(), from.rend());
      return to.empty() ? nullptr : to.data();
    };
    out.blocks = turned(in.blocks, blocks_);
    out.parents = turned(in.parents, parents_);
    out.depths = turned(in.depths, depths_);
    out.tokens = turned(in.tokens, tokens_);
    keys_.assign(in.keys.rbegin(), in.keys.rend());
    out.keys = keys_.size() < in.blocks.size() ? nullptr : keys_.data();
  }

  EvictionInstance instance_;
  bool failed_ = false;
  std::vector<int64_t> scores_;
  std::vector<uint32_t> blocks_;
  std::vector<uint32_t> parents_;
  std::vector<uint32_t> depths_;
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> keys_;
};

}  // namespace

std::unique_ptr<policy::EvictionPolicy> adapt(EvictionInstance instance) {
  return std::make_unique<PluginEviction>(std::move(instance));
}

Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction_policy(
    troupe_policy_create_fn create, const troupe_policy_desc* desc, const InstanceOptions& options,
    std::shared_ptr<const Library> keep) {
  auto instance = EvictionInstance::create(create, desc, options, std::move(keep));
  if (!instance) {
    return instance.status();
  }
  return adapt(std::move(instance).value());
}

}  // namespace troupe::plugin
