// Ratios only: absolute figures of a shared machine say little. Blocks go to shuffled places, as in
// a pool that has lived for a while; both sides move the same blocks to the same places; bytes are
// checked at the end.
#include "apps/bench_host/bench_host.h"

#include "apps/bench_host/pairs.h"
#include "io/arena.h"
#include "kernels/cpu/bytes.h"
#include "kernels/cpu/cpu_device.h"
#include "runtime/base/rng.h"

#include <CLI/CLI.hpp>

#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

namespace troupe::apps {
namespace {

using kernels::Batch;
using kernels::Completion;
using kernels::Location;
using kernels::Op;
using kernels::OpKind;
using kernels::OpResult;

struct Options {
  uint32_t threads = 2;
  uint32_t mebibytes = 256;
  int pairs = 21;
  std::vector<uint32_t> block_bytes = {4096, 65536, 1048576};
  bool json = false;
};

double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

struct Block {
  size_t from = 0;  // offsets [bytes]
  size_t to = 0;
};

/// Blocks in order of their sources, at shuffled targets.
std::vector<Block> shuffled_blocks(size_t total_bytes, size_t block_bytes) {
  const size_t count = total_bytes / block_bytes;
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  Rng rng(20);
  for (size_t i = count; i > 1; --i) {
    std::swap(order[i - 1], order[rng.below(i)]);
  }
  std::vector<Block> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    blocks[i] = Block{i * block_bytes, order[i] * block_bytes};
  }
  return blocks;
}

/// The yardstick: std::memcpy by standing threads, block by block, an equal share each.
class MemcpyTeam {
 public:
  explicit MemcpyTeam(uint32_t threads) : gate_(threads + 1) {
    for (uint32_t i = 0; i < threads; ++i) {
      team_.emplace_back([this, i, threads] { work(i, threads); });
    }
  }
  ~MemcpyTeam() {
    stop_ = true;
    gate_.arrive_and_wait();
    for (std::thread& thread : team_) {
      thread.join();
    }
  }
  double run(std::byte* to, const std::byte* from, const std::vector<Block>& blocks,
             size_t block_bytes) {
    to_ = to;
    from_ = from;
    blocks_ = &blocks;
    block_bytes_ = block_bytes;
    const double begin = seconds_now();
    gate_.arrive_and_wait();
    gate_.arrive_and_wait();
    return seconds_now() - begin;
  }

 private:
  void work(uint32_t index, uint32_t threads) {
    while (true) {
      gate_.arrive_and_wait();
      if (stop_) {
        return;
      }
      const size_t begin = blocks_->size() * index / threads;
      const size_t end = blocks_->size() * (index + 1) / threads;
      for (size_t i = begin; i < end; ++i) {
        const Block& block = (*blocks_)[i];
        std::memcpy(to_ + block.to, from_ + block.from, block_bytes_);
      }
      gate_.arrive_and_wait();
    }
  }

  std::barrier<> gate_;  // orders every plain member below
  std::byte* to_ = nullptr;
  const std::byte* from_ = nullptr;
  const std::vector<Block>* blocks_ = nullptr;
  size_t block_bytes_ = 0;
  bool stop_ = false;
  std::vector<std::thread> team_;
};

struct Case {
  const char* name = "";
  uint32_t block_bytes = 0;
  PairResult result;
  double against_plain = 0;  // checksummed only: its speed against our plain copy
};

/// Everything that one block size needs.
class Runner {
 public:
  Runner(const Options& options, kernels::CpuDevice& device, MemcpyTeam& team, io::Arena& host,
         io::Arena& target, kernels::RegionId target_region)
      : options_(options), device_(device), team_(team), host_(host), target_(target) {
    stream_ = device.create_stream().value();
    target_region_ = target_region;
  }

  /// Device copy time, all blocks in one batch.
  Expected<double> device_copy(const std::vector<Op>& ops, std::vector<OpResult>& results) {
    const double begin = seconds_now();
    TROUPE_TRY(device_.submit(stream_, Batch{ops, results}, 0));
    TROUPE_TRY(device_.synchronize(stream_));
    const double seconds = seconds_now() - begin;
    Completion done;
    if (device_.poll({&done, 1}) != 1 || done.failed != 0) {
      return {Code::kInternal, "a copy batch did not complete as a whole"};
    }
    return seconds;
  }

  Expected<std::vector<Case>> run(uint32_t block_bytes) {
    const std::vector<Block> blocks = shuffled_blocks(host_.size(), block_bytes);
    std::vector<Op> plain(blocks.size());
    std::vector<OpResult> results(blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      plain[i].bytes = block_bytes;
      plain[i].src = Location{kernels::kDeviceRegion, blocks[i].from};
      plain[i].dst = Location{target_region_, blocks[i].to};
    }
    std::vector<Op> checked = plain;
    for (Op& op : checked) {
      op.with_checksum = true;
    }
    Status failure;
    const auto ours = [&](const std::vector<Op>& ops) {
      Expected<double> seconds = device_copy(ops, results);
      if (!seconds) {
        failure = seconds.status();
        return 1.0;
      }
      return *seconds;
    };
    const auto theirs = [&] {
      return team_.run(target_.data(), host_.data(), blocks, block_bytes);
    };
    std::vector<Case> cases(2);
    cases[0] = {"copy", block_bytes, run_pairs(options_.pairs, theirs, [&] { return ours(plain); }),
                0};
    cases[1] = {"copy+checksum", block_bytes,
                run_pairs(options_.pairs, theirs, [&] { return ours(checked); }), 0};
    const PairResult both = run_pairs(
        options_.pairs, [&] { return ours(plain); }, [&] { return ours(checked); });
    cases[1].against_plain = both.ratio;
    TROUPE_TRY(failure);
    // The check needs a target that memcpy has not written, and the results of a checksummed run.
    kernels::fill_pattern(target_.data(), target_.size(), 21, 0, kernels::CacheHint::kStream);
    TROUPE_TRY(device_copy(checked, results).status());
    TROUPE_TRY(verify(blocks, block_bytes, results));
    return cases;
  }

