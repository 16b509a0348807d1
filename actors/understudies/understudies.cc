#include "actors/understudies/understudies.h"

#include "runtime/base/rng.h"
#include "runtime/core/gauges.h"
#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {
namespace {

constexpr uint64_t kNoSession = ~0ULL;  // as policies know it

constexpr uint32_t kRootTokens = 512;  // of a prompt whose session is not known

/// What stands for the session of a lookup: where none is named, the block behind the first 512
/// tokens, since the first ones are often a system prompt that all share.
uint64_t root_of(wire::Lookup::Reader lookup) {
  const auto keys = span_of<uint64_t>(lookup.getKeys());
  if (lookup.getSession() != 0 || keys.empty()) {
    return lookup.getSession();
  }
  const size_t at = kRootTokens / std::max<uint32_t>(1, lookup.getBlockTokens());
  return keys[std::min(at, keys.size() - 1)];
}

bool in_sample(uint64_t root, uint32_t one_in) {
  return one_in <= 1 || splitmix64(root) % one_in == 0;
}

}  // namespace

Understudies::Understudies(UnderstudiesConfig config, const policy::Registry& registry)
    : config_(config), registry_(&registry), numbers_(config.least_keys) {}

void Understudies::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::LOOKUP:
      on_lookup(in.message.getLookup(), cx);
      break;
    case Kind::SHADOW:
      on_shadow(in.message.getShadow(), cx);
      break;
    case Kind::PROMOTE:
      on_promote(in.message.getPromote(), cx);
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
  }
}

void Understudies::on_lookup(wire::Lookup::Reader lookup, StepContext& cx) {
  if (lookup.getSkipped() != 0) {
    for (auto& [name, one] : all_) {
      one.complete = false;
    }
  }
  ids_.clear();
  keys_.clear();
  for (const uint64_t key : span_of<uint64_t>(lookup.getKeys())) {
    ids_.push_back(numbers_.index_of(key));
    keys_.push_back(numbers_.number(ids_.back()));
  }
  policy::GhostLookup request{ids_, keys_, lookups_++,
                              lookup.getSession() != 0 ? lookup.getSession() : kNoSession,
                              lookup.getBlockTokens()};
  const uint64_t root = root_of(lookup);
  for (auto& [name, one] : all_) {
    if (in_sample(root, one.one_in)) {
      one.ghost->grow(numbers_.size());
      one.ghost->lookup(request);
      ++one.lookups;
    }
  }
  if (numbers_.full()) {
    numbers_.forget([&](uint32_t id) {
      return std::any_of(all_.begin(), all_.end(),
                         [&](const auto& row) { return row.second.ghost->resident(id); });
    });
  }
  if (++unread_ >= config_.ack_every) {
    cx.out.send(Kind::LOOKUPS_SEEN, 0,
                [&](wire::Message::Builder m) { m.initLookupsSeen().setCount(unread_); });
    unread_ = 0;
  }
}

void Understudies::on_shadow(wire::Shadow::Reader shadow, StepContext& cx) {
  const std::string name = shadow.getName().cStr();
  Status status = Status::ok();
  if (!shadow.getRemove()) {
    status = add(name, shadow);
    if (status.is_ok() && all_.size() == 1) {
      watch(true, cx);
    }
  } else if (all_.erase(name) == 0) {
    status = Status(Code::kNotFound, "no understudy \"" + name + "\"");
  } else if (all_.empty()) {
    watch(false, cx);
  }
  set_limit();
  answer(shadow.getControl(), status, cx);
}

Status Understudies::add(const std::string& name, wire::Shadow::Reader shadow) {
  if (name.empty() || all_.contains(name)) {
    return Status(Code::kInvalidArgument,
                  "understudy \"" + name + "\": a name that is not there yet is wanted");
  }
  if (all_.size() >= config_.max_understudies) {
    return Status(Code::kNoCapacity, std::to_string(all_.size()) +
                                         " understudies watch, the limit is " +
                                         std::to_string(config_.max_understudies));
  }
  One one;
  one.policy = shadow.getPolicy().cStr();
  one.params = shadow.getParams().cStr();
  one.blocks = shadow.getBlocks() != 0 ? shadow.getBlocks() : config_.device_blocks;
  one.one_in = std::max<uint32_t>(1, shadow.getOneIn());
  if (one.blocks > config_.max_blocks || one.blocks < one.one_in) {
    return Status(Code::kOutOfRange, "understudy \"" + name + "\": " + std::to_string(one.blocks) +
                                         " blocks; the limits are one-in, " +
                                         std::to_string(one.one_in) + ", and " +
                                         std::to_string(config_.max_blocks));
  }
  auto ghost = make_ghost(one);
  if (!ghost) {
    return ghost.status();
  }
  one.ghost = std::move(*ghost);
  all_.emplace(name, std::move(one));
  return Status::ok();
}

Expected<std::unique_ptr<policy::Ghost>> Understudies::make_ghost(const One& one) const {
  return registry_->make_ghost(one.policy, static_cast<uint32_t>(one.blocks / one.one_in),
                               config_.seed, one.params);
}

