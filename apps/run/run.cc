#include "apps/run/run.h"

#include "apps/run/assembly.h"
#include "apps/run/driver.h"
#include "apps/run/engines.h"
#include "apps/run/lookup_log.h"
#include "runtime/inline/inline_dispatcher.h"
#include "runtime/shell/shell.h"
#include "runtime/trace/lane_storage.h"
#include "runtime/trace/recorder.h"

#include <algorithm>
#include <chrono>

namespace troupe {
namespace {

DriverOptions driver_options(const RunConfig& config, const Workload& work,
                             const RunOptions& options, const EngineFacts& engine,
                             const BlockCost& cost) {
  DriverOptions d;
  d.serial = options.serial;
  d.prompt_only = options.prompt_only;
  d.speed = options.speed;
  d.max_in_flight = static_cast<uint32_t>(config.max_live);
  d.block_tokens = static_cast<uint32_t>(config.block_tokens);
  d.true_block_bytes = cost.true_block_bytes;
  d.publish_partial = config.publish_partial;
  d.caching = config.prefix_caching;
  for (uint32_t t = 0; t < work.tenants.size(); ++t) {
    // A tenant that the configuration does not name has a domain of its own, behind all that are
    // named.
    TenantConfig tenant{work.tenants[t], static_cast<uint32_t>(0x80000000U + t), 0};
    for (const TenantConfig& known : config.tenants) {
      tenant = known.name == tenant.name ? known : tenant;
    }
    d.tenants.push_back(tenant);
  }
  d.content.block_tokens = d.block_tokens;
  d.content.token_bytes =
      static_cast<uint32_t>(config.real_block_bytes / config.block_tokens) / 8 * 8;
  d.engine = engine;
  d.engine.disk_latency_s = static_cast<double>(config.disk_latency_us) / 1e6;
  d.stop = options.stop;
  d.script = options.script;
  d.swap_policies = options.swap_policies;
  d.swap_every = options.swap_policies.empty() ? 0 : options.swap_every;
  uint32_t longest = 0;
  for (const WorkItem& item : work.items) {
    longest = std::max(longest, item.prompt + item.output);
  }
  d.contiguous_tokens = options.max_length != 0 ? options.max_length : std::max(4096U, longest);
  return d;
}

DiskUnder disk_under(const RunConfig& config, const RunOptions& options) {
  DiskUnder under = options.disk;
  if (under.deadline_ns == 0) {
    under.deadline_ns = config.disk_deadline_ms * 1000000;
  }
  return under;
}

std::array<uint8_t, 32> secret_of(int64_t seed) {
  // A run's keys must repeat with its seed; a server draws its secret.
  std::array<uint8_t, 32> secret{};
  auto state = static_cast<uint64_t>(seed);
  for (size_t i = 0; i < secret.size(); i += 8) {
    const uint64_t word = splitmix64(state);
    std::copy_n(reinterpret_cast<const uint8_t*>(&word), 8,
                secret.begin() + static_cast<ptrdiff_t>(i));
  }
  return secret;
}

void fill_from_gauges(RunReport& r) {
  const auto gauge = [&](const char* name) {
    const auto found = r.gauges.find(name);
    return found == r.gauges.end() ? 0ULL : static_cast<uint64_t>(found->second);
  };
  r.evictions = gauge("allocator.evicted");
  r.demoted_blocks = gauge("tiering.demoted");
  r.loaded_blocks = gauge("tiering.loaded");
}

std::unique_ptr<Dispatcher> make_dispatcher(const RunConfig& config, Troupe& troupe,
                                            ClientPort& client) {
  if (config.dispatcher == "caf") {
    CafDispatcher::Options options;
    options.threads = static_cast<uint32_t>(config.threads);
    options.check_quick_every = 1;
    return std::make_unique<CafDispatcher>(troupe, client, options);
  }
  InlineDispatcher::Options options;
  options.check_quick_every = 1;
  return std::make_unique<InlineDispatcher>(troupe, client, options);
}

/// Lanes of a run, or nothing when no directory is given.
class Recording {
 public:
  static Expected<std::unique_ptr<Recording>> open(const RunOptions& run, const RunConfig& config,
                                                   const Troupe& troupe) {
    std::unique_ptr<Recording> recording(new Recording);
    if (run.record.empty()) {
      return recording;
    }
    auto storage = trace::open_directory({run.record, true, 1});
    if (!storage) {
      return storage.status();
    }
    recording->storage_ = std::move(*storage);
    trace::RecorderOptions options;
    options.mode = run.record_edges ? trace::RecorderOptions::Mode::kEdges
                                    : trace::RecorderOptions::Mode::kFull;
    options.lossless = true;  // nobody is served here, and the run is recorded to be replayed
    options.build_id = TROUPE_VERSION;
    options.config = config_text(config);
    options.seed = static_cast<uint64_t>(config.seed);
    recording->recorder_ =
        std::make_unique<trace::Recorder>(troupe, *recording->storage_, std::move(options));
    return recording;
  }
  void attach(Dispatcher& dispatcher) {
    if (recorder_ != nullptr) {
      recorder_->attach(dispatcher);
    }
  }
  /// Ends the lanes; waits for their compression.
  Status close(RunReport& report) {
    if (recorder_ == nullptr) {
      return Status::ok();
    }
    TROUPE_TRY(recorder_->close());
    TROUPE_TRY(storage_->finish());
    report.recorded_messages = recorder_->stats().total.records;
    report.recorded_bytes = recorder_->stats().total.bytes;
    return Status::ok();
  }

