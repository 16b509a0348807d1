#include "apps/gen/gen_main.h"

#include "apps/gen/workload.h"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace troupe {
namespace {

constexpr int kFailed = 1;
constexpr int kBadArguments = 2;

void add_options(CLI::App& app, WorkloadParams& p, std::string& out) {
  app.add_option("--out", out, "file to write, or - for standard output")->required();
  app.add_option("--seed", p.seed, "same parameters and seed, same bytes");
  app.add_option("--sessions", p.sessions, "sessions, subagents not counted");
  app.add_option("--sessions-per-s", p.sessions_per_s, "mean rate of their starts (Poisson)");
  app.add_option("--tenants", p.tenants, "tenants; the t-th has a share of sessions as 1/t");
  app.add_option("--block-tokens", p.block_tokens, "tokens of a block");
  app.add_option("--turns", p.turns_median, "median turns of a session");
  app.add_option("--turns-sigma", p.turns_sigma, "spread of turns (sigma of the logarithm)");
  app.add_option("--turns-max", p.turns_max, "most turns of a session");
  app.add_option("--session-input", p.session_input_median, "median sum of a session's prompts");
  app.add_option("--session-output", p.session_output_median, "median sum of its answers");
  app.add_option("--within-1s", p.followup_1s_percent, "percent of turns that follow within 1 s");
  app.add_option("--within-10s", p.followup_10s_percent, "percent that follow within 10 s");
  app.add_option("--subagents", p.subagent_percent, "percent of sessions that start a subagent");
  app.add_option("--subagent-turns", p.subagent_turns_median, "median turns of a subagent");
  app.add_option("--system-tokens", p.system_tokens, "system prompt, one a tenant");
  app.add_option("--tool-tokens", p.tool_tokens, "tool descriptions, one set a tenant");
  app.add_option("--documents", p.documents, "documents a tenant has");
  app.add_option("--document-tokens", p.document_tokens, "median length of a document");
  app.add_option("--documents-per-session", p.documents_per_session, "documents retrieved");
  app.add_option("--zipf", p.zipf, "exponent of document popularity");
  app.add_option("--service-ms", p.service_ms_per_token, "ms an answer's token takes in the trace");
  app.add_flag("--tokens", p.tokens, "write token ids too (large)");
}

}  // namespace

int gen_main(int argc, char** argv) {
  CLI::App app("Writes a multi-tenant agent and RAG workload as token-level JSONL.", "troupe gen");
  app.option_defaults()->always_capture_default();
  app.footer("Example: troupe gen --sessions 200 --tenants 8 --seed 7 --out agents.jsonl");
  WorkloadParams params;
  std::string path;
  add_options(app, params, path);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadArguments;
  }
  const Status valid = check(params);
  if (!valid) {
    std::fprintf(stderr, "troupe gen: %s\n", valid.text().c_str());
    return kBadArguments;
  }
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "troupe gen: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    return kFailed;
  }
  std::string line;
  uint64_t requests = 0;
  uint64_t prompt_tokens = 0;
  const Status status = generate(params, [&](const WorkloadRequest& request) -> Status {
    line.clear();
    append_jsonl(request, params.block_tokens, line);
    ++requests;
    prompt_tokens += request.input_length;
    if (std::fwrite(line.data(), 1, line.size(), file) != line.size()) {
      return {Code::kIo, "cannot write " + path + ": " + std::strerror(errno)};
    }
    return Status::ok();
  });
  const bool closed = file == stdout ? std::fflush(file) == 0 : std::fclose(file) == 0;
  if (!status || !closed) {
    std::fprintf(stderr, "troupe gen: %s\n",
                 status ? ("cannot write " + path).c_str() : status.text().c_str());
    return kFailed;
  }
  std::fprintf(stderr, "%s: %" PRIu64 " requests, %" PRIu64 " prompt tokens, seed %" PRIu64 "\n",
               path.c_str(), requests, prompt_tokens, params.seed);
  return 0;
}

}  // namespace troupe