void Understudies::set_limit() {
  uint64_t largest = 0;
  for (const auto& [name, one] : all_) {
    largest = std::max(largest, one.blocks);
  }
  numbers_.set_limit(static_cast<uint32_t>(
      std::clamp<uint64_t>(largest * config_.keys_per_block, config_.least_keys, 1U << 31)));
}

void Understudies::watch(bool on, StepContext& cx) const {
  cx.out.send(Kind::WATCH, 0, [&](wire::Message::Builder m) { m.initWatch().setOn(on); });
}

void Understudies::on_promote(wire::Promote::Reader promote, StepContext& cx) {
  const auto found = all_.find(promote.getName().cStr());
  if (found == all_.end()) {
    answer(
        promote.getControl(),
        Status(Code::kNotFound, "no understudy \"" + std::string(promote.getName().cStr()) + "\""),
        cx);
    return;
  }
  const One& one = found->second;
  cx.out.send(Kind::SWAP_POLICY, 16 + (one.policy.size() + one.params.size()) / 8,
              [&](wire::Message::Builder m) {
                auto swap = m.initSwapPolicy();
                swap.setControl(promote.getControl());
                swap.setSlot(promote.getSlot());
                swap.setName(one.policy);
                swap.setParams(one.params);
              });
}

void Understudies::answer(uint64_t control, const Status& status, StepContext& cx) const {
  cx.out.send(Kind::ANSWER, 16 + status.text().size() / 8, [&](wire::Message::Builder m) {
    auto out = m.initAnswer();
    out.setControl(control);
    out.setStatus(static_cast<uint16_t>(status.code()));
    out.setText(status.text());
  });
}

void Understudies::answer_status(uint64_t control, StepContext& cx) const {
  std::vector<std::pair<std::string, uint64_t>> gauges;
  for (const auto& [name, one] : all_) {
    const std::string prefix = "understudy." + name + ".";
    const bool right = one.ghost->status().is_ok();
    gauges.emplace_back(
        prefix + "policy=" + one.policy + (one.params.empty() ? "" : ":") + one.params, 1);
    gauges.emplace_back(prefix + "blocks", one.blocks);
    gauges.emplace_back(prefix + "one_in", one.one_in);
    gauges.emplace_back(prefix + "lookups", one.lookups);
    gauges.emplace_back(prefix + "complete", one.complete ? 1 : 0);
    gauges.emplace_back(prefix + "failed", right ? 0 : 1);
    if (one.complete && right) {  // otherwise there is no figure to give
      gauges.emplace_back(prefix + "accesses", one.ghost->counts().accesses);
      gauges.emplace_back(prefix + "hits", one.ghost->counts().hits);
      gauges.emplace_back(prefix + "evictions", one.ghost->counts().evictions);
    }
  }
  gauges.emplace_back("understudies.lookups", lookups_);
  gauges.emplace_back("understudies.keys_forgotten", numbers_.forgotten());
  send_gauges(cx, control, gauges);
}

Digest Understudies::digest() const noexcept {
  Digest d;
  for (const auto& [name, one] : all_) {
    d.add(one.blocks).add(one.one_in).add(one.lookups).add(one.complete ? 1 : 0);
    d.add(one.ghost->digest());
  }
  return d.add(lookups_).add(numbers_.forgotten());
}

Status Understudies::check() const {
  return unexpected_.count == 0 ? Status::ok()
                                : Status(Code::kInternal, "understudies: unexpected messages " +
                                                              std::to_string(unexpected_.count));
}

Status Understudies::save(StateSink& sink) const {
  sink.u32(1);
  sink.u64(lookups_);
  sink.u32(unread_);
  numbers_.save(sink);
  sink.u64(all_.size());
  for (const auto& [name, one] : all_) {
    sink.text(name);
    sink.text(one.policy);
    sink.text(one.params);
    sink.u64(one.blocks);
    sink.u32(one.one_in);
    sink.u64(one.lookups);
    sink.u32(one.complete ? 1 : 0);
    TROUPE_TRY(one.ghost->save(sink));
  }
  return Status::ok();
}

Status Understudies::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "understudies: state schema " + std::to_string(schema) + ", not 1");
  }
  lookups_ = source.u64();
  unread_ = source.u32();
  TROUPE_TRY(numbers_.load(source));
  all_.clear();
  const uint64_t rows = source.u64();
  for (uint64_t i = 0; i < rows; ++i) {
    const std::string name = source.text();
    One one;
    one.policy = source.text();
    one.params = source.text();
    one.blocks = source.u64();
    one.one_in = source.u32();
    one.lookups = source.u64();
    one.complete = source.u32() != 0;
    TROUPE_TRY(source.status());
    if (one.one_in == 0 || one.blocks < one.one_in || one.blocks > config_.max_blocks) {
      return Status(Code::kCorrupt,
                    "understudy \"" + name + "\" of " + std::to_string(one.blocks) + " blocks");
    }
    auto ghost = make_ghost(one);
    if (!ghost) {
      return ghost.status();
    }
    TROUPE_TRY((*ghost)->load(source));
    one.ghost = std::move(*ghost);
    all_.emplace(name, std::move(one));
  }
  set_limit();
  return Status::ok();
}

}  // namespace troupe
