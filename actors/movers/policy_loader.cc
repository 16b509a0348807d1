#include "actors/movers/policy_loader.h"

namespace troupe {

void PolicyLoader::step(const Envelope& in, StepContext& cx) noexcept {
  if (in.message.which() != Kind::SWAP_POLICY) {
    unexpected_.note(in.message.which());
    return;
  }
  const auto swap = in.message.getSwapPolicy();
  Status status = Status::ok();
  // The orders of the scheduling slot are part of it; there is nothing to load.
  if (swap.getSlot() < static_cast<uint16_t>(PolicySlotId::kScheduling)) {
    status = registry_.prepare(swap.getName().cStr(), config_.capacity, config_.seed,
                               swap.getParams().cStr());
  }
  if (status.is_ok()) {
    ++prepared_;
    cx.out.send(
        Kind::SWAP_POLICY, swap.totalSize().wordCount,
        [&](wire::Message::Builder m) { m.setSwapPolicy(swap); }, swap.getSlot());
    return;
  }
  ++refused_;
  cx.out.send(Kind::ANSWER, 16 + status.text().size() / 8, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(swap.getControl());
    answer.setStatus(static_cast<uint16_t>(status.code()));
    answer.setText(status.text());
  });
}

Status PolicyLoader::check() const {
  return unexpected_.count == 0 ? Status::ok()
                                : Status(Code::kInternal, "policy_loader: unexpected messages " +
                                                              std::to_string(unexpected_.count));
}

Status PolicyLoader::save(StateSink& sink) const {
  sink.u64(prepared_);
  sink.u64(refused_);
  return Status::ok();
}

Status PolicyLoader::load(StateSource& source) {
  prepared_ = source.u64();
  refused_ = source.u64();
  return source.status();
}

}  // namespace troupe
