// The whole line of real cores with fakes at its ends: an engine whose bytes prove themselves,
// movers that may fail, and a dispatcher that picks at random which actor runs next. Mailboxes are
// first in first out and filled when a message is sent, as in one process; everything else may
// interleave.
#pragma once

#include "actors/movers/movers.h"
#include "actors/policy_slot/lru.h"
#include "actors/wiring.h"
#include "tests/actors/prefix_index_world.h"

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe::test {

class LruRegistry final : public policy::Registry {
 public:
  Expected<std::unique_ptr<policy::EvictionPolicy>> make_eviction(std::string_view, uint32_t n,
                                                                  uint64_t,
                                                                  std::string_view) const override {
    return std::unique_ptr<policy::EvictionPolicy>(std::make_unique<LruPolicy>(n));
  }
};

/// What lies in the slots: one word a token, a function of all tokens up to it and of the domain. A
/// word that is not what its reader expects is a wrong byte.
class FakeMemory {
 public:
  using Bytes = std::vector<uint64_t>;
  FakeMemory(uint64_t seed, uint32_t faults_in_1000) : rng(seed), faults(faults_in_1000) {}
  Bytes& at(uint8_t tier, uint32_t first) { return slots_[{tier, first}]; }
  /// Copies the listed slots; a fault leaves the target as it was. Words for `transferDone`.
  template <class Copies>
  void move(Copies copies, wire::TransferDone::Builder done, std::vector<uint8_t>* failed_rows) {
    auto results = done.initResults(copies.size());
    for (unsigned i = 0; i < copies.size(); ++i) {
      const auto copy = copies[i];
      const bool bad = rng.below(1000) < faults;
      if (!bad) {
        at(copy.getTarget().getTier(), copy.getTarget().getFirst()) =
            Bytes(at(copy.getSource().getTier(), copy.getSource().getFirst()));
      } else if (failed_rows != nullptr) {
        (*failed_rows)[copy.getRow()] = 1;
      }
      results[i].setId(copy.getId());
      results[i].setBlock(copy.getBlock());
      results[i].setStatus(static_cast<uint16_t>(bad ? Code::kCorrupt : Code::kOk));
      results[i].setBytes(64);
      results[i].setNanos(1000);
      results[i].setFrom(copy.getSource().getTier());
      results[i].setTo(copy.getTarget().getTier());
    }
  }
  Rng rng;
  uint32_t faults;

 private:
  std::map<std::pair<uint8_t, uint32_t>, Bytes> slots_;
};

/// Fakes of the movers; as real ones they answer in order, and their answers are messages.
class FakeMover {
 public:
  explicit FakeMover(FakeMemory& memory) : memory_(memory) {}
  void step(const Envelope& in, StepContext& cx) noexcept {
    if (in.message.which() == Kind::TRANSFER) {
      const auto copies = in.message.getTransfer().getCopies();
      cx.out.send(Kind::TRANSFER_DONE, copies.size() * 8, [&](wire::Message::Builder m) {
        memory_.move(copies, m.initTransferDone(), nullptr);
      });
      return;
    }
    const auto run = in.message.getRun();
    std::vector<uint8_t> failed(run.getRows().size(), 0);
    if (run.getLoads().size() > 0) {
      cx.out.send(Kind::TRANSFER_DONE, run.getLoads().size() * 8, [&](wire::Message::Builder m) {
        memory_.move(run.getLoads(), m.initTransferDone(), &failed);
      });
    }
    for (const auto copy : run.getCows()) {
      memory_.at(0, copy.getTarget().getFirst()) =
          FakeMemory::Bytes(memory_.at(0, copy.getSource().getFirst()));
    }
    cx.out.send(Kind::PLAN, run.totalSize().wordCount, [&](wire::Message::Builder m) {
      m.setPlan(run);
      for (unsigned i = 0; i < failed.size(); ++i) {
        m.getPlan().getRows()[i].setFailed(failed[i] != 0);
      }
    });
  }
  Digest digest() const noexcept { return {}; }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

 private:
  FakeMemory& memory_;
};

/// Runs a troupe with every interleaving that one process allows, drawn by `seed`.
class RandomDispatcher {
 public:
  RandomDispatcher(Troupe troupe, uint64_t seed) : troupe_(std::move(troupe)), rng_(seed) {
    for (Member& member : troupe_.members) {
      boxes_[member.address.v].actor = member.actor.get();
    }
  }
  template <class Fill>
  void post(Kind kind, size_t words, Fill&& fill, uint16_t instance = 0) {
    client_out_.begin(troupe_.client, 0, Tick{now_});
    client_out_.send(kind, words, fill, instance);
    forward(troupe_.client, client_out_);
  }
  /// Delivers one message of a random actor; false when there is none. The client's are handed to
  /// `on_client` in the same lottery.
  template <class OnClient>
  bool deliver(OnClient&& on_client) {
    std::vector<uint16_t> ready;
    for (const auto& [address, box] : boxes_) {
      if (!box.mail.empty()) {
        ready.push_back(address);
      }
    }
    if (ready.empty()) {
      return false;
    }
    now_ += 1000;
    const uint16_t address = ready[rng_.below(ready.size())];
    Box& box = boxes_[address];
    const Frame frame = std::move(box.mail.front());
    box.mail.pop_front();
    FrameReader reader(frame.words());
    if (address == troupe_.client.v) {
      on_client(reader.message());
      return true;
    }
    box.out.begin(Address(address), ++box.inbox, Tick{now_});
    StepContext cx{Tick{now_}, box.out};
    box.actor->step(Envelope{frame.header(), reader.message()}, cx);
    forward(Address(address), box.out);
    const Status status = box.actor->check_quick();
    INFO(box.actor->name() << ": " << status.to_string());
    REQUIRE(status.is_ok());
    return true;
  }
  void check_all() const {
    for (const Member& member : troupe_.members) {
      const Status status = member.actor->check();
      INFO(member.actor->name() << ": " << status.to_string());
      REQUIRE(status.is_ok());
    }
  }
  /// Every actor is replaced by what its snapshot says: what was not saved is lost from here on.
  void reload_all() {
    for (Member& member : troupe_.members) {
      const Digest before = member.actor->digest();
      StateSink first;
      INFO(member.actor->name());
      REQUIRE(member.actor->save(first).is_ok());
      StateSource source(first.data());
      const Status loaded = member.actor->load(source);
      INFO(loaded.to_string());
      REQUIRE(loaded.is_ok());
      StateSink second;
      REQUIRE(member.actor->save(second).is_ok());
      REQUIRE(first.data() == second.data());
      REQUIRE(member.actor->digest() == before);
    }
  }
  template <class Core>
  Core& core(Role role) {
    auto* actor = dynamic_cast<ActorOf<Core>*>(boxes_[address_of(role).v].actor);
    REQUIRE(actor != nullptr);
    return actor->core();
  }
  int64_t now() const { return now_; }

 private:
  struct Box {
    Actor* actor = nullptr;
    std::deque<Frame> mail;
    Outbox out;
    uint64_t inbox = 0;
  };
  void forward(Address from, Outbox& out) {
    for (Outgoing& item : out.items()) {
      const Address to = troupe_.routes.find(from, item.kind, item.instance);
      INFO("route of kind " << static_cast<unsigned>(item.kind) << " from " << role_name(from));
      REQUIRE_FALSE(to.is_none());
      boxes_[to.v].mail.push_back(std::move(item.frame));
    }
    out.items().clear();
  }
  Troupe troupe_;
  Rng rng_;
  int64_t now_ = 1;
  std::map<uint16_t, Box> boxes_;
  Outbox client_out_;
};

}  // namespace troupe::test
