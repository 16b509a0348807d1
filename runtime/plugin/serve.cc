// The helper's side: load, create, then answer records of the ring until told to end.
#include "runtime/plugin/hosted.h"
#include "runtime/plugin/hosted_wire.h"
#include "runtime/plugin/sandbox.h"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

namespace troupe::plugin {
namespace {

using namespace hosted;

constexpr int kArguments = 8;
constexpr int kBadArguments = 3;
constexpr int64_t kOrphanNs = 1000000000;  // how long a helper may outlive its server

class Helper {
 public:
  Helper(Shared* shared, uint32_t capacity)
      : shared_(shared),
        ring_(reinterpret_cast<uint8_t*>(shared) + kRingAt),
        answer_(ring_ + shared->ring_bytes),
        capacity_(capacity) {}

  bool create(const char* library, const char* id, uint64_t seed, const char* params) {
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      return refuse(dlerror());
    }
    const auto describe =
        reinterpret_cast<troupe_policy_describe_fn>(dlsym(handle, TROUPE_DESCRIBE_SYMBOL));
    const auto make =
        reinterpret_cast<troupe_policy_create_fn>(dlsym(handle, TROUPE_CREATE_SYMBOL));
    if (const std::string text = enter_sandbox_to_run(); !text.empty()) {
      return refuse(text.c_str());
    }
    if (describe == nullptr || make == nullptr) {
      return refuse("its entry points cannot be found");
    }
    for (uint32_t i = 0; i < 64; ++i) {
      const troupe_policy_desc* d = describe(i);
      if (d == nullptr) {
        break;
      }
      if (!TROUPE_HAS(d, troupe_policy_desc, block_state_bytes) || d->id == nullptr ||
          d->version == nullptr || d->paper == nullptr) {
        return refuse("its description lacks id, version, paper or state size");
      }
      if (*id == '\0' || strcmp(d->id, id) == 0) {
        desc_ = d;
        break;
      }
    }
    if (desc_ == nullptr) {
      return refuse("describes no such policy");
    }
    return instance(make, seed, params);
  }

  void serve() {
    for (;;) {
      const uint32_t head = wait_for_record();
      const auto* bytes = ring_ + tail_ % shared_->ring_bytes;
      RecordHead record;
      memcpy(&record, bytes, sizeof record);
      if (record.kind == kEnd) {
        policy_.destroy(policy_.self);
        return;
      }
      if (head - tail_ < record.bytes) {
        _exit(kBadArguments);  // the server never writes that
      }
      handle(record, bytes + sizeof record);
      tail_ += record.bytes;
      shared_->tail.store(tail_);
      if (shared_->server_waits.load() != 0) {
        futex_wake(shared_->tail);
      }
    }
  }

