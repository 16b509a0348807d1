// Entry points. In a shared library they have the names of the ABI; linked in (for tests), names
// with the policy's id in them, so that many fit into one program. Macros of eviction.h.
#pragma once

#ifdef TROUPE_POLICY_STATIC
#define TROUPE_JOIN2(a, b) a##b
#define TROUPE_JOIN(a, b) TROUPE_JOIN2(a, b)
#define TROUPE_DESCRIBE_NAME TROUPE_JOIN(troupe_describe_, TROUPE_POLICY_STATIC)
#define TROUPE_CREATE_NAME TROUPE_JOIN(troupe_create_, TROUPE_POLICY_STATIC)
#define TROUPE_NOTE_HERE
#else
#define TROUPE_DESCRIBE_NAME troupe_policy_describe
#define TROUPE_CREATE_NAME troupe_policy_create
// The build passes the id and version (troupe_add_policy), since a note is data, not code.
#define TROUPE_NOTE_HERE \
  TROUPE_POLICY_NOTE(TROUPE_KIND_EVICTION, 1, TROUPE_POLICY_ID, TROUPE_POLICY_VERSION);
#endif

#define TROUPE_EVICTION_POLICY(Class)                                                             \
  TROUPE_NOTE_HERE                                                                                \
  extern "C" __attribute__((visibility("default"))) const troupe_policy_desc*                     \
  TROUPE_DESCRIBE_NAME(uint32_t index) {                                                          \
    return index == 0 ? ::troupe::sdk::Eviction<Class>::describe() : nullptr;                     \
  }                                                                                               \
  extern "C" __attribute__((visibility("default"))) int32_t TROUPE_CREATE_NAME(                   \
      const char* id, const troupe_host* host, const troupe_config* config, troupe_policy* out) { \
    return ::troupe::sdk::Eviction<Class>::create(id, host, config, out);                         \
  }
