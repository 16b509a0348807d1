// The whole line under random load, random interleaving and random faults: every request is
// answered once, every reused byte is the right one, and when all is quiet nothing is left behind.
#include "tests/actors/line_world.h"

#include <algorithm>
#include <set>

namespace troupe {
namespace {

using namespace test;

constexpr uint32_t kBlock = 4;

struct LineCase {
  uint64_t seed = 1;
  uint32_t device = 24;
  uint32_t host = 0;
  uint32_t disk = 0;
  uint32_t faults = 0;  // in 1000 copies
  uint32_t reserve = 0;
  bool swap = false;
  uint32_t purges = 0;  // in 10000 turns
  std::vector<uint32_t> class_granules = {1};
  int requests = 250;
};

struct Live {
  Ask ask;
  uint32_t max_new = 0;
  uint64_t request = 0;
  bool cancelled = false;
  Tokens tokens;  // prompt and what was generated
};

struct Sequence {  // what the engine knows of a table
  uint64_t ticket = 0;
  std::vector<uint32_t> slots;
};

class Line {
 public:
  explicit Line(const LineCase& c)
      : case_(c), rng_(c.seed), memory_(c.seed + 1, c.faults), dispatcher_(build(c), c.seed + 2) {}

  void run() {
    int submitted = 0;
    uint64_t turns = 0;
    while (submitted < case_.requests || !live_.empty()) {
      REQUIRE(++turns < 4000000);  // it ends: nothing waits for ever
      if (submitted < case_.requests && live_.size() < 12 && rng_.chance(1, 20)) {
        submit(static_cast<uint64_t>(++submitted));
      }
      if (!live_.empty() && rng_.chance(1, 400)) {
        cancel();
      }
      if (case_.purges != 0 && rng_.chance(case_.purges, 10000)) {
        purge();
      }
      const bool any = dispatcher_.deliver([&](wire::Message::Reader m) { on_client(m); });
      if (!any || rng_.chance(1, 30)) {
        advance();
      }
      if (turns % 500 == 0) {
        dispatcher_.check_all();
        dispatcher_.reload_all();
      }
    }
    while (dispatcher_.deliver([&](wire::Message::Reader m) { on_client(m); })) {
    }
    finish();
  }
  uint64_t verified() const { return verified_; }
  /// Counters of all actors at the end, by name.
  const std::map<std::string, uint64_t>& gauges() const { return gauges_; }

 private:
  Troupe build(const LineCase& c) {
    TroupeConfig config;
    config.gateway.max_live = 16;
    config.gateway.tenants = 4;
    // Limits are drawn too: small ones are met often.
    config.scheduler.max_running = static_cast<uint32_t>(1 + rng_.below(8));
    config.scheduler.max_batch_tokens = static_cast<uint32_t>(8 + rng_.below(60));
    config.scheduler.chunk_tokens = static_cast<uint32_t>(1 + rng_.below(24));
    config.scheduler.pending_deadline = from_us(c.seed % 2 == 0 ? 300 : 15);
    config.scheduler.swap_on_preempt = c.swap;
    config.allocator.granules = {c.device, c.host, c.disk, 0};
    config.allocator.class_granules = c.class_granules;
    config.allocator.class_tokens.assign(c.class_granules.size(), kBlock);
    config.allocator.capacity_blocks = c.device + c.host + c.disk;
    config.allocator.free_reserve = c.reserve;
    config.prefix_index.class_bytes.assign(c.class_granules.size(), 64);
    config.prefix_index.partial_min_tokens = static_cast<uint32_t>(rng_.below(4));
    config.prefix_index.publish_partial = rng_.chance(3, 4);
    config.always_load = c.seed % 2 == 0;
    config.tiering.block_bytes = 64;
    config.tiering.prefill_tokens_per_s = c.seed % 3 == 0 ? 20000000 : 1000000;
    MoverSet movers;
    movers.device_stream = std::make_unique<ActorOf<FakeMover>>("device_stream", memory_);
    movers.host_mover = std::make_unique<ActorOf<FakeMover>>("host_mover", memory_);
    movers.disk_mover = std::make_unique<ActorOf<FakeMover>>("disk_mover", memory_);
    movers.clock = std::make_unique<ActorOf<Clock>>("clock", 64U);
    auto troupe = build_troupe(config, registry_, std::move(movers));
    REQUIRE(troupe.is_ok());
    return std::move(*troupe);
  }

