#include "actors/policy_slot/scheduling_slot.h"

#include "runtime/core/gauges.h"
#include "runtime/core/wire.h"

#include <algorithm>
#include <numeric>

namespace troupe {
namespace {

using policy::QueuedRow;
using Cause = wire::PolicyChanged::Cause;

void identity(size_t n, std::vector<uint32_t>& out) {
  out.resize(n);
  std::iota(out.begin(), out.end(), 0U);
}

class Fcfs final : public policy::SchedulingPolicy {
 public:
  std::string_view name() const noexcept override { return "fcfs"; }
  void order(std::span<const QueuedRow> rows, std::vector<uint32_t>& out) noexcept override {
    identity(rows.size(), out);
    std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
      return rows[a].priority != rows[b].priority ? rows[a].priority > rows[b].priority
                                                  : rows[a].request < rows[b].request;
    });
  }
};

class LongestPrefix final : public policy::SchedulingPolicy {
 public:
  std::string_view name() const noexcept override { return "lpm"; }
  void order(std::span<const QueuedRow> rows, std::vector<uint32_t>& out) noexcept override {
    identity(rows.size(), out);
    std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) {
      if (rows[a].priority != rows[b].priority) {
        return rows[a].priority > rows[b].priority;
      }
      return rows[a].probe != rows[b].probe ? rows[a].probe > rows[b].probe
                                            : rows[a].request < rows[b].request;
    });
  }
};

bool is_permutation_of(std::span<const uint32_t> order, size_t n) {
  std::vector<uint8_t> seen(n, 0);
  for (const uint32_t i : order) {
    if (i >= n || seen[i]++ != 0) {
      return false;
    }
  }
  return order.size() == n;
}

}  // namespace

Expected<std::unique_ptr<policy::SchedulingPolicy>> make_scheduling(std::string_view name) {
  if (name == "fcfs") {
    return std::unique_ptr<policy::SchedulingPolicy>(new Fcfs);
  }
  if (name == "lpm") {
    return std::unique_ptr<policy::SchedulingPolicy>(new LongestPrefix);
  }
  return Status(Code::kNotFound,
                "scheduling policy \"" + std::string(name) + "\" is none of fcfs, lpm");
}

SchedulingSlot::SchedulingSlot(std::string policy, uint16_t slot)
    : slot_(slot), policy_(std::move(policy)), before_(policy_) {
  auto made = make_scheduling(policy_);
  TROUPE_ASSERT(made.is_ok());
  live_ = std::move(*made);
}

void SchedulingSlot::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::ORDER:
      on_order(in.message.getOrder(), cx);
      break;
    case Kind::SWAP_POLICY: {
      const auto swap = in.message.getSwapPolicy();
      change(swap.getName().cStr(), swap.getGeneration(), swap.getControl(), Cause::SWAP, cx);
      break;
    }
    case Kind::ROLLBACK:
      change(before_, 0, in.message.getRollback().getControl(), Cause::ROLLBACK, cx);
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
  }
}

void SchedulingSlot::on_order(wire::Order::Reader order, StepContext& cx) {
  std::vector<QueuedRow> rows;
  for (const auto row : order.getRows()) {
    rows.push_back({row.getRequest(), row.getTenant(), row.getPriority(), Tick{row.getArrival()},
                    row.getRemaining(), row.getProbe()});
  }
  std::vector<uint32_t> out;
  live_->order(rows, out);
  if (!is_permutation_of(out, rows.size())) {
    ++invalid_answers_;
    identity(rows.size(), out);
  }
  std::vector<uint64_t> requests;
  for (const uint32_t i : out) {
    requests.push_back(rows[i].request);
  }
  cx.out.send(Kind::ORDERED, data_words(requests.size() * 8), [&](wire::Message::Builder m) {
    auto ordered = m.initOrdered();
    ordered.setQuestion(order.getQuestion());
    ordered.setRequests(data_of(requests));
  });
}

/// An order has no state: the one that comes decides at once.
void SchedulingSlot::change(const std::string& name, uint64_t generation, uint64_t control,
                            Cause cause, StepContext& cx) {
  auto made = make_scheduling(name);
  if (generation != 0 && generation != generation_) {
    made = Status(Code::kFailedPrecondition, "policy generation is " + std::to_string(generation_) +
                                                 ", not " + std::to_string(generation));
  }
  if (made) {
    before_ = std::exchange(policy_, std::string(name));
    live_ = std::move(*made);
    ++generation_;
    cx.out.send(Kind::POLICY_CHANGED, 32, [&](wire::Message::Builder m) {
      auto changed = m.initPolicyChanged();
      changed.setSlot(slot_);
      changed.setFrom(before_);
      changed.setTo(policy_);
      changed.setGeneration(generation_);
      changed.setCause(cause);
    });
  }
  cx.out.send(Kind::ANSWER, 64 + made.status().text().size() / 8, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(control);
    answer.setStatus(static_cast<uint16_t>(made.status().code()));
    answer.setText(made.is_ok() ? policy_ : made.status().text());
  });
}

void SchedulingSlot::answer_status(uint64_t control, StepContext& cx) const {
  const std::pair<std::string, uint64_t> gauges[] = {
      {"policy_slot.scheduling.generation", generation_},
      {"policy_slot.scheduling.live=" + policy_, 1},
      {"policy_slot.scheduling.invalid_answers", invalid_answers_}};
  send_gauges(cx, control, gauges);
}

Digest SchedulingSlot::digest() const noexcept {
  Digest d;
  for (const char c : policy_) {
    d.add(static_cast<unsigned char>(c));
  }
  return d.add(generation_).add(invalid_answers_);
}

Status SchedulingSlot::check() const {
  return unexpected_.count == 0 ? Status::ok()
                                : Status(Code::kInternal, "scheduling slot: unexpected messages " +
                                                              std::to_string(unexpected_.count));
}

Status SchedulingSlot::save(StateSink& sink) const {
  sink.u32(2);
  sink.text(policy_);
  sink.text(before_);
  sink.u64(generation_);
  return Status::ok();
}

Status SchedulingSlot::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 2) {
    return Status(Code::kUnsupported,
                  "scheduling slot: state schema " + std::to_string(schema) + ", not 2");
  }
  policy_ = source.text();
  before_ = source.text();
  generation_ = source.u64();
  TROUPE_TRY(source.status());
  auto made = make_scheduling(policy_);
  if (!made) {
    return made.status();
  }
  live_ = std::move(*made);
  return Status::ok();
}

}  // namespace troupe
