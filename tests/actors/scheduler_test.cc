// scheduler: batches, chunks, publication, preemption, cancels, waits; every request leaves once.
#include "actors/scheduler/scheduler.h"
#include "tests/actors/core_harness.h"

namespace troupe {
namespace {

using test::CoreHarness;
using test::kinds;
using test::Sent;
using Harness = CoreHarness<Scheduler>;

SchedulerConfig config() {
  SchedulerConfig c;
  c.max_running = 4;
  c.max_batch_tokens = 64;
  c.chunk_tokens = 32;
  c.ask_order = false;
  return c;
}

std::vector<Sent> queue(Harness& h, uint64_t request, uint32_t prompt, uint32_t max_new,
                        int32_t priority = 0, int64_t now = 1) {
  return h.give(Tick{now}, [&](wire::Message::Builder m) {
    auto q = m.initQueued();
    q.setRequest(request);
    q.setPromptTokens(prompt);
    q.setMaxNewTokens(max_new);
    q.setPriority(priority);
    q.setPromptOnly(max_new == 0);
  });
}

struct Row {
  uint64_t request;
  uint32_t sequence;
  uint32_t before;
  uint32_t computed;
  uint32_t generated;
  bool failed = false;
};

std::vector<Sent> done(Harness& h, uint64_t step, std::vector<Row> rows, int64_t now = 2) {
  return h.give(Tick{now}, [&](wire::Message::Builder m) {
    auto d = m.initStepDone();
    d.setStep(step);
    auto list = d.initRows(static_cast<unsigned>(rows.size()));
    std::vector<uint32_t> tokens;
    for (unsigned i = 0; i < rows.size(); ++i) {
      list[i].setRequest(rows[i].request);
      list[i].setSequence(rows[i].sequence);
      list[i].setBefore(rows[i].before);
      list[i].setComputed(rows[i].computed);
      list[i].setGenerated(rows[i].generated);
      list[i].setFailed(rows[i].failed);
      for (uint32_t t = 0; t < rows[i].generated; ++t) {
        tokens.push_back(1000 + t);
      }
    }
    d.setTokens(data_of(tokens));
  });
}

}  // namespace

TEST_CASE("a request alone enters at once, in chunks, and ends with one reply") {
  Harness h(config());
  auto sent = queue(h, 1, 40, 2);
  REQUIRE(kinds(sent) == std::vector{Kind::MATCH});
  uint32_t sequence = 99;
  sent[0].read([&](auto m) {
    const auto row = m.getMatch().getNews()[0];
    CHECK(row.getRequest() == 1);
    CHECK(row.getBudget() == 32);
    CHECK(row.getTotal() == 40);
    sequence = row.getSequence();
  });
  // First chunk: 32 tokens, two full blocks are published before the next batch.
  sent = done(h, 1, {{1, sequence, 0, 32, 0}});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::RESERVE});
  sent[0].read([&](auto m) {
    const auto row = m.getCommit().getRows()[0];
    CHECK(row.getSealed() == 32);
    CHECK(row.getEnding() == wire::Ending::RUNNING);
    CHECK_FALSE(row.getReply());
  });
  sent[1].read([&](auto m) {
    const auto row = m.getReserve().getRows()[0];
    CHECK(row.getBefore() == 32);
    CHECK(row.getTokens() == 8);
  });
  // The prompt's end gives the first token; nothing new is full.
  sent = done(h, 2, {{1, sequence, 32, 8, 1}}, 5);
  REQUIRE(kinds(sent) == std::vector{Kind::RESERVE});
  sent = done(h, 3, {{1, sequence, 40, 1, 1}}, 7);
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT});
  sent[0].read([&](auto m) {
    const auto commit = m.getCommit();
    CHECK(commit.getRows()[0].getSealed() == 41);
    CHECK(commit.getRows()[0].getEnding() == wire::Ending::FINISHED);
    CHECK(commit.getRows()[0].getReply());
    CHECK(commit.getRows()[0].getNewTokens() == 2);
    CHECK(commit.getReplies()[0].getUsage().getGeneratedTokens() == 2);
    CHECK(commit.getReplies()[0].getUsage().getFirstToken() == 5);
  });
}