  void submit(uint64_t ticket) {
    Live live;
    Ask& ask = live.ask;
    ask.request = ticket;
    ask.domain = static_cast<uint32_t>(rng_.below(2));
    ask.tenant = ask.domain;
    ask.block_class = static_cast<uint8_t>(rng_.below(case_.class_granules.size()));
    ask.opaque = rng_.chance(1, 10);
    ask.seal_partial = rng_.chance(1, 2);
    ask.prompt_only = rng_.chance(1, 3);
    // A few families of prompts that part at any token; a turn may go on from an earlier one.
    const auto family = static_cast<uint32_t>(rng_.below(3));
    Tokens head = prompt(1 + rng_.below(20), 100 + family);
    if (!history_.empty() && rng_.chance(1, 3)) {
      const Past& past = history_[rng_.below(history_.size())];
      head = past.tokens;
      ask.domain = past.domain;
      ask.tenant = past.domain;
      ask.block_class = past.block_class;
    }
    if (!live_.empty() && rng_.chance(1, 6)) {
      const Live& parent =
          std::next(live_.begin(), static_cast<ptrdiff_t>(rng_.below(live_.size())))->second;
      ask.parent = parent.ask.request;
      ask.domain = parent.ask.domain;
      ask.tenant = parent.ask.tenant;
      ask.block_class = parent.ask.block_class;
      ask.opaque = parent.ask.opaque;
      head = parent.tokens;
    }
    const size_t most = (case_.device / case_.class_granules[ask.block_class] - 3) * kBlock / 2;
    ask.tokens = prompt(1 + rng_.below(most), static_cast<uint32_t>(rng_.below(6)), head);
    live.max_new = ask.prompt_only ? 0 : static_cast<uint32_t>(1 + rng_.below(9));
    ask.keys = keys(ask, ask.tokens, ask.seal_partial);
    live.tokens = ask.tokens;
    dispatcher_.post(Kind::SUBMIT, 400, [&](wire::Message::Builder m) {
      auto spec = m.initSubmit().initSpec();
      spec.setTicket(ticket);
      spec.setTenant(ask.tenant);
      spec.setDomain(ask.domain);
      spec.setParent(ask.parent);
      spec.setBlockClass(ask.block_class);
      spec.setOpaque(ask.opaque);
      spec.setSealPartial(ask.seal_partial);
      spec.setPromptOnly(ask.prompt_only);
      spec.setPromptTokens(static_cast<uint32_t>(ask.tokens.size()));
      spec.setMaxNewTokens(live.max_new);
      spec.setPriority(static_cast<int32_t>(rng_.below(2)));
      spec.setKeys(data_of(ask.keys));
      if (!ask.opaque) {
        spec.setTokens(data_of(ask.tokens));
      }
      if (rng_.chance(1, 30)) {
        spec.setDeadline(dispatcher_.now() + 200000);
      }
    });
    live_.emplace(ticket, std::move(live));
  }
  std::vector<BlockKey> keys(const Ask& ask, const Tokens& tokens, bool tail) const {
    // An engine's own keys name content in a space of their own.
    return keys_of(tokens, kBlock, tail,
                   ask.domain + (ask.opaque ? 100 : 0) + ask.block_class * 10U);
  }
  void cancel() {
    auto& [ticket, live] =
        *std::next(live_.begin(), static_cast<ptrdiff_t>(rng_.below(live_.size())));
    live.cancelled = true;
    dispatcher_.post(Kind::CANCEL, 0,
                     [&, t = ticket](wire::Message::Builder m) { m.initCancel().setTicket(t); });
  }
  void purge() {
    dispatcher_.post(Kind::CONTROL, 8, [&](wire::Message::Builder m) {
      auto control = m.initControl();
      control.setControl(++controls_);
      auto purge = control.initPurge();
      const uint64_t domain = rng_.below(3);
      purge.setScope(domain < 2 ? wire::PurgeScope::DOMAIN : wire::PurgeScope::ALL);
      purge.setId(domain);
    });
  }
  void advance() {
    dispatcher_.post(Kind::ADVANCE, 0,
                     [&](wire::Message::Builder m) { m.initAdvance().setTick(dispatcher_.now()); });
  }

