// QueuedDevice: the BlockDevice over any Backend. It cuts requests into chunks, keeps at most
// `depth` in flight, serves reads before writes and lower priority numbers first, continues short
// transfers from an aligned offset, retries what is transient and checks every chunk on its own.
// Invariants: in_flight <= depth; a chunk row is reused only after its result; tags carry the row's
// generation, so a late or unknown result can never complete another chunk; writes in flight are
// held to the governor's limit while reads are about, and get one turn in kWriteTurn reads so that
// none starves.
#pragma once

#include "io/backend.h"
#include "io/depth_governor.h"

#include <array>
#include <deque>
#include <memory>
#include <vector>

namespace troupe::io {

struct QueueOptions {
  uint32_t file_count = 1;
  uint32_t depth = 32;
  uint32_t chunk_bytes = 1U << 20;
  uint32_t queue_limit = 8192;
  uint32_t alignment = 4096;
  uint32_t transient_retries = 64;  // EINTR, EAGAIN, ECANCELED per chunk
  uint32_t read_retries =
      1;                 // of a read that failed otherwise: a transient EIO is seen in the field
  bool adaptive = true;  // false: a fixed write limit, for runs that must repeat exactly
};

/// Checks the ranges that BlockDeviceOptions documents.
Status check_queue_options(const QueueOptions& options);

class QueuedDevice final : public BlockDevice {
 public:
  /// `direct` and `note` go into the capabilities; `options` must pass check_queue_options.
  QueuedDevice(std::unique_ptr<Backend> backend, const QueueOptions& options, bool direct = false,
               std::string note = {});
  ~QueuedDevice() override;

  Status submit(std::span<const IoRequest> batch) override;
  size_t poll(std::span<IoCompletion> out) override;
  size_t wait(std::span<IoCompletion> out, int64_t timeout_ns) override;
  void wake() override;
  Status register_buffers(std::span<const std::span<std::byte>> buffers) override;
  size_t room() const noexcept override;
  size_t outstanding() const noexcept override { return outstanding_; }
  const IoCapabilities& capabilities() const noexcept override { return capabilities_; }
  const IoStats& stats() const noexcept override { return stats_; }
  Status close(int64_t timeout_ns) override;

 private:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  static constexpr uint32_t kWriteTurn = 8;

  struct RequestRow {
    IoRequest request;
    uint64_t issued = 0;      // bytes already cut into chunks
    uint64_t good_until = 0;  // end of the lowest failed chunk's good part; total when none failed
    uint32_t chunks = 0;      // chunk rows in use
    int error = 0;
    bool cut = false;  // no more chunks to cut
  };
  struct ChunkRow {
    uint32_t request = kNoRow;
    uint32_t generation = 0;
    uint32_t transient = 0;
    uint32_t read_retries = 0;
    uint32_t stalls = 0;  // results of 0 bytes in a row
    uint64_t from = 0;    // within the request
    uint64_t length = 0;
    uint64_t done = 0;
    int64_t started_ns = 0;
    bool in_flight = false;
  };

  Status check(const IoRequest& request) const;
  void issue();
  bool issue_retries();
  bool issue_next(bool reads);
  bool start_chunk(uint32_t chunk_index);
  RawOp raw_op(uint32_t chunk_index) const;
  void on_result(const RawResult& result);
  void on_moved(uint32_t chunk_index, uint64_t bytes);
  void on_error(uint32_t chunk_index, int error);
  void finish_chunk(uint32_t chunk_index, int error);
  void finish_request(uint32_t row);
  void refresh_capabilities();
  void break_down(const Status& why);
  size_t take(std::span<IoCompletion> out);
  /// One round: start what may start, reap, and start again what that freed.
  void step(bool wait, int64_t timeout_ns);
  bool waiting(bool reads) const noexcept;
  bool allowed(bool reads) const noexcept;
  bool choose_reads();

  std::unique_ptr<Backend> backend_;
  QueueOptions options_;
  IoCapabilities capabilities_;
  IoStats stats_;
  DepthGovernor governor_;
  std::vector<RequestRow> requests_;
  std::vector<uint32_t> free_requests_;
  std::vector<ChunkRow> chunks_;
  std::vector<uint32_t> free_chunks_;
  std::deque<uint32_t> retry_;  // chunk rows to start again, before anything new
  std::array<std::array<std::deque<uint32_t>, kPriorityCount>, 2> queues_;  // [write][priority]
  std::deque<IoCompletion> completed_;
  std::vector<RawResult> results_;
  size_t outstanding_ = 0;
  uint32_t in_flight_ = 0;
  uint32_t reads_outstanding_ = 0;  // chunk rows of reads
  uint32_t writes_in_flight_ = 0;
  uint32_t reads_since_write_ = 0;
  bool closed_ = false;
  Status broken_;
  std::string note_;  // of the choice of backend; the backend's own is appended
};

}  // namespace troupe::io
