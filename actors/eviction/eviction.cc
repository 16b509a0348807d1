#include "actors/eviction/eviction.h"

#include <string>

#include "runtime/core/gauges.h"

namespace troupe {

void Eviction::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::RECLAIM: on_reclaim(in.message.getReclaim(), cx); break;
    case Kind::VICTIMS: on_victims(in.message.getVictims(), cx); break;
    case Kind::EVENTS: on_events(in.message.getEvents(), cx); break;
    case Kind::STATUS_ASK: answer_status(in.message.getStatusAsk().getControl(), cx); break;
    default: unexpected_.note(in.message.which());
  }
}

void Eviction::on_reclaim(wire::Reclaim::Reader reclaim, StepContext& cx) {
  const uint8_t tier = reclaim.getTier();
  if (tier >= kSlots || tiers_[tier].question != 0) {
    ++stray_;
    return;
  }
  PerTier& row = tiers_[tier];
  row.question = next_question_++;
  row.ahead = reclaim.getAhead();
  row.asked += reclaim.getBlocks();
  cx.out.send(
      Kind::ASK, 0,
      [&](wire::Message::Builder m) {
        auto ask = m.initAsk();
        ask.setTier(tier);
        ask.setBlocks(reclaim.getBlocks());
        ask.setQuestion(row.question);
      },
      tier);
}

void Eviction::on_victims(wire::Victims::Reader victims, StepContext& cx) {
  const uint8_t tier = victims.getTier();
  if (tier >= kSlots || tiers_[tier].question != victims.getQuestion()) {
    ++stray_;
    return;
  }
  PerTier& row = tiers_[tier];
  row.question = 0;
  row.named += victims.getVictims().size() / 4;
  row.rejected += victims.getRejected();
  cx.out.send(Kind::UNLINK, victims.totalSize().wordCount, [&](wire::Message::Builder m) {
    auto unlink = m.initUnlink();
    unlink.setTier(tier);
    unlink.setVictims(victims.getVictims());
    unlink.setScores(victims.getScores());
    unlink.setRejectedByHost(victims.getRejected());
    unlink.setAhead(row.ahead);
  });
}

void Eviction::on_events(wire::EventBatch::Reader events, StepContext& cx) {
  const auto batches = events.getBatches();
  for (uint8_t tier = 0; tier < kSlots; ++tier) {
    unsigned count = 0;
    for (const auto batch : batches) {
      count += batch.getTier() == tier ? 1 : 0;
    }
    if (count == 0) {
      continue;
    }
    cx.out.send(
        Kind::EVENTS, events.totalSize().wordCount,
        [&](wire::Message::Builder m) {
          if (count == batches.size()) {
            m.setEvents(events);
            return;
          }
          auto list = m.initEvents().initBatches(count);
          unsigned at = 0;
          for (const auto batch : batches) {
            if (batch.getTier() == tier) {
              list.setWithCaveats(at++, batch);
            }
          }
        },
        tier);
  }
}

void Eviction::answer_status(uint64_t control, StepContext& cx) {
  const Gauge gauges[] = {{"eviction.device.asked", tiers_[0].asked},
                          {"eviction.device.named", tiers_[0].named},
                          {"eviction.device.rejected", tiers_[0].rejected},
                          {"eviction.host.asked", tiers_[1].asked},
                          {"eviction.host.named", tiers_[1].named},
                          {"eviction.host.rejected", tiers_[1].rejected},
                          {"eviction.disk.asked", tiers_[2].asked},
                          {"eviction.disk.named", tiers_[2].named},
                          {"eviction.disk.rejected", tiers_[2].rejected},
                          {"eviction.unexpected", unexpected_.count + stray_}};
  send_gauges(cx, control, gauges);
}

Digest Eviction::digest() const noexcept {
  Digest d;
  for (const PerTier& row : tiers_) {
    d.add(row.question).add(row.asked).add(row.named).add(row.rejected);
  }
  return d.add(next_question_);
}

Status Eviction::check() const {
  return unexpected_.count + stray_ == 0
             ? Status::ok()
             : Status(Code::kInternal, "eviction: unexpected messages " +
                                           std::to_string(unexpected_.count + stray_));
}

Status Eviction::save(StateSink& sink) const {
  sink.u32(2);
  for (const PerTier& row : tiers_) {
    sink.u64(row.question);
    sink.u8(row.ahead ? 1 : 0);
    sink.u64(row.asked);
    sink.u64(row.named);
    sink.u64(row.rejected);
  }
  sink.u64(next_question_);
  return Status::ok();
}

Status Eviction::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 2) {
    return Status(Code::kUnsupported,
                  "eviction: state schema " + std::to_string(schema) + ", not 2");
  }
  for (PerTier& row : tiers_) {
    row.question = source.u64();
    row.ahead = source.u8() != 0;
    row.asked = source.u64();
    row.named = source.u64();
    row.rejected = source.u64();
  }
  next_question_ = source.u64();
  return source.status();
}

}  // namespace troupe
