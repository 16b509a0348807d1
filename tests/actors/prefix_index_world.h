// Words for tests of the prefix index: prompts as token lists with chained keys, and the messages
// that its neighbours would send.
#pragma once

#include "actors/prefix_index/prefix_index.h"
#include "tests/actors/core_harness.h"

#include <string>
#include <vector>

namespace troupe::test {

using Tokens = std::vector<uint32_t>;

/// Chained keys of the full blocks of `tokens`, and of the tail when `tail`. Stands for the ingress
/// port's hash: uniform, and different for every prefix and domain.
inline std::vector<BlockKey> keys_of(const Tokens& tokens, uint32_t block, bool tail = false,
                                     uint32_t domain = 0) {
  std::vector<BlockKey> keys;
  uint64_t chain = mix64(0xC0FFEEULL + domain);
  for (size_t begin = 0; begin < tokens.size(); begin += block) {
    const size_t end = std::min<size_t>(begin + block, tokens.size());
    if (end - begin < block && !tail) {
      break;
    }
    for (size_t i = begin; i < end; ++i) {
      chain = mix64(chain ^ tokens[i]);
    }
    chain = mix64(chain + (end - begin));
    BlockKey key;
    for (int w = 0; w < 4; ++w) {
      key.w[w] = mix64(chain + static_cast<uint64_t>(w) * 0x9E37ULL);
    }
    keys.push_back(key);
  }
  return keys;
}

/// `n` tokens that begin with `head` and go on from `salt`.
inline Tokens prompt(size_t n, uint32_t salt, const Tokens& head = {}) {
  Tokens t(head.begin(), head.begin() + static_cast<ptrdiff_t>(std::min(n, head.size())));
  while (t.size() < n) {
    t.push_back(static_cast<uint32_t>(mix64(salt * 1000003ULL + t.size()) % 50000));
  }
  return t;
}

struct Ask {  // a submit as the gateway passes it on
  uint64_t request = 0;
  Tokens tokens;
  std::vector<BlockKey> keys;
  uint32_t tenant = 0;
  uint32_t domain = 0;
  uint64_t parent = 0;
  uint8_t block_class = 0;
  bool opaque = false;
  bool seal_partial = false;
  bool prompt_only = true;
};

constexpr uint32_t kBlock = 4;

/// Blocks of four tokens, or of eight in class 1.
inline PrefixIndexConfig config(uint8_t tiers = 1) {
  PrefixIndexConfig c;
  c.class_tokens = {kBlock, 2 * kBlock};
  c.class_bytes = {64, 64};
  c.capacity_blocks = 256;
  c.max_requests = 16;
  c.partial_min_tokens = 2;
  c.tiers = tiers;
  return c;
}

inline Ask ask(uint64_t request, const Tokens& tokens, bool seal_partial = false,
               uint32_t domain = 0) {
  Ask a;
  a.request = request;
  a.tokens = tokens;
  a.keys = keys_of(tokens, kBlock, seal_partial, domain);
  a.seal_partial = seal_partial;
  a.domain = domain;
  return a;
}

struct Hit {  // one new row as the index sends it on
  uint64_t request = 0;
  uint32_t hits = 0;
  uint32_t tokens = 0;
  uint32_t device = 0;
  uint32_t partial_source = 0;
  uint32_t partial_tokens = 0;
  uint32_t compute = 0;
  uint32_t last_partial = 0;
  uint32_t fork_tokens = 0;
  std::vector<uint32_t> blocks;
};

struct Published {
  uint64_t request = 0;
  uint32_t first = 0;
  std::vector<uint32_t> blocks;
  wire::Ending ending = wire::Ending::FINISHED;
  uint32_t last_tokens = 0;
  Tokens new_tokens = {};
  std::vector<BlockKey> new_keys = {};
  uint32_t sealed = 0;
  uint32_t sequence = 0;
};

class IndexWorld {
 public:
  explicit IndexWorld(PrefixIndexConfig config) : h(std::move(config)) {}