TEST_CASE("decodes come first and prompts share what is left of the batch") {
  Harness h(config());
  queue(h, 1, 16, 5);
  queue(h, 2, 100, 5);
  queue(h, 3, 100, 5);
  const auto sent = done(h, 1, {{1, 0, 0, 16, 1}});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::MATCH});
  sent[1].read([&](auto m) {
    const auto batch = m.getMatch();
    REQUIRE(batch.getRows().size() == 1);
    CHECK(batch.getRows()[0].getTokens() == 1);
    REQUIRE(batch.getNews().size() == 2);
    CHECK(batch.getNews()[0].getRequest() == 2);
    CHECK(batch.getNews()[0].getBudget() == 32);
    CHECK(batch.getNews()[1].getBudget() == 31);  // 64 - 1 - 32
  });
}

TEST_CASE("higher priority enters first, equal priority in order of arrival") {
  SchedulerConfig c = config();
  c.max_running = 1;
  Harness h(c);
  queue(h, 1, 16, 1);
  queue(h, 2, 16, 1, 0);
  queue(h, 3, 16, 1, 5);
  queue(h, 4, 16, 1, 5);
  std::vector<uint64_t> order;
  uint64_t step = 1;
  auto sent = done(h, step, {{1, 0, 0, 16, 1}});
  while (order.size() < 3) {
    sent.back().read([&](auto m) { order.push_back(m.getMatch().getNews()[0].getRequest()); });
    sent = done(h, ++step, {{order.back(), 0, 0, 16, 1}});
  }
  CHECK(order == std::vector<uint64_t>{3, 4, 2});
}

TEST_CASE(
    "when running rows do not fit, the latest of the least urgent is preempted and comes back") {
  Harness h(config());
  queue(h, 1, 16, 40);
  queue(h, 2, 16, 40);
  auto sent = done(h, 1, {{1, 0, 0, 16, 1}});
  sent = done(h, 2, {{1, 0, 16, 1, 1}, {2, 1, 0, 16, 1}});
  sent = h.give(Tick{9}, [&](wire::Message::Builder m) {
    auto s = m.initShort();
    s.setStep(3);
    s.setCancelled(true);
    s.setMissing(1);
  });
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::MATCH});
  sent[0].read([&](auto m) {
    const auto row = m.getCommit().getRows()[0];
    CHECK(row.getRequest() == 2);
    CHECK(row.getEnding() == wire::Ending::PREEMPT_RECOMPUTE);
    CHECK(row.getSealed() == 16);
    CHECK(row.getNewTokens() == 0);  // its one token went with the block sealed before
    CHECK_FALSE(row.getReply());
  });
  sent[1].read([&](auto m) {
    CHECK(m.getMatch().getRows().size() == 1);
    REQUIRE(m.getMatch().getNews().size() == 1);
    CHECK(m.getMatch().getNews()[0].getRequest() == 2);
    CHECK(m.getMatch().getNews()[0].getTotal() == 17);  // its prompt and what it had generated
  });
  CHECK(h.core.preemptions() == 1);
}

TEST_CASE("a sequence that alone is too large is refused, not retried for ever") {
  Harness h(config());
  queue(h, 1, 16, 40);
  auto sent = done(h, 1, {{1, 0, 0, 16, 1}});
  bool ended = false;
  for (uint64_t step = 2; step < 10 && !ended; ++step) {
    sent = h.give(Tick{9}, [&](wire::Message::Builder m) {
      auto s = m.initShort();
      s.setStep(step);
      s.setCancelled(true);
    });
    sent[0].read([&](auto m) {
      if (m.isCommit() && m.getCommit().getReplies().size() == 1) {
        ended = m.getCommit().getReplies()[0].getRefusal() == wire::Refusal::TOO_LONG;
      }
    });
  }
  CHECK(ended);
}

