/* The ABI as a C compiler sees it: sizes and offsets that the C++ test compares with its own. */
#include <stddef.h>

#include "policies/abi/eviction.h"
#include "policies/abi/quantization.h"
#include "policies/abi/retention.h"
#include "policies/abi/scheduling.h"
#include "policies/abi/tiering.h"

const uint32_t abi_sizes_in_c[] = {
    sizeof(troupe_policy_desc),     sizeof(troupe_host),          sizeof(troupe_config),
    sizeof(troupe_policy),          sizeof(troupe_note_section),  sizeof(troupe_events),
    sizeof(troupe_victims_call),    sizeof(troupe_eviction),      sizeof(troupe_block_view),
    sizeof(troupe_load_question),   sizeof(troupe_tiering),       sizeof(troupe_format_question),
    sizeof(troupe_queued_row),      sizeof(troupe_scheduling),    sizeof(troupe_retention_question),
    sizeof(troupe_quantization),    sizeof(troupe_retention),     sizeof(troupe_leaving_block),
    sizeof(troupe_prefetch_question), offsetof(troupe_tiering, prefetch),
    offsetof(troupe_format_question, format_count), offsetof(troupe_retention_question, scores),
    offsetof(troupe_events, keys),  offsetof(troupe_victims_call, view),
    offsetof(troupe_policy, destroy)};
const uint32_t abi_sizes_in_c_count = sizeof abi_sizes_in_c / sizeof abi_sizes_in_c[0];
