// How long a policy slot keeps the live path waiting while its policy changes: every message of the
// change is timed, and the events and questions of the live path that come between them, at 50,000
// and at 1,000,000 resident blocks. The path waits for one message at a time, so the longest is the
// pause.
//   bench_policy_swap [POLICY …]     names of built-in plug-ins; default: some of each make
#include "actors/policy_slot/policy_slot.h"
#include "runtime/core/wire.h"
#include "runtime/plugin/registry.h"
#include "runtime/plugin/shelf.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

namespace {

using namespace troupe;

constexpr uint32_t kChain = 512;  // blocks of one request

/// CPU seconds of this thread: what other load of the machine takes does not count.
double cpu_us() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

class Bench {
 public:
  Bench(uint32_t blocks, const policy::Registry& registry)
      : registry_(registry), blocks_(blocks), slot_(config(blocks), registry) {
    for (uint32_t first = 0; first + kChain <= blocks; first += kChain) {
      events(wire::EventKind::INSERT, first);
      events(wire::EventKind::RELEASE, first);
    }
  }
  /// One change to `policy`; times of its messages and of the path's between them [us].
  void change(const std::string& policy) {
    change_.clear();
    path_.clear();
    if (!registry_.prepare(policy, blocks_, 1, "").is_ok()) {
      std::fprintf(stderr, "bench_policy_swap: no policy %s\n", policy.c_str());
      std::exit(2);
    }
    change_.push_back(give([&](wire::Message::Builder m) {
      m.initSwapPolicy().setControl(1);
      m.getSwapPolicy().setName(policy);
    }));
    uint32_t at = 0;
    while (slot_.changing()) {
      change_.push_back(give(
          [&](wire::Message::Builder m) { m.initTakeOver().setGeneration(slot_.generation()); }));
      at = (at + 7919 * kChain) % (blocks_ / kChain * kChain);
      path_.push_back(events(wire::EventKind::HIT, at));
      path_.push_back(events(wire::EventKind::RELEASE, at));
      path_.push_back(give([](wire::Message::Builder m) { m.initAsk().setBlocks(32); }));
    }
  }
  void print(const char* policy) {
    std::sort(change_.begin(), change_.end());
    std::sort(path_.begin(), path_.end());
    std::printf(
        "%9u %-14s %6zu messages  p50 %7.1f  p99 %7.1f  longest %7.1f us   "
        "path between p50 %6.1f p99 %6.1f us\n",
        blocks_, policy, change_.size(), at(change_, 0.5), at(change_, 0.99), change_.back(),
        at(path_, 0.5), at(path_, 0.99));
    std::fflush(stdout);
  }

 private:
  static PolicySlotConfig config(uint32_t blocks) {
    PolicySlotConfig c;
    c.policy = "vllm_lru";
    c.capacity = blocks;
    c.probation = 1;  // so that the one before does not stay
    return c;
  }
  static double at(const std::vector<double>& sorted, double q) {
    return sorted.empty() ? 0 : sorted[static_cast<size_t>(q * double(sorted.size() - 1))];
  }
  double events(wire::EventKind kind, uint32_t first) {
    std::vector<uint32_t> blocks(kChain);
    std::vector<uint32_t> parents(kChain);
    std::vector<uint32_t> depths(kChain);
    std::vector<uint64_t> keys(kChain);
    for (uint32_t i = 0; i < kChain; ++i) {
      const uint32_t block = first + (kind == wire::EventKind::RELEASE ? kChain - 1 - i : i);
      blocks[i] = block;
      parents[i] = i == 0 ? kNoBlock : block - 1;
      depths[i] = i;
      keys[i] = block * 0x9E3779B97F4A7C15ULL;
    }
    return give([&](wire::Message::Builder m) {
      auto e = m.initEvents().initBatches(1)[0];
      e.setKind(kind);
      e.setRequest(++ordinal_);
      e.setBlocks(data_of(blocks));
      if (kind == wire::EventKind::INSERT) {
        e.setParents(data_of(parents));
        e.setDepths(data_of(depths));
        e.setTokens(data_of(depths));
        e.setKeys(data_of(keys));
      }
    });
  }
  template <class Fill>
  double give(Fill&& fill) {
    const Frame frame = scratch_.build(FrameHeader{Address(0), Address(1), ++seq_, 0, Tick{1}},
                                       kSmallMessageWords + 8 * kChain, fill);
    FrameReader reader(frame.words());
    out_.begin(Address(1), seq_, Tick{1});
    StepContext cx{Tick{1}, out_};
    const double begun = cpu_us();
    slot_.step(Envelope{frame.header(), reader.message()}, cx);
    const double took = cpu_us() - begun;
    out_.items().clear();
    return took;
  }

  const policy::Registry& registry_;
  uint32_t blocks_;
  PolicySlot slot_;
  FrameScratch scratch_;
  Outbox out_;
  uint64_t seq_ = 0;
  uint64_t ordinal_ = 0;
  std::vector<double> change_;
  std::vector<double> path_;
};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> policies(argv + 1, argv + argc);
  if (policies.empty()) {
    policies = {"s3fifo_leaf", "leaf_lru", "troupe", "lirs", "arc", "vllm_lru"};
  }
  const plugin::Shelf registry(
      std::make_unique<plugin::Registry>(plugin::default_policy_dir(), plugin::LoaderOptions{}));
  for (const uint32_t blocks : {50000U, 1000000U}) {
    Bench bench(blocks, registry);
    for (const std::string& policy : policies) {
      bench.change(policy);
      bench.print(policy.c_str());
    }
  }
}
