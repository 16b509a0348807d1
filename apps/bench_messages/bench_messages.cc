// Two actors throw one message to and fro: each delivery is one message built, sent, received and
// read. CPU time of the thread (inline) or of the process (CAF), so that other load does not count;
// the least of several rounds, since whatever disturbs a round only adds to it.
#include "apps/bench_messages/bench_messages.h"

#include "apps/json/json_writer.h"
#include "runtime/core/wire.h"
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/shell/shell.h"
#include "runtime/trace/recorder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

namespace troupe {
namespace {

/// Hits the ball back `rounds` times: reads all of the message, and builds one like it.
class Player {
 public:
  Player(uint32_t rows, uint64_t rounds) : rows_(rows), rounds_(rounds) {}
  void step(const Envelope& in, StepContext& cx) noexcept {
    const auto step = in.message.getReserve();
    uint64_t tokens = 0;
    for (const auto row : step.getRows()) {
      tokens += row.getTokens() + row.getBefore();
    }
    sum_ += tokens;
    if (step.getStep() >= rounds_) {
      cx.out.send(Kind::DRAIN, 0, [&](auto m) { m.initDrain().setControl(sum_); });
      return;
    }
    cx.out.send(Kind::RESERVE, rows_ * 4, [&](auto m) {
      auto next = m.initReserve();
      next.setStep(step.getStep() + 1);
      auto rows = next.initRows(rows_);
      for (uint32_t i = 0; i < rows_; ++i) {
        rows[i].setRequest(i);
        rows[i].setTokens(1);
      }
    });
  }
  Digest digest() const noexcept { return Digest().add(sum_); }
  Status check() const { return Status::ok(); }
  Status check_quick() const { return Status::ok(); }
  Status save(StateSink&) const { return Status::ok(); }
  Status load(StateSource&) { return Status::ok(); }

 private:
  uint32_t rows_;
  uint64_t rounds_;
  uint64_t sum_ = 0;
};

struct Umpire : ClientPort {
  void on_frame(const Frame&) override {}
};

Troupe make_players(uint32_t rows, uint64_t rounds) {
  Troupe troupe;
  troupe.client = Address(0);
  for (const uint16_t i : {uint16_t{1}, uint16_t{2}}) {
    troupe.members.push_back(
        {Address(i), std::make_unique<ActorOf<Player>>(i == 1 ? "left" : "right", rows, rounds),
         false});
    troupe.routes.add({Address(i), Kind::RESERVE, 0, Address(static_cast<uint16_t>(3 - i))});
    troupe.routes.add({Address(i), Kind::DRAIN, 0, troupe.client});
  }
  troupe.routes.add({troupe.client, Kind::RESERVE, 0, Address(1)});
  return troupe;
}

double cpu_seconds(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void must(bool ok, const std::string& what) {
  if (!ok) {
    std::fprintf(stderr, "troupe bench messages: %s\n", what.c_str());
    std::exit(1);
  }
}

/// CPU time a message [us] of one game.
double play(Dispatcher& dispatcher, clockid_t clock) {
  const double begun = cpu_seconds(clock);
  dispatcher.post(Kind::RESERVE, Tick{1}, 0, [](auto m) { m.initReserve().setStep(1); });
  const auto ran = dispatcher.run();
  const double spent = cpu_seconds(clock) - begun;
  must(ran.is_ok(), ran.status().text());
  return spent * 1e6 / static_cast<double>(dispatcher.deliveries());
}

double inline_us(uint32_t rows, uint64_t rounds, const std::string& record_to) {
  Troupe troupe = make_players(rows, rounds);
  Umpire umpire;
  std::unique_ptr<trace::LaneStorage> storage;
  std::unique_ptr<trace::Recorder> recorder;
  double us = 0;
  {
    InlineDispatcher dispatcher(troupe, umpire, {1, 0});
    if (!record_to.empty()) {
      auto opened = trace::open_directory({record_to, false, 1});
      must(opened.is_ok(), opened.status().text());
      storage = std::move(*opened);
      trace::RecorderOptions options;
      options.lossless = true;  // waiting takes no CPU time
      recorder = std::make_unique<trace::Recorder>(troupe, *storage, options);
      recorder->attach(dispatcher);
    }
    us = play(dispatcher, CLOCK_THREAD_CPUTIME_ID);
  }
  if (recorder != nullptr) {
    const Status closed = recorder->close();
    must(closed.is_ok(), closed.text());
    std::filesystem::remove_all(record_to);
  }
  return us;
}

double caf_us(uint32_t rows, uint64_t rounds) {
  Troupe troupe = make_players(rows, rounds);
  Umpire umpire;
  CafDispatcher::Options options;
  options.threads = 1;
  CafDispatcher dispatcher(troupe, umpire, options);
  return play(dispatcher, CLOCK_PROCESS_CPUTIME_ID);
}

template <class F>
double least_of(int rounds, F&& f) {
  double least = f();
  for (int i = 1; i < rounds; ++i) {
    least = std::min(least, f());
  }
  return least;
}

struct Figure {
  const char* name;
  double us;
  double budget_us;  // 0: no budget of its own
};

std::vector<Figure> measure() {
  constexpr uint64_t kMessages = 100'000;
  constexpr int kRounds = 7;
  constexpr uint32_t kRows = 8;
  const std::string lanes =
      std::filesystem::temp_directory_path() / ("troupe-bench-" + std::to_string(getpid()));
  const double plain = least_of(kRounds, [] { return inline_us(kRows, kMessages, ""); });
  const double recorded = least_of(kRounds, [&] { return inline_us(kRows, kMessages, lanes); });
  return {
      {"inline, 8 rows", plain, 0.5},
      {"inline, 256 rows", least_of(kRounds, [] { return inline_us(256, kMessages / 8, ""); }), 0},
      {"CAF, same worker, 8 rows", least_of(kRounds, [] { return caf_us(kRows, kMessages); }), 2},
      {"recording adds, 8 rows", recorded - plain, 0},
  };
}

}  // namespace

int bench_messages_main(int argc, char** argv) {
  const bool json = argc == 2 && std::strcmp(argv[1], "--json") == 0;
  if (argc >= 2 && !json) {
    std::printf(
        "usage: troupe bench messages [--json]\nCPU time of one message, build + send + "
        "receive + read, beside its budget.\n");
    return std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  JsonWriter out;
  out.begin_array();
  for (const Figure& f : measure()) {
    if (json) {
      out.begin_object().field("name", f.name).field("value", f.us).field("unit", "us");
      out.field("budget", f.budget_us).end_object();
    } else if (f.budget_us > 0) {
      std::printf("%-28s %7.3f us  budget %.1f\n", f.name, f.us, f.budget_us);
    } else {
      std::printf("%-28s %7.3f us\n", f.name, f.us);
    }
  }
  out.end_array();
  if (json) {
    std::fputs(out.take().c_str(), stdout);
  }
  return 0;
}

}  // namespace troupe