 private:
  Recording() = default;
  std::unique_ptr<trace::LaneStorage> storage_;
  std::unique_ptr<trace::Recorder> recorder_;
};

/// Runs to the end; asks for the actors' gauges last.
Status run_to_end(Dispatcher& dispatcher, Driver& driver, const RunConfig& config) {
  driver.connect(dispatcher);
  driver.set_sweep(static_cast<uint64_t>(config.check_every_steps),
                   [&] { return dispatcher.check_all(); });
  driver.start();
  for (bool more = true; more;) {
    const auto ran = dispatcher.run();
    if (!ran) {
      return Status(Code::kInternal, "invariant broken: " + ran.status().text());
    }
    const auto went_on = driver.go_on();
    if (!went_on) {
      return Status(Code::kInternal, "invariant broken: " + went_on.status().text());
    }
    more = *went_on;
  }
  TROUPE_TRY(dispatcher.check_all());
  dispatcher.post(Kind::CONTROL, driver.now(), 0, [](wire::Message::Builder m) {
    auto control = m.initControl();
    control.setControl(1);
    control.setStatus();
  });
  const auto asked = dispatcher.run();
  return asked ? Status::ok() : asked.status();
}

/// The same; the lookups that understudies saw go to the file `log` (empty: nowhere).
Status run_logged(Dispatcher& dispatcher, Driver& driver, const RunConfig& config,
                  const std::string& log) {
  if (log.empty()) {
    return run_to_end(dispatcher, driver, config);
  }
  auto lookups = LookupLog::open(log);
  if (!lookups) {
    return lookups.status();
  }
  (*lookups)->attach(dispatcher);
  TROUPE_TRY(run_to_end(dispatcher, driver, config));
  return (*lookups)->close();
}

/// What a report says before anything has run.
RunReport report_of(const RunConfig& config, const Workload& work, const EngineFacts& engine,
                    const BlockCost& cost) {
  RunReport report;
  report.trace = work.source;
  report.dispatcher = config.dispatcher;
  report.model = engine.model;
  report.gpu = engine.gpu;
  report.block_tokens = static_cast<uint32_t>(config.block_tokens);
  report.device_blocks = static_cast<uint64_t>(config.device_blocks);
  report.host_blocks = static_cast<uint64_t>(config.host_blocks);
  report.disk_blocks = static_cast<uint64_t>(config.disk_blocks);
  report.true_block_bytes = cost.true_block_bytes;
  report.real_block_bytes = static_cast<uint64_t>(config.real_block_bytes);
  return report;
}

}  // namespace

Expected<RunReport> run_trace(RunConfig config, const Workload& work, const RunOptions& options) {
  if (config.block_tokens == 0) {
    config.block_tokens = work.block_size == 0 ? 16 : work.block_size;
  }
  TROUPE_TRY(check_config(config, "configuration"));
  const auto cost = block_cost(config);
  if (!cost) {
    return cost.status();
  }
  const auto engine = find_engine(
      config.gpu, config.model,
      static_cast<double>(cost->true_block_bytes) / static_cast<double>(config.block_tokens));
  if (!engine) {
    return engine.status();
  }
  config.tenant_count =
      std::max<int64_t>(config.tenant_count, static_cast<int64_t>(work.tenants.size()));
  auto assembly = Assembly::create(config, *engine, *cost, disk_under(config, options));
  if (!assembly) {
    return assembly.status();
  }
  const KeyContext keys(secret_of(config.seed),
                        {config.model, "1", config.format, cost->layout_fingerprint,
                         static_cast<uint32_t>(config.block_tokens), 0, 1});
  Driver driver(work, driver_options(config, work, options, *engine, *cost), keys,
                (*assembly)->device_bytes(), (*assembly)->granule_bytes());
  driver.on_progress = [&](uint64_t done, uint64_t total) {
    if (options.on_progress) {
      options.on_progress(done, total);
    }
    if (options.tamper) {
      options.tamper(done, (*assembly)->device_bytes());
    }
    if (options.tamper_host) {
      options.tamper_host(done, (*assembly)->host_bytes());
    }
  };
  RunReport report = report_of(config, work, *engine, *cost);
  {
    auto recording = Recording::open(options, config, (*assembly)->troupe());
    if (!recording) {
      return recording.status();
    }
    const auto begun = std::chrono::steady_clock::now();
    {
      const auto dispatcher = make_dispatcher(config, (*assembly)->troupe(), driver);
      (*recording)->attach(*dispatcher);
      TROUPE_TRY(run_logged(*dispatcher, driver, config, options.lookup_log));
      report.messages = dispatcher->deliveries();
    }
    report.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    TROUPE_TRY((*recording)->close(report));
  }
  driver.fill_report(report);
  report.not_sent = driver.not_sent();
  report.interrupted = driver.stopped();
  report.contiguous_tokens = driver.contiguous_tokens();
  fill_from_gauges(report);
  report.disk = (*assembly)->disk_counts();
  for (const Member& member : (*assembly)->troupe().members) {
    if (!member.mover) {
      report.digests[std::string(member.actor->name())] = member.actor->digest().value();
    }
  }
  if (!driver.done()) {
    return Status(Code::kInternal, std::to_string(driver.terminal()) + " of " +
                                       std::to_string(work.items.size()) +
                                       " requests have their terminal reply, and nothing moves");
  }
  return report;
}

}  // namespace troupe
