// The ABI's tables over a HelperProcess: what the server holds instead of the policy itself.
#include "runtime/plugin/hosted.h"

#include "runtime/plugin/helper_process.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <time.h>

namespace troupe::plugin {
namespace {

using namespace hosted;
using Bytes = std::span<const uint8_t>;

template <class T>
Bytes bytes_of(const T* items, size_t count) {
  return {reinterpret_cast<const uint8_t*>(items), items == nullptr ? 0 : count * sizeof(T)};
}
template <class T>
const T* from(const T* items, uint32_t first) {
  return items == nullptr ? nullptr : items + first;
}

// The description outlives the helper, in a library that is not loaded here.
struct HostedLibrary : Library {
  std::string id, version, paper;
  troupe_policy_desc desc{};
};

class Client {
 public:
  explicit Client(std::unique_ptr<HelperProcess> helper) : helper_(std::move(helper)) {}
  HelperProcess& helper() { return *helper_; }

  static Client& of(void* self) { return *static_cast<Client*>(self); }
  static int32_t on_events(void* self, const void* events, uint64_t count, uint32_t stride) {
    const auto* at = static_cast<const uint8_t*>(events);
    for (uint64_t i = 0; i < count; ++i, at += stride) {
      if (!of(self).send(*reinterpret_cast<const troupe_events*>(at))) {
        return TROUPE_E_INTERNAL;
      }
    }
    return TROUPE_OK;
  }
  static int32_t victims(void* self, troupe_victims_call* call) {
    call->named = 0;
    call->scored = 0;
    const int32_t status = on_events(self, call->events, call->events_count, call->events_stride);
    return status != TROUPE_OK ? status : of(self).question(*call);
  }
  static uint64_t digest(void* self) {
    int32_t status = TROUPE_OK;
    uint64_t digest = 0;
    Client& c = of(self);
    if (c.helper_->ask(kDigest, {}, status, c.body_) && c.body_.size() == sizeof digest) {
      memcpy(&digest, c.body_.data(), sizeof digest);
    }
    return digest;
  }
  static int32_t save_blocks(void* self, const troupe_state_range* r) {
    return of(self).blocks(*r, 0, kSaveBlocks);
  }
  static int32_t load_blocks(void* self, uint32_t schema, const troupe_state_range* r) {
    return of(self).blocks(*r, schema, kLoadBlocks);
  }
  static int32_t save_global(void* self, void* bytes, uint64_t* length) {
    Client& c = of(self);
    int32_t status = TROUPE_OK;
    if (!c.helper_->ask(kSaveGlobal, {}, status, c.body_)) {
      return TROUPE_E_INTERNAL;
    }
    if (status == TROUPE_OK) {
      memcpy(bytes, c.body_.data(), std::min<uint64_t>(c.body_.size(), *length));
      *length = c.body_.size();
    }
    return status;
  }
  static int32_t load_global(void* self, uint32_t schema, const void* bytes, uint64_t length) {
    Client& c = of(self);
    int32_t status = TROUPE_OK;
    if (length > TROUPE_GLOBAL_STATE_BYTES_MAX) {
      return TROUPE_E_INVALID;
    }
    const RangeHead head{0, static_cast<uint32_t>(length), 0, schema};
    const std::array<Bytes, 2> parts = {bytes_of(&head, 1),
                                        bytes_of(static_cast<const uint8_t*>(bytes), length)};
    return c.helper_->ask(kLoadGlobal, parts, status, c.body_) ? status : TROUPE_E_INTERNAL;
  }
  static const void* extension(void*, const char* name) {
    static const troupe_eviction kTable{sizeof kTable, 0, &on_events, &victims, &digest};
    return strcmp(name, TROUPE_EVICTION_1) == 0 ? &kTable : nullptr;
  }
  static void destroy(void* self) { delete static_cast<Client*>(self); }

