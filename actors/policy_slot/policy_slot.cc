#include "actors/policy_slot/policy_slot.h"

#include <algorithm>

#include "runtime/core/wire.h"

namespace troupe {

PolicySlot::PolicySlot(PolicySlotConfig config, const policy::Registry& registry)
    : config_(std::move(config)), registry_(&registry), mirror_(config_.capacity),
      named_(config_.capacity, 0), gone_children_(config_.capacity, 0) {
  auto made = registry_->make_eviction(config_.policy, config_.capacity, config_.seed,
                                       config_.params);
  TROUPE_ASSERT(made.is_ok());
  live_ = std::move(*made);
}

void PolicySlot::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::EVENTS: on_events(in.message.getEvents()); break;
    case Kind::ASK: on_ask(in.message.getAsk(), cx); break;
    case Kind::SWAP_POLICY: on_swap(in.message.getSwapPolicy(), cx); break;
    default: unexpected_.note(in.message.which());
  }
}

void PolicySlot::on_events(wire::EventBatch::Reader events) {
  for (const auto batch : events.getBatches()) {
    const auto kind = static_cast<uint8_t>(batch.getKind());
    if (kind == 0 || kind > static_cast<uint8_t>(policy::Event::kSupersede)) {
      unexpected_.note(Kind::EVENTS);
      continue;
    }
    policy::Events e;
    e.kind = static_cast<policy::Event>(kind);
    e.request = batch.getRequest();
    e.session = batch.getSession();
    e.tenant = batch.getTenant();
    e.bytes = batch.getBytes();
    e.hints = batch.getHints();
    e.at = Tick{batch.getAt()};
    e.blocks = span_of<uint32_t>(batch.getBlocks());
    e.parents = span_of<uint32_t>(batch.getParents());
    e.depths = span_of<uint32_t>(batch.getDepths());
    e.tokens = span_of<uint32_t>(batch.getTokens());
    e.keys = span_of<uint64_t>(batch.getKeys());
    deliver(e);
    if (config_.touch_only && e.kind == policy::Event::kHit) {
      const std::vector<uint32_t> deepest_first(e.blocks.rbegin(), e.blocks.rend());
      e.kind = policy::Event::kRelease;
      e.blocks = deepest_first;
      deliver(e);
    }
  }
}

void PolicySlot::deliver(const policy::Events& events) {
  mirror_.apply(events);
  live_->on_events(events);
}

uint32_t PolicySlot::validate(std::vector<uint32_t>& answer, std::vector<int64_t>& scores,
                              size_t limit) {
  const bool scored = scores.size() == answer.size();
  size_t kept = 0;
  for (size_t i = 0; i < answer.size() && kept < limit; ++i) {
    const uint32_t block = answer[i];
    const bool allowed = mirror_.known(block) && mirror_.is_resident(block) &&
                         named_[block] == 0 && mirror_.uses(block) == 0 &&
                         mirror_.children(block) == gone_children_[block];
    if (!allowed) {
      continue;
    }
    named_[block] = 1;
    if (mirror_.parent(block) != BlockMirror::kNone) {
      ++gone_children_[mirror_.parent(block)];
    }
    if (scored) {
      scores[kept] = scores[i];
    }
    answer[kept++] = block;
  }
  const auto dropped = static_cast<uint32_t>(answer.size() - kept);
  answer.resize(kept);
  scores.resize(scored ? kept : 0);
  return dropped;
}

void PolicySlot::fill(std::vector<uint32_t>& answer, size_t wanted) {
  for (const uint32_t block : mirror_.by_recency()) {
    if (answer.size() >= wanted) {
      return;
    }
    if (named_[block] == 0 && mirror_.uses(block) == 0 &&
        mirror_.children(block) == gone_children_[block]) {
      named_[block] = 1;
      if (mirror_.parent(block) != BlockMirror::kNone) {
        ++gone_children_[mirror_.parent(block)];
      }
      answer.push_back(block);
      ++filled_;
    }
  }
}

void PolicySlot::on_ask(wire::Ask::Reader ask, StepContext& cx) {
  ++asked_;
  std::vector<uint32_t> answer;
  std::vector<int64_t> scores;
  const uint32_t wanted = ask.getBlocks();
  answer.reserve(wanted);
  live_->victims(wanted, mirror_.view(), answer, scores);
  const size_t limit = live_->may_over_evict() ? mirror_.idle() : wanted;
  const uint32_t dropped = validate(answer, scores, limit);
  rejected_ += dropped;
  const size_t owed = std::min<uint64_t>(wanted, mirror_.idle());
  if (answer.size() < owed) {
    scores.clear();
    fill(answer, owed);
  }
  for (const uint32_t block : answer) {
    named_[block] = 0;
    if (mirror_.parent(block) != BlockMirror::kNone) {
      gone_children_[mirror_.parent(block)] = 0;
    }
  }
  cx.out.send(Kind::VICTIMS, data_words(answer.size() * 4) + data_words(scores.size() * 8),
              [&](wire::Message::Builder m) {
                auto victims = m.initVictims();
                victims.setTier(ask.getTier());
                victims.setQuestion(ask.getQuestion());
                victims.setVictims(data_of(answer));
                victims.setScores(data_of(scores));
                victims.setRejected(dropped);
              });
}