  void on_client(wire::Message::Reader m) {
    switch (m.which()) {
      case Kind::ACCEPTED:
        by_request_[m.getAccepted().getRequest()] = m.getAccepted().getTicket();
        break;
      case Kind::REPLY:
        on_reply(m.getReply());
        break;
      case Kind::PLAN:
        on_plan(m.getPlan());
        break;
      case Kind::ANSWER:
        ++answers_;
        for (const auto gauge : m.getAnswer().getGauges()) {
          gauges_[gauge.getName().cStr()] += static_cast<uint64_t>(gauge.getValue());
        }
        break;
      default:
        FAIL("the client got a message of kind " << static_cast<unsigned>(m.which()));
    }
  }
  void on_reply(wire::Reply::Reader reply) {
    const auto found = live_.find(reply.getTicket());
    REQUIRE(found != live_.end());  // exactly one a request
    const Live& live = found->second;
    INFO("ticket " << reply.getTicket() << " refusal " << static_cast<int>(reply.getRefusal()));
    if (!live.cancelled && live.ask.parent == 0 && reply.getEnding() == wire::Ending::FINISHED) {
      const auto usage = reply.getUsage();
      CHECK(usage.getGeneratedTokens() + live.ask.tokens.size() == live.tokens.size());
      CHECK(usage.getHitTokens() <= live.ask.tokens.size());
    }
    if (!live.ask.opaque) {
      history_.push_back({live.tokens, live.ask.domain, live.ask.block_class});
    }
    live_.erase(found);
  }

  /// What a right token's cache is: all tokens up to it, and whose they are.
  std::vector<uint64_t> expected(const Live& live) const {
    uint64_t chain = mix64(live.ask.domain + 1000U * live.ask.block_class);
    std::vector<uint64_t> out;
    for (const uint32_t token : live.tokens) {
      chain = mix64(chain ^ (token + 1));
      out.push_back(chain);
    }
    return out;
  }
  FakeMemory::Bytes& bytes(const Sequence& sequence, size_t token) {
    FakeMemory::Bytes& b = memory_.at(0, sequence.slots.at(token / kBlock));
    b.resize(kBlock);
    return b;
  }

