// What both dispatchers offer: runtime/inline (one queue on the caller's thread) and runtime/shell
// (the same cores on CAF). Whoever embeds a troupe is written against this page and chooses by
// configuration. A dispatcher delivers each frame of one sender to one receiver in the order it was
// sent, asks the route table for every message, and stops the process on a route that is not
// declared.
#pragma once

#include "runtime/core/routes.h"

namespace troupe {

/// Sees the deliveries of one actor, or of all: the recorder, explain, tests. Called on the thread
/// that steps the actor, never by two threads at once for the same actor.
class DeliveryObserver {
 public:
  virtual ~DeliveryObserver() = default;
  /// Before the step. `inbox_seq`: number of this message in the receiver's inbox, from 1.
  virtual void on_deliver(Address to, uint64_t inbox_seq, const Frame& frame) = 0;
  /// After the step, before its messages leave. The client has no step and is never named here.
  virtual void on_stepped(Address to, uint64_t inbox_seq, const std::vector<Outgoing>& sent) = 0;
};

class Dispatcher {
 public:
  virtual ~Dispatcher() = default;

  /// Sends one message as the client at virtual time `now`. False: not accepted any more
  /// (stopping). `words`, `fill`: as in Outbox::send; `fill` must not throw. [also inside
  /// ClientPort::on_frame]
  template <class Fill>
  bool post(Kind kind, Tick now, size_t words, Fill&& fill, uint16_t instance = 0) {
    Outbox* out = begin_post(now);
    if (out == nullptr) {
      return false;
    }
    out->send(kind, words, fill, instance);
    end_post();
    return true;
  }

  /// Delivers until every mailbox is empty, the client's too. Returns deliveries made since the
  /// last call, or why the troupe stopped (a broken invariant, an actor that died).
  virtual Expected<uint64_t> run() = 0;
  /// Runs every actor's full check. Only while every mailbox is empty.
  virtual Status check_all() const = 0;
  /// Adds one who watches one actor, or the client's inbox. Before the first post; `observer` must
  /// outlive the dispatcher. Several are called in the order they were added.
  virtual void observe(Address actor, DeliveryObserver* observer) = 0;
  /// Messages delivered so far.
  virtual uint64_t deliveries() const noexcept = 0;

 protected:
  /// Outbox of the client, stamped; stays owned by the caller until end_post. Null: refused.
  virtual Outbox* begin_post(Tick now) = 0;
  virtual void end_post() = 0;
};

}  // namespace troupe