Status PolicySlot::swap_to(std::string_view name, std::string_view params) {
  auto made = registry_->make_eviction(name, config_.capacity, config_.seed, params);
  if (!made) {
    return made.status();
  }
  bool carried = false;
  if ((*made)->name() == live_->name()) {
    StateSink sink;
    TROUPE_TRY(live_->save(sink));
    StateSource source(sink.data());
    carried = (*made)->load(source).is_ok();
    if (!carried) {  // a half-loaded instance is worth nothing
      made = registry_->make_eviction(name, config_.capacity, config_.seed, params);
    }
  }
  if (!carried) {
    rebuild(**made);
  }
  live_ = std::move(*made);
  config_.policy = std::string(name);
  config_.params = std::string(params);
  ++generation_;
  return Status::ok();
}

void PolicySlot::rebuild(policy::EvictionPolicy& next) const {
  // Parents before children at insert; then the order of last use, so that recency is carried over.
  std::vector<uint32_t> blocks = mirror_.by_recency();
  std::vector<uint32_t> inserts = blocks;
  std::stable_sort(inserts.begin(), inserts.end(), [&](uint32_t a, uint32_t b) {
    return mirror_.depth(a) < mirror_.depth(b);
  });
  for (const uint32_t block : inserts) {
    const uint32_t parent = mirror_.parent(block);
    const uint32_t depth = mirror_.depth(block);
    policy::Events e;
    e.kind = policy::Event::kInsert;
    e.blocks = {&block, 1};
    e.parents = {&parent, 1};
    e.depths = {&depth, 1};
    next.on_events(e);
  }
  for (const uint32_t block : blocks) {
    policy::Events e;
    e.blocks = {&block, 1};
    e.kind = mirror_.uses(block) == 0 ? policy::Event::kRelease : policy::Event::kHit;
    // An insert counts as one use; further users are hits of their own.
    for (uint32_t i = 1; i < std::max(2U, mirror_.uses(block)); ++i) {
      next.on_events(e);
    }
  }
}

void PolicySlot::on_swap(wire::SwapPolicy::Reader swap, StepContext& cx) {
  Status status = Status::ok();
  if (swap.getGeneration() != 0 && swap.getGeneration() != generation_) {
    status = Status(Code::kFailedPrecondition,
                    "policy generation is " + std::to_string(generation_) + ", not " +
                        std::to_string(swap.getGeneration()));
  } else {
    status = swap_to(swap.getName().cStr(), swap.getParams().cStr());
  }
  cx.out.send(Kind::ANSWER, 64 + status.text().size() / 8, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(swap.getControl());
    answer.setStatus(static_cast<uint16_t>(status.code()));
    answer.setText(status.is_ok() ? config_.policy : status.text());
    auto gauges = answer.initGauges(2);
    gauges[0].setName("generation");
    gauges[0].setValue(static_cast<int64_t>(generation_));
    gauges[1].setName("resident");
    gauges[1].setValue(static_cast<int64_t>(mirror_.resident()));
  });
}

Digest PolicySlot::digest() const noexcept {
  return Digest().add(mirror_.digest()).add(live_->digest()).add(generation_).add(asked_);
}

Status PolicySlot::check() const {
  if (unexpected_.count != 0) {
    return Status(Code::kInternal, "policy_slot: unexpected messages " +
                                       std::to_string(unexpected_.count));
  }
  const policy::HostView view = mirror_.view();
  uint64_t children = 0;
  uint64_t with_parent = 0;
  for (uint32_t block = 0; block < mirror_.capacity(); ++block) {
    children += view.children[block];
    with_parent += view.resident[block] != 0 && view.parents[block] != BlockMirror::kNone ? 1 : 0;
  }
  return children == with_parent
             ? Status::ok()
             : Status(Code::kInternal, "policy_slot: " + std::to_string(children) +
                                           " children counted, " + std::to_string(with_parent) +
                                           " blocks have a parent");
}

Status PolicySlot::save(StateSink& sink) const {
  sink.u32(1);
  sink.text(config_.policy);
  sink.text(config_.params);
  sink.u64(generation_);
  sink.u64(asked_);
  TROUPE_TRY(mirror_.save(sink));
  return live_->save(sink);
}

Status PolicySlot::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "policy_slot: state schema " + std::to_string(schema) + ", not 1");
  }
  config_.policy = source.text();
  config_.params = source.text();
  generation_ = source.u64();
  asked_ = source.u64();
  TROUPE_TRY(mirror_.load(source));
  auto made =
      registry_->make_eviction(config_.policy, config_.capacity, config_.seed, config_.params);
  if (!made) {
    return made.status();
  }
  live_ = std::move(*made);
  return live_->load(source);
}

}  // namespace troupe
