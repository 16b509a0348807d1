#include "actors/director/director.h"

namespace troupe {

void Director::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::CONTROL:
      on_control(in.message.getControl(), cx);
      break;
    case Kind::ANSWER:
      on_answer(in.message.getAnswer(), cx);
      break;
    case Kind::POLICY_CHANGED:
      cx.out.send(
          Kind::POLICY_CHANGED, in.message.totalSize().wordCount,
          [&](wire::Message::Builder m) { m.setPolicyChanged(in.message.getPolicyChanged()); });
      break;
    default:
      unexpected_.note(in.message.which());
  }
}

void Director::refuse(uint64_t control, Code code, const std::string& text, StepContext& cx) {
  cx.out.send(Kind::ANSWER, 16 + text.size() / 8, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(control);
    answer.setStatus(static_cast<uint16_t>(code));
    answer.setText(text);
  });
}

uint32_t Director::ask_status(uint64_t control, const std::vector<uint16_t>& actors,
                              StepContext& cx) {
  for (const uint16_t instance : actors) {
    cx.out.send(
        Kind::STATUS_ASK, 0,
        [&](wire::Message::Builder m) { m.initStatusAsk().setControl(control); }, instance);
  }
  return static_cast<uint32_t>(actors.size());
}

bool Director::slot_exists(uint64_t control, uint16_t slot, StepContext& cx) {
  if (slot < config_.policy_slots) {
    return true;
  }
  refuse(
      control, Code::kOutOfRange,
      "policy slot " + std::to_string(slot) + ", there are " + std::to_string(config_.policy_slots),
      cx);
  return false;
}

/// A command about policies goes to whom it concerns. False: it was refused.
bool Director::pass_on(wire::Control::Reader control, StepContext& cx) {
  const uint64_t id = control.getControl();
  const size_t words = control.totalSize().wordCount;
  switch (control.which()) {
    case wire::Control::SWAP_POLICY: {
      const auto request = control.getSwapPolicy();
      if (!slot_exists(id, request.getSlot(), cx)) {
        return false;
      }
      cx.out.send(Kind::SWAP_POLICY, words, [&](wire::Message::Builder m) {
        m.setSwapPolicy(request.getSwap());
        m.getSwapPolicy().setControl(id);
        m.getSwapPolicy().setSlot(request.getSlot());
      });
      return true;
    }
    case wire::Control::ROLLBACK: {
      const auto fill = [&](wire::Message::Builder m) {
        m.setRollback(control.getRollback());
        m.getRollback().setControl(id);
      };
      const uint16_t slot = control.getRollback().getSlot();
      if (!slot_exists(id, slot, cx)) {
        return false;
      }
      cx.out.send(Kind::ROLLBACK, words, fill, slot);
      return true;
    }
    case wire::Control::SHADOW:
      cx.out.send(Kind::SHADOW, words, [&](wire::Message::Builder m) {
        m.setShadow(control.getShadow());
        m.getShadow().setControl(id);
      });
      return true;
    default:  // promote
      if (!slot_exists(id, control.getPromote().getSlot(), cx)) {
        return false;
      }
      cx.out.send(Kind::PROMOTE, words, [&](wire::Message::Builder m) {
        m.setPromote(control.getPromote());
        m.getPromote().setControl(id);
      });
      return true;
  }
}