  struct Done {
    uint64_t request = 0;
    uint32_t sequence = 0, before = 0, computed = 0, generated = 0, keys = 0;
    bool failed = false, stop = false;
  };
  void on_plan(wire::Run::Reader plan) {
    std::vector<Done> done;
    Tokens tokens;
    std::vector<BlockKey> keys;
    const auto slots = span_of<uint32_t>(plan.getSlots());
    for (const auto row : plan.getRows()) {
      Sequence& sequence = sequences_[row.getSequence()];
      Live& live = live_.at(by_request_.at(row.getRequest()));
      if (row.getEntered()) {
        sequence = Sequence{live.ask.request, {}};
      }
      REQUIRE(sequence.ticket == live.ask.request);
      sequence.slots.resize(row.getFirstBlock());
      for (uint32_t i = 0; i < row.getCount(); ++i) {
        sequence.slots.push_back(slots[row.getOffset() + i]);
      }
      done.push_back(compute(row, sequence, live, tokens, keys));
    }
    dispatcher_.post(Kind::STEP_DONE, done.size() * 8 + tokens.size() + keys.size() * 4 + 16,
                     [&](wire::Message::Builder m) {
                       auto out = m.initStepDone();
                       out.setStep(plan.getStep());
                       auto list = out.initRows(static_cast<unsigned>(done.size()));
                       for (unsigned i = 0; i < done.size(); ++i) {
                         list[i].setRequest(done[i].request);
                         list[i].setSequence(done[i].sequence);
                         list[i].setBefore(done[i].before);
                         list[i].setComputed(done[i].computed);
                         list[i].setGenerated(done[i].generated);
                         list[i].setFailed(done[i].failed);
                         list[i].setStop(done[i].stop);
                         list[i].setKeys(done[i].keys);
                       }
                       out.setTokens(data_of(tokens));
                       out.setKeys(data_of(keys));
                     });
  }
  Done compute(wire::PlanRow::Reader row, Sequence& sequence, Live& live, Tokens& tokens,
               std::vector<BlockKey>& keys) {
    Done d{row.getRequest(), row.getSequence(), row.getBefore()};
    if (row.getFailed()) {
      d.failed = true;
      return d;
    }
    const auto want = expected(live);
    const uint32_t end = row.getBefore() + row.getTokens();
    REQUIRE(end <= want.size());
    REQUIRE(sequence.slots.size() * kBlock >= end);
    for (uint32_t t = 0; t < row.getBefore(); ++t) {
      if (bytes(sequence, t)[t % kBlock] != want[t]) {
        FAIL("request " << row.getRequest() << " reads a wrong token " << t << " in slot "
                        << sequence.slots[t / kBlock]);
      }
      ++verified_;
    }
    for (uint32_t t = row.getBefore(); t < end; ++t) {
      bytes(sequence, t)[t % kBlock] = want[t];
    }
    d.computed = row.getTokens();
    if (end == live.tokens.size() && !live.ask.prompt_only) {
      const size_t generated = live.tokens.size() - live.ask.tokens.size();
      if (generated < live.max_new) {
        const auto token = static_cast<uint32_t>(rng_.below(3));
        const size_t known = this->keys(live.ask, live.tokens, false).size();
        live.tokens.push_back(token);
        tokens.push_back(token);
        d.generated = 1;
        d.stop = rng_.chance(1, 12);
        const auto all = this->keys(live.ask, live.tokens, false);
        if (all.size() > known && rng_.chance(3, 4) && keyless_.count(live.ask.request) == 0) {
          keys.push_back(all.back());
          d.keys = 1;
        } else if (all.size() > known) {
          keyless_.insert(live.ask.request);  // what follows a block without key has none either
        }
      }
    }
    return d;
  }

  void finish() {
    dispatcher_.check_all();
    auto& index = dispatcher_.core<PrefixIndex>(Role::kPrefixIndex);
    auto& allocator = dispatcher_.core<Allocator>(Role::kAllocator);
    CHECK(index.tree().live_leases() == 0);
    uint64_t granules = 0;
    for (uint32_t b = 0; b < index.tree().capacity(); ++b) {
      if (index.tree().live(b)) {
        CHECK(index.tree().motion(b) == prefix::Motion::kNone);
        granules += index.tree().on(b, 0) ? case_.class_granules[index.tree().make(b) & 0x7F] : 0;
      }
    }
    CHECK(allocator.pool(Tier::kDevice).used() == granules);
    dispatcher_.post(Kind::CONTROL, 8, [&](wire::Message::Builder m) {
      auto control = m.initControl();
      control.setControl(2);
      control.setStatus();
    });
    while (dispatcher_.deliver([&](wire::Message::Reader m) { on_client(m); })) {
    }
    CHECK(gauges_.at("allocator.device.demoting") == 0);
    answers_ = 0;
    dispatcher_.post(Kind::CONTROL, 8, [&](wire::Message::Builder m) {
      auto control = m.initControl();
      control.setControl(1);
      control.initPurge().setScope(wire::PurgeScope::ALL);
    });
    while (dispatcher_.deliver([&](wire::Message::Reader m) { on_client(m); })) {
    }
    dispatcher_.check_all();
    CHECK(answers_ == 1);
    CHECK(index.tree().live_blocks() == 0);
    for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kDisk}) {
      CHECK(allocator.pool(tier).used() == 0);
    }
  }

