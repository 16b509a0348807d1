#include "io/queued_device.h"

#include "io/steady.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace troupe::io {
namespace {

uint64_t total_bytes(const IoRequest& request) noexcept {
  return request.op == IoOp::kSync ? 0 : request.length + request.tail_length;
}

uint64_t tag_of(uint32_t chunk, uint32_t generation) noexcept {
  return static_cast<uint64_t>(generation) << 32 | chunk;
}

std::string describe_request(const IoRequest& request) {
  return "request " + std::to_string(request.user_data) + " (file " + std::to_string(request.file) +
         ", offset " + std::to_string(request.offset) + ", length " +
         std::to_string(request.length) + " + " + std::to_string(request.tail_length) + ")";
}

}  // namespace

Status check_queue_options(const QueueOptions& options) {
  const auto refuse = [](const char* what, uint64_t value, const char* limit) {
    return Status(Code::kInvalidArgument,
                  std::string(what) + " " + std::to_string(value) + ": must be " + limit);
  };
  if (options.file_count == 0 || options.file_count > 1024) {
    return refuse("number of files", options.file_count, "1 to 1024");
  }
  if (options.depth == 0 || options.depth > 1024) {
    return refuse("depth", options.depth, "1 to 1024");
  }
  if (options.alignment < 512 || options.alignment > 65536 ||
      !std::has_single_bit(options.alignment)) {
    return refuse("alignment", options.alignment, "a power of two from 512 to 65536");
  }
  if (options.chunk_bytes < 4096 || options.chunk_bytes > (1U << 20) ||
      options.chunk_bytes % options.alignment != 0) {
    return refuse("chunk_bytes", options.chunk_bytes,
                  "4096 to 1048576 and a multiple of the alignment");
  }
  if (options.queue_limit == 0 || options.queue_limit > (1U << 20)) {
    return refuse("queue_limit", options.queue_limit, "1 to 1048576");
  }
  return Status::ok();
}

QueuedDevice::QueuedDevice(std::unique_ptr<Backend> backend, const QueueOptions& options,
                           bool direct, std::string note)
    : backend_(std::move(backend)),
      options_(options),
      governor_(options.depth),
      requests_(options.queue_limit),
      chunks_(options.depth),
      results_(std::max(64U, options.depth)),
      note_(std::move(note)) {
  for (uint32_t i = options.queue_limit; i > 0; --i) {
    free_requests_.push_back(i - 1);
  }
  for (uint32_t i = options.depth; i > 0; --i) {
    free_chunks_.push_back(i - 1);
  }
  capabilities_.alignment = options.alignment;
  capabilities_.depth = options.depth;
  capabilities_.chunk_bytes = options.chunk_bytes;
  capabilities_.direct = direct;
  refresh_capabilities();
}

void QueuedDevice::refresh_capabilities() {
  backend_->describe(capabilities_);
  if (!note_.empty()) {
    capabilities_.note = note_ + (capabilities_.note.empty() ? "" : "; " + capabilities_.note);
  }
}

QueuedDevice::~QueuedDevice() {
  constexpr int64_t kPatienceNs = 5'000'000'000;
  if (const Status closed = close(kPatienceNs); !closed) {
    TROUPE_LOG_ERROR("block device given up while work is in flight: %s",
                     closed.to_string().c_str());
  }
}

Status QueuedDevice::check(const IoRequest& request) const {
  const uint64_t mask = options_.alignment - 1;
  const auto refuse = [&](const std::string& why) {
    return Status(Code::kInvalidArgument, describe_request(request) + ": " + why);
  };
  if (request.op != IoOp::kRead && request.op != IoOp::kWrite && request.op != IoOp::kSync) {
    return refuse("unknown operation");
  }
  if (request.file >= options_.file_count) {
    return refuse("file number must be below " + std::to_string(options_.file_count));
  }
  if (request.priority >= kPriorityCount) {
    return refuse("priority " + std::to_string(request.priority) + " must be below 3");
  }
  if (request.op == IoOp::kSync) {
    return Status::ok();
  }
  if (request.length == 0 || request.buffer == nullptr ||
      (request.tail_length > 0) != (request.tail != nullptr)) {
    return refuse("a transfer needs a length, a buffer, and a tail with both or none");
  }
  if (request.length > (uint64_t{1} << 40) || request.tail_length > (uint64_t{1} << 40) ||
      request.offset > (uint64_t{1} << 62)) {
    return refuse("length or offset is beyond 2^40 or 2^62");
  }
  const uint64_t bits = request.offset | request.length | request.tail_length |
                        reinterpret_cast<uintptr_t>(request.buffer) |
                        reinterpret_cast<uintptr_t>(request.tail);
  if ((bits & mask) != 0) {
    return refuse("offset, lengths and addresses must be multiples of " +
                  std::to_string(options_.alignment));
  }
  return Status::ok();
}

