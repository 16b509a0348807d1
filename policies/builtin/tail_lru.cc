// Tail-optimised LRU for sessions: of a conversation of L blocks whose next turn brings q more,
// only the first L + q - target need stay, for then the turn computes no more than the target
// allows. What lies deeper goes first, least recently used first; then plain LRU. "Tail-optimized
// LRU for LLM inference caching", arXiv 2510.15152, 2025. The length is that of the last request
// that used a block; q is learned as a running mean of the new blocks of a request.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <algorithm>
#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

constexpr uint32_t kRunning = 4096;  // requests whose length is known while they run
constexpr int64_t kPoint = 256;      // of the mean
constexpr int64_t kMemory = 64;      // requests that the mean looks back on

struct TailLru {
  static constexpr Describe kAbout{.id = "tail_lru", .paper = "arXiv 2510.15152, 2025"};
  static constexpr std::array kParams = {troupe_param_desc{
      "target", "blocks that a next turn may compute within the latency target", 0, 1 << 24, 64}};
  struct Record {
    int64_t last;
    uint64_t request;
    uint64_t length;  // blocks of the last request that used this one
  };

  TailLru(const Config& c, const Blocks& blocks)
      : blocks_(blocks),
        target_(static_cast<int64_t>(c.params["target"])),
        leaves_(c.capacity),
        state_(c.capacity),
        running_(kRunning) {}

  void on_insert(const NewBlock& n, const Moment& m) {
    see(n.block, n.depth, m);
    ++fresh_;
  }
  void on_hit(uint32_t b, const Moment& m) { see(b, blocks_.depth(b), m); }
  void on_idle(uint32_t b) {
    Record& r = state_[b];
    r.last = ++clock_;
    const Request& q = running_[r.request % kRunning];
    r.length = q.ordinal == r.request ? q.length : uint64_t{blocks_.depth(b)} + 1;
  }
  void on_leaf(uint32_t b) {
    const int64_t needed = static_cast<int64_t>(state_[b].length) + turn_ / kPoint - target_;
    const bool spare = static_cast<int64_t>(blocks_.depth(b)) >= needed;
    leaves_.push(b, {spare ? 0 : 1, state_[b].last});
  }
  void on_no_leaf(uint32_t b) { leaves_.erase(b); }
  uint32_t victim() { return leaves_.empty() ? kNone : leaves_.pop(); }
  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return r.length <= uint64_t{1} << 32;
  }
  void save_global(GlobalWriter& w) const {
    w.number(clock_);
    w.number(turn_);
    w.number(fresh_);
    w.number(static_cast<int64_t>(now_));
  }
  void load_global(GlobalReader& r) {
    clock_ = r.number();
    turn_ = std::clamp<int64_t>(r.number(), 0, int64_t{1} << 40);
    fresh_ = std::clamp<int64_t>(r.number(), 0, int64_t{1} << 32);
    now_ = static_cast<uint64_t>(r.number());
  }

 private:
  struct Request {
    uint64_t ordinal = ~uint64_t{0};
    uint64_t length = 0;
  };
  void see(uint32_t b, uint32_t depth, const Moment& m) {
    if (m.ordinal != now_) {
      turn_ += (fresh_ * kPoint - turn_) / kMemory;
      fresh_ = 0;
      now_ = m.ordinal;
    }
    Request& q = running_[m.ordinal % kRunning];
    if (q.ordinal != m.ordinal) {
      q = Request{m.ordinal, 0};
    }
    q.length = std::max(q.length, uint64_t{depth} + 1);
    state_[b].request = m.ordinal;
  }

  const Blocks& blocks_;
  int64_t target_;
  Heap leaves_;
  std::vector<Record> state_;
  std::vector<Request> running_;
  int64_t clock_ = 0;
  int64_t turn_ = 0;   // mean new blocks of a request, in 1 / kPoint
  int64_t fresh_ = 0;  // new blocks of the request at hand
  uint64_t now_ = 0;
};

}  // namespace

TROUPE_EVICTION_POLICY(TailLru)
