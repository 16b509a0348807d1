// Both sides take turns over the same file, so that drift of a shared machine hits both; the ratio
// is the median over the pairs with the interval of its order statistics. fio moves blocks of the
// same size at the same places; ours also checks identities and checksums, writes trailers and
// keeps its journal.
#include "apps/bench_disk/bench_disk.h"

#include "apps/bench_disk/fio.h"
#include "apps/bench_disk/store_side.h"
#include "apps/bench_host/pairs.h"
#include "apps/json/json_writer.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

namespace troupe::apps {
namespace {

constexpr int kBadArguments = 2;
constexpr int kSkipped = 4;

struct Options {
  std::string directory = ".";
  uint32_t file_mib = 1024;
  uint32_t turn_mib = 256;
  uint32_t depth = 16;
  int pairs = 21;
  std::vector<uint32_t> block_bytes = {65536, 262144, 1048576, 2097152};
  std::vector<std::string> ops = {"read", "write", "mixed"};
  std::string backend = "auto";
  bool json = false;
};

struct Row {
  std::string op;
  uint32_t block_bytes = 0;
  std::string backend;
  PairResult pairs;  // seconds of fio over ours: above 1 we are faster
  double ours_rate = 0, fio_rate = 0;
  double ours_cpu = 0, fio_cpu = 0;                       // seconds per GiB
  double p99_ratio = 0, ours_p99_us = 0, fio_p99_us = 0;  // reads; medians over the pairs
};

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A fresh directory that is removed at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& root) : path_(root + "/troupe-bench-XXXXXX") {
    made_ = mkdtemp(path_.data()) != nullptr;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  bool made() const noexcept { return made_; }
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
  bool made_ = false;
};

/// What one side's turns gave.
struct Samples {
  std::vector<double> rates, cpu, p99;
  /// Seconds per byte: the sides round to whole blocks.
  double add(const SideResult& result) {
    rates.push_back(result.bytes / result.seconds);
    cpu.push_back(result.cpu_seconds / (result.bytes / double{1U << 30}));
    p99.push_back(result.read_p99_us);
    return result.seconds / result.bytes;
  }
};

void fill_row(const Samples& ours, const Samples& fio, Row& row) {
  std::vector<double> p99_ratios;
  for (size_t i = 0; i < ours.p99.size() && row.op != "write"; ++i) {
    p99_ratios.push_back(ours.p99[i] / fio.p99[i]);
  }
  row.ours_rate = median(ours.rates);
  row.fio_rate = median(fio.rates);
  row.ours_cpu = median(ours.cpu);
  row.fio_cpu = median(fio.cpu);
  row.ours_p99_us = median(ours.p99);
  row.fio_p99_us = median(fio.p99);
  row.p99_ratio = median(p99_ratios);
}

Expected<Row> measure(const Options& options, const std::string& op, uint32_t block_bytes) {
  // Writes of fio ruin records, so each operation has a store of its own.
  const Scratch scratch(options.directory);
  if (!scratch.made()) {
    return {Code::kUnavailable, "no directory can be made in " + options.directory};
  }
  const auto backend = options.backend == "posix"      ? io::BackendChoice::kPosix
                       : options.backend == "io_uring" ? io::BackendChoice::kUring
                                                       : io::BackendChoice::kAuto;
  auto side = StoreSide::create({.directory = scratch.path(),
                                 .file_bytes = uint64_t{options.file_mib} << 20,
                                 .block_bytes = block_bytes,
                                 .depth = options.depth,
                                 .backend = backend});
  if (!side) {
    return side.status();
  }
  StoreSide& ours = **side;
  FioJob job{.file = ours.data_file(),
             .rw = op == "read"    ? "randread"
                   : op == "write" ? "randwrite"
                                   : "randrw",
             .block_bytes = block_bytes,
             .stride_bytes = ours.stride_bytes(),
             .file_bytes = ours.blocks() * ours.stride_bytes(),
             .total_bytes = uint64_t{options.turn_mib} << 20,
             .depth = options.depth,
             .engine = backend == io::BackendChoice::kPosix ? "libaio" : "io_uring"};
  // In the mix fio works on a copy's worth of its own: its writes would make our reads fail.
  std::string other;
  if (op == "mixed") {
    other = scratch.path() + "/fio";
    std::error_code error;
    std::filesystem::copy_file(job.file, other, error);
    if (error) {
      return {Code::kIo, "copy of the data file: " + error.message()};
    }
    job.file = other;
  }
  Row row{.op = op,
          .block_bytes = block_bytes,
          .backend = ours.store().device().capabilities().backend,
          .pairs = {}};
  Samples our_samples;
  Samples fio_samples;
  Status failure;
  const uint32_t reads_of_ten = op == "read" ? 10 : op == "write" ? 0 : 5;
  const auto run_side = [&](const Expected<SideResult>& result, Samples& samples) {
    if (!result) {
      failure = result.status();
      return 1.0;
    }
    return samples.add(*result);
  };
  row.pairs = run_pairs(
      options.pairs,
      [&] {
        ++job.seed;
        return failure ? run_side(run_fio(job), fio_samples) : 1.0;
      },
      [&] {
        return failure ? run_side(ours.run(job.total_bytes, reads_of_ten), our_samples) : 1.0;
      });
  if (!failure) {
    return failure;
  }
  fill_row(our_samples, fio_samples, row);
  return row;
}

void print_row(const Row& r) {
  std::printf("%-6s %8u %-9s %9.0f %9.0f %7.3f  %6.3f - %6.3f %8.3f %8.3f %8.2f", r.op.c_str(),
              r.block_bytes, r.backend.c_str(), r.ours_rate / 1e6, r.fio_rate / 1e6, r.pairs.ratio,
              r.pairs.low, r.pairs.high, r.ours_cpu, r.fio_cpu, r.ours_cpu / r.fio_cpu);
  if (r.op != "write") {
    std::printf(" %9.0f %9.0f %6.2f", r.ours_p99_us, r.fio_p99_us, r.p99_ratio);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void print_json(const std::vector<Row>& rows) {
  JsonWriter json;
  json.begin_array();
  for (const Row& r : rows) {
    json.begin_object().field("op", r.op).field("block_bytes", r.block_bytes);
    json.field("ours_bytes_per_s", r.ours_rate).field("fio_bytes_per_s", r.fio_rate);
    json.field("ratio", r.pairs.ratio).field("low", r.pairs.low).field("high", r.pairs.high);
    json.field("pairs", r.pairs.pairs).field("backend", r.backend);
    json.field("ours_cpu_s_per_gib", r.ours_cpu).field("fio_cpu_s_per_gib", r.fio_cpu);
    if (r.op != "write") {
      json.field("ours_read_p99_us", r.ours_p99_us).field("fio_read_p99_us", r.fio_p99_us);
      json.field("read_p99_ratio", r.p99_ratio);
    }
    json.end_object();
  }
  json.end_array();
  std::fputs(json.take().c_str(), stdout);
}

int run_all(const Options& options) {
  if (!fio_installed()) {
    std::fprintf(stderr, "troupe bench disk: SKIPPED, fio is not installed\n");
    return kSkipped;
  }
  if (!options.json) {
    std::printf(
        "disk store (checksums on) against fio, depth %u, %d interleaved pairs of %u MiB\n\n"
        "%-6s %8s %-9s %9s %9s %7s  %15s %8s %8s %8s %9s %9s %6s\n",
        options.depth, options.pairs, options.turn_mib, "op", "block", "backend", "ours MB/s",
        "fio MB/s", "ratio", "95 % interval", "ours cpu", "fio cpu", "cpu x", "ours p99", "fio p99",
        "p99 x");
  }
  std::vector<Row> rows;
  for (const uint32_t block_bytes : options.block_bytes) {
    for (const std::string& op : options.ops) {
      auto row = measure(options, op, block_bytes);
      if (!row) {
        std::fprintf(stderr, "troupe bench disk: %s\n", row.status().to_string().c_str());
        return 1;
      }
      rows.push_back(std::move(row).value());
      if (!options.json) {
        print_row(rows.back());
      }
    }
  }
  if (options.json) {
    print_json(rows);
  } else {
    std::printf(
        "\nratio: bandwidth of ours over fio's; cpu in seconds per GiB; p99 of reads in us\n");
  }
  return 0;
}

}  // namespace

int bench_disk_main(int argc, char** argv) {
  Options options;
  CLI::App app(
      "The disk store, with records and checksums, against fio on the same file, block size and "
      "depth, as ratios in one run.\nExample: troupe bench disk --dir /mnt/nvme --block-bytes "
      "65536 --json");
  app.add_option("--dir", options.directory, "where the files are made (and removed again)")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--file-mib", options.file_mib, "size of the data file [MiB]")
      ->check(CLI::Range(64, 1 << 20))
      ->capture_default_str();
  app.add_option("--turn-mib", options.turn_mib, "moved by each side in a pair [MiB]")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--depth", options.depth, "blocks in flight")
      ->check(CLI::Range(1, 128))
      ->capture_default_str();
  app.add_option("--pairs", options.pairs, "interleaved pairs a row")
      ->check(CLI::Range(6, 1000))
      ->capture_default_str();
  app.add_option("--block-bytes", options.block_bytes, "block sizes [bytes], multiples of 4096")
      ->check(CLI::Range(4096, 16 << 20))
      ->capture_default_str();
  app.add_option("--ops", options.ops, "read, write, mixed (half and half)")
      ->check(CLI::IsMember({"read", "write", "mixed"}))
      ->capture_default_str();
  app.add_option("--backend", options.backend, "auto, io_uring or posix")
      ->check(CLI::IsMember({"auto", "io_uring", "posix"}))
      ->capture_default_str();
  app.add_flag("--json", options.json, "print JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kBadArguments;
  }
  for (const uint32_t bytes : options.block_bytes) {
    if (bytes % 4096 != 0) {
      std::fprintf(stderr, "troupe bench disk: block of %u bytes: must be a multiple of 4096\n",
                   bytes);
      return kBadArguments;
    }
  }
  return run_all(options);
}

}  // namespace troupe::apps
