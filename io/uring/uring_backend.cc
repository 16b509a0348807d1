#include "io/uring/uring_backend.h"

#include "runtime/base/log.h"

#include <liburing.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/eventfd.h>
#include <utility>

namespace troupe::io {
namespace {

// The tag of the eventfd read that lets another thread end a wait; no chunk has it, since
// generations would have to pass 2^32.
constexpr uint64_t kWakeTag = UINT64_MAX;
constexpr uint64_t kFixedBytesMax = uint64_t{1} << 30;  // kernel limit of one registered buffer
constexpr size_t kFixedCountMax = 1024;

struct SetupTry {
  unsigned flags;
  const char* name;
};
constexpr SetupTry kSetups[] = {
    {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
     "single issuer, deferred task work"},
    {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, "cooperative task work"},
    {0, "plain"},
};

std::string disabled_sysctl_text() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  int value = 0;
  return file >> value && value > 0 ? ", io_uring_disabled = " + std::to_string(value) : "";
}

class UringBackend final : public Backend {
 public:
  UringBackend() = default;
  ~UringBackend() override {
    if (ring_open_) {
      io_uring_queue_exit(&ring_);
    }
  }
  UringBackend(const UringBackend&) = delete;
  UringBackend& operator=(const UringBackend&) = delete;

  Status open(std::vector<Fd>& files, const UringOptions& options);
  bool start(const RawOp& op) override;
  Status flush() override;
  size_t reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) override;
  void wake() override;
  Status register_buffers(std::span<const std::span<std::byte>> buffers) override;
  void describe(IoCapabilities& capabilities) const override;
  uint64_t overflows() const noexcept override { return overflows_; }

 private:
  struct Piece {  // iovecs must live until the operation is submitted: kept until its row is reused
    iovec pieces[2];
  };

  Status open_ring(const UringOptions& options);
  Status probe_operations();
  void restrict_ring();
  void register_files();
  int fixed_index(const RawOp& op) const noexcept;
  void set_file(io_uring_sqe* sqe, uint32_t file) noexcept;
  Status enable();
  void arm_wake();
  size_t drain_completions(std::span<RawResult> out);

  io_uring ring_{};
  bool ring_open_ = false;
  bool disabled_ = false;  // started with R_DISABLED and not enabled yet
  bool restricted_ = false;
  bool files_fixed_ = false;
  bool wake_armed_ = false;
  bool woken_ = false;
  const char* setup_name_ = "";
  std::vector<Fd> files_;
  std::vector<std::span<std::byte>> fixed_;  // by start address
  std::vector<Piece> pieces_;
  size_t next_piece_ = 0;
  Fd wake_fd_;
  uint64_t wake_value_ = 0;
  uint64_t overflows_ = 0;
  uint64_t wait_errors_ = 0;
  std::string note_;
};

Status UringBackend::open(std::vector<Fd>& files, const UringOptions& options) {
  TROUPE_TRY(open_ring(options));
  TROUPE_TRY(probe_operations());
  wake_fd_ = Fd(eventfd(0, EFD_CLOEXEC));
  if (!wake_fd_.is_open()) {
    return errno_status("eventfd", errno);
  }
  files_ = std::move(files);
  register_files();
  restrict_ring();
  pieces_.resize(ring_.sq.ring_entries);
  return Status::ok();
}

Status UringBackend::open_ring(const UringOptions& options) {
  int error = 0;
  for (const SetupTry& setup : kSetups) {
    if (options.plain && setup.flags != 0) {
      continue;
    }
    // Started disabled: restrictions can be set, and the issuer is whoever enables it.
    io_uring_params params{};
    params.flags = setup.flags | IORING_SETUP_R_DISABLED | IORING_SETUP_CLAMP;
    const uint32_t entries = options.entries > 0 ? options.entries : options.depth + 1;  // the wake
    error = -io_uring_queue_init_params(entries, &ring_, &params);
    if (error == 0) {
      ring_open_ = true;
      disabled_ = true;
      setup_name_ = setup.name;
      constexpr unsigned kNeeded =
          IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_EXT_ARG;
      if ((params.features & kNeeded) != kNeeded) {
        return {Code::kUnavailable,
                "io_uring of this kernel is too old: needs NODROP, "
                "SUBMIT_STABLE and EXT_ARG (Linux 5.11)"};
      }
      return Status::ok();
    }
    if (error != EINVAL) {
      break;
    }
  }
  Status status = errno_status("io_uring_setup", error);
  return {status.code(), status.text() + disabled_sysctl_text()};
}

