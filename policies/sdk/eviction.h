// From one class with typed callbacks to a plug-in. Write
//   struct Mine {
//     static constexpr Describe kAbout{.id = "mine", .version = "1", .paper = "…"};
//     Mine(const Config&, const Blocks&);
//     uint32_t victim();                       // the next block to give up, or kNone
//     … any of the hooks below …
//   };
//   TROUPE_EVICTION_POLICY(Mine)
// Hooks, all optional:
//   on_insert(const NewBlock&, const Moment&)
//   on_hit(block, Moment)
//   on_idle(block)        uses fell to 0
//   on_remove(block)      left for another reason than being a victim
//   on_leaf(block)        became evictable
//   on_no_leaf(block)     is not any more (hit, or new child)
//   before_victim(key)    the block that will take the victim's room, before `victim` is asked
//   on_wanted(key)        the same after the room is there (ghost lookups)
//   on_session(kind, Moment)      pause, resume, supersede
//   bool mid_run()        keep asking although enough is named (declare may_over_evict)
//   int64_t score()       of the victim just named
//   Record, save(block), load(block, Record)
//   save_global(GlobalWriter&), load_global(GlobalReader&)
// The wrapper keeps the tree (Blocks), so `victim` may rely on evictable(); it forgets a named
// block at once and gives it back through on_insert (and on_idle) when the host refuses. Thrown
// exceptions end at the wrapper as TROUPE_E_INTERNAL.
#pragma once

#include "policies/abi/eviction.h"
#include "policies/sdk/blocks.h"
#include "policies/sdk/entry.h"
#include "policies/sdk/hooks.h"
#include "policies/sdk/state.h"

#include <cstring>
#include <stddef.h>
#include <stdint.h>
#include <string_view>

namespace troupe::sdk {

template <class P>
class Eviction {
 public:
  using Record = typename RecordOf<P>::type;
  static constexpr bool kHasState = !std::is_same_v<Record, NoRecord>;
  struct Saved {
    uint64_t key;
    uint32_t parent, depth, uses, state;
    Record record;
  };

  explicit Eviction(const Config& config) : blocks_(config.capacity), policy_(config, blocks_) {}

  static const troupe_eviction* table() noexcept {
    static const troupe_eviction kTable{sizeof(troupe_eviction), 0, &events_c, &victims_c,
                                        &digest_c};
    return &kTable;
  }
  static const troupe_policy_desc* describe() noexcept {
    static const troupe_policy_desc kDesc = [] {
      troupe_policy_desc d{};
      d.struct_size = sizeof d;
      d.abi_major = TROUPE_ABI_MAJOR;
      d.abi_minor = TROUPE_ABI_MINOR;
      d.kind = TROUPE_KIND_EVICTION;
      d.flags = P::kAbout.flags;
      d.state_schema = kHasState ? P::kAbout.schema : 0;
      d.oldest_schema = d.state_schema;
      d.id = P::kAbout.id;
      d.version = P::kAbout.version;
      d.paper = P::kAbout.paper;
      d.block_state_bytes = kHasState ? static_cast<uint32_t>(sizeof(Saved)) : 0;
      if constexpr (requires { P::kParams; }) {
        d.params = P::kParams.data();
        d.param_count = static_cast<uint32_t>(P::kParams.size());
      }
      return d;
    }();
    return &kDesc;
  }
  static int32_t create(const char* id, const troupe_host* host, const troupe_config* config,
                        troupe_policy* out) noexcept {
    if (id == nullptr || std::string_view(id) != P::kAbout.id || config == nullptr ||
        out == nullptr || !TROUPE_HAS(config, troupe_config, params_length)) {
      return TROUPE_E_INVALID;
    }
    (void)host;
    try {
      Config c;
      c.capacity = config->capacity_blocks;
      c.seed = config->seed;
      if (!c.params.parse({config->params, config->params_length}, describe()->params,
                          describe()->param_count)) {
        return TROUPE_E_UNSUPPORTED;
      }
      troupe_policy p{};
      p.struct_size = out->struct_size < sizeof p ? out->struct_size : sizeof p;
      p.self = new Eviction(c);
      p.extension = &extension_c;
      p.save_blocks = &save_blocks_c;
      p.save_global = &save_global_c;
      p.load_blocks = &load_blocks_c;
      p.load_global = &load_global_c;
      p.destroy = &destroy_c;
      memcpy(out, &p, p.struct_size);
      return TROUPE_OK;
    } catch (...) {
      return TROUPE_E_INTERNAL;
    }
  }

