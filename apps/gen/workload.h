// Multi-tenant agent and RAG traffic from stated parameters, as a stream in order of time.
// A session: the tenant's system prompt and tool descriptions, then retrieved documents (Zipf),
// then turns; each turn's prompt is the whole conversation so far. Turns follow each other after
// tool calls; a subagent forks the conversation at some turn and goes on by itself under a session
// id of its own. The default figures are medians of public agent traffic: 43 turns, 142 k input and
// 444 output tokens a session (prompts of all turns added up), 86 % of follow-ups within 1 s and 95
// % within 10 s, subagents in 44 % of sessions.
#pragma once

#include "runtime/base/status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace troupe {

struct WorkloadParams {
  uint64_t seed = 1;
  uint32_t tenants = 4;         // tenant t gets a share of sessions ∝ 1 / (t + 1)
  uint32_t sessions = 100;      // subagents not counted
  double sessions_per_s = 0.5;  // Poisson arrivals
  uint32_t block_tokens = 16;
  uint32_t turns_median = 43;
  double turns_sigma = 0.6;  // of the logarithm
  uint32_t turns_max = 400;
  uint64_t session_input_median = 142000;
  uint64_t session_output_median = 444;
  uint32_t followup_1s_percent = 86;
  uint32_t followup_10s_percent = 95;
  uint32_t subagent_percent = 44;  // of sessions
  uint32_t subagent_turns_median = 6;
  uint32_t system_tokens = 512;    // per tenant, shared by its sessions
  uint32_t tool_tokens = 768;      // the same
  uint32_t documents = 500;        // per tenant
  uint32_t document_tokens = 256;  // median
  uint32_t documents_per_session = 2;
  double zipf = 1.0;                   // exponent of document popularity
  uint32_t service_ms_per_token = 20;  // stands for the engine between a request and its answer
  uint32_t vocabulary = 128000;
  bool tokens = false;  // also give the token ids
};

struct WorkloadRequest {
  double timestamp_ms = 0;
  uint64_t request_id = 0;
  int64_t parent = -1;  // request that this one continues or forks from
  uint64_t session_id = 0;
  uint32_t tenant = 0;
  bool subagent = false;
  uint64_t input_length = 0;
  uint64_t output_length = 0;
  double pause_ms = -1;            // until the session's next request; negative: this was the last
  std::vector<uint64_t> hash_ids;  // full blocks only, dense in order of first use
  std::vector<uint32_t> tokens;    // with WorkloadParams::tokens
};

/// Ranges and combinations; every error at once, one a line, naming parameter, value and range.
Status check(const WorkloadParams& params);

/// Calls `sink` for each request, in order of time, until all sessions ended or the sink fails.
Status generate(const WorkloadParams& params,
                const std::function<Status(const WorkloadRequest&)>& sink);

/// One line of our token-level JSONL, with its end. Appends to `out`.
void append_jsonl(const WorkloadRequest& request, uint32_t block_tokens, std::string& out);

}  // namespace troupe