  std::vector<Sent> admit(const Ask& ask) {
    return h.give(Tick{1}, [&](wire::Message::Builder m) {
      auto admit = m.initAdmit();
      admit.setRequest(ask.request);
      auto spec = admit.initSpec();
      spec.setTenant(ask.tenant);
      spec.setDomain(ask.domain);
      spec.setParent(ask.parent);
      spec.setBlockClass(ask.block_class);
      spec.setOpaque(ask.opaque);
      spec.setSealPartial(ask.seal_partial);
      spec.setPromptOnly(ask.prompt_only);
      spec.setPromptTokens(static_cast<uint32_t>(ask.tokens.size()));
      if (!ask.opaque) {
        spec.setTokens(data_of(ask.tokens));
      }
      spec.setKeys(data_of(ask.keys));
    });
  }
  uint32_t probe(const Ask& ask) {
    uint32_t tokens = 0;
    for (const Sent& sent : admit(ask)) {
      sent.read([&](auto m) { tokens = m.isQueued() ? m.getQueued().getProbeTokens() : 0; });
    }
    return tokens;
  }
  /// Sends a match of `requests`; `total` 0: the prompt. What went on is in `hits`.
  std::vector<Sent> match(std::vector<uint64_t> requests, uint32_t total, bool force = false,
                          uint64_t commits = 0) {
    auto sent = h.give(Tick{2}, [&](wire::Message::Builder m) {
      auto step = m.initMatch();
      step.setStep(++step_);
      step.setCommits(commits);
      auto news = step.initNews(static_cast<unsigned>(requests.size()));
      for (unsigned i = 0; i < requests.size(); ++i) {
        news[i].setRequest(requests[i]);
        news[i].setSequence(i);
        news[i].setBudget(1000000);
        news[i].setTotal(total);
        news[i].setForce(force);
        news[i].setParent(kNoSequence);
        news[i].setPartialSource(kNoBlock);
      }
    });
    read_hits(sent);
    return sent;
  }
  std::vector<Sent> publish(const std::vector<Published>& rows, uint64_t number = 0) {
    return h.give(Tick{3}, [&](wire::Message::Builder m) {
      auto commit = m.initPublish();
      commit.setStep(step_);
      commit.setNumber(number);
      auto list = commit.initRows(static_cast<unsigned>(rows.size()));
      Tokens tokens;
      std::vector<BlockKey> keys;
      std::vector<uint32_t> blocks;
      for (unsigned i = 0; i < rows.size(); ++i) {
        const Published& row = rows[i];
        list[i].setRequest(row.request);
        list[i].setSequence(row.sequence);
        list[i].setEnding(row.ending);
        list[i].setFirstBlock(row.first);
        list[i].setBlocks(static_cast<uint32_t>(row.blocks.size()));
        list[i].setLastTokens(row.last_tokens);
        list[i].setNewTokens(static_cast<uint32_t>(row.new_tokens.size()));
        list[i].setNewKeys(static_cast<uint32_t>(row.new_keys.size()));
        list[i].setSealed(row.sealed);
        tokens.insert(tokens.end(), row.new_tokens.begin(), row.new_tokens.end());
        keys.insert(keys.end(), row.new_keys.begin(), row.new_keys.end());
        blocks.insert(blocks.end(), row.blocks.begin(), row.blocks.end());
      }
      commit.setTokens(data_of(tokens));
      commit.setKeys(data_of(keys));
      commit.setBlocks(data_of(blocks));
    });
  }
  std::vector<Sent> unlink(uint8_t tier, const std::vector<uint32_t>& victims) {
    return h.give(Tick{4}, [&](wire::Message::Builder m) {
      auto unlink = m.initUnlink();
      unlink.setTier(tier);
      unlink.setVictims(data_of(victims));
    });
  }
  struct Outcome {
    uint32_t block = 0;
    uint8_t from = 0;
    uint8_t to = 0;
    wire::Outcome outcome = wire::Outcome::DROPPED;
  };
  std::vector<Sent> settle(const std::vector<Outcome>& items, bool reclaim = false,
                           uint8_t tier = 0) {
    return h.give(Tick{5}, [&](wire::Message::Builder m) {
      auto settle = m.initSettle();
      settle.setTier(tier);
      settle.setReclaim(reclaim);
      auto list = settle.initItems(static_cast<unsigned>(items.size()));
      for (unsigned i = 0; i < items.size(); ++i) {
        list[i].setBlock(items[i].block);
        list[i].setFrom(items[i].from);
        list[i].setTo(items[i].to);
        list[i].setOutcome(items[i].outcome);
      }
    });
  }
  std::vector<Sent> purge_prefix(const std::vector<BlockKey>& keys) {
    return h.give(Tick{6}, [&](wire::Message::Builder m) {
      auto purge = m.initPurge();
      purge.setScope(wire::PurgeScope::PREFIX);
      purge.setKeys(data_of(keys));
    });
  }
  /// Admits, matches and finishes a request whose missing blocks get the handles from `next` on.
  std::vector<uint32_t> serve(const Ask& ask) {
    admit(ask);
    match({ask.request}, static_cast<uint32_t>(ask.tokens.size()), true);
    REQUIRE(hits.size() == 1);
    std::vector<uint32_t> path = hits[0].blocks;
    Published row{ask.request, hits[0].hits, {}};
    for (size_t i = hits[0].hits; i < ask.keys.size(); ++i) {
      row.blocks.push_back(next++);
      path.push_back(row.blocks.back());
    }
    if (ask.seal_partial && !row.blocks.empty()) {
      row.last_tokens = static_cast<uint32_t>(ask.tokens.size()) % block_tokens;
    }
    publish({row});
    return path;
  }