Status UringBackend::probe_operations() {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) {
    return {Code::kUnavailable, "io_uring can't be asked which operations it knows"};
  }
  const char* missing = nullptr;
  for (const auto& [op, name] : {std::pair{IORING_OP_READ, "READ"},
                                 {IORING_OP_WRITE, "WRITE"},
                                 {IORING_OP_READV, "READV"},
                                 {IORING_OP_WRITEV, "WRITEV"},
                                 {IORING_OP_FSYNC, "FSYNC"}}) {
    if (io_uring_opcode_supported(probe, op) == 0) {
      missing = name;
    }
  }
  const bool fixed = io_uring_opcode_supported(probe, IORING_OP_READ_FIXED) != 0 &&
                     io_uring_opcode_supported(probe, IORING_OP_WRITE_FIXED) != 0;
  io_uring_free_probe(probe);
  if (missing != nullptr) {
    return {Code::kUnavailable, std::string("io_uring of this kernel lacks ") + missing};
  }
  if (!fixed) {
    note_ = "registered buffers: this kernel lacks READ_FIXED or WRITE_FIXED";
  }
  return Status::ok();
}

void UringBackend::register_files() {
  std::vector<int> fds;
  for (const Fd& file : files_) {
    fds.push_back(file.get());
  }
  fds.push_back(wake_fd_.get());
  const int result = io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size()));
  files_fixed_ = result == 0;
  if (!files_fixed_) {
    note_ += (note_.empty() ? "" : "; ") + ("registered files: " + errno_text(-result));
  }
}

void UringBackend::restrict_ring() {
  // liburing 2.3 declares io_uring_register_restrictions but Debian's does not export it.
  std::vector<io_uring_restriction> rules;
  for (const unsigned op :
       {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED,
        IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_FSYNC}) {
    io_uring_restriction rule{};
    rule.opcode = IORING_RESTRICTION_SQE_OP;
    rule.sqe_op = static_cast<__u8>(op);
    rules.push_back(rule);
  }
  io_uring_restriction flags{};
  flags.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED;
  flags.sqe_flags = IOSQE_FIXED_FILE;
  rules.push_back(flags);
  for (const unsigned op : {IORING_REGISTER_BUFFERS, IORING_UNREGISTER_BUFFERS}) {
    io_uring_restriction rule{};
    rule.opcode = IORING_RESTRICTION_REGISTER_OP;
    rule.register_op = static_cast<__u8>(op);
    rules.push_back(rule);
  }
  const int result =
      io_uring_register(static_cast<unsigned>(ring_.ring_fd), IORING_REGISTER_RESTRICTIONS,
                        rules.data(), static_cast<unsigned>(rules.size()));
  restricted_ = result == 0;
  if (!restricted_) {
    note_ += (note_.empty() ? "" : "; ") + ("restrictions: " + errno_text(-result));
  }
}

Status UringBackend::register_buffers(std::span<const std::span<std::byte>> buffers) {
  std::vector<std::span<std::byte>> parts;
  for (std::span<std::byte> buffer : buffers) {
    while (!buffer.empty()) {
      const size_t part = std::min<size_t>(buffer.size(), kFixedBytesMax);
      parts.push_back(buffer.first(part));
      buffer = buffer.subspan(part);
    }
  }
  if (parts.size() > kFixedCountMax) {
    note_ += (note_.empty() ? "" : "; ");
    note_ += "registered buffers: " + std::to_string(parts.size()) + " parts, at most 1024";
    return Status::ok();
  }
  std::sort(parts.begin(), parts.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  std::vector<iovec> pieces;
  for (const auto& part : parts) {
    pieces.push_back({part.data(), part.size()});
  }
  const int result =
      io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
  if (result == 0) {
    fixed_ = std::move(parts);
    return Status::ok();
  }
  note_ += (note_.empty() ? "" : "; ");
  note_ += "registered buffers: " + errno_text(-result) + " (plain transfers instead)";
  TROUPE_LOG_WARN("io_uring: %s", note_.c_str());
  return Status::ok();
}

int UringBackend::fixed_index(const RawOp& op) const noexcept {
  if (fixed_.empty() || op.piece_count != 1) {
    return -1;
  }
  const auto* at = static_cast<const std::byte*>(op.pieces[0].iov_base);
  auto after =
      std::upper_bound(fixed_.begin(), fixed_.end(), at,
                       [](const std::byte* p, const auto& part) { return p < part.data(); });
  if (after == fixed_.begin()) {
    return -1;
  }
  const auto& part = *(after - 1);
  const bool inside = at + op.pieces[0].iov_len <= part.data() + part.size();
  return inside ? static_cast<int>(after - 1 - fixed_.begin()) : -1;
}

void UringBackend::set_file(io_uring_sqe* sqe, uint32_t file) noexcept {
  if (files_fixed_) {
    sqe->fd = static_cast<int>(file);
    sqe->flags |= IOSQE_FIXED_FILE;
  } else {
    sqe->fd = file < files_.size() ? files_[file].get() : wake_fd_.get();
  }
}

bool UringBackend::start(const RawOp& op) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) {  // full: hand over what is there, once
    static_cast<void>(flush());
    sqe = io_uring_get_sqe(&ring_);
  }
  if (sqe == nullptr) {
    return false;
  }
  const auto length = static_cast<unsigned>(op.pieces[0].iov_len);
  const bool reads = op.op == IoOp::kRead;
  if (op.op == IoOp::kSync) {
    io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
  } else if (op.piece_count == 2) {
    Piece& kept = pieces_[next_piece_++ % pieces_.size()];
    std::copy(std::begin(op.pieces), std::end(op.pieces), kept.pieces);
    if (reads) {
      io_uring_prep_readv(sqe, 0, kept.pieces, 2, op.offset);
    } else {
      io_uring_prep_writev(sqe, 0, kept.pieces, 2, op.offset);
    }
  } else if (const int index = fixed_index(op); index >= 0) {
    if (reads) {
      io_uring_prep_read_fixed(sqe, 0, op.pieces[0].iov_base, length, op.offset, index);
    } else {
      io_uring_prep_write_fixed(sqe, 0, op.pieces[0].iov_base, length, op.offset, index);
    }
  } else if (reads) {
    io_uring_prep_read(sqe, 0, op.pieces[0].iov_base, length, op.offset);
  } else {
    io_uring_prep_write(sqe, 0, op.pieces[0].iov_base, length, op.offset);
  }
  set_file(sqe, op.file);
  io_uring_sqe_set_data64(sqe, op.tag);
  return true;
}

