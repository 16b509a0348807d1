#include "runtime/inline/inline_dispatcher.h"

#include <cstdio>

namespace troupe {

InlineDispatcher::InlineDispatcher(Troupe& troupe, ClientPort& client, Options options)
    : troupe_(troupe), client_(client), options_(options) {
  TROUPE_ASSERT(!troupe.members.empty());
  const size_t count = static_cast<size_t>(troupe.members.back().address.v) + 1;
  by_address_.resize(count, nullptr);
  for (Member& member : troupe.members) {
    by_address_[member.address.v] = &member;
  }
  outboxes_.resize(count);
  observers_.resize(count);
  inbox_seq_.resize(count, 0);
}

void InlineDispatcher::forward(Address from, Outbox& out) {
  for (Outgoing& item : out.items()) {
    const Address to = troupe_.routes.find(from, item.kind, item.instance);
    if (to.is_none()) {
      std::fprintf(stderr, "troupe: actor %u sent %s (instance %u), which has no route\n", from.v,
                   kind_name(item.kind).c_str(), item.instance);
    }
    TROUPE_ASSERT(!to.is_none());
    queue_.push_back({to, std::move(item.frame)});
  }
  out.items().clear();
  high_water_ = std::max(high_water_, queue_.size());
}

void InlineDispatcher::observe(Address actor, DeliveryObserver* observer) {
  TROUPE_ASSERT(actor.v < observers_.size() && observer != nullptr);
  observers_[actor.v].push_back(observer);
}

Status InlineDispatcher::deliver(const Pending& pending) {
  ++deliveries_;
  const uint64_t seq = ++inbox_seq_[pending.to.v];
  for (DeliveryObserver* observer : observers_[pending.to.v]) {
    observer->on_deliver(pending.to, seq, pending.frame);
  }
  if (pending.to == troupe_.client) {
    client_.on_frame(pending.frame);
    return Status::ok();
  }
  TROUPE_ASSERT(pending.to.v < by_address_.size() && by_address_[pending.to.v] != nullptr);
  Actor& actor = *by_address_[pending.to.v]->actor;
  Outbox& out = outboxes_[pending.to.v];
  const FrameHeader& header = pending.frame.header();
  out.begin(pending.to, seq, header.tick);
  FrameReader reader(pending.frame.words());
  StepContext cx{header.tick, out};
  actor.step(Envelope{header, reader.message()}, cx);
  for (DeliveryObserver* observer : observers_[pending.to.v]) {
    observer->on_stepped(pending.to, seq, out.items());
  }
  forward(pending.to, out);
  if (options_.check_quick_every != 0 && deliveries_ % options_.check_quick_every == 0) {
    TROUPE_TRY(actor.check_quick());
  }
  if (options_.check_every != 0 && deliveries_ % options_.check_every == 0) {
    TROUPE_TRY(check_all());
  }
  return Status::ok();
}

Expected<uint64_t> InlineDispatcher::run() {
  const uint64_t before = deliveries_;
  while (!queue_.empty()) {
    const Pending pending = std::move(queue_.front());
    queue_.pop_front();
    if (Status status = deliver(pending); !status) {
      return status;
    }
  }
  return deliveries_ - before;
}

Status InlineDispatcher::check_all() const {
  for (const Member& member : troupe_.members) {
    if (Status status = member.actor->check(); !status) {
      return Status(status.code(), std::string(member.actor->name()) + ": " + status.text());
    }
  }
  return Status::ok();
}

}  // namespace troupe
