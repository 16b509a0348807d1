// A policy slot under test: registries, events, questions, and changes of policy step by step.
#pragma once

#include "actors/policy_slot/lru.h"
#include "actors/policy_slot/policy_slot.h"
#include "tests/actors/core_harness.h"

#include <algorithm>

namespace troupe::slot_test {

using test::CoreHarness;
using test::kinds;
using Harness = CoreHarness<PolicySlot>;

constexpr uint32_t kCapacity = 16;

/// Answers every question with the same list, right or wrong.
class Scripted final : public policy::EvictionPolicy {
 public:
  explicit Scripted(std::vector<uint32_t> answer) : answer_(std::move(answer)) {}
  std::string_view name() const noexcept override { return "scripted"; }
  void on_events(const policy::Events&) noexcept override {}
  void victims(uint32_t, const policy::HostView&, std::vector<uint32_t>& victims,
               std::vector<int64_t>&) noexcept override {
    victims = answer_;
  }
  Status save(StateSink&) const override { return Status::ok(); }
  Status load(StateSource&) override { return Status::ok(); }
  uint64_t digest() const noexcept override { return 0; }

 private:
  std::vector<uint32_t> answer_;
};

class Registry final : public policy::Registry {
 public:
  std::vector<uint32_t> script;
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(std::string_view name,
                                                                  uint32_t capacity, uint64_t,
                                                                  std::string_view) const override {
    if (name == "lru") {
      return std::unique_ptr<policy::EvictionPolicy>(new LruPolicy(capacity));
    }
    if (name == "wrong") {
      return std::unique_ptr<policy::EvictionPolicy>(new Scripted({999}));
    }
    if (name == "scripted") {
      return std::unique_ptr<policy::EvictionPolicy>(new Scripted(script));
    }
    return Status(Code::kNotFound, "no policy " + std::string(name));
  }
};

inline PolicySlotConfig config(const char* policy) {
  PolicySlotConfig c;
  c.policy = policy;
  c.capacity = kCapacity;
  return c;
}

inline void events(Harness& h, wire::EventKind kind, std::vector<uint32_t> blocks,
                   std::vector<uint32_t> parents = {}) {
  h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto e = m.initEvents().initBatches(1)[0];
    e.setKind(kind);
    e.setBlocks(data_of(blocks));
    e.setParents(data_of(parents));
    std::vector<uint32_t> depths(parents.size());
    for (size_t i = 0; i < depths.size(); ++i) {
      depths[i] = static_cast<uint32_t>(i);
    }
    e.setDepths(data_of(depths));
  });
}

inline std::vector<uint32_t> ask(Harness& h, uint32_t blocks, uint32_t* rejected = nullptr) {
  const auto sent = h.give(Tick{2}, [&](wire::Message::Builder m) {
    auto a = m.initAsk();
    a.setBlocks(blocks);
    a.setQuestion(7);
  });
  REQUIRE(!sent.empty());
  REQUIRE(sent[0].kind == Kind::VICTIMS);
  std::vector<uint32_t> out;
  sent[0].read([&](auto m) {
    CHECK(m.getVictims().getQuestion() == 7);
    const auto list = span_of<uint32_t>(m.getVictims().getVictims());
    out.assign(list.begin(), list.end());
    if (rejected != nullptr) {
      *rejected = m.getVictims().getRejected();
    }
  });
  return out;
}

inline Code code_of(const test::Sent& answer) {
  uint16_t status = 99;
  answer.read([&](auto m) { status = m.getAnswer().getStatus(); });
  return static_cast<Code>(status);
}

/// Gives the slot its own messages back until the change is answered.
inline Code finish_change(Harness& h, std::vector<test::Sent> sent) {
  for (int rounds = 0; rounds < 1000; ++rounds) {
    REQUIRE(!sent.empty());
    if (sent.back().kind == Kind::ANSWER) {
      CHECK(sent.size() == (code_of(sent.back()) == Code::kOk ? 2U : 1U));
      return code_of(sent.back());
    }
    REQUIRE(kinds(sent) == std::vector{Kind::TAKE_OVER});
    sent = h.give(Tick{3}, [&](wire::Message::Builder m) {
      m.initTakeOver().setGeneration(h.core.generation());
    });
  }
  FAIL("the change never ends");
  return Code::kInternal;
}

inline std::vector<test::Sent> begin_swap(Harness& h, const char* name, uint64_t generation = 0) {
  return h.give(Tick{3}, [&](wire::Message::Builder m) {
    auto s = m.initSwapPolicy();
    s.setControl(1);
    s.setName(name);
    s.setGeneration(generation);
  });
}

inline Code swap(Harness& h, const char* name, uint64_t generation = 0) {
  return finish_change(h, begin_swap(h, name, generation));
}

/// Two chains 0-1-2 and 3-4, released in this order, then 0-1 used again.
inline void two_chains(Harness& h) {
  events(h, wire::EventKind::INSERT, {0, 1, 2}, {kNoBlock, 0, 1});
  events(h, wire::EventKind::RELEASE, {2, 1, 0});
  events(h, wire::EventKind::INSERT, {3, 4}, {kNoBlock, 3});
  events(h, wire::EventKind::RELEASE, {4, 3});
  events(h, wire::EventKind::HIT, {0, 1});
  events(h, wire::EventKind::RELEASE, {1, 0});
}

}  // namespace troupe::slot_test
