// The actor core: step(state, message) -> (state', messages). No clock, thread or file below this
// line; whatever is not a function of the inbox comes in as a message. A pending request is a row
// in state with a deadline in ticks; there are no futures. Hence snapshot, swap, replay and
// simulation.
#pragma once

#include <concepts>
#include <memory>
#include <string_view>

#include "runtime/base/digest.h"
#include "runtime/base/status.h"
#include "runtime/core/outbox.h"
#include "runtime/core/snapshot.h"

namespace troupe {

/// One message as a core sees it. Borrowed for the step.
struct Envelope {
  const FrameHeader& header;
  wire::Message::Reader message;
};

struct StepContext {
  Tick now;     // tick of the delivered frame
  Outbox& out;  // effects go out as messages
};

template <class A>
concept ActorCore = requires(A& a, const A& c, const Envelope& in, StepContext& cx, StateSink& s,
                             StateSource& r) {
  { a.step(in, cx) } noexcept -> std::same_as<void>;   // total: any message in any state
  { c.digest() } noexcept -> std::same_as<Digest>;     // of the logical state, without token values
  { c.check() } -> std::same_as<Status>;               // all invariants; a sweep, may be slow
  { c.save(s) } -> std::same_as<Status>;
  { a.load(r) } -> std::same_as<Status>;
};

/// The same behind a virtual seam, as dispatchers hold it.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual std::string_view name() const noexcept = 0;
  virtual void step(const Envelope& in, StepContext& cx) noexcept = 0;
  virtual Digest digest() const noexcept = 0;
  /// Cheap invariants (counts and sums), run each step where checking is on.
  virtual Status check_quick() const = 0;
  virtual Status check() const = 0;
  virtual Status save(StateSink& sink) const = 0;
  virtual Status load(StateSource& source) = 0;
};

/// Wraps a core. A core without check_quick() is checked by check() alone.
template <ActorCore Core>
class ActorOf final : public Actor {
 public:
  template <class... Args>
  explicit ActorOf(std::string_view name, Args&&... args)
      : name_(name), core_(std::forward<Args>(args)...) {}
  std::string_view name() const noexcept override { return name_; }
  void step(const Envelope& in, StepContext& cx) noexcept override { core_.step(in, cx); }
  Digest digest() const noexcept override { return core_.digest(); }
  Status check_quick() const override {
    if constexpr (requires { core_.check_quick(); }) {
      return core_.check_quick();
    } else {
      return Status::ok();
    }
  }
  Status check() const override { return core_.check(); }
  Status save(StateSink& sink) const override { return core_.save(sink); }
  Status load(StateSource& source) override { return core_.load(source); }
  Core& core() noexcept { return core_; }
  const Core& core() const noexcept { return core_; }

 private:
  std::string_view name_;
  Core core_;
};

/// Any message that a core does not know ends here: counted, never silently dropped.
struct Unexpected {
  uint64_t count = 0;
  Kind last = Kind::INVALID;
  void note(Kind kind) noexcept {
    ++count;
    last = kind;
  }
};

}  // namespace troupe