 private:
  static Eviction& of(void* self) noexcept { return *static_cast<Eviction*>(self); }
  template <class F>
  static int32_t guarded(F&& f) noexcept {
    try {
      return f();
    } catch (...) {
      return TROUPE_E_INTERNAL;
    }
  }
  static const void* extension_c(void*, const char* name) noexcept {
    return name != nullptr && std::string_view(name) == TROUPE_EVICTION_1 ? table() : nullptr;
  }
  static void destroy_c(void* self) noexcept { delete static_cast<Eviction*>(self); }
  static int32_t events_c(void* self, const void* events, uint64_t count,
                          uint32_t stride) noexcept {
    return guarded([&] { return of(self).events(events, count, stride); });
  }
  static int32_t victims_c(void* self, troupe_victims_call* call) noexcept {
    return guarded([&] { return of(self).victims(*call); });
  }
  static uint64_t digest_c(void* self) noexcept {
    Eviction& e = of(self);
    uint64_t h = 0x243F6A8885A308D3ULL;
    const auto add = [&h](const void* bytes, size_t n) {
      const auto* p = static_cast<const uint8_t*>(bytes);
      for (size_t i = 0; i < n; ++i) {
        h = (h ^ p[i]) * 0x100000001B3ULL;
      }
    };
    for (uint32_t b = 0; b < e.blocks_.capacity(); ++b) {
      const Saved s = e.saved(b);
      add(&s, sizeof s);
    }
    GlobalWriter w;
    e.write_global(w);
    add(w.bytes().data(), w.bytes().size());
    return h;
  }

  // ---- events ----
  int32_t events(const void* events, uint64_t count, uint32_t stride) {
    const auto* at = static_cast<const uint8_t*>(events);
    for (uint64_t i = 0; i < count; ++i, at += stride) {
      const auto& e = *reinterpret_cast<const troupe_events*>(at);
      const Moment m{e.ordinal, e.session, e.at, e.tenant, e.hints};
      for (uint32_t k = 0; k < e.count; ++k) {
        if (e.blocks[k] >= blocks_.capacity()) {
          return TROUPE_E_INVALID;
        }
      }
      switch (e.kind) {
        case TROUPE_EVENT_INSERT:
          inserts(e, m);
          break;
        case TROUPE_EVENT_HIT:
          each(e, [&](uint32_t b) { hit(b, m, e.flags); });
          break;
        case TROUPE_EVENT_PIN:
          each(e, [&](uint32_t b) { use(b); });
          break;
        case TROUPE_EVENT_RELEASE:
          each(e, [&](uint32_t b) { release(b); });
          break;
        case TROUPE_EVENT_REMOVE:
          each(e, [&](uint32_t b) { remove(b); });
          break;
        case TROUPE_EVENT_REFUSED:
          each(e, [&](uint32_t b) { refused(b, m); });
          break;
        case TROUPE_EVENT_PAUSE:
        case TROUPE_EVENT_RESUME:
        case TROUPE_EVENT_SUPERSEDE:
          if constexpr (requires { policy_.on_session(e.kind, m); }) {
            policy_.on_session(e.kind, m);
          }
          break;
        default:
          break;
      }
    }
    return TROUPE_OK;
  }
  template <class F>
  static void each(const troupe_events& e, F&& f) {
    for (uint32_t k = 0; k < e.count; ++k) {
      f(e.blocks[k]);
    }
  }

