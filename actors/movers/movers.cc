#include "actors/movers/movers.h"

#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {
namespace {

Status only_expected(const Unexpected& unexpected, const char* who) {
  return unexpected.count == 0
             ? Status::ok()
             : Status(Code::kInternal, std::string(who) + ": unexpected messages " +
                                           std::to_string(unexpected.count));
}

}  // namespace

void DeviceStream::step(const Envelope& in, StepContext& cx) noexcept {
  if (in.message.which() == Kind::RUN) {
    on_run(in.message.getRun(), cx);
  } else {
    unexpected_.note(in.message.which());
  }
}

void DeviceStream::on_run(wire::Run::Reader run, StepContext& cx) {
  ++runs_;
  // Loads before copies on write: a copied block may have been loaded by this very step.
  const std::vector<MovedBlock> loads = move_blocks(memory_, stream_, run.getLoads());
  const std::vector<MovedBlock> cows = move_blocks(memory_, stream_, run.getCows());
  std::vector<uint8_t> failed(run.getRows().size(), 0);
  for (const auto* moved : {&loads, &cows}) {
    for (const MovedBlock& m : *moved) {
      if (m.code != Code::kOk && m.row < failed.size()) {
        failed[m.row] = 1;
      }
    }
  }
  if (!loads.empty()) {
    cx.out.send(Kind::TRANSFER_DONE, loads.size() * 8, [&](wire::Message::Builder m) {
      write_results(loads, m.initTransferDone());
    });
  }
  cx.out.send(Kind::PLAN, run.totalSize().wordCount, [&](wire::Message::Builder m) {
    m.setPlan(run);
    auto rows = m.getPlan().getRows();
    for (unsigned i = 0; i < failed.size(); ++i) {
      rows[i].setFailed(failed[i] != 0);
    }
  });
}

Status DeviceStream::check() const { return only_expected(unexpected_, "device_stream"); }
Status DeviceStream::save(StateSink& sink) const {
  sink.u64(runs_);
  return Status::ok();
}
Status DeviceStream::load(StateSource& source) {
  runs_ = source.u64();
  return source.status();
}

void DemotionMover::step(const Envelope& in, StepContext& cx) noexcept {
  if (in.message.which() == Kind::WAKE) {
    for (size_t i = 0; i < held_.size();) {
      if (held_[i].due > cx.now.ns) {
        ++i;
        continue;
      }
      send(held_[i].moved, cx);
      held_.erase(held_.begin() + static_cast<ptrdiff_t>(i));
    }
    return;
  }
  if (in.message.which() != Kind::TRANSFER) {
    unexpected_.note(in.message.which());
    return;
  }
  std::vector<MovedBlock> moved =
      move_blocks(memory_, stream_, in.message.getTransfer().getCopies());
  transfers_ += moved.size();
  const int64_t due = due_at(moved, cx.now);
  if (due == 0) {
    send(moved, cx);
    return;
  }
  const int64_t spent = due - cx.now.ns;
  const int64_t limit = memory_.links().disk_deadline_ns;
  const bool late = limit > 0 && spent > limit;
  const int64_t until = late ? cx.now.ns + limit : due;
  for (MovedBlock& m : moved) {
    m.nanos = static_cast<uint64_t>(spent) / moved.size();
    m.code = late && m.code == Code::kOk ? Code::kDeadline : m.code;
  }
  held_.push_back({until, std::move(moved)});
  cx.out.send(Kind::WAKE_AT, 0, [&](wire::Message::Builder m) { m.initWakeAt().setTick(until); });
}

int64_t DemotionMover::due_at(const std::vector<MovedBlock>& moved, Tick now) {
  constexpr auto kDisk = static_cast<uint8_t>(Tier::kDisk);
  const ModelledLinks& links = memory_.links();
  int64_t bytes = 0;
  bool read = false;
  for (const MovedBlock& m : moved) {
    read = read || m.from == kDisk;
    bytes += m.from == kDisk || m.to == kDisk ? m.bytes : 0;
  }
  if (links.granule_bytes == 0 || links.bytes_per_s[kDisk] == 0 || bytes == 0) {
    return 0;
  }
  int64_t& busy = busy_until_[read ? 0 : 1];
  const auto transfer = static_cast<int64_t>(static_cast<unsigned __int128>(bytes) * 1000000000U /
                                             links.bytes_per_s[kDisk]);
  // Latency overlaps with what is before it, as in a device with a queue; bandwidth does not.
  busy = std::max(busy, now.ns) + transfer;
  return busy + static_cast<int64_t>(links.latency_ns[kDisk]);
}

void DemotionMover::send(const std::vector<MovedBlock>& moved, StepContext& cx) {
  cx.out.send(Kind::TRANSFER_DONE, moved.size() * 8, [&](wire::Message::Builder m) {
    write_results(moved, m.initTransferDone());
  });
}

Status DemotionMover::check() const { return only_expected(unexpected_, "demotion mover"); }
Status DemotionMover::save(StateSink& sink) const {
  sink.u64(transfers_);
  return Status::ok();
}
Status DemotionMover::load(StateSource& source) {
  transfers_ = source.u64();
  return source.status();
}

void Clock::fire(Tick now, const Timer& timer, StepContext& cx) {
  cx.out.send(
      Kind::WAKE, 0,
      [&](wire::Message::Builder m) {
        auto wake = m.initWake();
        wake.setTick(now.ns);
        wake.setCookie(timer.cookie);
      },
      timer.owner);
}

void Clock::step(const Envelope& in, StepContext& cx) noexcept {
  if (in.message.which() == Kind::WAKE_AT) {
    const auto wake = in.message.getWakeAt();
    const Timer timer{wake.getCookie(), in.header.from.v};
    if (timers_.size() >= max_timers_) {
      fire(cx.now, timer, cx);
    } else {
      timers_.emplace(wake.getTick(), timer);
    }
    return;
  }
  if (in.message.which() != Kind::ADVANCE) {
    unexpected_.note(in.message.which());
    return;
  }
  const Tick now{in.message.getAdvance().getTick()};
  while (!timers_.empty() && timers_.begin()->first <= now.ns) {
    const Timer timer = timers_.begin()->second;
    timers_.erase(timers_.begin());
    fire(now, timer, cx);
  }
}

Digest Clock::digest() const noexcept {
  Digest d;
  for (const auto& [tick, timer] : timers_) {
    d.add_signed(tick).add(timer.cookie).add(timer.owner);
  }
  return d;
}
Status Clock::check() const { return only_expected(unexpected_, "clock"); }
Status Clock::save(StateSink& sink) const {
  sink.u64(timers_.size());
  for (const auto& [tick, timer] : timers_) {
    sink.i64(tick);
    sink.u64(timer.cookie);
    sink.u32(timer.owner);
  }
  return Status::ok();
}
Status Clock::load(StateSource& source) {
  timers_.clear();
  const uint64_t count = source.u64();
  for (uint64_t i = 0; i < count && source.status(); ++i) {
    const int64_t tick = source.i64();
    Timer timer;
    timer.cookie = source.u64();
    timer.owner = static_cast<uint16_t>(source.u32());
    timers_.emplace(tick, timer);
  }
  return source.status();
}

}  // namespace troupe
