// Words for tests of the allocator: the messages that its neighbours send, and what an engine
// learns.
#pragma once

#include "actors/allocator/allocator.h"
#include "tests/actors/core_harness.h"

#include <map>
#include <string>
#include <vector>

namespace troupe::test {

struct RunIn {
  uint64_t request = 0;
  uint32_t sequence = 0;
  uint32_t before = 0;
  uint32_t tokens = 1;
};

struct NewIn {
  uint64_t request = 0;
  uint32_t sequence = 0;
  uint32_t total = 0;
  std::vector<uint32_t> hits = {};
  uint32_t device = kNoBlock;  // leading hits on the device; kNoBlock: all
  uint32_t hit_tokens = 0;     // 0: all hits are full
  uint32_t last_partial = 0;
  uint32_t partial_source = kNoBlock;
  uint32_t partial_tokens = 0;
  uint32_t parent = kNoSequence;
  uint32_t fork_tokens = 0;
  uint8_t block_class = 0;
};

struct PlanView {  // one row of a run
  uint64_t request = 0;
  uint32_t sequence = 0;
  uint32_t before = 0;
  uint32_t tokens = 0;
  uint32_t first = 0;
  uint32_t hits = 0;
  uint32_t partial = 0;
  bool entered = false;
  std::vector<uint32_t> blocks;
  std::vector<uint32_t> slots;
};

struct CopyView {
  uint32_t block = 0;
  uint32_t source = 0;  // first granule
  uint32_t target = 0;
  uint8_t from = 0;
  uint32_t row = 0;
};

struct RunView {
  bool there = false;
  std::vector<PlanView> rows;
  std::vector<CopyView> loads;
  std::vector<CopyView> cows;
};

struct CommitIn {
  uint64_t request = 0;
  uint32_t sequence = 0;
  uint32_t sealed = 0;
  wire::Ending ending = wire::Ending::FINISHED;
};

struct SealedView {
  uint64_t request = 0;
  uint32_t first = 0;
  uint32_t last_tokens = 0;
  std::vector<uint32_t> blocks;
};

struct FoldIn {
  uint64_t request = 0;
  uint32_t sequence = 0;
  uint32_t index = 0;
  uint32_t duplicate = 0;
  uint32_t canonical = kNoBlock;
};

struct ReleaseIn {
  uint32_t block = 0;
  uint8_t tier = 0;
  bool gone = true;
  bool quarantine = false;
  bool kept = false;
};

/// An engine's view of the tables: what plans told it, by sequence.
class AllocatorWorld {
 public:
  explicit AllocatorWorld(AllocatorConfig config) : h(std::move(config)) {}

  std::vector<Sent> reserve(const std::vector<RunIn>& rows, const std::vector<NewIn>& news) {
    return h.give(Tick{++now}, [&](wire::Message::Builder m) {
      auto batch = m.initReserve();
      batch.setStep(++step);
      auto run = batch.initRows(static_cast<unsigned>(rows.size()));
      for (unsigned i = 0; i < rows.size(); ++i) {
        run[i].setRequest(rows[i].request);
        run[i].setSequence(rows[i].sequence);
        run[i].setBefore(rows[i].before);
        run[i].setTokens(rows[i].tokens);
      }
      auto list = batch.initNews(static_cast<unsigned>(news.size()));
      std::vector<uint32_t> blocks;
      std::vector<BlockKey> keys;
      for (unsigned i = 0; i < news.size(); ++i) {
        const NewIn& in = news[i];
        const auto hits = static_cast<uint32_t>(in.hits.size());
        const uint32_t tokens =
            in.hit_tokens != 0 ? in.hit_tokens : hits * class_tokens[in.block_class];
        list[i].setRequest(in.request);
        list[i].setSequence(in.sequence);
        list[i].setTotal(in.total);
        list[i].setBudget(in.total);
        list[i].setBlockClass(in.block_class);
        list[i].setParent(in.parent);
        list[i].setForkTokens(in.fork_tokens);
        list[i].setHitBlocks(hits);
        list[i].setHitTokens(tokens);
        list[i].setDeviceBlocks(in.device == kNoBlock ? hits : in.device);
        list[i].setOffset(static_cast<uint32_t>(blocks.size()));
        list[i].setPartialSource(in.partial_source);
        list[i].setPartialTokens(in.partial_tokens);
        list[i].setLastPartial(in.last_partial);
        const uint32_t cached = std::min(in.total, tokens + in.partial_tokens);
        list[i].setTokens(std::max(1U, in.total - cached));
        blocks.insert(blocks.end(), in.hits.begin(), in.hits.end());
        list[i].setKeyOffset(static_cast<uint32_t>(keys.size()));
        for (uint32_t k = list[i].getDeviceBlocks(); k < hits; ++k) {
          keys.push_back({{in.hits[k] + 1, 0, 0, 0}});
        }
      }
      batch.setBlocks(data_of(blocks));
      batch.setKeys(data_of(keys));
    });
  }
  std::vector<Sent> commit(const std::vector<CommitIn>& rows) {
    return h.give(Tick{++now}, [&](wire::Message::Builder m) {
      auto commit = m.initCommit();
      commit.setStep(step);
      commit.setNumber(++commits);
      auto list = commit.initRows(static_cast<unsigned>(rows.size()));
      for (unsigned i = 0; i < rows.size(); ++i) {
        list[i].setRequest(rows[i].request);
        list[i].setSequence(rows[i].sequence);
        list[i].setSealed(rows[i].sealed);
        list[i].setEnding(rows[i].ending);
      }
    });
  }
  std::vector<Sent> folded(const std::vector<FoldIn>& folds, uint64_t commit = 0) {
    return h.give(Tick{++now}, [&](wire::Message::Builder m) {
      auto folded = m.initFolded();
      folded.setCommit(commit == 0 ? commits : commit);
      auto list = folded.initFolds(static_cast<unsigned>(folds.size()));
      for (unsigned i = 0; i < folds.size(); ++i) {
        list[i].setRequest(folds[i].request);
        list[i].setSequence(folds[i].sequence);
        list[i].setIndex(folds[i].index);
        list[i].setDuplicate(folds[i].duplicate);
        list[i].setCanonical(folds[i].canonical);
      }
    });
  }
  std::vector<Sent> released(const std::vector<ReleaseIn>& items, bool reclaim = true,
                             uint8_t tier = 0, uint64_t commit = 0) {
    return h.give(Tick{++now}, [&](wire::Message::Builder m) {
      auto released = m.initReleased();
      released.setCommit(commit == 0 ? commits : commit);
      released.setTier(tier);
      released.setReclaim(reclaim);
      auto list = released.initItems(static_cast<unsigned>(items.size()));
      for (unsigned i = 0; i < items.size(); ++i) {
        list[i].setBlock(items[i].block);
        list[i].setTier(items[i].tier);
        list[i].setGone(items[i].gone);
        list[i].setQuarantine(items[i].quarantine);
        list[i].setKept(items[i].kept);
      }
    });
  }
  std::vector<Sent> place(uint8_t from, uint8_t to, const std::vector<uint32_t>& blocks) {
    return h.give(Tick{++now}, [&](wire::Message::Builder m) {
      auto place = m.initPlace();
      place.setFrom(from);
      place.setTo(to);
      place.setBlocks(data_of(blocks));
    });
  }