 private:
  bool send(const troupe_events& e) {
    uint32_t first = 0;
    do {  // a long batch goes in parts, which mean the same
      const uint32_t count = std::min(e.count - first, kBlocksInRecord);
      EventHead head{e.ordinal, e.session, e.at,    e.block_bytes, e.kind,
                     e.tenant,  e.hints,   e.flags, count,         0};
      head.has = (e.parents != nullptr ? kHasParents : 0) | (e.depths != nullptr ? kHasDepths : 0) |
                 (e.tokens != nullptr ? kHasTokens : 0) | (e.keys != nullptr ? kHasKeys : 0) |
                 (e.costs != nullptr ? kHasCosts : 0);
      const std::array<Bytes, 7> parts = {bytes_of(&head, 1),
                                          bytes_of(from(e.blocks, first), count),
                                          bytes_of(from(e.parents, first), count),
                                          bytes_of(from(e.depths, first), count),
                                          bytes_of(from(e.tokens, first), count),
                                          bytes_of(from(e.keys, first), count),
                                          bytes_of(from(e.costs, first), count)};
      if (!helper_->write(kEvents, parts)) {
        return false;
      }
      first += count;
    } while (first < e.count);
    return true;
  }
  int32_t question(troupe_victims_call& call) {
    // Keys beyond what a record holds belong to blocks that no policy looks that far ahead for.
    const uint32_t keys = std::min<uint32_t>(call.wanted_count, kRecordMax / 8 - 64);
    const VictimsHead head{call.want, call.room, keys, call.free_blocks};
    const std::array<Bytes, 2> parts = {bytes_of(&head, 1), bytes_of(call.wanted_keys, keys)};
    int32_t status = TROUPE_OK;
    if (!helper_->ask(kVictims, parts, status, body_)) {
      return TROUPE_E_INTERNAL;
    }
    VictimsAnswer answer{};
    if (body_.size() < sizeof answer) {
      return TROUPE_E_INTERNAL;
    }
    memcpy(&answer, body_.data(), sizeof answer);
    const uint64_t scores_at = sizeof answer + padded(uint64_t{answer.named} * 4);
    if (answer.named > call.room || body_.size() < scores_at + uint64_t{answer.named} * 8) {
      return TROUPE_E_INTERNAL;
    }
    call.named = answer.named;
    memcpy(call.victims, body_.data() + sizeof answer, size_t{answer.named} * 4);
    if (call.scores != nullptr && answer.scored != 0) {
      memcpy(call.scores, body_.data() + scores_at, size_t{answer.named} * 8);
      call.scored = 1;
    }
    return status;
  }
  int32_t blocks(const troupe_state_range& r, uint32_t schema, Kind kind) {
    auto* records = static_cast<uint8_t*>(r.records);
    const uint32_t step = std::max(1U, kStateBytesMax / std::max(1U, r.record_bytes));
    for (uint32_t done = 0; done < r.count; done += step) {
      const uint32_t count = std::min(step, r.count - done);
      const size_t bytes = size_t{count} * r.record_bytes;
      uint8_t* here = records + size_t{done} * r.record_bytes;
      const RangeHead head{r.first + done, count, r.record_bytes, schema};
      const std::array<Bytes, 2> parts = {bytes_of(&head, 1),
                                          bytes_of(here, kind == kLoadBlocks ? bytes : 0)};
      int32_t status = TROUPE_OK;
      if (!helper_->ask(kind, parts, status, body_)) {
        return TROUPE_E_INTERNAL;
      }
      if (status != TROUPE_OK) {
        return status;
      }
      if (kind == kSaveBlocks) {
        if (body_.size() != bytes) {
          return TROUPE_E_INTERNAL;
        }
        memcpy(here, body_.data(), bytes);
      }
    }
    return TROUPE_OK;
  }

  std::unique_ptr<HelperProcess> helper_;
  std::vector<uint8_t> body_;
};

std::shared_ptr<HostedLibrary> describe(const StagedLibrary& staged, const Hello& hello) {
  auto library = std::make_shared<HostedLibrary>();
  library->path = staged.path;
  library->digest = staged.digest;
  library->image = staged.image;
  library->id = hello.id;
  library->version = hello.version;
  library->paper = hello.paper;
  troupe_policy_desc& d = library->desc;
  d.struct_size = sizeof d;
  d.abi_major = TROUPE_ABI_MAJOR;
  d.abi_minor = TROUPE_ABI_MINOR;
  d.kind = hello.kind;
  d.flags = hello.flags;
  d.state_schema = hello.state_schema;
  d.oldest_schema = hello.oldest_schema;
  d.block_state_bytes = hello.block_state_bytes;
  d.id = library->id.c_str();
  d.version = library->version.c_str();
  d.paper = library->paper.c_str();
  library->policies.push_back(&d);
  return library;
}

}  // namespace

Expected<EvictionInstance> make_hosted(const StagedLibrary& staged, const std::string& id,
                                       const InstanceOptions& options,
                                       const HostedOptions& hosted) {
  Status why;
  uint32_t pause_ms = hosted.back_off_ms;
  for (uint32_t attempt = 0; attempt < std::max(1U, hosted.starts_max); ++attempt) {
    if (attempt > 0) {
      const timespec nap{pause_ms / 1000, static_cast<long>(pause_ms % 1000) * 1000000};
      nanosleep(&nap, nullptr);
      pause_ms *= 4;
    }
    auto helper = std::make_unique<HelperProcess>(hosted);
    const auto hello = helper->start(staged.copy, id, options);
    if (!hello) {
      why = Status(hello.status().code(),
                   "policy host of " + staged.path + ": " + hello.status().text());
      if (hello.status().code() != Code::kInternal) {
        return why;  // a refusal is the same the next time
      }
      continue;
    }
    const auto library = describe(staged, *hello);
    if (hello->kind != TROUPE_KIND_EVICTION) {
      return Status(Code::kInvalidArgument, "policy " + library->id + " is of kind " +
                                                std::to_string(hello->kind) + ", not eviction");
    }
    troupe_policy made{sizeof made,
                       0,
                       new Client(std::move(helper)),
                       &Client::extension,
                       &Client::save_blocks,
                       &Client::save_global,
                       &Client::load_blocks,
                       &Client::load_global,
                       &Client::destroy};
    return EvictionInstance::adopt(made, &library->desc, options, library);
  }
  return Status(why.code(),
                why.text() + " (" + std::to_string(std::max(1U, hosted.starts_max)) + " starts)");
}

std::string hosted_failure(const EvictionInstance& instance) {
  return instance.table().on_events == &Client::on_events
             ? Client::of(instance.self()).helper().failure()
             : std::string();
}

int hosted_process(const EvictionInstance& instance) {
  return instance.table().on_events == &Client::on_events
             ? Client::of(instance.self()).helper().process()
             : 0;
}

}  // namespace troupe::plugin
