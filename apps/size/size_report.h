// The sums behind `troupe size`. All byte counts are exact and include metadata of the format.
#pragma once

#include "apps/models/models.h"
#include "runtime/layout/block_bytes.h"

#include <optional>
#include <string_view>
#include <vector>

namespace troupe {

struct SizeQuestion {
  Format format = Format::kBf16;
  uint32_t block_tokens = 16;
  uint64_t context_tokens = 0;  // tokens that a sequence really has
  uint64_t max_tokens = 0;      // what a contiguous cache preallocates for each sequence
  uint64_t batch = 1;
  std::optional<uint64_t> memory_bytes = std::nullopt;
  uint32_t tensor_ranks = 1;  // bytes are then of one rank
};

struct SizeGroup {
  std::string name;
  Attention attention = Attention::kGqa;
  uint64_t block_bytes = 0;
  uint64_t blocks = 0;  // of a sequence of context_tokens
};

struct SizeReport {
  uint64_t block_bytes = 0;  // all groups: what block_tokens new tokens cost
  double token_bytes = 0;
  double token_bytes_beyond_windows = 0;   // one more token in a long sequence: windows let one go
  uint64_t sequence_bytes = 0;             // paged
  uint64_t batch_bytes = 0;                // paged
  uint64_t contiguous_sequence_bytes = 0;  // preallocated to max_tokens, windows honoured
  uint64_t contiguous_batch_bytes = 0;
  double paged_waste = 0;  // share of the allocated bytes that holds no token
  double contiguous_waste = 0;
  std::optional<uint64_t> paged_fits;  // sequences in memory_bytes
  std::optional<uint64_t> contiguous_fits;
  std::vector<SizeGroup> groups;
};

/// Errors: invalid argument (tokens, batch, layout), out of range when a sum leaves 64 bits.
Expected<SizeReport> size_report(const ModelEntry& model, const SizeQuestion& question);

/// "80GiB", "1.5 TiB", "4096", "10GB" (decimal). Error: invalid argument, naming the text.
Expected<uint64_t> parse_bytes(std::string_view text);
/// "42,949,672,960 bytes (40.00 GiB)".
std::string bytes_text(uint64_t bytes);

}  // namespace troupe
