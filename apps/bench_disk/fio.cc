#include "apps/bench_disk/fio.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace troupe::apps {
namespace {

/// The number behind `"key" :` at or after `from`; -1 when there is none. fio's JSON has a fixed
/// order.
double number_after(const std::string& text, const std::string& key, size_t from) {
  const size_t at = text.find("\"" + key + "\"", from);
  if (at == std::string::npos) {
    return -1;
  }
  const size_t colon = text.find(':', at);
  return std::strtod(text.c_str() + colon + 1, nullptr);
}

std::string run_command(const std::string& command, int& status) {
  std::string output;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    status = -1;
    return output;
  }
  std::array<char, 4096> buffer{};
  size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    output.append(buffer.data(), count);
  }
  status = pclose(pipe);
  return output;
}

std::string option(const char* name, uint64_t value) {
  return std::string(" --") + name + "=" + std::to_string(value);
}

}  // namespace

bool fio_installed() {
  int status = 0;
  run_command("fio --version 2>/dev/null", status);
  return status == 0;
}

Expected<SideResult> run_fio(const FioJob& job) {
  std::string command =
      "fio --name=t --output-format=json --direct=1 --norandommap=1 --thread=1 "
      "--group_reporting=1 --gtod_reduce=0 --rw=" +
      job.rw + " --ioengine=" + job.engine + " --filename='" + job.file + "'";
  if (job.engine == "io_uring") {
    command += " --fixedbufs=1 --registerfiles=1";
  }
  command += option("bs", job.block_bytes) + option("blockalign", job.stride_bytes) +
             option("size", job.file_bytes) + option("io_size", job.total_bytes) +
             option("iodepth", job.depth) + option("randseed", job.seed) + " 2>&1";
  int status = 0;
  const std::string text = run_command(command, status);
  const size_t json = text.find("\"jobs\"");
  if (status != 0 || json == std::string::npos) {
    return {Code::kUnavailable, "fio: " + text.substr(0, 400)};
  }
  SideResult result;
  const size_t read = text.find("\"read\" :", json), write = text.find("\"write\" :", json);
  const double read_bytes = number_after(text, "io_bytes", read);
  const double write_bytes = number_after(text, "io_bytes", write);
  const double read_rate = number_after(text, "bw_bytes", read);
  const double write_rate = number_after(text, "bw_bytes", write);
  result.bytes = read_bytes + write_bytes;
  // Both directions of a mix run for the same time; the slower clock counts.
  if (read_bytes > 0 && read_rate > 0) {
    result.seconds = read_bytes / read_rate;
  }
  if (write_bytes > 0 && write_rate > 0) {
    result.seconds = std::max(result.seconds, write_bytes / write_rate);
  }
  const double runtime = number_after(text, "job_runtime", json) / 1000;
  result.cpu_seconds =
      (number_after(text, "usr_cpu", json) + number_after(text, "sys_cpu", json)) / 100 * runtime;
  if (read_bytes > 0) {
    const size_t clat = text.find("\"clat_ns\"", read);
    result.read_p99_us = number_after(text, "99.000000", clat) / 1000;
  }
  if (result.seconds <= 0) {
    return {Code::kUnavailable, "fio's output can't be read: " + text.substr(0, 200)};
  }
  return result;
}

}  // namespace troupe::apps
