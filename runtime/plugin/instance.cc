#include "runtime/plugin/instance.h"

#include <cstddef>

namespace troupe::plugin {
namespace {

constexpr uint32_t kStateMagic = 0x31505654;  // "TVP1"
constexpr uint32_t kSaveRange = 4096;         // records saved at once

// What a host offers a policy today: a log that goes nowhere, since cores do not log.
const void* no_extension(void*, const char*) {
  return nullptr;
}
void drop_log(void*, int32_t, const char*, uint64_t) {}

Status status_of(int32_t code, const std::string& who, const char* what) {
  if (code == TROUPE_OK) {
    return Status::ok();
  }
  Code kind = Code::kInternal;
  const char* why = "gave up";
  switch (code) {
    case TROUPE_E_INVALID:
      kind = Code::kInvalidArgument;
      why = "refused a value";
      break;
    case TROUPE_E_UNSUPPORTED:
      kind = Code::kUnsupported;
      why = "does not know a schema or parameter, or its value is out of range";
      break;
    case TROUPE_E_CORRUPT:
      kind = Code::kCorrupt;
      why = "found the state damaged";
      break;
    default:
      break;
  }
  return Status(kind,
                "policy " + who + ": " + what + " " + why + " (" + std::to_string(code) + ")");
}

}  // namespace

Expected<EvictionInstance> EvictionInstance::create(troupe_policy_create_fn create,
                                                    const troupe_policy_desc* desc,
                                                    const InstanceOptions& options,
                                                    std::shared_ptr<const Library> keep) {
  if (desc->kind != TROUPE_KIND_EVICTION) {
    return Status(Code::kInvalidArgument, std::string("policy ") + desc->id + " is of kind " +
                                              std::to_string(desc->kind) + ", not eviction");
  }
  static const troupe_host kHost{sizeof(troupe_host), 0, nullptr, 0, &no_extension, &drop_log};
  const troupe_config config{sizeof config, options.capacity, options.seed, options.params.data(),
                             options.params.size()};
  troupe_policy made{};
  made.struct_size = sizeof made;
  const int32_t code = create(desc->id, &kHost, &config, &made);
  if (code != TROUPE_OK) {
    return status_of(code, desc->id, ("create with '" + options.params + "'").c_str());
  }
  return adopt(made, desc, options, std::move(keep));
}

Expected<EvictionInstance> EvictionInstance::adopt(const troupe_policy& given,
                                                   const troupe_policy_desc* desc,
                                                   const InstanceOptions& options,
                                                   std::shared_ptr<const Library> keep) {
  EvictionInstance made;
  made.policy_ = given;
  made.desc_ = desc;
  made.options_ = options;
  made.library_ = std::move(keep);
  if (!TROUPE_HAS(&made.policy_, troupe_policy, destroy) || made.policy_.destroy == nullptr ||
      made.policy_.extension == nullptr) {
    made.policy_.destroy = nullptr;
    return Status(Code::kUnsupported,
                  std::string("policy ") + desc->id + ": create left extension or destroy out");
  }
  made.table_ = static_cast<const troupe_eviction*>(
      made.policy_.extension(made.policy_.self, TROUPE_EVICTION_1));
  if (made.table_ == nullptr || !TROUPE_HAS(made.table_, troupe_eviction, digest) ||
      made.table_->on_events == nullptr || made.table_->victims == nullptr ||
      made.table_->digest == nullptr) {
    return Status(Code::kUnsupported,
                  std::string("policy ") + desc->id + " offers no whole " TROUPE_EVICTION_1);
  }
  return made;
}

EvictionInstance::EvictionInstance(EvictionInstance&& other) noexcept
    : policy_(other.policy_),
      table_(other.table_),
      desc_(other.desc_),
      options_(std::move(other.options_)),
      library_(std::move(other.library_)) {
  other.policy_ = troupe_policy{};
}

EvictionInstance::~EvictionInstance() {
  if (policy_.destroy != nullptr) {
    policy_.destroy(policy_.self);
  }
}

Expected<std::vector<uint8_t>> EvictionInstance::save_blocks(uint32_t first, uint32_t count) const {
  if (desc_->block_state_bytes == 0) {
    return Status(Code::kUnsupported, std::string("policy ") + desc_->id + " saves no state");
  }
  std::vector<uint8_t> records(static_cast<size_t>(count) * desc_->block_state_bytes);
  const troupe_state_range range{sizeof range, first, count, desc_->block_state_bytes,
                                 records.data()};
  TROUPE_TRY(status_of(policy_.save_blocks(policy_.self, &range), desc_->id, "save_blocks"));
  return records;
}

Expected<std::vector<uint8_t>> EvictionInstance::save_global() const {
  std::vector<uint8_t> bytes(TROUPE_GLOBAL_STATE_BYTES_MAX);
  uint64_t length = bytes.size();
  TROUPE_TRY(status_of(policy_.save_global(policy_.self, bytes.data(), &length), desc_->id,
                       "save_global"));
  if (length > bytes.size()) {
    return Status(Code::kInternal, std::string("policy ") + desc_->id + ": global record of " +
                                       std::to_string(length) + " bytes, the limit is 65536");
  }
  bytes.resize(static_cast<size_t>(length));
  return bytes;
}

Status EvictionInstance::load_blocks(uint32_t schema, uint32_t first, uint32_t count,
                                     std::vector<uint8_t> records) {
  if (desc_->block_state_bytes == 0 ||
      records.size() != static_cast<size_t>(count) * desc_->block_state_bytes) {
    return Status(Code::kInvalidArgument, std::string("policy ") + desc_->id + ": " +
                                              std::to_string(records.size()) + " bytes for " +
                                              std::to_string(count) + " records of " +
                                              std::to_string(desc_->block_state_bytes));
  }
  const troupe_state_range range{sizeof range, first, count, desc_->block_state_bytes,
                                 records.data()};
  return status_of(policy_.load_blocks(policy_.self, schema, &range), desc_->id, "load_blocks");
}

Status EvictionInstance::load_global(uint32_t schema, const std::vector<uint8_t>& bytes) {
  return status_of(policy_.load_global(policy_.self, schema, bytes.data(), bytes.size()), desc_->id,
                   "load_global");
}

Status save_policy(const EvictionInstance& instance, StateSink& sink) {
  auto global = instance.save_global();
  if (!global) {
    return global.status();
  }
  const uint32_t capacity = instance.options().capacity;
  sink.u32(kStateMagic);
  sink.text(instance.desc().id);
  sink.u32(instance.desc().state_schema);
  sink.u32(capacity);
  sink.u32(instance.desc().block_state_bytes);
  for (uint32_t at = 0; at < capacity; at += kSaveRange) {
    auto records = instance.save_blocks(at, std::min(kSaveRange, capacity - at));
    if (!records) {
      return records.status();
    }
    sink.array(*records);
  }
  sink.array(*global);
  return Status::ok();
}

Status load_policy(EvictionInstance& instance, StateSource& source) {
  const uint32_t magic = source.u32();
  const std::string id = source.text();
  const uint32_t schema = source.u32();
  const uint32_t capacity = source.u32();
  source.u32();  // record size: checked with each range
  TROUPE_TRY(source.status());
  if (magic != kStateMagic || id != instance.desc().id || capacity != instance.options().capacity) {
    return Status(Code::kUnsupported, "state of policy '" + id + "' at " +
                                          std::to_string(capacity) + " blocks, not of '" +
                                          instance.desc().id + "' at " +
                                          std::to_string(instance.options().capacity));
  }
  for (uint32_t at = 0; at < capacity; at += kSaveRange) {
    auto records = source.array<uint8_t>();
    TROUPE_TRY(source.status());
    TROUPE_TRY(
        instance.load_blocks(schema, at, std::min(kSaveRange, capacity - at), std::move(records)));
  }
  const auto global = source.array<uint8_t>();
  TROUPE_TRY(source.status());
  return instance.load_global(schema, global);
}

}  // namespace troupe::plugin
