#include "runtime/plugin/helper_process.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::plugin {
namespace {

using namespace hosted;

// How often a wait looks whether the helper is still there: its death wakes nobody.
constexpr int64_t kLookNs = 10'000'000;
constexpr int kHelperFd = 3;
constexpr int64_t kEndNs = 200'000'000;  // for destroy, before it is killed

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1000000000} + t.tv_nsec;
}
int64_t ms(uint32_t n) {
  return int64_t{n} * 1000000;
}

std::string beside_this_program() {
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
  path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  return path + "/troupe-policy-host";
}

std::string ending(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return signal == SIGSYS ? "was killed for a forbidden system call"
                            : std::string("was killed by ") + strsignal(signal);
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

HelperProcess::~HelperProcess() {
  if (process_ > 0 && failure_.empty() && shared_ != nullptr) {
    write(kEnd, {});
    const int64_t deadline = now_ns() + kEndNs;
    while (now_ns() < deadline && alive()) {
      const timespec nap{0, 200000};
      nanosleep(&nap, nullptr);
    }
  }
  stop("");
  if (shared_ != nullptr) {
    munmap(shared_, mapped_);
  }
  if (fd_ >= 0) {
    close(fd_);
  }
}

Status HelperProcess::map(uint32_t capacity) {
  answer_max_ = static_cast<uint32_t>(answer_bytes_for(capacity));
  mapped_ = uint64_t{kRingAt} + kRingBytes + answer_max_;
  fd_ = memfd_create("troupe-policy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(mapped_)) != 0 ||
      fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return Status(Code::kIo, std::string("shared memory of a policy: ") + strerror(errno));
  }
  void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) {
    return Status(Code::kIo, std::string("shared memory of a policy: ") + strerror(errno));
  }
  shared_ = static_cast<Shared*>(memory);
  shared_->magic = kWireMagic;
  shared_->ring_bytes = kRingBytes;
  shared_->answer_bytes = answer_max_;
  ring_ = static_cast<uint8_t*>(memory) + kRingAt;
  answer_ = ring_ + kRingBytes;
  return Status::ok();
}

Status HelperProcess::spawn(const std::string& program, const std::string& library,
                            const std::string& id, const InstanceOptions& instance) {
  std::vector<std::string> words = {"troupe-policy-host",
                                    std::to_string(kHelperFd),
                                    library,
                                    id,
                                    std::to_string(instance.capacity),
                                    std::to_string(instance.seed),
                                    instance.params,
                                    std::to_string(options_.memory_mib)};
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  char* environment[] = {nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fd_, kHelperFd);
  posix_spawn_file_actions_addclosefrom_np(&actions, kHelperFd + 1);
  const int error =
      posix_spawn(&process_, program.c_str(), &actions, nullptr, argv.data(), environment);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process_ = 0;
    return Status(error == ENOENT ? Code::kNotFound : Code::kIo,
                  program + ": cannot be started: " + strerror(error));
  }
  return Status::ok();
}

Expected<Hello> HelperProcess::start(const std::string& library, const std::string& id,
                                     const InstanceOptions& instance) {
  TROUPE_TRY(map(instance.capacity));
  const std::string program = options_.program.empty() ? beside_this_program() : options_.program;
  TROUPE_TRY(spawn(program, library, id, instance));
  if (!answered(1, now_ns() + ms(options_.start_ms))) {
    return Status(Code::kInternal, failure_);
  }
  AnswerHead head;
  memcpy(&head, answer_, sizeof head);
  const uint32_t bytes = std::min<uint32_t>(head.bytes, 1024);
  if (head.status != TROUPE_OK) {
    std::string text(reinterpret_cast<const char*>(answer_ + sizeof head), bytes);
    stop(text);
    return Status(Code::kUnsupported, text);
  }
  Hello hello;
  memcpy(&hello, answer_ + sizeof head, sizeof hello);
  hello.id[sizeof hello.id - 1] = '\0';
  hello.version[sizeof hello.version - 1] = '\0';
  hello.paper[sizeof hello.paper - 1] = '\0';
  if (head.bytes != sizeof hello || hello.block_state_bytes > kStateBytesMax / 8) {
    stop("describes itself with nonsense");
    return Status(Code::kInternal, failure_);
  }
  return hello;
}