 private:
  bool instance(troupe_policy_create_fn make, uint64_t seed, const char* params) {
    static const troupe_host kHost{sizeof(troupe_host),
                                   0,
                                   nullptr,
                                   0,
                                   [](void*, const char*) -> const void* { return nullptr; },
                                   [](void*, int32_t, const char*, uint64_t) {}};
    const troupe_config config{sizeof config, capacity_, seed, params, strlen(params)};
    policy_.struct_size = sizeof policy_;
    const int32_t code = make(desc_->id, &kHost, &config, &policy_);
    if (code != TROUPE_OK) {
      return refuse(("create gave " + std::to_string(code)).c_str());
    }
    if (!TROUPE_HAS(&policy_, troupe_policy, destroy) || policy_.destroy == nullptr ||
        policy_.extension == nullptr) {
      return refuse("create left extension or destroy out");
    }
    table_ =
        static_cast<const troupe_eviction*>(policy_.extension(policy_.self, TROUPE_EVICTION_1));
    if (table_ == nullptr || !TROUPE_HAS(table_, troupe_eviction, digest) ||
        table_->on_events == nullptr || table_->victims == nullptr || table_->digest == nullptr) {
      return refuse("offers no whole " TROUPE_EVICTION_1);
    }
    Hello hello{};
    hello.flags = desc_->flags;
    hello.state_schema = desc_->state_schema;
    hello.oldest_schema = desc_->oldest_schema;
    hello.block_state_bytes = desc_->block_state_bytes;
    hello.kind = desc_->kind;
    hello.sandboxed = sandbox_is_built_in() ? 1 : 0;
    strncpy(hello.id, desc_->id, sizeof hello.id - 1);
    strncpy(hello.version, desc_->version, sizeof hello.version - 1);
    strncpy(hello.paper, desc_->paper, sizeof hello.paper - 1);
    memcpy(answer_ + sizeof(AnswerHead), &hello, sizeof hello);
    answer(1, TROUPE_OK, sizeof hello);
    return true;
  }
  bool refuse(const char* text) {
    const size_t length = strnlen(text, 1000);
    memcpy(answer_ + sizeof(AnswerHead), text, length);
    answer(1, TROUPE_E_UNSUPPORTED, static_cast<uint32_t>(length));
    return false;
  }
  void answer(uint32_t number, int32_t status, uint32_t bytes) {
    const AnswerHead head{status, bytes};
    memcpy(answer_, &head, sizeof head);
    shared_->answered.store(number);
    futex_wake(shared_->answered);
  }
  uint32_t wait_for_record() {
    uint32_t head = shared_->head.load();
    while (head == tail_) {
      shared_->helper_sleeps.store(1);
      head = shared_->head.load();
      if (head == tail_) {
        futex_sleep(shared_->head, head, kOrphanNs);
        if (getppid() != parent_) {
          _exit(0);  // the server has died
        }
      }
      shared_->helper_sleeps.store(0);
      head = shared_->head.load();
    }
    return head;
  }

  void handle(const RecordHead& record, const uint8_t* body) {
    switch (record.kind) {
      case kEvents:
        events(body);
        break;
      case kVictims:
        victims(record.number, body);
        break;
      case kDigest: {
        const uint64_t digest = table_->digest(policy_.self);
        memcpy(answer_ + sizeof(AnswerHead), &digest, sizeof digest);
        answer(record.number, TROUPE_OK, sizeof digest);
        break;
      }
      case kSaveBlocks:
      case kLoadBlocks:
        blocks(record, body);
        break;
      case kSaveGlobal: {
        uint64_t length = TROUPE_GLOBAL_STATE_BYTES_MAX;
        const int32_t status =
            policy_.save_global(policy_.self, answer_ + sizeof(AnswerHead), &length);
        answer(record.number, status, static_cast<uint32_t>(length));
        break;
      }
      case kLoadGlobal: {
        RangeHead range;
        memcpy(&range, body, sizeof range);
        answer(record.number,
               policy_.load_global(policy_.self, range.schema, body + sizeof range, range.count),
               0);
        break;
      }
      default:
        break;  // padding
    }
  }
  void events(const uint8_t* body) {
    EventHead h;
    memcpy(&h, body, sizeof h);
    troupe_events e{};
    e.struct_size = sizeof e;
    e.kind = h.kind;
    e.ordinal = h.ordinal;
    e.session = h.session;
    e.at = h.at;
    e.block_bytes = h.block_bytes;
    e.tenant = h.tenant;
    e.hints = h.hints;
    e.flags = h.flags;
    e.count = h.count;
    const uint8_t* at = body + sizeof h;
    const auto take = [&](bool there, size_t width) {
      const uint8_t* const from = at;
      at += there ? padded(width * h.count) : 0;
      return there ? from : nullptr;
    };
    e.blocks = reinterpret_cast<const uint32_t*>(take(true, 4));
    e.parents = reinterpret_cast<const uint32_t*>(take((h.has & kHasParents) != 0, 4));
    e.depths = reinterpret_cast<const uint32_t*>(take((h.has & kHasDepths) != 0, 4));
    e.tokens = reinterpret_cast<const uint32_t*>(take((h.has & kHasTokens) != 0, 4));
    e.keys = reinterpret_cast<const uint64_t*>(take((h.has & kHasKeys) != 0, 8));
    e.costs = reinterpret_cast<const uint64_t*>(take((h.has & kHasCosts) != 0, 8));
    const int32_t status = table_->on_events(policy_.self, &e, 1, sizeof e);
    if (events_status_ == TROUPE_OK) {
      events_status_ = status;
    }
  }
  void victims(uint32_t number, const uint8_t* body) {
    VictimsHead h;
    memcpy(&h, body, sizeof h);
    victims_.assign(h.room, 0);
    scores_.assign(h.room, 0);
    troupe_victims_call call{};
    call.struct_size = sizeof call;
    call.want = h.want;
    call.room = h.room;
    call.victims = victims_.data();
    call.scores = scores_.data();
    call.wanted_count = h.wanted_count;
    call.wanted_keys =
        h.wanted_count > 0 ? reinterpret_cast<const uint64_t*>(body + sizeof h) : nullptr;
    call.free_blocks = h.free_blocks;
    int32_t status = events_status_;
    if (status == TROUPE_OK) {
      status = table_->victims(policy_.self, &call);
    }
    const VictimsAnswer head{call.named, call.scored};
    uint8_t* at = answer_ + sizeof(AnswerHead);
    memcpy(at, &head, sizeof head);
    const size_t named = call.named <= h.room ? call.named : 0;
    memcpy(at + sizeof head, victims_.data(), named * 4);
    memcpy(at + sizeof head + padded(named * 4), scores_.data(), named * 8);
    answer(number, status, static_cast<uint32_t>(sizeof head + padded(named * 4) + named * 8));
  }
  void blocks(const RecordHead& record, const uint8_t* body) {
    RangeHead h;
    memcpy(&h, body, sizeof h);
    troupe_state_range range{};
    range.struct_size = sizeof range;
    range.first = h.first;
    range.count = h.count;
    range.record_bytes = h.record_bytes;
    if (record.kind == kSaveBlocks) {
      range.records = answer_ + sizeof(AnswerHead);
      const int32_t status = policy_.save_blocks(policy_.self, &range);
      answer(record.number, status, h.count * h.record_bytes);
      return;
    }
    std::vector<uint8_t> records(body + sizeof h,
                                 body + sizeof h + size_t{h.count} * h.record_bytes);
    range.records = records.data();
    answer(record.number, policy_.load_blocks(policy_.self, h.schema, &range), 0);
  }