  CoreHarness<PrefixIndex> h;
  std::vector<Hit> hits;
  uint32_t next = 0;
  uint32_t block_tokens = 4;

 private:
  void read_hits(const std::vector<Sent>& sent) {
    hits.clear();
    for (const Sent& item : sent) {
      item.read([&](wire::Message::Reader m) {
        if (m.which() != Kind::RESERVE && m.which() != Kind::LOAD) {
          return;
        }
        const auto step = m.which() == Kind::LOAD ? m.getLoad() : m.getReserve();
        const auto blocks = span_of<uint32_t>(step.getBlocks());
        for (const auto row : step.getNews()) {
          Hit hit{row.getRequest(),       row.getHitBlocks(),
                  row.getHitTokens(),     row.getDeviceBlocks(),
                  row.getPartialSource(), row.getPartialTokens(),
                  row.getTokens(),        row.getLastPartial(),
                  row.getForkTokens(),    {}};
          for (uint32_t i = 0; i < hit.hits; ++i) {
            hit.blocks.push_back(blocks[row.getOffset() + i]);
          }
          hits.push_back(hit);
        }
      });
    }
  }
  uint64_t step_ = 0;
};

/// "kind tier: blocks" of every event batch in `sent`, in order.
inline std::vector<std::string> events_of(const std::vector<Sent>& sent) {
  static constexpr const char* kNames[] = {"invalid", "insert",  "hit",      "release",
                                           "remove",  "refused", "promoted", "demoted",
                                           "pause",   "resume",  "supersede"};
  std::vector<std::string> out;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() != Kind::EVENTS) {
        return;
      }
      for (const auto batch : m.getEvents().getBatches()) {
        std::string line = kNames[static_cast<size_t>(batch.getKind())];
        line += " " + std::to_string(batch.getTier()) + ":";
        for (const uint32_t block : span_of<uint32_t>(batch.getBlocks())) {
          line += " " + std::to_string(block);
        }
        out.push_back(line);
      }
    });
  }
  return out;
}

/// "block tier [gone] [quarantine] [kept]" of every release in `sent`.
inline std::vector<std::string> releases_of(const std::vector<Sent>& sent) {
  std::vector<std::string> out;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() != Kind::RELEASED) {
        return;
      }
      for (const auto r : m.getReleased().getItems()) {
        out.push_back(std::to_string(r.getBlock()) + " " + std::to_string(r.getTier()) +
                      (r.getGone() ? " gone" : "") + (r.getQuarantine() ? " quarantine" : "") +
                      (r.getKept() ? " kept" : ""));
      }
    });
  }
  return out;
}

}  // namespace troupe::test