  void inserts(const troupe_events& e, const Moment& m) {
    for (uint32_t k = 0; k < e.count; ++k) {
      const uint32_t b = e.blocks[k];
      Row& r = blocks_.rows_[b];
      if (r.state == Blocks::kHere) {
        remove(b);  // a handle that comes again without a remove has lost its old block
      }
      // A host that gives no content keys gets names that never come again: no ghost is found.
      r.key = e.keys != nullptr ? e.keys[k] : m.ordinal << 32 | b;
      r.parent = e.parents != nullptr && e.parents[k] < blocks_.capacity() ? e.parents[k] : kNone;
      r.depth = e.depths != nullptr ? e.depths[k] : 0;
      r.uses = 1;
      r.state = Blocks::kHere;
      ++blocks_.resident_;
      adopt(r.parent);
      const NewBlock n{b,       r.parent,
                       r.depth, e.tokens != nullptr ? e.tokens[k] : 0,
                       r.key,   e.costs != nullptr ? e.costs[k] : 0};
      if constexpr (requires { policy_.on_insert(n, m); }) {
        policy_.on_insert(n, m);
      }
      if ((e.flags & TROUPE_EVENT_IDLE) != 0) {
        release(b);
      }
    }
  }
  void hit(uint32_t b, const Moment& m, uint32_t flags) {
    if (blocks_.rows_[b].state != Blocks::kHere) {
      return;
    }
    use(b);
    if constexpr (requires { policy_.on_hit(b, m); }) {
      policy_.on_hit(b, m);
    }
    if ((flags & TROUPE_EVENT_IDLE) != 0) {
      release(b);
    }
  }
  void use(uint32_t b) {
    Row& r = blocks_.rows_[b];
    if (r.state == Blocks::kHere) {
      no_leaf(b);
      ++r.uses;
    }
  }
  void release(uint32_t b) {
    Row& r = blocks_.rows_[b];
    if (r.state != Blocks::kHere || r.uses == 0 || --r.uses > 0) {
      return;
    }
    if constexpr (requires { policy_.on_idle(b); }) {
      policy_.on_idle(b);
    }
    leaf(b);
  }
  void remove(uint32_t b) {
    Row& r = blocks_.rows_[b];
    if (r.state == Blocks::kHere) {
      no_leaf(b);
      if constexpr (requires { policy_.on_remove(b); }) {
        policy_.on_remove(b);
      }
      forget(b);
    }
    r.state = Blocks::kAbsent;
    r.uses = 0;
  }
  void refused(uint32_t b, const Moment& m) {
    Row& r = blocks_.rows_[b];
    if (r.state != Blocks::kNamed) {
      return;
    }
    r.state = Blocks::kHere;
    r.uses = 1;
    ++blocks_.resident_;
    adopt(r.parent);
    if constexpr (requires(const NewBlock& n) { policy_.on_insert(n, m); }) {
      policy_.on_insert(NewBlock{b, r.parent, r.depth, 0, r.key, 0}, m);
    }
    release(b);
  }
  void adopt(uint32_t parent) {
    if (parent != kNone) {
      no_leaf(parent);
      ++blocks_.rows_[parent].children;
    }
  }
  // The block is gone for its parent, which may become a leaf.
  void forget(uint32_t b) {
    --blocks_.resident_;
    const uint32_t parent = blocks_.rows_[b].parent;
    if (parent != kNone && blocks_.rows_[parent].children > 0) {
      --blocks_.rows_[parent].children;
      leaf(parent);
    }
  }
  void leaf(uint32_t b) {
    if constexpr (requires { policy_.on_leaf(b); }) {
      if (blocks_.evictable(b)) {
        policy_.on_leaf(b);
      }
    }
  }
  void no_leaf(uint32_t b) {
    if constexpr (requires { policy_.on_no_leaf(b); }) {
      if (blocks_.evictable(b)) {
        policy_.on_no_leaf(b);
      }
    }
  }

  // ---- victims ----
  int32_t victims(troupe_victims_call& call) {
    if (!TROUPE_HAS(&call, troupe_victims_call, view) || call.room < call.want) {
      return TROUPE_E_INVALID;
    }
    call.named = 0;
    call.scored = 0;
    if (call.events_count > 0) {
      const int32_t status = events(call.events, call.events_count, call.events_stride);
      if (status != TROUPE_OK) {
        return status;
      }
    }
    uint32_t asked = 0;  // of the blocks that wait
    for (; asked < call.wanted_count && asked < call.free_blocks; ++asked) {
      wanted(call.wanted_keys[asked]);
    }
    while (call.named < call.want) {
      if constexpr (requires { policy_.before_victim(uint64_t{}); }) {
        if (asked < call.wanted_count) {
          policy_.before_victim(call.wanted_keys[asked]);
        }
      }
      if (!name_one(call)) {
        break;
      }
      if (asked < call.wanted_count) {
        wanted(call.wanted_keys[asked++]);
      }
    }
    if constexpr (requires { policy_.mid_run(); }) {
      while (policy_.mid_run() && call.named < call.room && name_one(call)) {
      }
    }
    return TROUPE_OK;
  }
  void wanted(uint64_t key) {
    if constexpr (requires { policy_.on_wanted(key); }) {
      policy_.on_wanted(key);
    } else {
      (void)key;
    }
  }
  bool name_one(troupe_victims_call& call) {
    const uint32_t b = policy_.victim();
    if (b == kNone) {
      return false;
    }
    call.victims[call.named] = b;
    if constexpr (requires { policy_.score(); }) {
      if (call.scores != nullptr) {
        call.scores[call.named] = policy_.score();
        call.scored = 1;
      }
    }
    ++call.named;
    blocks_.rows_[b].state = Blocks::kNamed;
    forget(b);
    return true;
  }

