#include "apps/size/size_report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace troupe {
namespace {

constexpr uint64_t kMaxTokens = 1ULL << 32;
constexpr uint64_t kMaxBatch = 1ULL << 32;

Status check(const char* what, uint64_t value, uint64_t most) {
  if (value >= 1 && value <= most) {
    return Status::ok();
  }
  return {Code::kInvalidArgument, std::string(what) + " " + std::to_string(value) +
                                      " is not in 1 … " + std::to_string(most)};
}

/// Tokens of a group that a sequence of `tokens` still needs.
uint64_t needed_tokens(const LayerGroup& group, uint64_t tokens) {
  return group.window_tokens == 0 ? tokens : std::min<uint64_t>(tokens, group.window_tokens);
}

/// Share of `allocated` that holds nothing.
double waste(double used, double allocated) {
  return allocated > 0 ? 1 - used / allocated : 0;
}

}  // namespace

Expected<SizeReport> size_report(const ModelEntry& model, const SizeQuestion& question) {
  KvLayout layout = layout_of(model, question.block_tokens);
  layout.shard.tensor_size = question.tensor_ranks;
  TROUPE_TRY(validate(layout, question.format));
  TROUPE_TRY(check("context", question.context_tokens, kMaxTokens));
  TROUPE_TRY(check("maximum length", question.max_tokens, kMaxTokens));
  TROUPE_TRY(check("batch", question.batch, kMaxBatch));
  if (question.max_tokens < question.context_tokens) {
    return {Code::kInvalidArgument, "context " + std::to_string(question.context_tokens) +
                                        " exceeds the maximum length " +
                                        std::to_string(question.max_tokens)};
  }
  SizeReport r;
  const auto per_block = static_cast<double>(question.block_tokens);
  double used = 0;
  for (size_t g = 0; g < layout.groups.size(); ++g) {
    const LayerGroup& group = layout.groups[g];
    const uint64_t bytes = bytes_per_block(layout, g, question.format);
    const uint64_t blocks = blocks_per_sequence(layout, g, question.context_tokens);
    const double token = static_cast<double>(bytes) / per_block;
    r.groups.push_back({group.name, group.attention, bytes, blocks});
    r.block_bytes += bytes;
    r.token_bytes += token;
    r.token_bytes_beyond_windows += group.window_tokens == 0 ? token : 0;
    r.sequence_bytes += blocks * bytes;
    // A contiguous cache holds max_tokens in one piece; its bytes per token are the block's.
    const uint64_t slab = needed_tokens(group, question.max_tokens);
    r.contiguous_sequence_bytes +=
        slab / question.block_tokens * bytes +
        static_cast<uint64_t>(std::ceil(static_cast<double>(slab % question.block_tokens) * token));
    used += static_cast<double>(needed_tokens(group, question.context_tokens)) * token;
  }
  uint64_t overflow = 0;
  if (__builtin_mul_overflow(r.sequence_bytes, question.batch, &overflow) ||
      __builtin_mul_overflow(r.contiguous_sequence_bytes, question.batch, &overflow)) {
    return {Code::kOutOfRange, "batch " + std::to_string(question.batch) + " of sequences of " +
                                   std::to_string(r.sequence_bytes) +
                                   " bytes does not fit 64 bits"};
  }
  r.batch_bytes = r.sequence_bytes * question.batch;
  r.contiguous_batch_bytes = r.contiguous_sequence_bytes * question.batch;
  r.paged_waste = waste(used, static_cast<double>(r.sequence_bytes));
  r.contiguous_waste = waste(used, static_cast<double>(r.contiguous_sequence_bytes));
  if (question.memory_bytes) {
    r.paged_fits = *question.memory_bytes / r.sequence_bytes;
    r.contiguous_fits = *question.memory_bytes / r.contiguous_sequence_bytes;
  }
  return r;
}

Expected<uint64_t> parse_bytes(std::string_view text) {
  struct Unit {
    std::string_view name;
    double factor;
  };
  constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                            {"B", 1},
                                            {"KiB", 1024.0},
                                            {"MiB", 1048576.0},
                                            {"GiB", 1073741824.0},
                                            {"TiB", 1099511627776.0},
                                            {"KB", 1e3},
                                            {"MB", 1e6},
                                            {"GB", 1e9},
                                            {"TB", 1e12}}};
  const std::string copy(text);
  const Status bad{
      Code::kInvalidArgument,
      "\"" + copy + "\" is no size: a number and one of B KiB MiB GiB TiB KB MB GB TB"};
  if (copy.empty() || copy[0] < '0' || copy[0] > '9') {
    return bad;
  }
  size_t used = 0;
  while (used < copy.size() && ((copy[used] >= '0' && copy[used] <= '9') || copy[used] == '.')) {
    ++used;
  }
  char* end = nullptr;
  const std::string digits = copy.substr(0, used);
  const double number = std::strtod(digits.c_str(), &end);
  if (*end != '\0') {
    return bad;
  }
  const size_t unit_at = std::min(copy.find_first_not_of(' ', used), copy.size());
  const std::string_view unit = text.substr(unit_at);
  for (const Unit& u : kUnits) {
    if (u.name == unit) {
      const double bytes = number * u.factor;
      if (bytes >= 9.2e18) {
        return {Code::kOutOfRange, "\"" + copy + "\" exceeds 8 EiB"};
      }
      return static_cast<uint64_t>(bytes);
    }
  }
  return bad;
}

std::string bytes_text(uint64_t bytes) {
  constexpr std::array<const char*, 6> kNames = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::string digits = std::to_string(bytes);
  for (size_t at = digits.size(); at > 3; at -= 3) {
    digits.insert(at - 3, ",");
  }
  auto scaled = static_cast<double>(bytes);
  size_t unit = 0;
  while (scaled >= 1024 && unit + 1 < kNames.size()) {
    scaled /= 1024;
    ++unit;
  }
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), " bytes (%.2f %s)", scaled, kNames[unit]);
  return digits + text.data();
}

}  // namespace troupe