Status QueuedDevice::submit(std::span<const IoRequest> batch) {
  if (closed_) {
    return {Code::kUnavailable, "block device is closed"};
  }
  TROUPE_TRY(broken_);
  if (batch.size() > room()) {
    return {Code::kNoCapacity, "batch of " + std::to_string(batch.size()) +
                                   " requests: queue has room for " + std::to_string(room()) +
                                   " of " + std::to_string(options_.queue_limit)};
  }
  for (const IoRequest& request : batch) {
    TROUPE_TRY(check(request));
  }
  for (const IoRequest& request : batch) {
    const uint32_t row = free_requests_.back();
    free_requests_.pop_back();
    requests_[row] = RequestRow{.request = request, .good_until = total_bytes(request)};
    queues_[request.op == IoOp::kRead ? 0 : 1][request.priority].push_back(row);
    ++outstanding_;
  }
  issue();
  if (const Status flushed = backend_->flush(); !flushed) {
    break_down(flushed);
  }
  return Status::ok();
}

bool QueuedDevice::waiting(bool reads) const noexcept {
  for (const auto& queue : queues_[reads ? 0 : 1]) {
    if (!queue.empty()) {
      return true;
    }
  }
  return false;
}

bool QueuedDevice::allowed(bool reads) const noexcept {
  if (!waiting(reads)) {
    return false;
  }
  if (reads) {
    return true;
  }
  const bool reads_about = reads_outstanding_ > 0 || waiting(true);
  return writes_in_flight_ <
         (options_.adaptive ? governor_.write_limit(reads_about)
                            : (reads_about ? std::max(1U, options_.depth / 2) : options_.depth));
}

bool QueuedDevice::choose_reads() {
  if (!allowed(true)) {
    return false;
  }
  // A write gets its turn after kWriteTurn reads, so that a stream of reads can't starve it.
  return !(allowed(false) && reads_since_write_ >= kWriteTurn);
}

void QueuedDevice::issue() {
  while (!retry_.empty()) {
    const uint32_t chunk = retry_.front();
    if (!start_chunk(chunk)) {
      return;
    }
    retry_.pop_front();
  }
  while (!free_chunks_.empty() && (allowed(true) || allowed(false))) {
    if (!issue_next(choose_reads())) {
      return;
    }
  }
}

bool QueuedDevice::issue_next(bool reads) {
  for (auto& queue : queues_[reads ? 0 : 1]) {
    if (queue.empty()) {
      continue;
    }
    const uint32_t row = queue.front();
    RequestRow& request = requests_[row];
    const uint64_t total = total_bytes(request.request);
    const uint32_t index = free_chunks_.back();
    ChunkRow& chunk = chunks_[index];
    const uint32_t generation = chunk.generation;
    chunk = ChunkRow{.request = row,
                     .generation = generation,
                     .from = request.issued,
                     .length = std::min<uint64_t>(options_.chunk_bytes, total - request.issued)};
    if (!start_chunk(index)) {
      chunk.request = kNoRow;
      return false;
    }
    free_chunks_.pop_back();
    request.issued += chunk.length;
    ++request.chunks;
    if (request.issued == total) {
      request.cut = true;
      queue.pop_front();
    }
    if (reads) {
      ++reads_outstanding_;
      reads_since_write_ = std::min(reads_since_write_ + 1, kWriteTurn);
    } else {
      ++writes_in_flight_;
      reads_since_write_ = 0;
    }
    return true;
  }
  return false;
}