void Director::on_control(wire::Control::Reader control, StepContext& cx) {
  const uint64_t id = control.getControl();
  if (control.getVersion() != 1) {
    refuse(id, Code::kUnsupported,
           "control version " + std::to_string(control.getVersion()) + ", this build knows 1", cx);
    return;
  }
  if (id == 0 || open_.contains(id)) {
    refuse(id, Code::kInvalidArgument,
           "control number " + std::to_string(id) + " is 0 or still open", cx);
    return;
  }
  if (open_.size() >= config_.max_open) {
    refuse(id, Code::kNoCapacity,
           std::to_string(open_.size()) + " commands are open, the limit is " +
               std::to_string(config_.max_open),
           cx);
    return;
  }
  Open open{1, {}};
  switch (control.which()) {
    case wire::Control::STATUS:
      open.missing = ask_status(id, config_.answering, cx);
      break;
    case wire::Control::PURGE:
      cx.out.send(Kind::PURGE, control.totalSize().wordCount, [&](wire::Message::Builder m) {
        m.setPurge(control.getPurge());
        m.getPurge().setControl(id);
      });
      break;
    case wire::Control::POLICIES:
      open.missing = ask_status(id, config_.answering_policies, cx);
      break;
    case wire::Control::SWAP_POLICY:
    case wire::Control::ROLLBACK:
    case wire::Control::SHADOW:
    case wire::Control::PROMOTE:
      if (!pass_on(control, cx)) {
        return;
      }
      break;
    case wire::Control::DRAIN:
      cx.out.send(Kind::DRAIN, 0, [&](wire::Message::Builder m) { m.initDrain().setControl(id); });
      break;
    default:
      refuse(id, Code::kUnsupported,
             "command " + std::to_string(static_cast<unsigned>(control.which())) +
                 " is not known to this build",
             cx);
      return;
  }
  ++accepted_;
  open_.emplace(id, std::move(open));
}

void Director::on_answer(wire::Answer::Reader answer, StepContext& cx) {
  const auto found = open_.find(answer.getControl());
  if (found == open_.end()) {
    ++stray_;
    return;
  }
  Open& open = found->second;
  for (const auto gauge : answer.getGauges()) {
    open.gauges[gauge.getName().cStr()] = gauge.getValue();
  }
  if (--open.missing > 0) {
    return;
  }
  const size_t words = answer.totalSize().wordCount + open.gauges.size() * 12;
  cx.out.send(Kind::ANSWER, words, [&](wire::Message::Builder m) {
    auto out = m.initAnswer();
    out.setControl(answer.getControl());
    out.setStatus(answer.getStatus());
    out.setText(answer.getText());
    auto list = out.initGauges(static_cast<unsigned>(open.gauges.size()));
    unsigned i = 0;
    for (const auto& [name, value] : open.gauges) {
      list[i].setName(name);
      list[i].setValue(value);
      ++i;
    }
  });
  open_.erase(found);
  ++answered_;
}

Digest Director::digest() const noexcept {
  Digest d;
  for (const auto& [id, open] : open_) {
    d.add(id).add(open.missing);
  }
  return d.add(accepted_).add(answered_);
}

Status Director::check() const {
  if (accepted_ != answered_ + open_.size()) {
    return Status(Code::kInternal, "director: accepted " + std::to_string(accepted_) +
                                       " is not answered " + std::to_string(answered_) +
                                       " + open " + std::to_string(open_.size()));
  }
  return unexpected_.count + stray_ == 0
             ? Status::ok()
             : Status(Code::kInternal, "director: unexpected messages " +
                                           std::to_string(unexpected_.count + stray_));
}

Status Director::save(StateSink& sink) const {
  sink.u32(1);
  sink.u64(open_.size());
  for (const auto& [id, open] : open_) {
    sink.u64(id);
    sink.u32(open.missing);
    sink.u64(open.gauges.size());
    for (const auto& [name, value] : open.gauges) {
      sink.text(name);
      sink.i64(value);
    }
  }
  sink.u64(accepted_);
  sink.u64(answered_);
  return Status::ok();
}

Status Director::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "director: state schema " + std::to_string(schema) + ", not 1");
  }
  open_.clear();
  const uint64_t rows = source.u64();
  for (uint64_t i = 0; i < rows && source.status(); ++i) {
    Open& open = open_[source.u64()];
    open.missing = source.u32();
    const uint64_t gauges = source.u64();
    for (uint64_t g = 0; g < gauges && source.status(); ++g) {
      const std::string name = source.text();
      open.gauges[name] = source.i64();
    }
  }
  accepted_ = source.u64();
  answered_ = source.u64();
  return source.status();
}

}  // namespace troupe
