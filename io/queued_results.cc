// What comes back: results of chunks become continuations, retries or ends of requests.
#include "io/queued_device.h"
#include "io/steady.h"
#include "runtime/base/log.h"

#include <algorithm>
#include <cerrno>

namespace troupe::io {
namespace {

bool is_transient(int error) noexcept {
  return error == EINTR || error == EAGAIN || error == EBUSY || error == ECANCELED;
}

}  // namespace

void QueuedDevice::on_result(const RawResult& result) {
  const auto index = static_cast<uint32_t>(result.tag);
  if (index >= chunks_.size() || !chunks_[index].in_flight ||
      chunks_[index].generation != result.tag >> 32) {
    ++stats_.unknown_results;
    return;
  }
  ChunkRow& chunk = chunks_[index];
  const IoRequest& request = requests_[chunk.request].request;
  chunk.in_flight = false;
  --in_flight_;
  if (options_.adaptive && request.op == IoOp::kRead && result.result > 0) {
    governor_.on_read(now_ns() - chunk.started_ns, static_cast<uint64_t>(result.result));
  }
  if (result.result < 0) {
    on_error(index, static_cast<int>(-result.result));
  } else if (request.op == IoOp::kSync) {
    finish_chunk(index, 0);
  } else {
    on_moved(index, static_cast<uint64_t>(result.result));
  }
}

void QueuedDevice::on_moved(uint32_t chunk_index, uint64_t bytes) {
  ChunkRow& chunk = chunks_[chunk_index];
  const uint64_t left = chunk.length - chunk.done;
  if (bytes > left) {  // more than was asked: nothing this backend says can be trusted
    finish_chunk(chunk_index, EIO);
    return;
  }
  if (bytes == left) {
    chunk.done = chunk.length;
    finish_chunk(chunk_index, 0);
    return;
  }
  // Short: go on from the last aligned byte (a partial sector is moved again).
  const uint64_t aligned = bytes - bytes % options_.alignment;
  chunk.done += aligned;
  // Nothing moved twice is the end of the file; less than a sector again and again is no progress.
  chunk.stalls = bytes == 0 ? chunk.stalls + 1 : 0;
  chunk.transient += aligned == 0 ? 1 : 0;
  if (chunk.stalls >= 2 || chunk.transient > options_.transient_retries) {
    const bool reads = requests_[chunk.request].request.op == IoOp::kRead;
    finish_chunk(chunk_index, reads ? ENODATA : ENOSPC);
    return;
  }
  ++stats_.continued;
  ++chunk.generation;
  retry_.push_back(chunk_index);
}

void QueuedDevice::on_error(uint32_t chunk_index, int error) {
  ChunkRow& chunk = chunks_[chunk_index];
  const bool reads = requests_[chunk.request].request.op == IoOp::kRead;
  bool again = false;
  if (is_transient(error)) {
    again = chunk.transient++ < options_.transient_retries;
  } else if (reads && error == EIO) {
    again = chunk.read_retries++ < options_.read_retries;
  }
  if (!again || broken_.code() != Code::kOk) {
    finish_chunk(chunk_index, error);
    return;
  }
  ++stats_.retried;
  ++chunk.generation;
  retry_.push_back(chunk_index);
}

void QueuedDevice::finish_chunk(uint32_t chunk_index, int error) {
  ChunkRow& chunk = chunks_[chunk_index];
  const uint32_t row = chunk.request;
  RequestRow& request = requests_[row];
  if (request.request.op == IoOp::kRead) {
    --reads_outstanding_;
  } else {
    --writes_in_flight_;
  }
  if (error != 0) {
    if (chunk.from + chunk.done <= request.good_until) {
      request.good_until = chunk.from + chunk.done;
      request.error = error;
    }
    if (!request.cut) {  // the rest would be thrown away: don't start it
      request.cut = true;
      auto& queue = queues_[request.request.op == IoOp::kRead ? 0 : 1][request.request.priority];
      queue.erase(std::find(queue.begin(), queue.end(), row));
      request.good_until = std::min(request.good_until, request.issued);
    }
  }
  chunk.request = kNoRow;
  ++chunk.generation;
  free_chunks_.push_back(chunk_index);
  --request.chunks;
  if (request.chunks == 0 && request.cut) {
    finish_request(row);
  }
}

void QueuedDevice::finish_request(uint32_t row) {
  const RequestRow& done = requests_[row];
  const IoRequest& request = done.request;
  completed_.push_back({request.user_data, done.good_until, done.error});
  stats_.failed += done.error != 0 ? 1 : 0;
  switch (request.op) {
    case IoOp::kRead:
      ++stats_.reads;
      stats_.read_bytes += done.good_until;
      break;
    case IoOp::kWrite:
      ++stats_.writes;
      stats_.written_bytes += done.good_until;
      break;
    case IoOp::kSync:
      ++stats_.syncs;
      break;
  }
  free_requests_.push_back(row);
}

void QueuedDevice::break_down(const Status& why) {
  if (!broken_) {
    return;
  }
  TROUPE_LOG_ERROR("block device (%s) is broken: %s", capabilities_.backend.c_str(),
                   why.to_string().c_str());
  broken_ = why;
  // What was never handed over ends here; what is in flight still owns its buffers.
  while (!retry_.empty()) {
    const uint32_t chunk = retry_.front();
    retry_.pop_front();
    finish_chunk(chunk, EIO);
  }
  for (auto& direction : queues_) {
    for (auto& queue : direction) {
      while (!queue.empty()) {
        const uint32_t row = queue.front();
        queue.pop_front();
        RequestRow& request = requests_[row];
        request.cut = true;
        request.error = EIO;
        request.good_until = std::min(request.good_until, request.issued);
        if (request.chunks == 0) {
          finish_request(row);
        }
      }
    }
  }
}

}  // namespace troupe::io