bool HelperProcess::alive() {
  int status = 0;
  if (process_ > 0 && waitpid(process_, &status, WNOHANG) == process_) {
    process_ = 0;
    if (failure_.empty()) {
      failure_ = ending(status) + doing();
    }
  }
  return process_ > 0;
}

void HelperProcess::stop(const std::string& why) {
  if (failure_.empty()) {
    failure_ = why;
  }
  if (process_ > 0) {
    kill(process_, SIGKILL);
    while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
    }
    process_ = 0;
  }
}

const char* HelperProcess::doing() const {
  switch (kind_) {
    case kVictims:
      return " in victims, or in events before it";
    case kEvents:
      return " in on_events";
    case kDigest:
      return " in digest";
    case kSaveBlocks:
    case kSaveGlobal:
      return " while it saved";
    case kLoadBlocks:
    case kLoadGlobal:
      return " while it loaded";
    case kEnd:
      return " in destroy";
    default:
      return " while it was created";
  }
}

bool HelperProcess::answered(uint32_t number, int64_t deadline) {
  for (;;) {
    const uint32_t seen = shared_->answered.load();
    if (seen == number) {
      return true;
    }
    const int64_t left = deadline - now_ns();
    if (!alive()) {
      // It may have answered and ended since the look above.
      return shared_->answered.load() == number;
    }
    if (left <= 0) {
      stop(std::string("gave no answer in time and was stopped") + doing());
      return false;
    }
    futex_sleep(shared_->answered, seen, std::min(left, kLookNs));
  }
}

bool HelperProcess::room_for(uint32_t bytes, int64_t deadline) {
  for (;;) {
    const uint32_t tail = shared_->tail.load();
    const uint32_t used = head_ - tail;
    if (used > kRingBytes) {
      stop("spoiled the ring and was stopped");
      return false;
    }
    if (kRingBytes - used >= bytes) {
      return true;
    }
    const int64_t left = deadline - now_ns();
    if (!alive()) {
      return false;
    }
    if (left <= 0) {
      stop(std::string("read nothing in time and was stopped") + doing());
      return false;
    }
    shared_->server_waits.store(1);
    if (shared_->tail.load() == tail) {
      futex_sleep(shared_->tail, tail, std::min(left, kLookNs));
    }
    shared_->server_waits.store(0);
  }
}

bool HelperProcess::write(uint32_t kind, std::span<const std::span<const uint8_t>> parts) {
  if (!failure_.empty()) {
    return false;
  }
  kind_ = kind;
  uint64_t body = 0;
  for (const auto& part : parts) {
    body += padded(part.size());
  }
  const uint32_t bytes = record_bytes_for(body);
  const uint32_t to_end = kRingBytes - head_ % kRingBytes;
  const uint32_t pad = bytes > to_end ? to_end : 0;
  if (!room_for(pad + bytes, now_ns() + ms(options_.call_ms))) {
    return false;
  }
  if (pad > 0) {
    const RecordHead skip{pad, kPad, 0, 0};
    memcpy(ring_ + head_ % kRingBytes, &skip, sizeof skip);
    head_ += pad;
  }
  uint8_t* at = ring_ + head_ % kRingBytes;
  const RecordHead record{bytes, kind, asked_, 0};
  memcpy(at, &record, sizeof record);
  at += sizeof record;
  for (const auto& part : parts) {
    if (!part.empty()) {
      memcpy(at, part.data(), part.size());
    }
    at += padded(part.size());
  }
  head_ += bytes;
  shared_->head.store(head_);
  if (shared_->helper_sleeps.load() != 0) {
    futex_wake(shared_->head);
  }
  return true;
}

bool HelperProcess::ask(uint32_t kind, std::span<const std::span<const uint8_t>> parts,
                        int32_t& status, std::vector<uint8_t>& body) {
  ++asked_;
  if (!write(kind, parts) || !answered(asked_, now_ns() + ms(options_.call_ms))) {
    return false;
  }
  AnswerHead head;
  memcpy(&head, answer_, sizeof head);
  if (head.bytes > answer_max_ - sizeof head) {
    stop(std::string("gave an answer longer than there is room for") + doing());
    return false;
  }
  status = head.status;
  body.assign(answer_ + sizeof head, answer_ + sizeof head + head.bytes);
  return true;
}

}  // namespace troupe::plugin
