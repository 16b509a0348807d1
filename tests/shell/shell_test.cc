// runtime/shell: the same troupe gives the same result on CAF as inline; what ends it is told;
// shutdown is ordered and bounded.
#include "runtime/shell/shell.h"

#include "runtime/inline/inline_dispatcher.h"
#include "tests/shell/relay.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <latch>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace troupe {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using test::CountingClient;
using test::make_relays;
using test::relay;

struct Caf {
  explicit Caf(CafDispatcher::Options options = {}) : dispatcher(troupe, client, options) {
    client.dispatcher = &dispatcher;
  }
  Troupe troupe = make_relays();
  CountingClient client;
  CafDispatcher dispatcher;
};

TEST_CASE("a troupe gives the same digests on both dispatchers") {
  Caf caf;
  Troupe troupe = make_relays();
  CountingClient client;
  InlineDispatcher in_line(troupe, client, {});
  client.dispatcher = &in_line;
  uint64_t delivered[2] = {0, 0};
  int which = 0;
  for (Dispatcher* dispatcher :
       {static_cast<Dispatcher*>(&caf.dispatcher), static_cast<Dispatcher*>(&in_line)}) {
    CountingClient& port = which == 0 ? caf.client : client;
    port.left = 500;
    port.post(1);
    const Expected<uint64_t> ran = dispatcher->run();
    REQUIRE(ran);
    delivered[which++] = ran.value();
    CHECK(dispatcher->deliveries() == 4 * 501);
    CHECK(dispatcher->check_all().is_ok());
  }
  CHECK(delivered[0] == delivered[1]);
  CHECK(caf.client.sum == client.sum);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(relay(caf.troupe, i).digest() == relay(troupe, i).digest());
  }
}

