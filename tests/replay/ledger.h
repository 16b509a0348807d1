// Two cores with real state and a mover, for replay tests: clients submit amounts, `desk` batches
// three of them and asks the mover for a transfer, `book` keeps the totals. Routes:
//   client -submit-> desk -transfer-> mover -transferDone-> book -reply-> client
//   desk -cancel-> book (every third submit, so that book has two senders whose order matters)
#pragma once

#include "runtime/core/dispatcher.h"
#include "runtime/core/wire.h"

#include <map>

namespace troupe::test {

constexpr Address kDesk{1};
constexpr Address kBook{2};
constexpr Address kMover{3};

class Desk {
 public:
  explicit Desk(uint32_t batch) : batch_(batch) {}
  void step(const Envelope& in, StepContext& cx) noexcept {
    if (in.message.which() != Kind::SUBMIT) {
      unexpected_.note(in.message.which());
      return;
    }
    const auto spec = in.message.getSubmit().getSpec();
    tickets_.push_back(spec.getTicket());
    tokens_ += spec.getTokens().size() / 4;
    if (tickets_.size() < batch_) {
      return;
    }
    cx.out.send(Kind::CANCEL, 0, [&](auto m) { m.initCancel().setTicket(tickets_.back()); });
    cx.out.send(Kind::TRANSFER, tickets_.size() * 16, [&](auto m) {
      auto copies = m.initTransfer().initCopies(static_cast<capnp::uint>(tickets_.size()));
      for (capnp::uint i = 0; i < copies.size(); ++i) {
        copies[i].setId(tickets_[i]);
        copies[i].setBytes(static_cast<uint32_t>(tokens_));
      }
    });
    tickets_.clear();
  }
  Digest digest() const noexcept {
    Digest digest;
    digest.add(tokens_);
    for (const uint64_t ticket : tickets_) {
      digest.add(ticket);
    }
    return digest;
  }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

 private:
  uint32_t batch_;
  std::vector<uint64_t> tickets_;
  uint64_t tokens_ = 0;
  Unexpected unexpected_;
};

class Book {
 public:
  explicit Book(uint64_t fee) : fee_(fee) {}
  void step(const Envelope& in, StepContext& cx) noexcept {
    if (in.message.which() == Kind::CANCEL) {
      total_ = total_ * 3 + in.message.getCancel().getTicket();  // order matters
      return;
    }
    for (const auto result : in.message.getTransferDone().getResults()) {
      total_ += result.getNanos() + fee_;
      const uint64_t ticket = result.getId();
      cx.out.send(Kind::REPLY, 0, [&](auto m) {
        m.initReply().setTicket(ticket);
        m.getReply().setValue(total_);
      });
    }
  }
  Digest digest() const noexcept { return Digest().add(total_); }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

 private:
  uint64_t fee_;
  uint64_t total_ = 0;
};

/// Times come from a generator that replay does not have.
class SlowMover {
 public:
  explicit SlowMover(uint64_t seed) : rng_(seed) {}
  void step(const Envelope& in, StepContext& cx) noexcept {
    const auto copies = in.message.getTransfer().getCopies();
    cx.out.send(Kind::TRANSFER_DONE, copies.size() * 8, [&](auto m) {
      auto results = m.initTransferDone().initResults(copies.size());
      for (capnp::uint i = 0; i < copies.size(); ++i) {
        results[i].setId(copies[i].getId());
        results[i].setNanos(rng_.below(1000));
      }
    });
  }
  Digest digest() const noexcept { return {}; }
  Status check() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

 private:
  Rng rng_;
};

struct LedgerOptions {
  uint32_t batch = 3;
  uint64_t fee = 5;
  uint64_t seed = 1;
  bool with_mover = true;
};

inline Troupe make_ledger(LedgerOptions options) {
  Troupe troupe;
  troupe.client = Address(0);
  troupe.members.push_back({kDesk, std::make_unique<ActorOf<Desk>>("desk", options.batch), false});
  troupe.members.push_back({kBook, std::make_unique<ActorOf<Book>>("book", options.fee), false});
  if (options.with_mover) {
    troupe.members.push_back(
        {kMover, std::make_unique<ActorOf<SlowMover>>("mover", options.seed), true});
  }
  troupe.routes.add({troupe.client, Kind::SUBMIT, 0, kDesk});
  troupe.routes.add({kDesk, Kind::TRANSFER, 0, kMover});
  troupe.routes.add({kDesk, Kind::CANCEL, 0, kBook});
  troupe.routes.add({kMover, Kind::TRANSFER_DONE, 0, kBook});
  troupe.routes.add({kBook, Kind::REPLY, 0, troupe.client});
  return troupe;
}

/// Submits `left` requests, each with some tokens.
class LedgerClient : public ClientPort {
 public:
  void on_frame(const Frame&) override { ++replies; }
  void submit(Dispatcher& dispatcher, uint64_t ticket, uint32_t first_token = 100) {
    std::vector<uint32_t> tokens(1 + ticket % 40);
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = first_token + static_cast<uint32_t>(i * ticket % 7);
    }
    dispatcher.post(Kind::SUBMIT, Tick{static_cast<int64_t>(ticket)}, data_words(tokens.size() * 4),
                    [&](auto m) {
                      auto spec = m.initSubmit().initSpec();
                      spec.setTicket(ticket);
                      spec.setTokens(data_of(tokens));
                    });
  }
  uint64_t replies = 0;
};

}  // namespace troupe::test
