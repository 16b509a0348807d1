// Driver of decode attention on the CPU: cuts the sequence into runs of one coding, keeps the
// softmax state, and rotates query and output where a coding is rotated. Sums of rotated and plain
// values are kept apart and meet at the end.
#include "kernels/cpu/attention/run.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troupe::kernels {

struct DecodeScratch::Parts {
  QueryForms forms[3];  // by Rotation
  std::vector<float> logits;
  std::vector<float> sums[2];  // plain, rotated
  std::vector<float> top;
  std::vector<float> total;
  std::vector<float> factor;
  IntScratch integers;
};

DecodeScratch::DecodeScratch() : parts_(std::make_unique<Parts>()) {}
DecodeScratch::~DecodeScratch() = default;

namespace {

/// Query of a rotation, normalised so that its dot product with raw tile rows is the true one.
void prepare_query(const DecodeInput& input, Rotation rotation, QueryForms& forms) {
  const DecodeShape& s = input.shape;
  const auto block = static_cast<float>(hadamard_block(s.width));
  forms.plain.assign(input.query, input.query + size_t{s.heads} * s.width);
  for (size_t h = 0; h < s.heads && rotation != Rotation::kNone; ++h) {
    float* row = forms.plain.data() + h * s.width;
    const bool is_signed = rotation == Rotation::kSigned;
    if (is_signed) {
      rotate_signed(row, s.width, input.params.key.rotation_seed);
    } else {
      hadamard(row, s.width);
    }
    scale_row(row, s.width, is_signed ? 1.0F / block : 1.0F / std::sqrt(block));
  }
  prepare_integer_query(s, forms);
  forms.ready = true;
}

Loops loops_for(Coding coding, uint32_t width) {
  Loops loops = float_loops(coding);
  if (loops.qk != nullptr) {
    return loops;
  }
  loops = decoded_loops();
  const QkLoop rows = integer_key_loop(coding, width);
  const QkLoop channels = channel_key_loop(coding, width);
  const PvLoop values = integer_value_loop(coding, width);
  loops.qk = rows != nullptr ? rows : (channels != nullptr ? channels : loops.qk);
  loops.pv = values != nullptr ? values : loops.pv;
  return loops;
}

/// The next run: tiles of one coding, at most kRunTokens keys (one tile may not be longer).
Run next_run(const DecodeInput& input, size_t first) {
  Run run;
  run.input = &input;
  run.coding = input.tiles[first].coding;
  size_t count = 0;
  while (first + count < input.tiles.size()) {
    const KvTile& tile = input.tiles[first + count];
    const uint32_t keys = tile.end - tile.begin;
    if (tile.coding != run.coding || (count != 0 && run.keys + keys > kRunTokens)) {
      break;
    }
    run.keys += keys;
    ++count;
  }
  run.tiles = input.tiles.subspan(first, count);
  run.after = first + count < input.tiles.size() ? &input.tiles[first + count] : nullptr;
  return run;
}

void add_bias(const Run& run, const float* bias, uint32_t heads, float* logits) {
  for (uint32_t h = 0; h < heads; ++h) {
    for (uint32_t t = 0; t < run.keys; ++t) {
      logits[h * kRunTokens + t] += bias[t];
    }
  }
}

void finish(const DecodeInput& input, const DecodeOutput& output, DecodeScratch::Parts& parts) {
  const DecodeShape& s = input.shape;
  for (size_t h = 0; h < s.heads; ++h) {
    float* plain = parts.sums[0].data() + h * s.width;
    float* rotated = parts.sums[1].data() + h * s.width;
    if (parts.total[h] == 0) {
      output.lse[h] = -std::numeric_limits<float>::infinity();
      std::fill_n(output.out + h * s.width, s.width, 0.0F);
      continue;
    }
    unrotate_signed(rotated, s.width, input.params.value.rotation_seed);
    const float inverse = 1.0F / parts.total[h];
    for (size_t i = 0; i < s.width; ++i) {
      output.out[h * s.width + i] = (plain[i] + rotated[i]) * inverse;
    }
    output.lse[h] = parts.top[h] + std::log(parts.total[h]);
  }
}

}  // namespace

const std::byte* next_tile(const Run& run, size_t i, Role role) noexcept {
  if (i + 1 < run.tiles.size()) {
    return role == Role::kKey ? run.tiles[i + 1].key : run.tiles[i + 1].value;
  }
  if (role == Role::kKey) {
    return run.tiles.front().value;
  }
  return run.after != nullptr ? run.after->key : nullptr;
}

void decode_attention(const DecodeInput& input, const DecodeOutput& output,
                      DecodeScratch& scratch) {
  TROUPE_ASSERT(check_decode(input).is_ok());
  const DecodeShape& s = input.shape;
  const size_t values = size_t{s.heads} * s.width;
  DecodeScratch::Parts& parts = scratch.parts();
  for (QueryForms& forms : parts.forms) {
    forms.ready = false;
  }
  parts.logits.resize(size_t{s.heads} * kRunTokens);
  parts.sums[0].assign(values, 0.0F);
  parts.sums[1].assign(values, 0.0F);
  parts.top.assign(s.heads, -std::numeric_limits<float>::infinity());
  parts.total.assign(s.heads, 0.0F);
  parts.factor.resize(s.heads);
  const size_t keys = output.logits != nullptr ? count_keys(input.tiles) : 0;
  size_t key = 0;
  for (size_t first = 0; first < input.tiles.size();) {
    Run run = next_run(input, first);
    run.scratch = &parts.integers;
    const Loops loops = loops_for(run.coding, s.width);
    const Rotation rotation = rotation_of(run.coding, Role::kKey);
    QueryForms& query = parts.forms[static_cast<size_t>(rotation)];
    if (!query.ready) {
      prepare_query(input, rotation, query);
    }
    loops.qk(run, query, parts.logits.data());
    if (input.key_bias != nullptr) {
      add_bias(run, input.key_bias + key, s.heads, parts.logits.data());
    }
    for (size_t h = 0; h < s.heads && output.logits != nullptr; ++h) {
      std::copy_n(parts.logits.data() + h * kRunTokens, run.keys, output.logits + h * keys + key);
    }
    softmax_run(parts.logits.data(), s.heads, run.keys,
                {parts.top.data(), parts.total.data(), parts.factor.data()});
    for (size_t h = 0; h < s.heads; ++h) {
      if (parts.factor[h] != 1.0F) {
        scale_row(parts.sums[0].data() + h * s.width, s.width, parts.factor[h]);
        scale_row(parts.sums[1].data() + h * s.width, s.width, parts.factor[h]);
      }
    }
    const bool rotated = rotation_of(run.coding, Role::kValue) == Rotation::kSigned;
    loops.pv(run, parts.logits.data(), parts.sums[rotated ? 1 : 0].data());
    first += run.tiles.size();
    key += run.keys;
  }
  finish(input, output, parts);
}

}  // namespace troupe::kernels
