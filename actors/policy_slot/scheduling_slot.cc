#include "actors/policy_slot/scheduling_slot.h"

#include <algorithm>
#include <numeric>

#include "runtime/core/wire.h"

namespace troupe {
namespace {

using policy::QueuedRow;

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

SchedulingSlot::SchedulingSlot(std::string policy) : policy_(std::move(policy)) {
  auto made = make_scheduling(policy_);
  TROUPE_ASSERT(made.is_ok());
  live_ = std::move(*made);
}

void SchedulingSlot::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::ORDER: on_order(in.message.getOrder(), cx); break;
    case Kind::SWAP_POLICY: on_swap(in.message.getSwapPolicy(), cx); break;
    default: unexpected_.note(in.message.which());
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

void SchedulingSlot::on_swap(wire::SwapPolicy::Reader swap, StepContext& cx) {
  auto made = make_scheduling(swap.getName().cStr());
  if (swap.getGeneration() != 0 && swap.getGeneration() != generation_) {
    made = Status(Code::kFailedPrecondition, "policy generation is " + std::to_string(generation_) +
                                                 ", not " + std::to_string(swap.getGeneration()));
  }
  if (made) {
    live_ = std::move(*made);
    policy_ = swap.getName().cStr();
    ++generation_;
  }
  cx.out.send(Kind::ANSWER, 64 + made.status().text().size() / 8, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(swap.getControl());
    answer.setStatus(static_cast<uint16_t>(made.status().code()));
    answer.setText(made.is_ok() ? policy_ : made.status().text());
  });
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
  sink.u32(1);
  sink.text(policy_);
  sink.u64(generation_);
  return Status::ok();
}

Status SchedulingSlot::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "scheduling slot: state schema " + std::to_string(schema) + ", not 1");
  }
  policy_ = source.text();
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
