#include "runtime/shell/shell.h"

#include "runtime/shell/shell_actors.h"

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <string>

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

/// CAF's defaults are at least four threads, work stealing and no limit of messages a turn; sharing
/// wakes an idle actor in half the time. Files and the command line are never read.
struct Config : caf::actor_system_config {
  explicit Config(const CafDispatcher::Options& options) {
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", static_cast<size_t>(options.threads));
    set("scheduler.max-throughput", static_cast<size_t>(options.throughput));
  }
};

}  // namespace

class CafDispatcher::Impl {
 public:
  Impl(Troupe& troupe, ClientPort& client, const Options& options)
      : exchange(troupe, client, options.check_quick_every), config(options), system(config) {
    for (Member& member : troupe.members) {
      TROUPE_ASSERT(member.actor != nullptr && member.address != troupe.client);
      exchange.handles[member.address.v] =
          member.waits ? system.spawn<shell::MemberActor, caf::detached>(&exchange, &member)
                       : system.spawn<shell::MemberActor>(&exchange, &member);
      exchange.stopped[member.address.v] = false;
    }
    exchange.handles[troupe.client.v] = system.spawn<shell::ClientActor, caf::detached>(&exchange);
    exchange.stopped[troupe.client.v] = false;
    supervisor = system.spawn<shell::SupervisorActor>(&exchange);
  }
  ~Impl() {
    caf::anon_send_exit(supervisor, caf::exit_reason::user_shutdown);
    supervisor = nullptr;
    system.await_all_actors_done();
    exchange.handles.clear();  // no actor is left that could send by them
  }

  uint64_t delivered() const noexcept {
    uint64_t sum = 0;
    for (const shell::Tally& tally : exchange.tallies) {
      sum += tally.delivered.load(std::memory_order_relaxed);
    }
    return sum;
  }
  std::string name_of(size_t address) const {
    for (const Member& member : exchange.troupe.members) {
      if (member.address.v == address) {
        return std::string(member.actor->name());
      }
    }
    return "client port";
  }
  bool quiet() const noexcept { return exchange.in_flight.load(std::memory_order_acquire) == 0; }
  Status drain(Clock::time_point until);
  Status stop_actors(Clock::time_point until);

  shell::Exchange exchange;
  Config config;
  caf::actor_system system;
  caf::actor supervisor;
  std::mutex post_mutex;
  Outbox client_out;      // under post_mutex
  bool accepting = true;  // under post_mutex
  bool stop_called = false;
  Status stop_status;
  uint64_t reported = 0;  // deliveries that run() has told of
};

CafDispatcher::CafDispatcher(Troupe& troupe, ClientPort& client, Options options) {
  TROUPE_ASSERT(options.threads > 0 && options.throughput > 0);
  impl_ = std::make_unique<Impl>(troupe, client, options);
}

CafDispatcher::~CafDispatcher() {
  (void)stop(std::chrono::seconds(5));
}

Outbox* CafDispatcher::begin_post(Tick now) {
  impl_->post_mutex.lock();
  const bool inside =
      impl_->exchange.client_thread.load(std::memory_order_relaxed) == std::this_thread::get_id();
  if (!impl_->accepting && !inside) {
    impl_->post_mutex.unlock();
    return nullptr;
  }
  impl_->client_out.begin(impl_->exchange.troupe.client, 0, now);
  return &impl_->client_out;
}

void CafDispatcher::end_post() {
  // Sent under the lock, so that frames leave in the order of their sequence numbers.
  impl_->exchange.forward(impl_->exchange.troupe.client, impl_->client_out.items(), 0);
  impl_->post_mutex.unlock();
}

Expected<uint64_t> CafDispatcher::run() {
  shell::Exchange& exchange = impl_->exchange;
  {
    std::unique_lock lock(exchange.mutex);
    exchange.changed.wait(lock, [&] { return exchange.failed || impl_->quiet(); });
    if (exchange.failed) {
      return exchange.failure;
    }
  }
  const uint64_t before = std::exchange(impl_->reported, impl_->delivered());
  return impl_->reported - before;
}

