#include "io/memory/faults.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

namespace troupe::io {

const char* fault_name(Fault fault) noexcept {
  static constexpr const char* kNames[kFaultCount] = {
      "none", "eio",  "enospc",  "eintr",     "eagain", "ecanceled", "short",     "zero",
      "torn", "lost", "bitflip", "misdirect", "delay",  "hang",      "duplicate", "stranger"};
  return kNames[static_cast<size_t>(fault)];
}

FaultRule FaultInjector::decide(const RawOp& op) {
  FaultRule chosen;
  for (Counted& counted : rules_) {
    const FaultRule& rule = counted.rule;
    if ((rule.op && *rule.op != op.op) || (rule.file && *rule.file != op.file)) {
      continue;
    }
    const uint64_t seen = counted.seen++;
    const bool fires = rule.den > 0 ? rng_.chance(rule.num, rule.den)
                                    : seen == rule.nth || (rule.period > 0 && seen > rule.nth &&
                                                           (seen - rule.nth) % rule.period == 0);
    if (fires && chosen.fault == Fault::kNone) {
      chosen = rule;
      ++fired_[static_cast<size_t>(rule.fault)];
    }
  }
  return chosen;
}

namespace {

class FaultBackend final : public Backend {
 public:
  FaultBackend(std::unique_ptr<Backend> inner, std::shared_ptr<FaultInjector> injector)
      : inner_(std::move(inner)), injector_(std::move(injector)) {}

  bool start(const RawOp& op) override;
  Status flush() override { return inner_->flush(); }
  size_t reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) override;
  void wake() override { inner_->wake(); }
  uint64_t overflows() const noexcept override { return inner_->overflows(); }
  Status register_buffers(std::span<const std::span<std::byte>> buffers) override {
    return inner_->register_buffers(buffers);
  }
  void describe(IoCapabilities& capabilities) const override { inner_->describe(capabilities); }

 private:
  struct Plagued {
    Fault fault = Fault::kNone;
    RawOp op;
    std::vector<std::byte> copy{};  // of a write with a flipped bit
    uint64_t reaps = 0;             // kDelay
    uint64_t releases = 0;          // of the injector when it started
  };
  struct Held {
    RawResult result;
    uint64_t reaps = 0;  // left to wait
    bool hangs = false;
    uint64_t releases = 0;  // of the injector when it was held
  };

  bool start_changed(RawOp changed, Plagued plagued);
  bool start_flipped_write(const RawOp& op);
  void on_inner(const RawResult& result);
  void release_held();