TEST_CASE("frames posted by many threads all arrive, those of one sender in order") {
  Caf caf;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&caf, t] {
      for (uint64_t i = 0; i < 2000; ++i) {
        caf.client.post(t * 10000 + i);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  REQUIRE(caf.dispatcher.run());
  CHECK(caf.client.frames == 8000);
  CHECK(caf.client.refused == 0);
  CHECK(caf.dispatcher.check_all().is_ok());
  CHECK(caf.dispatcher.mailbox_high_water() > 0);
  CHECK(caf.dispatcher.stop(seconds(60)).is_ok());
}

TEST_CASE("a broken invariant stops the whole troupe and is told by name") {
  Caf caf;
  relay(caf.troupe, 1).steps_max = 100;
  caf.client.left = 10000;
  caf.client.post(1);
  const Expected<uint64_t> ran = caf.dispatcher.run();
  REQUIRE_FALSE(ran);
  CHECK(ran.status().text() == "second: steps 101 of at most 100");
  CHECK(relay(caf.troupe, 1).steps() == 101);
  const Status stopped = caf.dispatcher.stop(seconds(60));
  CHECK(stopped.text() == ran.status().text());
  CHECK(relay(caf.troupe, 1).steps() == 101);
}

struct Throwing : DeliveryObserver {
  void on_deliver(Address, uint64_t inbox_seq, const Frame&) override {
    if (inbox_seq == 7) {
      throw std::runtime_error("observer gave up");
    }
  }
  void on_stepped(Address, uint64_t, const std::vector<Outgoing>&) override {}
};

TEST_CASE("an exception in an actor keeps its text and stops the troupe") {
  Throwing throwing;
  Caf caf;
  caf.dispatcher.observe(Address(3), &throwing);
  caf.client.left = 100;
  caf.client.post(1);
  const Expected<uint64_t> ran = caf.dispatcher.run();
  REQUIRE_FALSE(ran);
  CHECK(ran.status().text() == "third: observer gave up");
  CHECK(caf.client.frames == 6);
}

struct Noting : DeliveryObserver {
  void on_deliver(Address to, uint64_t inbox_seq, const Frame& frame) override {
    ok = ok && to == watched && inbox_seq == seen + 1 && frame.header().seq == inbox_seq;
    ++seen;
  }
  void on_stepped(Address to, uint64_t inbox_seq, const std::vector<Outgoing>& sent) override {
    ok = ok && to == watched && inbox_seq == seen && sent.size() == 1 &&
         sent[0].frame.header().cause == inbox_seq;
    ++stepped;
  }
  Address watched;
  bool ok = true;
  uint64_t seen = 0;
  uint64_t stepped = 0;
};

TEST_CASE("observers see one actor each, on both dispatchers") {
  for (const bool with_caf : {false, true}) {
    Noting notes[4];
    Troupe troupe = make_relays();
    CountingClient client;
    std::unique_ptr<Dispatcher> dispatcher;
    if (with_caf) {
      dispatcher = std::make_unique<CafDispatcher>(troupe, client, CafDispatcher::Options{});
    } else {
      dispatcher = std::make_unique<InlineDispatcher>(troupe, client, InlineDispatcher::Options{});
    }
    for (uint16_t i = 0; i < 4; ++i) {
      notes[i].watched = Address(i);
      dispatcher->observe(Address(i), &notes[i]);
    }
    client.dispatcher = dispatcher.get();
    client.left = 99;
    client.post(1);
    REQUIRE(dispatcher->run());
    for (uint16_t i = 0; i < 4; ++i) {
      CHECK(notes[i].ok);
      CHECK(notes[i].seen == 100);
      CHECK(notes[i].stepped == (i == 0 ? 0U : 100U));
    }
  }
}

TEST_CASE("stop refuses new posts, delivers what is in flight, and stops in order") {
  Caf caf;
  for (uint64_t i = 0; i < 1000; ++i) {
    caf.client.post(i);
  }
  caf.client.left = 50;  // answers of the client count as in flight too
  REQUIRE(caf.dispatcher.stop(hours(1)).is_ok());
  CHECK(caf.client.frames == 1050);
  CHECK(caf.client.refused == 0);
  caf.client.post(1);
  CHECK(caf.client.refused == 1);
  CHECK(caf.dispatcher.stop(nanoseconds(0)).is_ok());
  CHECK(caf.dispatcher.check_all().is_ok());
}

TEST_CASE("a mover that does not come back is named when the deadline passes") {
  std::latch entered(1);
  std::latch release(1);
  Caf caf;
  relay(caf.troupe, 2).on_step = [&](uint64_t number) {
    if (number == 3) {
      entered.count_down();
      release.wait();
    }
  };
  caf.client.post(1);
  entered.wait();
  CHECK(caf.dispatcher.check_all().code() == Code::kFailedPrecondition);
  const Status until = caf.dispatcher.run_until([] { return false; }, nanoseconds(1));
  CHECK(until.code() == Code::kDeadline);
  const Status stopped = caf.dispatcher.stop(nanoseconds(1));
  CHECK(stopped.code() == Code::kDeadline);
  CHECK(stopped.text().find("messages not delivered before the deadline: 1") == 0);
  CHECK(stopped.text().find("did not stop in time: third") != std::string::npos);
  release.count_down();
}

TEST_CASE("run_until returns when the client has what it wanted") {
  Caf caf;
  caf.client.left = UINT64_MAX;  // never quiet
  caf.client.post(1);
  REQUIRE(caf.dispatcher.run_until([&] { return caf.client.frames >= 200; }, hours(1)).is_ok());
  REQUIRE(caf.dispatcher.run_until([&] { return caf.client.frames >= 400; }, hours(1)).is_ok());
  relay(caf.troupe, 0).on_step = nullptr;
  const Status stopped = caf.dispatcher.stop(nanoseconds(1));
  CHECK(stopped.code() == Code::kDeadline);
}

TEST_CASE("a message without a declared route ends the process on both dispatchers") {
  for (const bool with_caf : {false, true}) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      (void)signal(SIGABRT, SIG_DFL);  // not the test framework's, which would report it
      (void)!freopen("/dev/null", "w", stderr);
      Troupe troupe;
      troupe.client = Address(0);
      troupe.members.push_back({Address(1), std::make_unique<ActorOf<test::Relay>>("lost"), false});
      troupe.routes.add({Address(0), Kind::DRAIN, 0, Address(1)});
      CountingClient client;
      std::unique_ptr<Dispatcher> dispatcher;
      if (with_caf) {
        dispatcher = std::make_unique<CafDispatcher>(troupe, client, CafDispatcher::Options{});
      } else {
        dispatcher =
            std::make_unique<InlineDispatcher>(troupe, client, InlineDispatcher::Options{});
      }
      client.dispatcher = dispatcher.get();
      client.post(1);
      (void)dispatcher->run();
      _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGABRT);
  }
}

}  // namespace
}  // namespace troupe
