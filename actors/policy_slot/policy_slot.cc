#include "actors/policy_slot/policy_slot.h"

#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {

PolicySlot::PolicySlot(PolicySlotConfig config, const policy::Registry& registry)
    : config_(std::move(config)),
      registry_(&registry),
      mirror_(config_.capacity),
      take_over_(config_.capacity),
      named_(config_.capacity, 0),
      gone_children_(config_.capacity, 0) {
  auto made =
      registry_->make_eviction(config_.policy, config_.capacity, config_.seed, config_.params);
  TROUPE_ASSERT(made.is_ok());
  live_ = {config_.policy, config_.params, std::move(*made)};
  before_ = {"lru", "", nullptr};
}

PolicySlot::~PolicySlot() = default;

void PolicySlot::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::EVENTS:
      on_events(in.message.getEvents());
      break;
    case Kind::ASK:
      on_ask(in.message.getAsk(), cx);
      break;
    case Kind::SWAP_POLICY:
      on_swap(in.message.getSwapPolicy(), cx);
      break;
    case Kind::TAKE_OVER:
      on_take_over(in.message.getTakeOver(), cx);
      break;
    case Kind::ROLLBACK:
      on_rollback(in.message.getRollback(), cx);
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
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
  ordinal_ = std::max(ordinal_, events.request);
  mirror_.apply(events);
  live_.policy->on_events(events);
  if (take_over_.under_way()) {
    take_over_.follow(events);
  }
  if (before_.policy != nullptr) {
    before_.policy->on_events(events);
    if (--probation_left_ == 0) {
      registry_->retire(std::move(before_.policy));
    }
  }
}

/// Marks `block` as named in this answer, if it may go after those named before.
bool PolicySlot::name_victim(uint32_t block) {
  const bool allowed = mirror_.known(block) && mirror_.is_resident(block) && named_[block] == 0 &&
                       mirror_.uses(block) == 0 && mirror_.children(block) == gone_children_[block];
  if (allowed) {
    named_[block] = 1;
    if (mirror_.known(mirror_.parent(block))) {
      ++gone_children_[mirror_.parent(block)];
    }
  }
  return allowed;
}

uint32_t PolicySlot::validate(std::vector<uint32_t>& answer, std::vector<int64_t>& scores,
                              size_t limit) {
  const bool scored = scores.size() == answer.size();
  size_t kept = 0;
  for (size_t i = 0; i < answer.size() && kept < limit; ++i) {
    if (!name_victim(answer[i])) {
      continue;
    }
    if (scored) {
      scores[kept] = scores[i];
    }
    answer[kept++] = answer[i];
  }
  const auto dropped = static_cast<uint32_t>(answer.size() - kept);
  answer.resize(kept);
  scores.resize(scored ? kept : 0);
  return dropped;
}

void PolicySlot::fill(std::vector<uint32_t>& answer, size_t wanted) {
  // A parent that stands before its last child in the list is met in the next round.
  for (size_t before = answer.size() + 1; answer.size() != before && answer.size() < wanted;) {
    before = answer.size();
    for (uint32_t block = mirror_.oldest(); block != BlockMirror::kNone && answer.size() < wanted;
         block = mirror_.newer_than(block)) {
      if (name_victim(block)) {
        answer.push_back(block);
        ++filled_;
      }
    }
  }
}

void PolicySlot::on_ask(wire::Ask::Reader ask, StepContext& cx) {
  ++asked_;
  std::vector<uint32_t> answer;
  std::vector<int64_t> scores;
  const uint32_t wanted = ask.getBlocks();
  answer.reserve(wanted);
  live_.policy->victims(wanted, mirror_.view(), answer, scores);
  const size_t limit = live_.policy->may_over_evict() ? mirror_.idle() : wanted;
  const uint32_t dropped = validate(answer, scores, limit);
  rejected_ += dropped;
  decided_ += answer.size();
  const size_t owed = std::min<uint64_t>(wanted, mirror_.idle());
  const bool is_short = answer.size() < owed;
  if (is_short) {
    scores.clear();
    fill(answer, owed);
  }
  for (const uint32_t block : answer) {
    named_[block] = 0;
    if (mirror_.known(mirror_.parent(block))) {
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
  strike(dropped != 0 || is_short, cx);
}

Digest PolicySlot::digest() const noexcept {
  return Digest()
      .add(mirror_.digest())
      .add(live_.policy->digest())
      .add(generation_)
      .add(asked_)
      .add(probation_left_)
      .add(take_over_.under_way() ? 1 : 0)
      .add(strikes_);
}

Status PolicySlot::check() const {
  if (unexpected_.count != 0) {
    return Status(Code::kInternal,
                  "policy_slot: unexpected messages " + std::to_string(unexpected_.count));
  }
  if ((before_.policy != nullptr) != (probation_left_ != 0)) {
    return Status(Code::kInternal, "policy_slot: a probation of " +
                                       std::to_string(probation_left_) +
                                       " batches and no policy before, or the other way round");
  }
  return mirror_.check();
}

Status PolicySlot::save(StateSink& sink) const {
  if (take_over_.under_way()) {
    return Status(Code::kFailedPrecondition,
                  "policy_slot: the change to " + coming_.name + " is under way");
  }
  sink.u32(2);
  for (const Hosted* hosted : {&live_, &before_}) {
    sink.text(hosted->name);
    sink.text(hosted->params);
  }
  for (const uint64_t n :
       {generation_, asked_, ordinal_, decided_, rejected_, filled_, probation_left_}) {
    sink.u64(n);
  }
  sink.u32(strikes_);
  sink.u32(answers_);
  TROUPE_TRY(mirror_.save(sink));
  TROUPE_TRY(live_.policy->save(sink));
  return before_.policy != nullptr ? before_.policy->save(sink) : Status::ok();
}

Status PolicySlot::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 2) {
    return Status(Code::kUnsupported,
                  "policy_slot: state schema " + std::to_string(schema) + ", not 2");
  }
  for (Hosted* hosted : {&live_, &before_}) {
    hosted->name = source.text();
    hosted->params = source.text();
    hosted->policy = nullptr;
  }
  for (uint64_t* n :
       {&generation_, &asked_, &ordinal_, &decided_, &rejected_, &filled_, &probation_left_}) {
    *n = source.u64();
  }
  strikes_ = source.u32();
  answers_ = source.u32();
  TROUPE_TRY(mirror_.load(source));
  for (Hosted* hosted : {&live_, &before_}) {
    if (hosted == &before_ && probation_left_ == 0) {
      break;
    }
    auto made =
        registry_->make_eviction(hosted->name, config_.capacity, config_.seed, hosted->params);
    if (!made) {
      return made.status();
    }
    TROUPE_TRY((*made)->load(source));
    hosted->policy = std::move(*made);
  }
  return Status::ok();
}

}  // namespace troupe
