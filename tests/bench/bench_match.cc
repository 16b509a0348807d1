// Cost of a lookup and of what follows it, per 16-token block, on one core, with keys known and
// with the hashing of tokens to keys included. Compares 50,000 with 1,000,000 blocks, and chains
// whose handles follow each other with chains whose handles are scattered.
//   bench_match [--blocks N] [--seconds S]
#include "actors/allocator/allocator.h"
#include "actors/prefix_index/prefix_index.h"
#include "runtime/ingress/block_keys.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace troupe;

constexpr uint32_t kBlock = 16;
constexpr int kPromptsPerRound = 16;
constexpr uint32_t kChain = 512;  // blocks of one prompt: 8,192 tokens

/// CPU seconds of this thread: other load on the machine does not count, its cache misses still do.
double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

struct Prompt {
  std::vector<uint32_t> tokens;
  std::vector<BlockKey> keys;
};

const KeyContext& key_context() {
  static const KeyContext context({1, 2, 3}, {"model", "revision", "f16", "layout", kBlock, 0, 1});
  return context;
}

/// What the ingress port does: the only place that hashes content.
void hash_prompt(Prompt& p) {
  p.keys.resize(p.tokens.size() / kBlock);
  key_context().chain(key_context().root({}), p.tokens, kBlock, p.keys);
}

Prompt make_prompt(uint64_t seed, uint32_t blocks) {
  Rng rng(seed);
  Prompt p;
  p.tokens.resize(static_cast<size_t>(blocks) * kBlock);
  for (uint32_t& t : p.tokens) {
    t = static_cast<uint32_t>(rng.below(128000));
  }
  hash_prompt(p);
  return p;
}

/// A core and its outbox; `sent` are the messages of the last step.
template <class Core>
struct Driven {
  template <class... Args>
  explicit Driven(Args&&... args) : core(std::forward<Args>(args)...) {}
  void give(const Frame& frame) {
    out.items().clear();
    FrameReader reader(frame.words());
    out.begin(Address(1), ++seq, Tick{1});
    StepContext cx{Tick{1}, out};
    core.step(Envelope{frame.header(), reader.message()}, cx);
  }
  Frame sent(Kind kind) {
    for (Outgoing& item : out.items()) {
      if (item.kind == kind) {
        return item.frame;
      }
    }
    std::fprintf(stderr, "bench_match: no message of kind %u\n", static_cast<unsigned>(kind));
    std::exit(1);
  }
  Core core;
  Outbox out;
  uint64_t seq = 0;
};

class World {
 public:
  World(uint32_t blocks, bool scattered)
      : prompts_(blocks / kChain),
        index_(index_config(blocks)),
        allocator_(allocator_config(blocks)),
        tree_(prefix::TreeConfig{blocks, kBlock, 1}) {
    std::vector<uint32_t> handles(blocks);
    for (uint32_t i = 0; i < blocks; ++i) {
      handles[i] = i;
    }
    if (scattered) {
      Rng rng(7);
      for (uint32_t i = blocks - 1; i > 0; --i) {
        std::swap(handles[i], handles[rng.below(i + 1)]);
      }
    }
    for (size_t i = 0; i < prompts_.size(); ++i) {
      prompts_[i] = make_prompt(i + 1, kChain);
      uint32_t parent = kNoBlock;
      for (uint32_t b = 0; b < kChain; ++b) {
        prefix::NewBlock n;
        n.block = handles[i * kChain + b];
        n.parent = parent;
        n.key = prompts_[i].keys[b];
        n.count = kBlock;
        n.tokens = std::span(prompts_[i].tokens).subspan(static_cast<size_t>(b) * kBlock, kBlock);
        n.mask = 1;
        tree_.insert(n);
        parent = n.block;
      }
    }
  }

