#include "apps/size/size_main.h"

#include "apps/json/json_writer.h"
#include "apps/size/size_report.h"

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>

namespace troupe {
namespace {

constexpr int kBadArguments = 2;

void print_table(const ModelEntry& model, const SizeQuestion& q, const SizeReport& r) {
  std::printf("model        %s (%s)\n", model.name.c_str(), model.source.c_str());
  std::printf("format       %s, blocks of %u tokens%s\n",
              std::string(format_name(q.format)).c_str(), q.block_tokens,
              q.tensor_ranks > 1 ? ", one rank" : "");
  for (const SizeGroup& g : r.groups) {
    std::printf("  group      %-8s %-14s %s a block, %" PRIu64 " blocks a sequence\n",
                g.name.c_str(), std::string(attention_name(g.attention)).c_str(),
                bytes_text(g.block_bytes).c_str(), g.blocks);
  }
  std::printf("a token      %.10g bytes", r.token_bytes);
  if (r.token_bytes_beyond_windows != r.token_bytes) {
    std::printf("; beyond all windows %.10g", r.token_bytes_beyond_windows);
  }
  std::printf("\na sequence   of %" PRIu64 " tokens: %s\n", q.context_tokens,
              bytes_text(r.sequence_bytes).c_str());
  std::printf("the batch    of %" PRIu64 ": %s\n", q.batch, bytes_text(r.batch_bytes).c_str());
  std::printf("waste        paged %.2f %%, contiguous to %" PRIu64
              " tokens %.2f %% (%s a sequence)\n",
              100 * r.paged_waste, q.max_tokens, 100 * r.contiguous_waste,
              bytes_text(r.contiguous_sequence_bytes).c_str());
  if (q.memory_bytes) {
    std::printf("fits         %s: %" PRIu64 " sequences paged, %" PRIu64 " contiguous\n",
                bytes_text(*q.memory_bytes).c_str(), *r.paged_fits, *r.contiguous_fits);
  }
}

void print_json(const ModelEntry& model, const SizeQuestion& q, const SizeReport& r) {
  JsonWriter json;
  json.begin_object().field("model", model.name).field("source", model.source);
  json.field("format", format_name(q.format)).field("block_tokens", q.block_tokens);
  json.field("tensor_ranks", q.tensor_ranks);
  json.field("context", q.context_tokens)
      .field("max_context", q.max_tokens)
      .field("batch", q.batch);
  json.field("bytes_per_token", r.token_bytes);
  json.field("bytes_per_token_beyond_windows", r.token_bytes_beyond_windows);
  json.field("bytes_per_block", r.block_bytes);
  json.field("bytes_per_sequence", r.sequence_bytes).field("bytes_batch", r.batch_bytes);
  json.field("contiguous_bytes_per_sequence", r.contiguous_sequence_bytes);
  json.field("contiguous_bytes_batch", r.contiguous_batch_bytes);
  json.key("waste").begin_object().field("contiguous", r.contiguous_waste);
  json.field("paged", r.paged_waste).end_object();
  if (q.memory_bytes) {
    json.field("memory_bytes", *q.memory_bytes).key("sequences_that_fit").begin_object();
    json.field("contiguous", *r.contiguous_fits).field("paged", *r.paged_fits).end_object();
  }
  json.key("groups").begin_array();
  for (const SizeGroup& g : r.groups) {
    json.begin_object().field("name", g.name).field("attention", attention_name(g.attention));
    json.field("bytes_per_block", g.block_bytes).field("blocks_per_sequence", g.blocks);
    json.end_object();
  }
  json.end_array().end_object();
  std::fputs(json.take().c_str(), stdout);
}

void list_models(const std::vector<ModelEntry>& models) {
  std::printf("%-18s %9s %14s %14s  %s\n", "model", "context", "16-bit B/token", "int8 B/token",
              "source");
  for (const ModelEntry& model : models) {
    const KvLayout layout = layout_of(model, 16);
    std::printf("%-18s %9" PRIu64 " %14.0f %14.0f  %s\n", model.name.c_str(), model.context_tokens,
                static_cast<double>(bytes_per_block(layout, Format::kBf16)) / 16,
                static_cast<double>(bytes_per_block(layout, Format::kInt8)) / 16,
                model.source.c_str());
  }
  std::printf("\nformats:");
  for (const FormatInfo& info : all_formats()) {
    std::printf(" %s", std::string(info.name).c_str());
  }
  std::printf("\n");
}

int fail(const Status& status) {
  std::fprintf(stderr, "troupe size: %s\n", status.text().c_str());
  return kBadArguments;
}

struct Arguments {
  std::string model;
  std::string format;
  std::string memory;
  std::string models_path;
  SizeQuestion question;
  bool json = false;
};

void add_options(CLI::App& app, Arguments& args) {
  SizeQuestion& q = args.question;
  app.add_option("--model", args.model, "a name of the table; without it the table is listed");
  app.add_option("--context", q.context_tokens, "tokens of a sequence (default: the model's)");
  app.add_option("--max-context", q.max_tokens,
                 "tokens that a contiguous cache preallocates (default: the model's context)");
  app.add_option("--batch", q.batch, "sequences (default 1)");
  app.add_option("--format", args.format, "f16 bf16 fp8_e4m3 int8 … (default: the model's dtype)");
  app.add_option("--block-tokens", q.block_tokens,
                 "tokens of a block (default 16; KIVI formats need a multiple of 32)");
  app.add_option("--memory", args.memory, "how many sequences fit, for example 80GiB");
  app.add_option("--tensor-ranks", q.tensor_ranks, "tensor-parallel ranks; bytes are one's");
  app.add_option("--models", args.models_path, "another table in the form of configs/models.toml");
  app.add_flag("--json", args.json, "machine-readable");
  const CLI::Range tokens(uint64_t{1}, uint64_t{1} << 32);
  app.get_option("--context")->check(tokens);
  app.get_option("--max-context")->check(tokens);
  app.footer(
      "Example: troupe size --model llama-3.1-70b --context 131072 --batch 8 --format bf16 "
      "--memory 640GiB");
}

/// Fills in what the arguments leave to the model.
Expected<SizeQuestion> question_of(const Arguments& args, const ModelEntry& model) {
  SizeQuestion q = args.question;
  q.format = model.dtype;
  if (!args.format.empty()) {
    const Expected<Format> format = parse_format(args.format);
    if (!format) {
      return format.status();
    }
    q.format = *format;
  }
  if (!args.memory.empty()) {
    const Expected<uint64_t> memory = parse_bytes(args.memory);
    if (!memory) {
      return memory.status();
    }
    q.memory_bytes = *memory;
  }
  q.context_tokens = q.context_tokens == 0 ? model.context_tokens : q.context_tokens;
  q.max_tokens =
      q.max_tokens == 0 ? std::max(model.context_tokens, q.context_tokens) : q.max_tokens;
  return q;
}

}  // namespace

int size_main(int argc, char** argv) {
  CLI::App app("Bytes of a model's KV cache: per token, per sequence, for a batch, and what fits.",
               "troupe size");
  Arguments args;
  add_options(app, args);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kBadArguments;
  }
  std::vector<ModelEntry> models = known_models();
  if (!args.models_path.empty()) {
    Expected<std::vector<ModelEntry>> read = read_models(args.models_path);
    if (!read) {
      return fail(read.status());
    }
    models = std::move(read).value();
  }
  if (args.model.empty()) {
    list_models(models);
    return 0;
  }
  const Expected<ModelEntry> model = find_model(models, args.model);
  if (!model) {
    return fail(model.status());
  }
  const Expected<SizeQuestion> question = question_of(args, *model);
  if (!question) {
    return fail(question.status());
  }
  const Expected<SizeReport> report = size_report(*model, *question);
  if (!report) {
    return fail(report.status());
  }
  (args.json ? print_json : print_table)(*model, *question, *report);
  return 0;
}

}  // namespace troupe