  CoreHarness<Allocator> h;
  std::vector<uint32_t> class_tokens = {4};
  uint64_t step = 0;
  uint64_t commits = 0;
  int64_t now = 0;
};

inline RunView run_of(const std::vector<Sent>& sent) {
  RunView view;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() != Kind::RUN) {
        return;
      }
      view.there = true;
      const auto run = m.getRun();
      const auto slots = span_of<uint32_t>(run.getSlots());
      const auto blocks = span_of<uint32_t>(run.getBlocks());
      for (const auto row : run.getRows()) {
        PlanView plan{row.getRequest(),
                      row.getSequence(),
                      row.getBefore(),
                      row.getTokens(),
                      row.getFirstBlock(),
                      row.getHitBlocks(),
                      row.getPartialTokens(),
                      row.getEntered(),
                      {},
                      {}};
        for (uint32_t i = 0; i < row.getCount(); ++i) {
          plan.blocks.push_back(blocks[row.getOffset() + i]);
          plan.slots.push_back(slots[row.getOffset() + i]);
        }
        view.rows.push_back(plan);
      }
      const auto copies = [](auto list, std::vector<CopyView>& out) {
        for (const auto copy : list) {
          out.push_back({copy.getBlock(), copy.getSource().getFirst(), copy.getTarget().getFirst(),
                         copy.getSource().getTier(), copy.getRow()});
        }
      };
      copies(run.getLoads(), view.loads);
      copies(run.getCows(), view.cows);
    });
  }
  return view;
}

inline std::vector<SealedView> sealed_of(const std::vector<Sent>& sent) {
  std::vector<SealedView> out;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() != Kind::PUBLISH) {
        return;
      }
      auto blocks = span_of<uint32_t>(m.getPublish().getBlocks());
      for (const auto row : m.getPublish().getRows()) {
        SealedView view{row.getRequest(), row.getFirstBlock(), row.getLastTokens(), {}};
        view.blocks.assign(blocks.begin(), blocks.begin() + row.getBlocks());
        blocks = blocks.subspan(row.getBlocks());
        out.push_back(view);
      }
    });
  }
  return out;
}

/// Blocks asked for in a reclaim of `tier`, 0 when there is none.
inline uint32_t reclaim_of(const std::vector<Sent>& sent, uint8_t tier = 0) {
  uint32_t blocks = 0;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() == Kind::RECLAIM && m.getReclaim().getTier() == tier) {
        blocks += m.getReclaim().getBlocks();
      }
    });
  }
  return blocks;
}

struct ShortView {
  bool there = false;
  bool cancelled = false;
  uint32_t missing = 0;
  std::vector<uint64_t> dropped;
};
inline ShortView short_of(const std::vector<Sent>& sent) {
  ShortView view;
  for (const Sent& item : sent) {
    item.read([&](wire::Message::Reader m) {
      if (m.which() == Kind::SHORT) {
        const auto dropped = span_of<uint64_t>(m.getShort().getDropped());
        view = {true, m.getShort().getCancelled(), m.getShort().getMissing(),
                std::vector<uint64_t>(dropped.begin(), dropped.end())};
      }
    });
  }
  return view;
}

}  // namespace troupe::test