 private:
  Status verify(const std::vector<Block>& blocks, uint32_t block_bytes,
                const std::vector<OpResult>& results) {
    for (size_t i = 0; i < blocks.size(); ++i) {
      const std::byte* copy = target_.data() + blocks[i].to;
      if (std::memcmp(copy, host_.data() + blocks[i].from, block_bytes) != 0 ||
          results[i].value != kernels::checksum_bytes(copy, block_bytes)) {
        return {Code::kCorrupt, "block " + std::to_string(i) + " of " +
                                    std::to_string(block_bytes) + " bytes arrived different"};
      }
    }
    return Status::ok();
  }

  const Options& options_;
  kernels::CpuDevice& device_;
  MemcpyTeam& team_;
  io::Arena& host_;
  io::Arena& target_;
  kernels::StreamId stream_;
  kernels::RegionId target_region_;
};

void print_json(const Options& options, const std::vector<Case>& cases) {
  std::printf("{\"threads\": %u, \"mebibytes\": %u, \"cases\": [", options.threads,
              options.mebibytes);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    std::printf(
        "%s\n  {\"op\": \"%s\", \"block_bytes\": %u, \"ratio\": %.4f, \"low\": %.4f, "
        "\"high\": %.4f, \"pairs\": %d, \"memcpy_seconds\": %.6f, \"ours_seconds\": %.6f",
        i == 0 ? "" : ",", c.name, c.block_bytes, c.result.ratio, c.result.low, c.result.high,
        c.result.pairs, c.result.a_seconds, c.result.b_seconds);
    if (c.against_plain > 0) {
      std::printf(", \"ratio_to_plain_copy\": %.4f", c.against_plain);
    }
    std::printf("}");
  }
  std::printf("\n]}\n");
}

void print_table(const Options& options, const std::vector<Case>& cases) {
  std::printf(
      "host mover against memcpy, %u threads, %u MiB, %d interleaved pairs\n"
      "(ratio of speeds: above 1 the mover is faster)\n\n",
      options.threads, options.mebibytes, options.pairs);
  std::printf("%-14s %12s %8s %18s %16s\n", "op", "block bytes", "ratio", "95 % interval",
              "to plain copy");
  for (const Case& c : cases) {
    std::printf("%-14s %12u %8.3f %9.3f - %6.3f", c.name, c.block_bytes, c.result.ratio,
                c.result.low, c.result.high);
    if (c.against_plain > 0) {
      std::printf(" %16.3f", c.against_plain);
    }
    std::printf("\n");
  }
}

Status run_all(const Options& options, std::vector<Case>& cases) {
  io::ArenaOptions arena_options;
  arena_options.populate = true;
  const size_t bytes = size_t{options.mebibytes} << 20;
  Expected<io::Arena> source = io::Arena::create(bytes, arena_options);
  TROUPE_TRY(source.status());
  Expected<io::Arena> target = io::Arena::create(bytes, arena_options);
  TROUPE_TRY(target.status());
  kernels::fill_pattern(source->data(), bytes, 20, 0, kernels::CacheHint::kStream);
  kernels::CpuDeviceOptions device_options;
  device_options.memory = source->bytes();
  device_options.execution = kernels::CpuExecution::kThreads;
  device_options.worker_threads = options.threads;
  auto device = kernels::CpuDevice::create(device_options);
  TROUPE_TRY(device.status());
  const auto region = (*device)->add_region(target->bytes());
  TROUPE_TRY(region.status());
  MemcpyTeam team(options.threads);
  Runner runner(options, **device, team, *source, *target, *region);
  for (const uint32_t block_bytes : options.block_bytes) {
    auto some = runner.run(block_bytes);
    TROUPE_TRY(some.status());
    cases.insert(cases.end(), some->begin(), some->end());
  }
  return Status::ok();
}

}  // namespace

int bench_host_main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "Host copies against memcpy of the same bytes by as many threads, as ratios in one "
      "run.\nExample: troupe bench host --threads 2 --block-bytes 65536 --json");
  app.add_option("--threads", options.threads, "threads on each side")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--mebibytes", options.mebibytes, "size of the source, and of the target [MiB]")
      ->check(CLI::Range(16, 65536))
      ->capture_default_str();
  app.add_option("--pairs", options.pairs, "interleaved pairs a case")
      ->check(CLI::Range(6, 1000))
      ->capture_default_str();
  app.add_option("--block-bytes", options.block_bytes, "block sizes [bytes]")
      ->check(CLI::Range(512, 16 << 20))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  std::vector<Case> cases;
  const Status status = run_all(options, cases);
  if (!status) {
    std::fprintf(stderr, "troupe bench host: %s\n", status.to_string().c_str());
    return status.code() == Code::kNoCapacity ? 2 : 1;
  }
  options.json ? print_json(options, cases) : print_table(options, cases);
  return 0;
}

}  // namespace troupe::apps
