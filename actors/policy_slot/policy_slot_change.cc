// From one policy to another: swap, rollback, and what a slot does by itself about a policy that
// fails.
#include "actors/policy_slot/policy_slot.h"
#include "runtime/core/gauges.h"

namespace troupe {

Status PolicySlot::may_change(uint64_t generation) const {
  if (generation != 0 && generation != generation_) {
    return Status(Code::kFailedPrecondition, "policy generation is " + std::to_string(generation_) +
                                                 ", not " + std::to_string(generation));
  }
  if (take_over_.under_way()) {
    return Status(Code::kFailedPrecondition,
                  "the change to " + coming_.name + " is under way: ask again when it is done");
  }
  return Status::ok();
}

void PolicySlot::on_swap(wire::SwapPolicy::Reader swap, StepContext& cx) {
  Status status = may_change(swap.getGeneration());
  if (status.is_ok()) {
    status = begin_change({swap.getName().cStr(), swap.getParams().cStr(), nullptr},
                          swap.getControl(), Cause::SWAP, "", cx);
  }
  if (!status.is_ok()) {
    answer(swap.getControl(), status, cx);
  }
}

void PolicySlot::on_rollback(wire::Rollback::Reader rollback, StepContext& cx) {
  Status status = may_change(0);
  if (status.is_ok()) {
    status = begin_change(take_before(), rollback.getControl(), Cause::ROLLBACK, "", cx);
  }
  if (!status.is_ok()) {
    answer(rollback.getControl(), status, cx);
  }
}

/// A policy that comes with an instance has followed all events and decides at once.
Status PolicySlot::begin_change(Hosted next, uint64_t control, Cause cause, std::string why,
                                StepContext& cx) {
  const bool follows = next.policy != nullptr;
  if (!follows) {
    auto made = registry_->make_eviction(next.name, config_.capacity, config_.seed, next.params);
    if (!made) {
      return made.status();
    }
    next.policy = std::move(*made);
  }
  const bool ready = follows || carry_state(next);
  coming_ = {next.name, next.params, nullptr};
  change_control_ = control;
  change_cause_ = cause;
  change_why_ = std::move(why);
  if (ready) {
    commit(std::move(next.policy), cx);
    return Status::ok();
  }
  take_over_.begin(std::move(next.policy), ordinal_, mirror_);
  ask_for_range(cx);
  return Status::ok();
}

/// The same policy again, with other parameters or rebuilt: its own state says more than the blocks
/// do. Only where it moves within one message.
bool PolicySlot::carry_state(Hosted& next) {
  if (config_.capacity > config_.whole_blocks || next.policy->name() != live_.policy->name()) {
    return false;
  }
  StateSink sink;
  if (!live_.policy->save(sink).is_ok()) {
    return false;
  }
  StateSource source(sink.data());
  if (next.policy->load(source).is_ok()) {
    return true;
  }
  // A half-loaded instance is worth nothing.
  auto again = registry_->make_eviction(next.name, config_.capacity, config_.seed, next.params);
  TROUPE_ASSERT(again.is_ok());
  next.policy = std::move(*again);
  return false;
}

void PolicySlot::ask_for_range(StepContext& cx) const {
  cx.out.send(Kind::TAKE_OVER, 0,
              [&](wire::Message::Builder m) { m.initTakeOver().setGeneration(generation_); });
}

void PolicySlot::on_take_over(wire::TakeOver::Reader range, StepContext& cx) {
  if (!take_over_.under_way() || range.getGeneration() != generation_) {
    unexpected_.note(Kind::TAKE_OVER);
    return;
  }
  if (take_over_.advance(config_.range_blocks, mirror_)) {
    commit(take_over_.finish(), cx);
  } else {
    ask_for_range(cx);
  }
}

void PolicySlot::commit(std::unique_ptr<policy::EvictionPolicy> policy, StepContext& cx) {
  const std::string from = live_.name;
  // Whoever was found wanting is remembered by name alone.
  put_before(std::move(live_), change_cause_ == Cause::SWAP && config_.probation != 0);
  live_ = {coming_.name, coming_.params, std::move(policy)};
  ++generation_;
  strikes_ = 0;
  answers_ = 0;
  const size_t text = from.size() + live_.name.size() + live_.params.size() + change_why_.size();
  cx.out.send(Kind::POLICY_CHANGED, 16 + text / 8, [&](wire::Message::Builder m) {
    auto changed = m.initPolicyChanged();
    changed.setSlot(config_.slot);
    changed.setFrom(from);
    changed.setTo(live_.name);
    changed.setParams(live_.params);
    changed.setGeneration(generation_);
    changed.setResident(mirror_.resident());
    changed.setCause(change_cause_);
    changed.setWhy(change_why_);
    changed.setDecided(decided_);
  });
  decided_ = 0;
  if (change_control_ != 0) {
    answer(change_control_, Status::ok(), cx);
  }
}

PolicySlot::Hosted PolicySlot::take_before() {
  probation_left_ = 0;
  return {before_.name, before_.params, std::move(before_.policy)};
}

void PolicySlot::put_before(Hosted&& hosted, bool follows) {
  if (before_.policy != nullptr) {
    registry_->retire(std::move(before_.policy));
  }
  before_ = std::move(hosted);
  if (!follows) {
    registry_->retire(std::move(before_.policy));
  }
  probation_left_ = follows ? config_.probation : 0;
}

/// Counts an answer; too many wrong ones, and the policy has to go: in its probation to the one
/// before it, later to the built-in.
void PolicySlot::strike(bool wrong, StepContext& cx) {
  strikes_ += wrong ? 1 : 0;
  ++answers_;
  const bool failing = strikes_ >= config_.strikes;
  if (failing && !take_over_.under_way() && live_.name != "lru") {
    const std::string why = std::to_string(strikes_) + " of " + std::to_string(answers_) +
                            " answers were wrong or too short";
    Hosted next = before_.policy != nullptr ? take_before() : Hosted{"lru", "", nullptr};
    const Status begun = begin_change(std::move(next), 0, Cause::FAILING, why, cx);
    TROUPE_ASSERT(begun.is_ok());  // both were made before
  }
  if (failing || answers_ >= config_.strike_window) {
    strikes_ = 0;
    answers_ = 0;
  }
}

void PolicySlot::answer(uint64_t control, const Status& status, StepContext& cx) const {
  const std::string text = status.is_ok() ? live_.name : status.text();
  cx.out.send(Kind::ANSWER, 64 + text.size() / 8, [&](wire::Message::Builder m) {
    auto out = m.initAnswer();
    out.setControl(control);
    out.setStatus(static_cast<uint16_t>(status.code()));
    out.setText(text);
    auto gauges = out.initGauges(2);
    gauges[0].setName("generation");
    gauges[0].setValue(static_cast<int64_t>(generation_));
    gauges[1].setName("resident");
    gauges[1].setValue(static_cast<int64_t>(mirror_.resident()));
  });
}

void PolicySlot::answer_status(uint64_t control, StepContext& cx) const {
  static constexpr const char* kTiers[] = {"device", "host", "disk"};
  const std::string prefix = std::string("policy_slot.") + kTiers[config_.slot % 3] + ".";
  const std::pair<std::string, uint64_t> gauges[] = {
      {prefix + "generation", generation_},
      {prefix + "live=" + live_.name, 1},
      {prefix + "before=" + before_.name, before_.policy != nullptr ? 1 : 0},
      {prefix + "changing", take_over_.under_way() ? 1 : 0},
      {prefix + "probation_left", probation_left_},
      {prefix + "resident", mirror_.resident()},
      {prefix + "asked", asked_},
      {prefix + "rejected", rejected_},
      {prefix + "filled", filled_}};
  send_gauges(cx, control, gauges);
}

}  // namespace troupe