  double hash_round() {
    return round([&](Prompt& p) { hash_prompt(p); });
  }
  /// One round each, in ns per block: `longest_prefix` over known keys …
  double lookup_round() {
    return round([&](const Prompt& p) { sink_ += tree_.longest_prefix(p.keys, 0, 0); });
  }
  /// … match with token compare, use counts and the lease …
  double match_round() {
    std::vector<uint32_t> out;
    out.reserve(kChain);
    return round([&](const Prompt& p) {
      out.clear();
      uint32_t obstacle = 0;
      tree_.match({p.keys, p.tokens, kBlock, 0}, out, obstacle);
      for (const uint32_t block : out) {
        tree_.count_use(block);
      }
      tree_.lease(out.back());
      tree_.unlease(out.back());
      sink_ += out.size();
    });
  }
  /// … and through the messages: a request that hits all its blocks, from `match` to `run` (first),
  /// and its end, from `commit` to `publish` done (second).
  std::pair<double, double> message_round() {
    double enter = 0;
    double leave = 0;
    for (int i = 0; i < kPromptsPerRound; ++i) {
      admit(prompts_[rng_.below(prompts_.size())]);
      const double t0 = cpu_seconds();
      enter_row();
      const double t1 = cpu_seconds();
      end_row();
      enter += t1 - t0;
      leave += cpu_seconds() - t1;
    }
    return {enter * 1e9 / (kPromptsPerRound * kChain), leave * 1e9 / (kPromptsPerRound * kChain)};
  }
  /// From tokens to the end of a request that hits all its blocks: hashing, admission, match with
  /// token compare, reservation, publish, release.
  double whole_hit_round() {
    return round([&](Prompt& p) {
      hash_prompt(p);
      admit(p);
      enter_row();
      end_row();
    });
  }
  /// The same for a prompt that nobody saw before, in a full cache: lookup, reservation with
  /// reclaim of as many old blocks, publish and release. Ends the use of the world.
  double whole_new_round() {
    double spent = 0;
    for (int i = 0; i < kPromptsPerRound; ++i) {
      Prompt p = make_prompt(rng_.next(), kChain);
      const double t0 = cpu_seconds();
      hash_prompt(p);
      admit(p);
      enter_row_with_reclaim();
      end_row();
      spent += cpu_seconds() - t0;
    }
    return spent * 1e9 / (kPromptsPerRound * kChain);
  }
  void warm() {
    for (const Prompt& p : prompts_) {
      admit(p);
      enter_row();
      end_row();
      sink_ += tree_.longest_prefix(p.keys, 0, 0);
    }
  }
  double index_bytes_per_block() const {
    return static_cast<double>(tree_.bytes()) / tree_.capacity() - 4.0 * kBlock;
  }
  double allocator_bytes_per_block() const {
    return static_cast<double>(allocator_.core.table_bytes()) / tree_.capacity();
  }
  uint64_t sink() const { return sink_; }

 private:
  static PrefixIndexConfig index_config(uint32_t blocks) {
    PrefixIndexConfig c;
    c.capacity_blocks = blocks;
    return c;
  }
  static AllocatorConfig allocator_config(uint32_t blocks) {
    AllocatorConfig c;
    c.granules = {blocks, 0, 0, 0};
    c.capacity_blocks = blocks;
    return c;
  }
  template <class Work>
  double round(Work&& work) {
    const double t0 = cpu_seconds();
    for (int i = 0; i < kPromptsPerRound; ++i) {
      work(prompts_[rng_.below(prompts_.size())]);
    }
    return (cpu_seconds() - t0) * 1e9 / (kPromptsPerRound * kChain);
  }
  void admit(const Prompt& p) {
    ++request_;
    index_.give(scratch_.build(FrameHeader{}, 64 + p.tokens.size() / 2 + p.keys.size() * 4 + 16,
                               [&](wire::Message::Builder m) {
                                 auto admit = m.initAdmit();
                                 admit.setRequest(request_);
                                 auto spec = admit.initSpec();
                                 spec.setPromptOnly(true);
                                 spec.setPromptTokens(static_cast<uint32_t>(p.tokens.size()));
                                 spec.setTokens(data_of(p.tokens));
                                 spec.setKeys(data_of(p.keys));
                               }));
  }
  void enter_row() {
    send_match();
    allocator_.give(index_.sent(Kind::RESERVE));
    (void)allocator_.sent(Kind::RUN);
  }
  void send_match() {
    index_.give(scratch_.build(FrameHeader{}, 128, [&](wire::Message::Builder m) {
      auto step = m.initMatch();
      step.setStep(++step_);
      auto row = step.initNews(1)[0];
      row.setRequest(request_);
      row.setBudget(kChain * kBlock);
      row.setTotal(kChain * kBlock);
      row.setParent(kNoSequence);
      row.setPartialSource(kNoBlock);
    }));
  }
  /// Plays eviction (oldest prompt, deepest block first) and tiering (drop).
  void enter_row_with_reclaim() {
    send_match();
    allocator_.give(index_.sent(Kind::RESERVE));
    if (allocator_.out.items().front().kind == Kind::RECLAIM) {
      std::vector<uint32_t> victims(kChain);
      for (uint32_t b = 0; b < kChain; ++b) {
        victims[b] = oldest_ + kChain - 1 - b;  // handles go round with the prompts
      }
      oldest_ = (oldest_ + kChain) % (static_cast<uint32_t>(prompts_.size()) * kChain);
      index_.give(scratch_.build(FrameHeader{}, 64 + kChain, [&](wire::Message::Builder m) {
        m.initUnlink().setVictims(data_of(victims));
      }));
      (void)index_.sent(Kind::UNLINKED);
      index_.give(scratch_.build(FrameHeader{}, 64 + kChain * 3, [&](wire::Message::Builder m) {
        auto settle = m.initSettle();
        settle.setReclaim(true);
        auto items = settle.initItems(kChain);
        for (uint32_t b = 0; b < kChain; ++b) {
          items[b].setBlock(victims[b]);
          items[b].setTo(kTierCount);
          items[b].setOutcome(wire::Outcome::DROPPED);
        }
      }));
      allocator_.give(index_.sent(Kind::RELEASED));
    }
    (void)allocator_.sent(Kind::RUN);
  }
  void end_row() {
    allocator_.give(scratch_.build(FrameHeader{}, 128, [&](wire::Message::Builder m) {
      auto commit = m.initCommit();
      commit.setStep(step_);
      auto row = commit.initRows(1)[0];
      row.setRequest(request_);
      row.setSealed(kChain * kBlock);
      row.setEnding(wire::Ending::FINISHED);
    }));
    index_.give(allocator_.sent(Kind::PUBLISH));
  }
  std::vector<Prompt> prompts_;
  Driven<PrefixIndex> index_;
  Driven<Allocator> allocator_;
  prefix::BlockTree tree_;
  FrameScratch scratch_;
  Rng rng_{5};
  uint64_t request_ = 0;
  uint64_t step_ = 0;
  uint32_t oldest_ = 0;
  uint64_t sink_ = 0;
};

