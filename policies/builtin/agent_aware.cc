// Agent-aware LRU: blocks of a session that waits for a tool are kept until it is expected back,
// those who return first the longest; blocks of a superseded session go first; all else is LRU over
// leaves. Pan et al., "KVFlow: efficient prefix caching for accelerating LLM-based multi-agent
// workflows", arXiv 2507.07400 (steps to the next execution), and Li et al., "Continuum", arXiv
// 2511.02230 (time to live during a tool call), 2025. A session that is `grace_ms` overdue counts
// as any other. A block belongs to the session that used it last.
#include "policies/sdk/eviction.h"
#include "policies/sdk/ghosts.h"
#include "policies/sdk/heap.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint64_t kNoSession = ~uint64_t{0};
enum Mode : uint64_t { kSuperseded = 0, kUsual = 1, kPaused = 2 };

struct AgentAware {
  static constexpr Describe kAbout{
      .id = "agent_aware", .paper = "KVFlow, arXiv 2507.07400; Continuum, arXiv 2511.02230"};
  static constexpr std::array kParams = {troupe_param_desc{
      "grace_ms", "how long after its expected return a session is still waited for", 0, 1e9,
      2000}};
  struct Record {
    int64_t last;
    uint64_t session, mode;
    int64_t back_at;
  };

  AgentAware(const Config& c, const Blocks&)
      : grace_(static_cast<int64_t>(c.params["grace_ms"] * 1e6)),
        leaves_(c.capacity),
        last_(c.capacity, 0),
        group_of_(c.capacity, kNone),
        next_(c.capacity, kNone),
        before_(c.capacity, kNone),
        slots_(c.capacity),
        groups_(c.capacity),
        waiting_(c.capacity) {
    for (uint32_t g = c.capacity; g > 0; --g) {
      free_.push_back(g - 1);
    }
  }

  void on_insert(const NewBlock& n, const Moment& m) {
    now_ = std::max(now_, m.at);
    last_[n.block] = ++clock_;
    join(n.block, m.session);
  }
  void on_hit(uint32_t b, const Moment& m) {
    now_ = std::max(now_, m.at);
    last_[b] = ++clock_;
    if (group_of_[b] != kNone && groups_[group_of_[b]].session == m.session) {
      return;
    }
    leave(b);
    join(b, m.session);
  }
  void on_remove(uint32_t b) { leave(b); }
  void on_leaf(uint32_t b) {
    const Group& g = groups_[group_of_[b]];
    const int64_t back = g.mode == kPaused ? -g.back_at : 0;
    leaves_.push(b, {static_cast<int64_t>(g.mode) * kBand + back / kUnit, last_[b]});
  }
  void on_no_leaf(uint32_t b) { leaves_.erase(b); }
  void on_session(uint32_t kind, const Moment& m) {
    const uint32_t slot = m.session == kNoSession ? kNone : slots_.find(m.session);
    if (slot == kNone) {
      return;  // none of its blocks is here
    }
    if (kind == TROUPE_EVENT_PAUSE) {
      set(slot, kPaused, std::clamp<int64_t>(m.at, 0, kBackMax));
    } else {
      set(slot, kind == TROUPE_EVENT_SUPERSEDE ? kSuperseded : kUsual, 0);
    }
  }
  uint32_t victim() {
    while (!waiting_.empty() && waiting_.top_rank().major + grace_ < now_) {
      set(waiting_.top(), kUsual, 0);
    }
    if (leaves_.empty()) {
      return kNone;
    }
    score_ = leaves_.top_rank().major;
    const uint32_t b = leaves_.pop();
    leave(b);
    return b;
  }
  int64_t score() const { return score_; }
  Record save(uint32_t b) const {
    const Group& g = groups_[group_of_[b]];
    return {last_[b], g.session, g.mode, g.back_at};
  }
  bool load(uint32_t b, const Record& r) {
    if (r.mode > kPaused || r.back_at < 0 || r.back_at > kBackMax) {
      return false;
    }
    last_[b] = r.last;
    join(b, r.session);
    Group& g = groups_[group_of_[b]];
    g.mode = r.mode;
    g.back_at = r.back_at;
    if (g.mode == kPaused) {
      waiting_.push(group_of_[b], {g.back_at, 0});
    }
    return true;
  }
  void save_global(GlobalWriter& w) const {
    w.number(clock_);
    w.number(now_);
  }
  void load_global(GlobalReader& r) {
    clock_ = r.number();
    now_ = r.number();
  }

 private:
  static constexpr int64_t kUnit = 1000000;               // returns are told apart by the ms
  static constexpr int64_t kBackMax = int64_t{1} << 61;   // 73 years of ns
  static constexpr int64_t kBand = kBackMax / kUnit * 2;  // between two modes
  struct Group {                                          // the blocks that a session used last
    uint64_t session = kNoSession;
    uint64_t mode = kUsual;
    int64_t back_at = 0;
    uint32_t first = kNone;
  };
  void join(uint32_t b, uint64_t session) {
    uint32_t slot = session == kNoSession ? nobody_ : slots_.find(session);
    if (slot == kNone) {
      slot = free_.back();
      free_.pop_back();
      groups_[slot] = Group{};
      groups_[slot].session = session;
      if (session == kNoSession) {
        nobody_ = slot;
      } else {
        slots_.put(session, slot);
      }
    }
    Group& g = groups_[slot];
    group_of_[b] = slot;
    before_[b] = kNone;
    next_[b] = g.first;
    if (g.first != kNone) {
      before_[g.first] = b;
    }
    g.first = b;
  }
  void leave(uint32_t b) {
    const uint32_t slot = group_of_[b];
    if (slot == kNone) {
      return;
    }
    Group& g = groups_[slot];
    (before_[b] == kNone ? g.first : next_[before_[b]]) = next_[b];
    if (next_[b] != kNone) {
      before_[next_[b]] = before_[b];
    }
    group_of_[b] = kNone;
    if (g.first == kNone) {
      waiting_.erase(slot);
      if (g.session == kNoSession) {
        nobody_ = kNone;
      } else {
        slots_.erase(g.session);
      }
      free_.push_back(slot);
    }
  }
  void set(uint32_t slot, Mode mode, int64_t back_at) {
    Group& g = groups_[slot];
    g.mode = mode;
    g.back_at = back_at;
    waiting_.erase(slot);
    if (mode == kPaused) {
      waiting_.push(slot, {back_at, 0});
    }
    for (uint32_t b = g.first; b != kNone; b = next_[b]) {
      if (leaves_.holds(b)) {
        on_leaf(b);
      }
    }
  }

  int64_t grace_;
  Heap leaves_;
  std::vector<int64_t> last_;
  std::vector<uint32_t> group_of_, next_, before_;  // by block
  KeyMap slots_;                                    // session -> slot
  std::vector<Group> groups_;                       // by slot
  std::vector<uint32_t> free_;
  Heap waiting_;  // slots of paused sessions, first back first
  uint32_t nobody_ = kNone;
  int64_t clock_ = 0;
  int64_t now_ = 0;
  int64_t score_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(AgentAware)