  Shared* shared_;
  uint8_t* ring_;
  uint8_t* answer_;
  uint32_t capacity_;
  pid_t parent_ = getppid();
  uint32_t tail_ = 0;
  int32_t events_status_ = TROUPE_OK;
  const troupe_policy_desc* desc_ = nullptr;
  const troupe_eviction* table_ = nullptr;
  troupe_policy policy_{};
  std::vector<uint32_t> victims_;
  std::vector<int64_t> scores_;
};

}  // namespace

// NAME FD LIBRARY ID CAPACITY SEED PARAMS MEMORY_MIB
int serve_policy(int argc, char** argv) {
  if (argc != kArguments) {
    return kBadArguments;
  }
  const int fd = atoi(argv[1]);
  struct stat st {};
  if (fstat(fd, &st) != 0) {
    return kBadArguments;
  }
  void* memory =
      mmap(nullptr, static_cast<size_t>(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  auto* shared = static_cast<Shared*>(memory);
  if (memory == MAP_FAILED || shared->magic != kWireMagic) {
    return kBadArguments;
  }
  Helper helper(shared, static_cast<uint32_t>(strtoul(argv[4], nullptr, 10)));
  if (const std::string text = enter_sandbox_to_load(strtoull(argv[7], nullptr, 10) << 20);
      !text.empty()) {
    const size_t length = text.size();
    auto* answer = reinterpret_cast<uint8_t*>(shared) + kRingAt + shared->ring_bytes;
    const AnswerHead head{TROUPE_E_INTERNAL, static_cast<uint32_t>(length)};
    memcpy(answer, &head, sizeof head);
    memcpy(answer + sizeof head, text.data(), length);
    shared->answered.store(1);
    futex_wake(shared->answered);
    return kBadArguments;
  }
  if (!helper.create(argv[2], argv[3], strtoull(argv[5], nullptr, 10), argv[6])) {
    return 0;
  }
  helper.serve();
  return 0;
}

}  // namespace troupe::plugin