/// Rounds of one world, and what came of them.
struct Series {
  Series(uint32_t n, bool scattered_handles)
      : blocks(n), scattered(scattered_handles), world(n, scattered_handles) {
    world.warm();
  }
  void round() {
    lookup.push_back(world.lookup_round());
    match.push_back(world.match_round());
    const auto [e, l] = world.message_round();
    enter.push_back(e);
    leave.push_back(l);
    hash.push_back(world.hash_round());
    whole_hit.push_back(world.whole_hit_round());
  }
  void print(bool last) {
    std::printf(
        "  {\"blocks\": %u, \"handles\": \"%s\", \"lookup_ns\": %.1f, "
        "\"lookup_m_per_s\": %.1f, \"match_pin_ns\": %.1f, ",
        blocks, scattered ? "scattered" : "consecutive", median(lookup), 1e3 / median(lookup),
        median(match));
    if (!scattered) {
      std::printf("\"enter_ns\": %.1f, \"leave_ns\": %.1f, \"hash_ns\": %.1f, ", median(enter),
                  median(leave), median(hash));
      std::printf("\"whole_hit_ns\": %.1f, \"whole_hit_m_per_s\": %.2f, ", median(whole_hit),
                  1e3 / median(whole_hit));
      std::printf("\"whole_new_ns\": %.1f, \"whole_new_m_per_s\": %.2f, ", median(whole_new),
                  1e3 / median(whole_new));
    }
    std::printf("\"index_bytes\": %.1f, \"allocator_bytes\": %.1f}%s\n",
                world.index_bytes_per_block(), world.allocator_bytes_per_block(), last ? "" : ",");
  }
  uint32_t blocks;
  bool scattered;
  World world;
  std::vector<double> lookup, match, enter, leave, hash, whole_hit, whole_new;
};

}  // namespace

int main(int argc, char** argv) {
  uint32_t large = 1000000;
  double budget = 2.0;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--blocks") == 0) {
      large = static_cast<uint32_t>(std::strtoul(argv[i + 1], nullptr, 10));
    } else if (std::strcmp(argv[i], "--seconds") == 0) {
      budget = std::strtod(argv[i + 1], nullptr);
    } else {
      std::fprintf(stderr, "bench_match: unknown option %s (--blocks N, --seconds S)\n", argv[i]);
      return 2;
    }
  }
  std::printf("{\"bench\": \"match\", \"block_tokens\": %u, \"chain_blocks\": %u, \"rows\": [\n",
              kBlock, kChain);
  double ratios[6] = {};
  for (const bool scattered : {false, true}) {
    // Rounds of both sizes take turns, so that what else the machine does falls on both.
    Series small(50000, scattered);
    Series big(large, scattered);
    const double start = cpu_seconds();
    while (cpu_seconds() - start < budget || small.lookup.size() < 10) {
      small.round();
      big.round();
    }
    if (!scattered) {
      for (int i = 0; i < 6; ++i) {
        small.whole_new.push_back(small.world.whole_new_round());
        big.whole_new.push_back(big.world.whole_new_round());
      }
      ratios[4] = median(big.whole_new) / median(small.whole_new);
    }
    small.print(false);
    big.print(scattered);
    if (!scattered) {
      ratios[0] = median(big.lookup) / median(small.lookup);
      ratios[1] = median(big.match) / median(small.match);
      ratios[2] = median(big.enter) / median(small.enter);
      ratios[3] = -median(big.match);
      ratios[5] = median(big.whole_hit) / median(small.whole_hit);
    } else {
      ratios[3] = median(big.match) / -ratios[3];
    }
    std::fflush(stdout);
  }
  std::printf(
      "], \"ratios\": {\"lookup_large_to_small\": %.2f, \"match_pin_large_to_small\": %.2f, "
      "\"enter_large_to_small\": %.2f, \"scattered_to_consecutive\": %.2f, "
      "\"whole_new_large_to_small\": %.2f, \"whole_hit_large_to_small\": %.2f}}\n",
      ratios[0], ratios[1], ratios[2], ratios[3], ratios[4], ratios[5]);
  return 0;
}
