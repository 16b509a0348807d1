// The driver: client and engine of a simulated run, on a virtual clock. Sends a trace's requests
// in, "computes" the plans that come back (fills real bytes, verifies every reused one), tells the
// step's duration from the engine model, and counts. Stands outside the troupe: gets its frames
// through the client port and posts like any client, so it runs on either dispatcher. Invariant:
// one step is answered at a time; every ticket gets one terminal reply.
#pragma once

#include "apps/config/run_config.h"
#include "apps/run/content.h"
#include "apps/run/engine_model.h"
#include "apps/run/operator.h"
#include "apps/run/stats.h"
#include "apps/run/workload.h"
#include "runtime/core/dispatcher.h"
#include "runtime/ingress/block_keys.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace troupe {

struct DriverOptions {
  bool serial = false;         // one request at a time
  bool prompt_only = false;    // exactly the listed blocks, nothing generated
  double speed = 1;            // trace time is divided by it; 0: requests arrive as credits allow
  uint32_t max_in_flight = 0;  // of requests, where speed is 0
  uint32_t block_tokens = 16;
  uint64_t true_block_bytes = 0;
  uint32_t contiguous_tokens = 4096;
  bool publish_partial = true;
  bool caching = true;                // false: requests go without keys
  std::vector<TenantConfig> tenants;  // by the workload's tenant ids
  ContentShape content;
  EngineFacts engine;
  std::vector<Command> script;              // what an operator does meanwhile
  std::vector<std::string> swap_policies;   // of the device tier, in turn …
  uint64_t swap_every = 0;                  // … after so many replies; 0: never
  const std::atomic<bool>* stop = nullptr;  // set: nothing more is sent, what is live is cancelled
};

class Driver final : public ClientPort {
 public:
  /// `arena`: the device tier's memory, slot i at i * granule_bytes. All references outlive the
  /// driver.
  Driver(const Workload& work, DriverOptions options, const KeyContext& keys,
         std::span<std::byte> arena, uint64_t granule_bytes);

  void connect(Dispatcher& dispatcher) {
    link_ = &dispatcher;
    operator_.connect(dispatcher);
  }
  /// Sends the first requests. [once, before the dispatcher runs]
  void start();
  void on_frame(const Frame& frame) override;
  /// What was kept back until nothing is in flight: every client message of a serial run, so that
  /// it is the same on both dispatchers, and the step at which a sweep is due. False when there was
  /// nothing: the run is over. Errors: of the sweep. [while nothing is in flight]
  Expected<bool> go_on();
  /// All requests that were sent, and unless stopped that is all there are, have their terminal
  /// reply.
  bool done() const noexcept {
    return in_flight_ == 0 && (stopping_ || next_item_ == work_.items.size());
  }
  bool stopped() const noexcept { return stopping_; }
  uint64_t not_sent() const noexcept { return work_.items.size() - next_item_; }
  uint64_t terminal() const noexcept { return terminal_; }
  /// Moves the counts into `report`. [after the run]
  void fill_report(RunReport& report) const;
  Tick now() const noexcept { return now_; }
  uint32_t contiguous_tokens() const noexcept { return options_.contiguous_tokens; }
  /// `sweep` runs every `steps` steps (0: never), while nothing is in flight.
  void set_sweep(uint64_t steps, std::function<Status()> sweep) {
    sweep_every_ = steps;
    sweep_ = std::move(sweep);
  }
  /// Called after every terminal reply (progress bar); may be empty.
  std::function<void(uint64_t done, uint64_t total)> on_progress;

 private:
  struct Live {
    uint32_t item = 0;
    uint64_t request = 0;
    std::vector<uint32_t> tokens;  // prompt, then what will be generated
    std::vector<BlockKey> keys;    // of full blocks of `tokens`
    BlockKey root;                 // parent of the first block
    uint32_t generated = 0;
    std::vector<uint32_t> table;  // first granule by block index
  };
  void send_arrivals();
  void submit(uint32_t index);
  void on_plan(wire::Run::Reader plan);
  void enter(Live& live, wire::PlanRow::Reader row);
  void verify(Live& live, uint32_t from_token, uint32_t to_token);
  void fill(Live& live, uint32_t from_token, uint32_t to_token);
  struct Done {  // one row of `stepDone`
    uint64_t request = 0;
    uint32_t sequence = 0;
    uint32_t before = 0;
    uint32_t computed = 0;
    uint32_t generated = 0;
    uint32_t keys = 0;
    bool failed = false;
  };
  void answer_plan(wire::Run::Reader plan, const StepWork& work);
  struct Answer {  // a step that was computed and is not yet told
    bool there = false;
    uint64_t step = 0;
    std::vector<Done> done;
    std::vector<uint32_t> tokens;
    std::vector<BlockKey> keys;
  };
  bool sweep_due() const noexcept;
  bool pass_time();
  void stop_if_asked();
  void on_answer(wire::Answer::Reader answer);
  void post_answer();
  void post_step_done();
  void on_reply(wire::Reply::Reader reply);
  void account(wire::Reply::Reader reply, RunTotals& totals) const;
  void account_waste(wire::Reply::Reader reply);
  std::span<std::byte> block_bytes(const Live& live, uint32_t block) const;
  const BlockKey& parent_of(const Live& live, uint32_t block) const;
  uint32_t cached_at_end(const WorkItem& item) const noexcept;

  std::mutex mutex_;  // start() on the caller's thread, on_frame on the dispatcher's
  const Workload& work_;
  DriverOptions options_;
  const KeyContext& keys_;
  std::span<std::byte> arena_;
  uint64_t granule_bytes_;
  Dispatcher* link_ = nullptr;
  Tick now_;
  uint32_t next_item_ = 0;
  uint64_t in_flight_ = 0;
  uint64_t terminal_ = 0;
  std::unordered_map<uint64_t, Live> live_;           // by ticket
  std::unordered_map<uint64_t, uint64_t> ticket_of_;  // request -> ticket; never iterated
  RunReport report_;
  uint64_t length_tokens_ = 0;      // of completed requests: what a cache must hold at their end
  uint64_t contiguous_tokens_ = 0;  // what contiguous preallocation reserves for them
  uint64_t paged_tokens_ = 0;       // what blocks reserve for them
  uint64_t sweep_every_ = 0;
  std::function<Status()> sweep_;
  Answer answer_;
  int64_t idle_ns_ = 0;  // that passed since anything moved
  bool stopping_ = false;
  Operator operator_;
  std::chrono::steady_clock::time_point step_sent_;
  bool step_timed_ = false;
  bool step_changing_ = false;  // a command about policies was open when it was sent
};

}  // namespace troupe