TEST_CASE("new rows left out for room wait until something leaves, in their order") {
  Harness h(config());
  queue(h, 1, 16, 3);
  queue(h, 2, 16, 3);
  queue(h, 3, 16, 3);
  auto sent = done(h, 1, {{1, 0, 0, 16, 1}});
  sent = h.give(Tick{3}, [&](wire::Message::Builder m) {
    auto s = m.initShort();
    s.setStep(2);
    s.setDropped(data_of(std::vector<uint64_t>{2, 3}));
  });
  CHECK(sent.empty());  // the step goes on with the running row
  sent = done(h, 2, {{1, 0, 16, 1, 1}});
  // The leases of those left out are given back; they do not enter again yet.
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::RESERVE});
  sent[0].read([&](auto m) { CHECK(m.getCommit().getRows().size() == 2); });
  sent = done(h, 3, {{1, 0, 17, 1, 1}});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::MATCH});
  sent[1].read([&](auto m) {
    REQUIRE(m.getMatch().getNews().size() == 1);  // none got in last time, so one is tried
    CHECK(m.getMatch().getNews()[0].getRequest() == 2);
  });
  sent = done(h, 4, {{2, 0, 0, 16, 1}});
  sent.back().read([&](auto m) {
    REQUIRE(m.getMatch().getNews().size() == 1);
    CHECK(m.getMatch().getNews()[0].getRequest() == 3);
  });
}

TEST_CASE("a request that waits for another's blocks comes back when ready, or by its deadline") {
  Harness h(config());
  queue(h, 1, 16, 3);
  auto sent = h.give(Tick{1}, [&](wire::Message::Builder m) {
    auto held = m.initHeld();
    held.setStep(1);
    held.setWaiting(data_of(std::vector<uint64_t>{1}));
    held.setStepEmpty(true);
  });
  REQUIRE(kinds(sent) == std::vector{Kind::WAKE_AT});
  SECTION("ready") {
    sent = h.give(Tick{2}, [&](wire::Message::Builder m) {
      m.initReady().setRequests(data_of(std::vector<uint64_t>{1}));
    });
    REQUIRE(kinds(sent) == std::vector{Kind::MATCH});
    sent[0].read([&](auto m) { CHECK_FALSE(m.getMatch().getNews()[0].getForce()); });
  }
  SECTION("deadline") {
    sent = h.give(from_ms(600), [&](wire::Message::Builder m) { m.initWake().setTick(1); });
    REQUIRE(kinds(sent) == std::vector{Kind::MATCH});
    sent[0].read([&](auto m) { CHECK(m.getMatch().getNews()[0].getForce()); });
  }
}

TEST_CASE("a cancel ends a request once, wherever it stands") {
  Harness h(config());
  const auto cancel = [&](uint64_t request) {
    return h.give(Tick{5}, [&](wire::Message::Builder m) { m.initCancel().setRequest(request); });
  };
  queue(h, 1, 16, 3);   // entering
  queue(h, 2, 16, 3);   // queued
  CHECK(cancel(1).empty());
  CHECK(cancel(2).empty());  // the commit goes out when the step is done
  CHECK(cancel(2).empty());
  const auto sent = done(h, 1, {{1, 0, 0, 16, 1}});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT});
  sent[0].read([&](auto m) {
    REQUIRE(m.getCommit().getReplies().size() == 2);
    CHECK(m.getCommit().getReplies()[0].getEnding() == wire::Ending::CANCELLED);
  });
  CHECK(cancel(1).empty());
}

TEST_CASE("a cancel that overtakes its request on the way through the index is not lost") {
  Harness h(config());
  CHECK(h.give(Tick{1}, [&](wire::Message::Builder m) { m.initCancel().setRequest(1); }).empty());
  const auto sent = queue(h, 1, 16, 3);
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT});
  sent[0].read([&](auto m) {
    CHECK(m.getCommit().getReplies()[0].getEnding() == wire::Ending::CANCELLED);
  });
}

TEST_CASE("a new row that the engine leaves out gives its table back and comes again") {
  Harness h(config());
  queue(h, 1, 16, 3);
  const auto sent = done(h, 1, {});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::MATCH});
  sent[0].read([&](auto m) {
    const auto row = m.getCommit().getRows()[0];
    CHECK(row.getSequence() == 0);  // not "none": the allocator has built its table
    CHECK(row.getEnding() == wire::Ending::FAILED_LOAD);
  });
}

