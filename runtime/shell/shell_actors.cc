#include "runtime/shell/shell_actors.h"

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>
#include <caf/send.hpp>

#include <exception>
#include <string>

namespace troupe::shell {
namespace {

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (const kj::Exception& e) {
    return e.getDescription().cStr();
  } catch (...) {
    return "an exception of unknown type";
  }
}

/// What every actor of ours does with what it must never get: an exception or a foreign message
/// ends it, and with it the troupe, under a reason that names it. CAF alone would lose the
/// exception's text.
void harden(caf::event_based_actor& self, Exchange& exchange, const std::string& name) {
  self.set_exception_handler([&exchange, name](std::exception_ptr& error) -> caf::error {
    exchange.fail(Status(Code::kInternal, name + ": " + text_of(error)));
    return caf::exit_reason::unhandled_exception;
  });
  self.set_default_handler([&exchange, name](caf::scheduled_actor* actor,
                                             caf::message_view& view) -> caf::result<caf::message> {
    exchange.fail(Status(Code::kInternal,
                         name + ": a message that is no frame: " + view.content().stringify()));
    actor->quit(caf::exit_reason::unhandled_exception);
    return caf::sec::unexpected_message;
  });
}

}  // namespace

Exchange::Exchange(Troupe& troupe_in, ClientPort& client_in, uint32_t check_quick_every_in)
    : troupe(troupe_in), client(client_in), check_quick_every(check_quick_every_in) {
  TROUPE_ASSERT(!troupe.members.empty());
  const size_t count =
      std::max<size_t>(troupe.members.back().address.v, troupe.client.v) + size_t{1};
  handles.resize(count);
  observers.resize(count);
  tallies = std::vector<Tally>(count);
  stopped.resize(count,
                 true);  // only addresses with an actor count; the constructor of shell sets them
}

void Exchange::forward(Address from, std::vector<Outgoing>& items, uint64_t frames_done) {
  if (items.empty()) {
    if (frames_done != 0 &&
        in_flight.fetch_sub(frames_done, std::memory_order_acq_rel) == frames_done) {
      note_quiet();
    }
    return;
  }
  // Count before the first send: a receiver may handle its frame before the next one leaves here.
  const uint64_t more = items.size() - frames_done;
  const uint64_t now = in_flight.fetch_add(more, std::memory_order_acq_rel) + more;
  if (now > high_water.load(std::memory_order_relaxed)) {
    high_water.store(now, std::memory_order_relaxed);  // two at once may lose the larger: a gauge
  }
  for (Outgoing& item : items) {
    const Address to = troupe.routes.find(from, item.kind, item.instance);
    if (to.is_none()) {
      std::fprintf(stderr, "troupe: actor %u sent %s (instance %u), which has no route\n", from.v,
                   kind_name(item.kind).c_str(), item.instance);
    }
    TROUPE_ASSERT(!to.is_none() && to.v < handles.size());
    caf::anon_send(handles[to.v], std::move(item.frame));
  }
  items.clear();
}

void Exchange::note_quiet() {
  // Under the lock, or a waiter that has just seen in_flight > 0 would sleep through this.
  const std::lock_guard lock(mutex);
  changed.notify_all();
}

void Exchange::fail(Status reason) {
  const std::lock_guard lock(mutex);
  if (!failed) {
    failed = true;
    failure = std::move(reason);
  }
  changed.notify_all();
}

void Exchange::on_stopped(size_t address) {
  const std::lock_guard lock(mutex);
  stopped[address] = true;
  changed.notify_all();
}

MemberActor::MemberActor(caf::actor_config& config, Exchange* exchange, Member* member)
    : caf::event_based_actor(config), exchange_(*exchange), member_(*member) {}

caf::behavior MemberActor::make_behavior() {
  harden(*this, exchange_, std::string(member_.actor->name()));
  return {[this](const Frame& frame) { on_frame(frame); }};
}

void MemberActor::on_frame(const Frame& frame) {
  const Address address = member_.address;
  Actor& actor = *member_.actor;
  const FrameHeader& header = frame.header();
  const std::vector<DeliveryObserver*>& observers = exchange_.observers[address.v];
  const uint64_t seq = ++inbox_seq_;
  for (DeliveryObserver* observer : observers) {
    observer->on_deliver(address, seq, frame);
  }
  out_.begin(address, seq, header.tick);
  FrameReader reader(frame.words());
  StepContext cx{header.tick, out_};
  actor.step(Envelope{header, reader.message()}, cx);
  for (DeliveryObserver* observer : observers) {
    observer->on_stepped(address, seq, out_.items());
  }
  exchange_.tallies[address.v].delivered.store(seq, std::memory_order_relaxed);
  if (exchange_.check_quick_every != 0 && seq % exchange_.check_quick_every == 0) {
    if (Status status = actor.check_quick(); !status) {
      exchange_.fail(Status(status.code(), std::string(actor.name()) + ": " + status.text()));
      quit(caf::exit_reason::user_shutdown);
      return;
    }
  }
  exchange_.forward(address, out_.items(), 1);
}

ClientActor::ClientActor(caf::actor_config& config, Exchange* exchange)
    : caf::event_based_actor(config), exchange_(*exchange) {}

caf::behavior ClientActor::make_behavior() {
  harden(*this, exchange_, "client port");
  return {[this](const Frame& frame) { on_frame(frame); }};
}

void ClientActor::on_frame(const Frame& frame) {
  const Address address = exchange_.troupe.client;
  const uint64_t seq = ++inbox_seq_;
  for (DeliveryObserver* observer : exchange_.observers[address.v]) {
    observer->on_deliver(address, seq, frame);
  }
  {
    const std::lock_guard lock(exchange_.client_mutex);
    exchange_.client_thread.store(std::this_thread::get_id(), std::memory_order_relaxed);
    exchange_.client.on_frame(frame);
  }
  exchange_.tallies[address.v].delivered.store(seq, std::memory_order_relaxed);
  {
    const std::lock_guard lock(exchange_.mutex);
    exchange_.client_frames = seq;
    exchange_.changed.notify_all();
  }
  std::vector<Outgoing> none;
  exchange_.forward(address, none, 1);
}

SupervisorActor::SupervisorActor(caf::actor_config& config, Exchange* exchange)
    : caf::event_based_actor(config), exchange_(*exchange), handles_(exchange->handles) {}

caf::behavior SupervisorActor::make_behavior() {
  harden(*this, exchange_, "supervisor");
  set_down_handler([this](const caf::down_msg& down) { on_down(down); });
  for (const caf::actor& handle : handles_) {
    if (handle) {
      monitor(handle);
    }
  }
  return {[this](const Frame&) {
    exchange_.fail(Status(Code::kInternal, "supervisor: it was sent a frame"));
  }};
}

void SupervisorActor::on_down(const caf::down_msg& down) {
  for (size_t address = 0; address < handles_.size(); ++address) {
    if (!handles_[address] || handles_[address].address() != down.source) {
      continue;
    }
    bool expected = false;
    {
      const std::lock_guard lock(exchange_.mutex);
      expected = exchange_.stopping;
      exchange_.stopping = true;
    }
    if (!expected) {
      exchange_.fail(Status(Code::kInternal, "actor " + std::to_string(address) +
                                                 " died: " + caf::to_string(down.reason)));
      for (size_t other = handles_.size(); other-- > 0;) {
        if (other != address && handles_[other]) {
          caf::anon_send_exit(handles_[other], caf::exit_reason::user_shutdown);
        }
      }
    }
    exchange_.on_stopped(address);
  }
}

}  // namespace troupe::shell
