// Private to runtime/shell: the CAF actors behind shell.h, and what they share.
//   in_flight = frames sent and not yet handled, over all mailboxes; 0 means that every mailbox is
//   empty and every step has ended (the only thread that may still run is leaving its handler).
#pragma once

#include "runtime/core/dispatcher.h"

#include <caf/actor.hpp>
#include <caf/event_based_actor.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::Frame)

namespace troupe::shell {

/// What one member writes for others to read, on a cache line of its own.
struct alignas(64) Tally {
  std::atomic<uint64_t> delivered{0};
};

/// Shared by all actors of one dispatcher and outlives them.
class Exchange {
 public:
  Exchange(Troupe& troupe_in, ClientPort& client_in, uint32_t check_quick_every_in);

  /// Routes and sends what one handled frame led to, and takes that frame off the count. Nothing of
  /// the sender's state may be touched after it, its outbox apart. `frames_done`: 1, or 0 for a
  /// post.
  void forward(Address from, std::vector<Outgoing>& items, uint64_t frames_done);
  /// The first reason stands; everybody who waits is woken.
  void fail(Status reason);
  void on_stopped(size_t address);

  Troupe& troupe;
  ClientPort& client;
  const uint32_t check_quick_every;
  std::vector<caf::actor> handles;                        // by address
  std::vector<std::vector<DeliveryObserver*>> observers;  // by address
  std::vector<Tally> tallies;                             // by address
  alignas(64) std::atomic<uint64_t> in_flight{0};
  alignas(64) std::atomic<uint64_t> high_water{0};
  std::atomic<std::thread::id> client_thread{};

  // Held while the client is called, so that run_until's question may read the client's state.
  std::mutex client_mutex;

  std::mutex mutex;
  std::condition_variable
      changed;                // any of the below, in_flight == 0, a frame handled by the client
  std::vector<bool> stopped;  // by address
  bool failed = false;
  bool stopping = false;  // actors are being told to exit: an actor that ends is no failure
  Status failure;
  uint64_t client_frames = 0;

 private:
  void note_quiet();
};

class MemberActor final : public caf::event_based_actor {
 public:
  MemberActor(caf::actor_config& config, Exchange* exchange, Member* member);
  caf::behavior make_behavior() override;

 private:
  void on_frame(const Frame& frame);
  Exchange& exchange_;
  Member& member_;
  Outbox out_;
  uint64_t inbox_seq_ = 0;
};

class ClientActor final : public caf::event_based_actor {
 public:
  ClientActor(caf::actor_config& config, Exchange* exchange);
  caf::behavior make_behavior() override;

 private:
  void on_frame(const Frame& frame);
  Exchange& exchange_;
  uint64_t inbox_seq_ = 0;
};

/// Watches every actor by monitor; the first that dies outside of a shutdown takes all down with
/// it.
class SupervisorActor final : public caf::event_based_actor {
 public:
  SupervisorActor(caf::actor_config& config, Exchange* exchange);
  caf::behavior make_behavior() override;

 private:
  void on_down(const caf::down_msg& down);
  Exchange& exchange_;
  std::vector<caf::actor> handles_;  // its own, to be read while the others are being let go
};

}  // namespace troupe::shell