Status CafDispatcher::run_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
  shell::Exchange& exchange = impl_->exchange;
  const Clock::time_point until = Clock::now() + limit;
  for (;;) {
    uint64_t seen = 0;
    {
      const std::lock_guard lock(exchange.mutex);
      seen = exchange.client_frames;  // before the question, so that no frame after it is missed
    }
    {
      const std::lock_guard lock(exchange.client_mutex);
      if (done()) {
        return Status::ok();
      }
    }
    std::unique_lock lock(exchange.mutex);
    const bool woken = exchange.changed.wait_until(
        lock, until, [&] { return exchange.failed || exchange.client_frames != seen; });
    if (exchange.failed) {
      return exchange.failure;
    }
    if (!woken) {
      return Status(Code::kDeadline,
                    "the client was not done in time; messages in flight: " +
                        std::to_string(exchange.in_flight.load(std::memory_order_relaxed)));
    }
  }
}

Status CafDispatcher::check_all() const {
  if (!impl_->quiet()) {
    return Status(Code::kFailedPrecondition,
                  "a full check needs empty mailboxes; messages in flight: " +
                      std::to_string(impl_->exchange.in_flight.load(std::memory_order_relaxed)));
  }
  for (const Member& member : impl_->exchange.troupe.members) {
    if (Status status = member.actor->check(); !status) {
      return Status(status.code(), std::string(member.actor->name()) + ": " + status.text());
    }
  }
  return Status::ok();
}

void CafDispatcher::observe(Address actor, DeliveryObserver* observer) {
  TROUPE_ASSERT(actor.v < impl_->exchange.observers.size() && observer != nullptr);
  TROUPE_ASSERT(impl_->delivered() == 0 && impl_->quiet());
  impl_->exchange.observers[actor.v].push_back(observer);
}

uint64_t CafDispatcher::deliveries() const noexcept {
  return impl_->delivered();
}

uint64_t CafDispatcher::mailbox_high_water() const noexcept {
  return impl_->exchange.high_water.load(std::memory_order_relaxed);
}

Status CafDispatcher::Impl::drain(Clock::time_point until) {
  std::unique_lock lock(exchange.mutex);
  const bool met =
      exchange.changed.wait_until(lock, until, [&] { return exchange.failed || quiet(); });
  if (exchange.failed) {
    return exchange.failure;
  }
  if (!met) {
    return Status(Code::kDeadline, "messages not delivered before the deadline: " +
                                       std::to_string(exchange.in_flight.load()));
  }
  return Status::ok();
}

Status CafDispatcher::Impl::stop_actors(Clock::time_point until) {
  std::unique_lock lock(exchange.mutex);
  exchange.stopping = true;
  std::string late;
  for (size_t address = exchange.handles.size(); address-- > 0;) {
    if (!exchange.handles[address]) {
      continue;
    }
    lock.unlock();
    caf::anon_send_exit(exchange.handles[address], caf::exit_reason::user_shutdown);
    lock.lock();
    // Half of what is left for each, so that one who hangs does not make all others look late.
    const Clock::time_point now = Clock::now();
    const Clock::time_point turn = until > now ? now + (until - now) / 2 : until;
    if (!exchange.changed.wait_until(lock, turn, [&] { return exchange.stopped[address]; })) {
      late += (late.empty() ? "" : ", ") + name_of(address);
    }
  }
  return late.empty() ? Status::ok()
                      : Status(Code::kDeadline, "actors that did not stop in time: " + late);
}

Status CafDispatcher::stop(std::chrono::nanoseconds limit) {
  if (impl_->stop_called) {
    return impl_->stop_status;
  }
  impl_->stop_called = true;
  const Clock::time_point until = Clock::now() + limit;
  {
    const std::lock_guard lock(impl_->post_mutex);
    impl_->accepting = false;
  }
  const Status drained = impl_->drain(until);
  const Status stopped = impl_->stop_actors(until);
  if (drained.code() == Code::kDeadline && stopped.code() == Code::kDeadline) {
    impl_->stop_status = Status(Code::kDeadline, drained.text() + "; " + stopped.text());
  } else {
    impl_->stop_status = drained ? stopped : drained;
  }
  return impl_->stop_status;
}

}  // namespace troupe