TEST_CASE("a row whose loads never verify ends with one reply") {
  Harness h(config());
  auto sent = queue(h, 1, 16, 3);
  for (uint64_t step = 1; step < 20 && !sent.empty() && sent.back().kind == Kind::MATCH; ++step) {
    sent = done(h, step, {{1, 0, 0, 0, 0, true}});
  }
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT});
  sent[0].read([&](auto m) { CHECK(m.getCommit().getReplies().size() == 1); });
}

TEST_CASE("an engine that gives no token computes the last one again, and claims are bounded") {
  Harness h(config());
  queue(h, 1, 16, 3);
  SECTION("no token at the prompt's end") {
    const auto sent = done(h, 1, {{1, 0, 0, 16, 0}});
    REQUIRE_FALSE(sent.empty());
    REQUIRE(sent.back().kind == Kind::RESERVE);
    sent.back().read([&](auto m) {
      CHECK(m.getReserve().getRows()[0].getBefore() == 15);
      CHECK(m.getReserve().getRows()[0].getTokens() == 1);
    });
  }
  SECTION("more computed than planned, or all of it valid before") {
    for (const Row& lie : {Row{1, 0, 0, 33, 0}, Row{1, 0, 16, 0, 0}}) {
      Harness other(config());
      queue(other, 1, 16, 3);
      const auto sent = done(other, 1, {lie});
      REQUIRE(kinds(sent) == std::vector{Kind::RESERVE});
      sent[0].read([&](auto m) { CHECK(m.getReserve().getRows()[0].getBefore() == 0); });
    }
  }
}

TEST_CASE("trimmed tokens are withdrawn once the step under way is done") {
  Harness h(config());
  queue(h, 1, 16, 9);
  done(h, 1, {{1, 0, 0, 16, 1}});
  done(h, 2, {{1, 0, 16, 1, 3}});  // draft tokens accepted: four so far
  CHECK(h.give(Tick{3}, [&](wire::Message::Builder m) {
           auto trim = m.initTrim();
           trim.setRequest(1);
           trim.setTokens(2);
         }).empty());
  const auto sent = done(h, 3, {{1, 0, 17, 3, 0}});
  REQUIRE(kinds(sent) == std::vector{Kind::RESERVE});
  sent[0].read([&](auto m) {
    // The prompt and two generated tokens are left; the second's cache is computed again.
    CHECK(m.getReserve().getRows()[0].getBefore() == 17);
    CHECK(m.getReserve().getRows()[0].getTokens() == 1);
  });
}

TEST_CASE("a failed load gives the table back and the request is matched again") {
  Harness h(config());
  queue(h, 1, 40, 3);
  const auto sent = done(h, 1, {{1, 0, 0, 0, 0, true}});
  REQUIRE(kinds(sent) == std::vector{Kind::COMMIT, Kind::MATCH});
  sent[0].read([&](auto m) {
    CHECK(m.getCommit().getRows()[0].getEnding() == wire::Ending::FAILED_LOAD);
    CHECK(m.getCommit().getRows()[0].getSealed() == 0);
  });
}

TEST_CASE("saved, loaded and saved again is the same, and goes on the same way") {
  Harness a(config());
  queue(a, 1, 40, 3);
  queue(a, 2, 40, 3);
  done(a, 1, {{1, 0, 0, 32, 0}});
  StateSink first;
  REQUIRE(a.core.save(first).is_ok());
  Harness b(config());
  StateSource source(first.data());
  REQUIRE(b.core.load(source).is_ok());
  StateSink second;
  REQUIRE(b.core.save(second).is_ok());
  CHECK(first.data() == second.data());
  const auto sa = done(a, 2, {{1, 0, 32, 8, 1}, {2, 1, 0, 32, 0}});
  const auto sb = done(b, 2, {{1, 0, 32, 8, 1}, {2, 1, 0, 32, 0}});
  CHECK(kinds(sa) == kinds(sb));
  CHECK(a.core.digest() == b.core.digest());
  for (size_t cut = 0; cut < first.data().size(); cut += 7) {
    Harness c(config());
    StateSource damaged(std::span(first.data()).first(cut));
    CHECK_FALSE(c.core.load(damaged).is_ok());
  }
}

}  // namespace troupe
