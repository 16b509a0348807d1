// What hits are worth: prefill time, and time to first token when several requests run at once. A
// model, stated in full here, so that figures of different policies compare; no clock is read.
//   prefill(n, c) = (n - c) / rate + (n² - c²) / (2 · rate · half_length), n prompt tokens, c of
//   them cached
// which is linear work plus attention that doubles the cost of a token at half_length tokens.
// Concurrency: K requests are always in flight (the next of the file enters when one ends); one
// prefill at a time in order of entry; a request holds its blocks from the start of its prefill
// until its last token.
#pragma once

#include "apps/lab/replay.h"

namespace troupe::lab {

struct ServingModel {
  double prefill_tokens_per_s = 10'000;  // an 8B model on one current accelerator, in round figures
  double half_length_tokens = 32'768;
  double decode_ms_per_token = 20;
  double kv_bytes_per_token = 131'072;  // 32 layers, 8 key-value heads of 128, 16 bit

  double prefill_ms(double tokens, double cached) const noexcept {
    const double linear = tokens - cached;
    const double attention = (tokens * tokens - cached * cached) / (2 * half_length_tokens);
    return 1000 * (linear + attention) / prefill_tokens_per_s;
  }
};

/// Share of all prefill time that the hits saved, 0 … 1.
double prefill_saved(const Trace& trace, const Counts& counts, const ServingModel& model);

/// 99th percentile of time to first token [ms] with `concurrency` requests in flight.
Expected<double> ttft_p99_ms(const Trace& trace, uint32_t capacity, uint32_t concurrency,
                             const ServingModel& model, plugin::EvictionInstance& policy);

}  // namespace troupe::lab