  // ---- state ----
  Saved saved(uint32_t b) const {
    Saved s;
    memset(static_cast<void*>(&s), 0, sizeof s);
    const Row& r = blocks_.rows_[b];
    if (r.state != Blocks::kHere) {
      return s;
    }
    s.key = r.key;
    s.parent = r.parent;
    s.depth = r.depth;
    s.uses = r.uses;
    s.state = r.state;
    if constexpr (kHasState) {
      static_assert(std::has_unique_object_representations_v<Record>);
      s.record = policy_.save(b);
    }
    return s;
  }
  void write_global(GlobalWriter& w) const {
    if constexpr (requires { policy_.save_global(w); }) {
      policy_.save_global(w);
    }
  }
  bool range_ok(const troupe_state_range* r) const {
    return kHasState && r != nullptr && r->record_bytes == sizeof(Saved) &&
           r->first <= blocks_.capacity() && r->count <= blocks_.capacity() - r->first;
  }
  static int32_t save_blocks_c(void* self, const troupe_state_range* r) noexcept {
    return guarded([&]() -> int32_t {
      Eviction& e = of(self);
      if (!e.range_ok(r)) {
        return TROUPE_E_INVALID;
      }
      auto* out = static_cast<uint8_t*>(r->records);
      for (uint32_t i = 0; i < r->count; ++i, out += sizeof(Saved)) {
        const Saved s = e.saved(r->first + i);
        memcpy(out, &s, sizeof s);
      }
      return TROUPE_OK;
    });
  }
  static int32_t save_global_c(void* self, void* bytes, uint64_t* length) noexcept {
    return guarded([&]() -> int32_t {
      GlobalWriter w;
      of(self).write_global(w);
      if (!kHasState || w.bytes().size() > *length) {
        return TROUPE_E_INVALID;
      }
      memcpy(bytes, w.bytes().data(), w.bytes().size());
      *length = w.bytes().size();
      return TROUPE_OK;
    });
  }
  static int32_t load_blocks_c(void* self, uint32_t schema, const troupe_state_range* r) noexcept {
    return guarded([&]() -> int32_t {
      if (schema != P::kAbout.schema) {
        return TROUPE_E_UNSUPPORTED;
      }
      Eviction& e = of(self);
      if (!e.range_ok(r)) {
        return TROUPE_E_INVALID;
      }
      const auto* in = static_cast<const uint8_t*>(r->records);
      for (uint32_t i = 0; i < r->count; ++i, in += sizeof(Saved)) {
        Saved s;
        memcpy(static_cast<void*>(&s), in, sizeof s);
        if (!e.load_one(r->first + i, s)) {
          return TROUPE_E_CORRUPT;
        }
      }
      return TROUPE_OK;
    });
  }
  bool load_one(uint32_t b, const Saved& s) {
    if (s.state > Blocks::kHere ||
        (s.state == Blocks::kHere && s.parent != kNone && s.parent >= blocks_.capacity())) {
      return false;
    }
    if (s.state == Blocks::kAbsent || blocks_.rows_[b].state != Blocks::kAbsent) {
      return s.state == Blocks::kAbsent;
    }
    Row& r = blocks_.rows_[b];
    r.key = s.key;
    r.parent = s.parent;
    r.depth = s.depth;
    r.uses = s.uses;
    r.state = s.state;
    ++blocks_.resident_;
    if (s.parent != kNone) {
      ++blocks_.rows_[s.parent].children;
    }
    if constexpr (kHasState) {
      return policy_.load(b, s.record);
    }
    return false;
  }
  static int32_t load_global_c(void* self, uint32_t schema, const void* bytes,
                               uint64_t length) noexcept {
    return guarded([&]() -> int32_t {
      if (!kHasState || schema != P::kAbout.schema) {
        return TROUPE_E_UNSUPPORTED;
      }
      Eviction& e = of(self);
      GlobalReader reader(bytes, length);
      if constexpr (requires { e.policy_.load_global(reader); }) {
        e.policy_.load_global(reader);
      }
      for (uint32_t b = 0; b < e.blocks_.capacity(); ++b) {
        e.leaf(b);
      }
      return reader.ok() ? TROUPE_OK : TROUPE_E_CORRUPT;
    });
  }

  using Row = Blocks::Row;
  Blocks blocks_;
  P policy_;
};

}  // namespace troupe::sdk
