#include "actors/movers/movers.h"

#include "runtime/core/wire.h"

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
  if (in.message.which() != Kind::TRANSFER) {
    unexpected_.note(in.message.which());
    return;
  }
  const std::vector<MovedBlock> moved =
      move_blocks(memory_, stream_, in.message.getTransfer().getCopies());
  transfers_ += moved.size();
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

void Clock::fire(Tick now, uint64_t cookie, StepContext& cx) {
  cx.out.send(Kind::WAKE, 0, [&](wire::Message::Builder m) {
    auto wake = m.initWake();
    wake.setTick(now.ns);
    wake.setCookie(cookie);
  });
}

void Clock::step(const Envelope& in, StepContext& cx) noexcept {
  if (in.message.which() == Kind::WAKE_AT) {
    const auto wake = in.message.getWakeAt();
    if (timers_.size() >= max_timers_) {
      fire(cx.now, wake.getCookie(), cx);
    } else {
      timers_.emplace(wake.getTick(), wake.getCookie());
    }
    return;
  }
  if (in.message.which() != Kind::ADVANCE) {
    unexpected_.note(in.message.which());
    return;
  }
  const Tick now{in.message.getAdvance().getTick()};
  while (!timers_.empty() && timers_.begin()->first <= now.ns) {
    const uint64_t cookie = timers_.begin()->second;
    timers_.erase(timers_.begin());
    fire(now, cookie, cx);
  }
}

Digest Clock::digest() const noexcept {
  Digest d;
  for (const auto& [tick, cookie] : timers_) {
    d.add_signed(tick).add(cookie);
  }
  return d;
}
Status Clock::check() const { return only_expected(unexpected_, "clock"); }
Status Clock::save(StateSink& sink) const {
  sink.u64(timers_.size());
  for (const auto& [tick, cookie] : timers_) {
    sink.i64(tick);
    sink.u64(cookie);
  }
  return Status::ok();
}
Status Clock::load(StateSource& source) {
  timers_.clear();
  const uint64_t count = source.u64();
  for (uint64_t i = 0; i < count && source.status(); ++i) {
    const int64_t tick = source.i64();
    timers_.emplace(tick, source.u64());
  }
  return source.status();
}

}  // namespace troupe