RawOp QueuedDevice::raw_op(uint32_t chunk_index) const {
  const ChunkRow& chunk = chunks_[chunk_index];
  const IoRequest& request = requests_[chunk.request].request;
  const uint64_t begin = chunk.from + chunk.done;
  const uint64_t end = chunk.from + chunk.length;
  RawOp op{.op = request.op,
           .file = request.file,
           .offset = request.offset + begin,
           .tag = tag_of(chunk_index, chunk.generation)};
  if (request.op == IoOp::kSync) {
    return op;
  }
  if (begin < request.length) {
    op.pieces[op.piece_count++] = {request.buffer + begin, std::min(end, request.length) - begin};
  }
  if (end > request.length) {
    const uint64_t tail_begin = std::max(begin, request.length) - request.length;
    op.pieces[op.piece_count++] = {request.tail + tail_begin, end - request.length - tail_begin};
  }
  return op;
}

bool QueuedDevice::start_chunk(uint32_t chunk_index) {
  ChunkRow& chunk = chunks_[chunk_index];
  if (!backend_->start(raw_op(chunk_index))) {
    return false;
  }
  chunk.in_flight = true;
  chunk.started_ns = options_.adaptive ? now_ns() : 0;
  ++stats_.chunks;
  stats_.in_flight_max = std::max<uint64_t>(stats_.in_flight_max, ++in_flight_);
  return true;
}

void QueuedDevice::step(bool wait, int64_t timeout_ns) {
  if (backend_ == nullptr) {  // closed
    return;
  }
  if (broken_) {
    issue();
    if (const Status flushed = backend_->flush(); !flushed) {
      break_down(flushed);
    }
  }
  const bool sleep = wait && in_flight_ > 0;
  const size_t count = backend_->reap(results_, sleep, timeout_ns);
  stats_.overflows = backend_->overflows();
  for (size_t i = 0; i < count; ++i) {
    on_result(results_[i]);
  }
  if (count > 0 && broken_) {
    issue();
    if (const Status flushed = backend_->flush(); !flushed) {
      break_down(flushed);
    }
  }
}

size_t QueuedDevice::take(std::span<IoCompletion> out) {
  const size_t count = std::min(out.size(), completed_.size());
  std::copy_n(completed_.begin(), count, out.begin());
  completed_.erase(completed_.begin(), completed_.begin() + static_cast<std::ptrdiff_t>(count));
  outstanding_ -= count;
  return count;
}

size_t QueuedDevice::poll(std::span<IoCompletion> out) {
  step(false, 0);
  return take(out);
}

size_t QueuedDevice::wait(std::span<IoCompletion> out, int64_t timeout_ns) {
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  while (completed_.empty() && outstanding_ > 0) {
    const uint64_t before = stats_.chunks;
    const uint32_t flying = in_flight_;
    const int64_t left = timeout_ns < 0 ? -1 : std::max<int64_t>(0, deadline - now_ns());
    step(true, left);
    // No progress: a wake, the deadline, or a backend that only moves when it is cranked.
    if (stats_.chunks == before && in_flight_ == flying) {
      break;
    }
  }
  return take(out);
}

void QueuedDevice::wake() {
  if (backend_ != nullptr) {
    backend_->wake();
  }
}

Status QueuedDevice::register_buffers(std::span<const std::span<std::byte>> buffers) {
  if (stats_.chunks > 0 || closed_) {
    return {Code::kFailedPrecondition, "buffers are registered before the first submit"};
  }
  TROUPE_TRY(backend_->register_buffers(buffers));
  refresh_capabilities();
  return Status::ok();
}

size_t QueuedDevice::room() const noexcept {
  return options_.queue_limit - std::min<size_t>(outstanding_, options_.queue_limit);
}

Status QueuedDevice::close(int64_t timeout_ns) {
  if (backend_ == nullptr) {
    return Status::ok();
  }
  closed_ = true;
  const int64_t deadline = timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
  while (outstanding_ > completed_.size()) {
    const int64_t left = timeout_ns < 0 ? -1 : deadline - now_ns();
    if (timeout_ns >= 0 && left <= 0) {
      return {Code::kDeadline, std::to_string(outstanding_ - completed_.size()) +
                                   " requests still in flight after " +
                                   std::to_string(timeout_ns / 1000000) + " ms"};
    }
    const uint64_t before = stats_.chunks + completed_.size();
    step(true, left);
    if (stats_.chunks + completed_.size() == before && timeout_ns < 0 && in_flight_ == 0) {
      break;
    }
  }
  backend_.reset();
  completed_.clear();
  outstanding_ = 0;
  return Status::ok();
}

}  // namespace troupe::io
