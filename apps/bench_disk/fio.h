// Runs fio as a child and reads the few numbers that a comparison needs.
#pragma once

#include "runtime/base/status.h"

#include <string>

namespace troupe::apps {

struct FioJob {
  std::string file;
  std::string rw;  // randread, randwrite or randrw
  uint64_t block_bytes = 0;
  uint64_t stride_bytes = 0;  // offsets are multiples of it
  uint64_t file_bytes = 0;
  uint64_t total_bytes = 0;  // to move
  uint32_t depth = 16;
  std::string engine;  // io_uring or libaio
  uint64_t seed = 1;
};

struct SideResult {
  double seconds = 0;  // time to move the bytes
  double bytes = 0;
  double cpu_seconds = 0;  // user and system
  double read_p99_us = 0;  // completion latency of reads
};

bool fio_installed();
/// unavailable: fio is missing or refuses the job, with its words.
Expected<SideResult> run_fio(const FioJob& job);

}  // namespace troupe::apps