  struct Past {
    Tokens tokens;
    uint32_t domain = 0;
    uint8_t block_class = 0;
  };
  LineCase case_;
  Rng rng_;
  LruRegistry registry_;
  FakeMemory memory_;
  RandomDispatcher dispatcher_;
  std::map<uint64_t, Live> live_;  // by ticket
  std::map<uint64_t, uint64_t> by_request_;
  std::map<uint32_t, Sequence> sequences_;
  std::vector<Past> history_;
  std::set<uint64_t> keyless_;
  uint64_t verified_ = 0;
  std::map<std::string, uint64_t> gauges_;
  uint64_t answers_ = 0;
  uint64_t controls_ = 10;
};

/// Runs `seeds` cases and adds up what happened in them.
template <class Change>
std::map<std::string, uint64_t> run_cases(uint64_t seeds, Change&& change) {
  std::map<std::string, uint64_t> sums;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    LineCase c;
    c.seed = seed;
    change(c);
    INFO("seed " << seed);
    Line line(c);
    line.run();
    for (const auto& [name, value] : line.gauges()) {
      sums[name] += value;
    }
    sums["verified"] += line.verified();
  }
  return sums;
}

/// A history in which these never happened proves nothing about them.
void happened(const std::map<std::string, uint64_t>& sums, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    INFO(name);
    CHECK(sums.count(name) == 1);
    CHECK((sums.count(name) == 1 && sums.at(name) > 0));
  }
}

}  // namespace

TEST_CASE("device only: all are answered once, all reused bytes are right, nothing is left",
          "[T:pool_invariants]") {
  const auto sums = run_cases(40, [](LineCase&) {});
  happened(sums, {"verified", "allocator.evicted", "allocator.copied", "prefix_index.folded",
                  "prefix_index.waits", "scheduler.preemptions"});
}

TEST_CASE("with lower tiers, preemption by swap and a free reserve") {
  const auto sums = run_cases(8, [](LineCase& c) {
    c.host = 20;
    c.disk = c.seed % 3 == 0 ? 30 : 0;
    c.swap = c.seed % 2 == 0;
    c.reserve = c.seed % 4 == 0 ? 4 : 0;
  });
  happened(sums, {"tiering.loaded", "tiering.recomputed", "tiering.demoted", "tiering.dropped"});
}

TEST_CASE("copies that fail cost time, never a wrong byte or a lost request") {
  const auto sums = run_cases(8, [](LineCase& c) {
    c.host = 20;
    c.disk = c.seed % 2 == 0 ? 30 : 0;
    c.faults = 150;
    c.swap = c.seed % 3 == 0;
  });
  happened(sums, {"tiering.lost", "tiering.loaded", "allocator.quarantined"});
}

TEST_CASE("a purge at any moment: nobody reads a block that was given away under a step") {
  const auto sums = run_cases(10, [](LineCase& c) {
    c.host = 20;
    c.disk = c.seed % 2 == 0 ? 30 : 0;
    c.swap = c.seed % 3 == 0;
    c.faults = c.seed % 5 == 0 ? 100 : 0;
    c.purges = 50;
  });
  happened(sums, {"purged.blocks", "purged.detached", "tiering.loaded", "verified"});
}

TEST_CASE("blocks of two sizes in one pool", "[T:hetero_pages_roundtrip]") {
  const auto sums = run_cases(6, [](LineCase& c) {
    c.device = 60;
    c.host = c.seed % 2 == 0 ? 40 : 0;
    c.class_granules = {1, 4};
  });
  happened(sums, {"allocator.evicted", "tiering.loaded"});
}

}  // namespace troupe