  std::unique_ptr<Backend> inner_;
  std::shared_ptr<FaultInjector> injector_;
  std::map<uint64_t, Plagued> plagued_;  // by tag
  std::deque<Held> held_;
  std::deque<RawResult> ready_;
};

/// The first `bytes` of an operation.
RawOp first_part(RawOp op, uint64_t bytes) {
  if (op.pieces[0].iov_len >= bytes) {
    op.pieces[0].iov_len = bytes;
    op.piece_count = 1;
  } else {
    op.pieces[1].iov_len = bytes - op.pieces[0].iov_len;
  }
  return op;
}

/// About half, and no multiple of 4 KiB where that is possible (512 is: direct I/O takes it).
uint64_t half_of(const RawOp& op) {
  const uint64_t half = op.bytes() / 2 / 512 * 512;
  return half % 4096 == 0 && half >= 512 ? half - 512 : half;
}

bool FaultBackend::start_changed(RawOp changed, Plagued plagued) {
  const uint64_t tag = changed.tag;
  if (!inner_->start(changed)) {
    return false;
  }
  plagued_[tag] = std::move(plagued);
  return true;
}

bool FaultBackend::start_flipped_write(const RawOp& op) {
  // An aligned copy, since direct I/O asks for it.
  Plagued plagued{.fault = Fault::kBitFlip, .op = op};
  plagued.copy.resize(op.bytes() + 4096);
  const auto address = reinterpret_cast<uintptr_t>(plagued.copy.data());
  std::byte* begin = plagued.copy.data() + (4096 - address % 4096) % 4096;
  uint64_t at = 0;
  for (uint32_t i = 0; i < op.piece_count; ++i) {
    std::memcpy(begin + at, op.pieces[i].iov_base, op.pieces[i].iov_len);
    at += op.pieces[i].iov_len;
  }
  const uint64_t bit = injector_->rng().below(at * 8);
  begin[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
  RawOp changed = op;
  changed.pieces[0] = {begin, at};
  changed.piece_count = 1;
  return start_changed(changed, std::move(plagued));
}

bool FaultBackend::start(const RawOp& op) {
  const FaultRule rule = injector_->decide(op);
  const auto answer = [&](int64_t result) {
    ready_.push_back({op.tag, result});
    return true;
  };
  switch (rule.fault) {
    case Fault::kNone:
      return inner_->start(op);
    case Fault::kEio:
      return answer(-EIO);
    case Fault::kEnospc:
      return answer(-ENOSPC);
    case Fault::kEintr:
      return answer(-EINTR);
    case Fault::kEagain:
      return answer(-EAGAIN);
    case Fault::kEcanceled:
      return answer(-ECANCELED);
    case Fault::kZero:
      return answer(0);
    case Fault::kLost:
      return answer(static_cast<int64_t>(op.bytes()));
    case Fault::kShort:
    case Fault::kTorn: {
      if (half_of(op) == 0) {
        return rule.fault == Fault::kShort ? answer(0) : answer(static_cast<int64_t>(op.bytes()));
      }
      return start_changed(first_part(op, half_of(op)), {.fault = rule.fault, .op = op});
    }
    case Fault::kMisdirect: {
      RawOp moved = op;
      moved.offset = op.offset >= op.bytes() ? op.offset - op.bytes() : op.offset + op.bytes();
      return start_changed(moved, {.fault = rule.fault, .op = op});
    }
    case Fault::kBitFlip:
      if (op.op == IoOp::kWrite) {
        return start_flipped_write(op);
      }
      return start_changed(op, {.fault = rule.fault, .op = op});
    case Fault::kStranger:
      ready_.push_back({~op.tag, static_cast<int64_t>(op.bytes())});
      return inner_->start(op);
    case Fault::kDelay:
    case Fault::kHang:
    case Fault::kDuplicate: {
      return start_changed(op, {.fault = rule.fault,
                                .op = op,
                                .reaps = rule.parameter,
                                .releases = injector_->releases()});
    }
  }
  return inner_->start(op);
}

void FaultBackend::on_inner(const RawResult& result) {
  const auto found = plagued_.find(result.tag);
  if (found == plagued_.end()) {
    ready_.push_back(result);
    return;
  }
  const Plagued plagued = std::move(found->second);
  plagued_.erase(found);
  const auto whole = static_cast<int64_t>(plagued.op.bytes());
  switch (plagued.fault) {
    case Fault::kTorn:
    case Fault::kMisdirect:
      ready_.push_back({result.tag, result.result < 0 ? result.result : whole});
      return;
    case Fault::kBitFlip:
      if (plagued.op.op == IoOp::kRead && result.result > 0) {
        const uint64_t bit = injector_->rng().below(static_cast<uint64_t>(result.result) * 8);
        uint64_t byte = bit / 8;
        const iovec* piece = plagued.op.pieces;
        if (byte >= piece->iov_len) {
          byte -= piece->iov_len;
          ++piece;
        }
        static_cast<std::byte*>(piece->iov_base)[byte] ^= static_cast<std::byte>(1U << (bit % 8));
      }
      ready_.push_back(result);
      return;
    case Fault::kDelay:
      held_.push_back({.result = result, .reaps = plagued.reaps});
      return;
    case Fault::kHang:
      held_.push_back({.result = result, .hangs = true, .releases = plagued.releases});
      return;
    case Fault::kDuplicate:
      ready_.push_back(result);
      ready_.push_back(result);
      return;
    default:
      ready_.push_back(result);
  }
}

void FaultBackend::release_held() {
  for (size_t i = held_.size(); i > 0; --i) {
    Held held = held_.front();
    held_.pop_front();
    const bool free = held.hangs ? held.releases != injector_->releases() : held.reaps == 0;
    if (free) {
      ready_.push_back(held.result);
    } else {
      held.reaps -= held.hangs ? 0 : 1;
      held_.push_back(held);
    }
  }
}

size_t FaultBackend::reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) {
  release_held();
  RawResult inner[64];
  // Sleeping is for the inner backend, and only when nothing of ours is about to come.
  const bool delayed =
      std::any_of(held_.begin(), held_.end(), [](const Held& h) { return !h.hangs; });
  const bool sleep = wait && ready_.empty() && !delayed;
  const size_t count = inner_->reap(inner, sleep, timeout_ns);
  for (size_t i = 0; i < count; ++i) {
    on_inner(inner[i]);
  }
  size_t given = 0;
  while (given < out.size() && !ready_.empty()) {
    out[given++] = ready_.front();
    ready_.pop_front();
  }
  return given;
}

}  // namespace

std::unique_ptr<Backend> with_faults(std::unique_ptr<Backend> inner,
                                     std::shared_ptr<FaultInjector> injector) {
  return std::make_unique<FaultBackend>(std::move(inner), std::move(injector));
}

}  // namespace troupe::io