Status UringBackend::enable() {
  const int result = io_uring_register(static_cast<unsigned>(ring_.ring_fd),
                                       IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  if (result < 0) {
    return errno_status("io_uring enable", -result);
  }
  disabled_ = false;
  return Status::ok();
}

Status UringBackend::flush() {
  if (disabled_) {
    if (io_uring_sq_ready(&ring_) == 0) {
      return Status::ok();
    }
    TROUPE_TRY(enable());
  }
  if (io_uring_sq_ready(&ring_) == 0) {
    return Status::ok();
  }
  const int result = io_uring_submit(&ring_);
  // These leave SQEs in the queue; the next flush or wait hands them over.
  if (result >= 0 || result == -EINTR || result == -EAGAIN || result == -EBUSY) {
    return Status::ok();
  }
  return errno_status("io_uring_enter", -result);
}

void UringBackend::arm_wake() {
  if (wake_armed_) {
    return;
  }
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) {
    return;  // the queue is full of work, so the wait will end soon anyhow
  }
  io_uring_prep_read(sqe, 0, &wake_value_, sizeof(wake_value_), 0);
  set_file(sqe, static_cast<uint32_t>(files_.size()));
  io_uring_sqe_set_data64(sqe, kWakeTag);
  wake_armed_ = true;
}

size_t UringBackend::drain_completions(std::span<RawResult> out) {
  size_t count = 0;
  io_uring_cqe* cqe = nullptr;
  overflows_ += io_uring_cq_has_overflow(&ring_) ? 1 : 0;
  // peek enters the kernel when it has overflowed completions or task work for us.
  while (count < out.size() && io_uring_peek_cqe(&ring_, &cqe) == 0 && cqe != nullptr) {
    if (cqe->user_data == kWakeTag) {
      wake_armed_ = false;
      woken_ = true;  // until a wait has ended for it
    } else {
      out[count++] = {cqe->user_data, cqe->res};
    }
    io_uring_cqe_seen(&ring_, cqe);
  }
  return count;
}

size_t UringBackend::reap(std::span<RawResult> out, bool wait, int64_t timeout_ns) {
  if (disabled_) {
    return 0;
  }
  size_t count = drain_completions(out);
  if (count > 0 || !wait || std::exchange(woken_, false)) {
    return count;
  }
  arm_wake();
  io_uring_cqe* cqe = nullptr;
  int result = 0;
  if (timeout_ns < 0) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    __kernel_timespec limit{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &limit, nullptr);
  }
  // -EINTR, -ETIME, -EAGAIN and -EBUSY: nothing is lost, whatever came is drained now.
  if (result < 0 && result != -EINTR && result != -ETIME && result != -EAGAIN && result != -EBUSY) {
    // Told at the 1st, 2nd, 4th, 8th … time: a caller that goes on waiting would flood the log.
    if (std::has_single_bit(++wait_errors_)) {
      TROUPE_LOG_ERROR("io_uring wait: %s (%llu times so far)", errno_text(-result).c_str(),
                       static_cast<unsigned long long>(wait_errors_));
    }
  }
  count = drain_completions(out);
  woken_ =
      woken_ && count > 0;  // results may be news to the device only: the next wait ends at once
  return count;
}

void UringBackend::wake() {
  const uint64_t one = 1;
  // Can only fail when the counter is full, and then the wait ends as well.
  [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof(one));
}

void UringBackend::describe(IoCapabilities& capabilities) const {
  capabilities.backend = "io_uring";
  capabilities.fixed_buffers = !fixed_.empty();
  capabilities.fixed_files = files_fixed_;
  capabilities.note = note_;
}

}  // namespace

Expected<std::unique_ptr<Backend>> open_uring_backend(std::vector<Fd>& files,
                                                      const UringOptions& options) {
  auto backend = std::make_unique<UringBackend>();
  TROUPE_TRY(backend->open(files, options));
  return std::unique_ptr<Backend>(std::move(backend));
}

}  // namespace troupe::io
