// The ABI is one thing in C and C++, and its published sizes only grow.
#include "policies/abi/eviction.h"
#include "policies/abi/quantization.h"
#include "policies/abi/retention.h"
#include "policies/abi/scheduling.h"
#include "policies/abi/tiering.h"

#include <catch2/catch.hpp>

#include <cstddef>

extern "C" const uint32_t abi_sizes_in_c[];
extern "C" const uint32_t abi_sizes_in_c_count;

TEST_CASE("C and C++ agree on every struct") {
  const uint32_t here[] = {sizeof(troupe_policy_desc),
                           sizeof(troupe_host),
                           sizeof(troupe_config),
                           sizeof(troupe_policy),
                           sizeof(troupe_note_section),
                           sizeof(troupe_events),
                           sizeof(troupe_victims_call),
                           sizeof(troupe_eviction),
                           sizeof(troupe_block_view),
                           sizeof(troupe_load_question),
                           sizeof(troupe_tiering),
                           sizeof(troupe_format_question),
                           sizeof(troupe_queued_row),
                           sizeof(troupe_scheduling),
                           sizeof(troupe_retention_question),
                           sizeof(troupe_quantization),
                           sizeof(troupe_retention),
                           sizeof(troupe_leaving_block),
                           sizeof(troupe_prefetch_question),
                           offsetof(troupe_tiering, prefetch),
                           offsetof(troupe_format_question, format_count),
                           offsetof(troupe_retention_question, scores),
                           offsetof(troupe_events, keys),
                           offsetof(troupe_victims_call, view),
                           offsetof(troupe_policy, destroy)};
  REQUIRE(abi_sizes_in_c_count == sizeof here / sizeof here[0]);
  for (uint32_t i = 0; i < abi_sizes_in_c_count; ++i) {
    INFO(i);
    CHECK(abi_sizes_in_c[i] == here[i]);
  }
}

TEST_CASE("fields of ABI 1.0 stay where they were published") {
  CHECK(sizeof(troupe_policy_desc) == 80);
  CHECK(sizeof(troupe_policy) == 64);
  CHECK(sizeof(troupe_events) == 104);
  CHECK(sizeof(troupe_victims_call) == 80);
  CHECK(sizeof(troupe_note) == 60);
}

TEST_CASE("TROUPE_HAS looks at what the writer had") {
  troupe_events e{};
  e.struct_size = offsetof(troupe_events, keys);
  CHECK(TROUPE_HAS(&e, troupe_events, tokens));
  CHECK_FALSE(TROUPE_HAS(&e, troupe_events, keys));
}
