// Tests of saved state. A policy that declares no state (block_state_bytes 0) is rebuilt from
// events by its host, which these tests accept.
#include "policies/check/kit.h"
#include "policies/check/scripted_host.h"

namespace troupe::check {

Expected<std::shared_ptr<const plugin::Library>> open_library(plugin::Loader& loader,
                                                              const Context& context);
Expected<plugin::EvictionInstance> make(const std::shared_ptr<const plugin::Library>& library,
                                        uint32_t capacity);

namespace {

constexpr uint32_t kCapacity = 200;

Status broken(const std::string& text) {
  return Status(Code::kInvalidArgument, text);
}

struct State {
  std::vector<uint8_t> blocks;
  std::vector<uint8_t> global;
  bool operator==(const State&) const = default;
};

Expected<State> save(const plugin::EvictionInstance& policy) {
  auto blocks = policy.save_blocks(0, kCapacity);
  if (!blocks) {
    return blocks.status();
  }
  auto global = policy.save_global();
  if (!global) {
    return global.status();
  }
  return State{std::move(*blocks), std::move(*global)};
}

Status load(plugin::EvictionInstance& policy, const State& state, uint32_t range) {
  const size_t record = policy.desc().block_state_bytes;
  for (uint32_t at = 0; at < kCapacity; at += range) {
    const uint32_t count = std::min(range, kCapacity - at);
    TROUPE_TRY(
        policy.load_blocks(policy.desc().state_schema, at, count,
                           {state.blocks.begin() + static_cast<ptrdiff_t>(at * record),
                            state.blocks.begin() + static_cast<ptrdiff_t>((at + count) * record)}));
  }
  return policy.load_global(policy.desc().state_schema, state.global);
}

Status round_trip(const Context& context, uint32_t range) {
  plugin::Loader loader({});
  auto library = open_library(loader, context);
  if (!library) {
    return library.status();
  }
  auto old = make(*library, kCapacity);
  auto next = make(*library, kCapacity);
  if (!old || !next) {
    return old ? next.status() : old.status();
  }
  if (old->desc().block_state_bytes == 0) {
    return Status::ok();
  }
  ScriptedHost host(*old, kCapacity, context.seed);
  TROUPE_TRY(host.run(400));
  auto first = save(*old);
  if (!first) {
    return first.status();
  }
  TROUPE_TRY(load(*next, *first, range));
  auto second = save(*next);
  if (!second) {
    return second.status();
  }
  if (first->blocks != second->blocks) {
    return broken("save, load, save: block records differ");
  }
  return first->global == second->global ? Status::ok()
                                         : broken("save, load, save: global records differ");
}

}  // namespace

Status state_round_trip(const Context& context) {
  return round_trip(context, kCapacity);
}
Status state_in_odd_ranges(const Context& context) {
  return round_trip(context, 7);
}

// Moved in the middle of a script, the new instance goes on: every answer stays legal, and the
// cache can be emptied, so nothing was lost on the way.
Status state_continues(const Context& context) {
  plugin::Loader loader({});
  auto library = open_library(loader, context);
  if (!library) {
    return library.status();
  }
  auto old = make(*library, kCapacity);
  auto next = make(*library, kCapacity);
  if (!old || !next) {
    return old ? next.status() : old.status();
  }
  if (old->desc().block_state_bytes == 0) {
    return Status::ok();
  }
  ScriptedHost host(*old, kCapacity, context.seed);
  TROUPE_TRY(host.run(400));
  auto state = save(*old);
  if (!state) {
    return state.status();
  }
  TROUPE_TRY(load(*next, *state, 64));
  host.hand_over(*next);
  TROUPE_TRY(host.run(400));
  return host.drain();
}

Status state_refuses_damage(const Context& context) {
  plugin::Loader loader({});
  auto library = open_library(loader, context);
  if (!library) {
    return library.status();
  }
  auto old = make(*library, kCapacity);
  if (!old) {
    return old.status();
  }
  const uint32_t record = old->desc().block_state_bytes;
  if (record == 0) {
    return Status::ok();
  }
  ScriptedHost host(*old, kCapacity, context.seed);
  TROUPE_TRY(host.run(200));
  auto state = save(*old);
  if (!state) {
    return state.status();
  }
  {
    auto next = make(*library, kCapacity);
    if (!next) {
      return next.status();
    }
    if (next->load_blocks(old->desc().state_schema + 1000, 0, kCapacity, state->blocks)) {
      return broken("an unknown schema is accepted");
    }
    TROUPE_TRY(load(*next, *state, kCapacity));
    std::vector<uint8_t> longer = state->global;
    longer.resize(longer.size() + 3);
    if (next->load_global(old->desc().state_schema, longer)) {
      return broken("a global record with 3 bytes too many is accepted");
    }
  }
  // Random bytes: any status will do, as long as nothing breaks, now or when it is destroyed.
  Rng rng(context.seed);
  for (int round = 0; round < 50; ++round) {
    auto next = make(*library, kCapacity);
    if (!next) {
      return next.status();
    }
    std::vector<uint8_t> noise(static_cast<size_t>(record) * kCapacity);
    for (uint8_t& byte : noise) {
      byte = static_cast<uint8_t>(rng.next());
    }
    const Status blocks = next->load_blocks(old->desc().state_schema, 0, kCapacity, noise);
    noise.resize(static_cast<size_t>(rng.below(4096)));
    const Status global = next->load_global(old->desc().state_schema, noise);
    if (blocks && global) {
      return broken("random bytes are accepted as state");
    }
  }
  return Status::ok();
}

}  // namespace troupe::check
