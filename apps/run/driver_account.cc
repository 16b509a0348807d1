// What the driver counts of each reply, and the report made of it.
#include "apps/run/driver.h"

#include <algorithm>

namespace troupe {

void Driver::account(wire::Reply::Reader reply, RunTotals& t) const {
  const auto usage = reply.getUsage();
  if (reply.getRefusal() != wire::Refusal::NONE) {
    ++t.refused;
    return;
  }
  if (reply.getEnding() != wire::Ending::FINISHED) {
    ++t.cancelled;
    return;
  }
  ++t.completed;
  t.prompt_tokens += usage.getPromptTokens();
  t.generated_tokens += usage.getGeneratedTokens();
  t.computed_tokens += usage.getComputedTokens();
  t.reused_tokens += usage.getReusedTokens();
  t.prefix_query_blocks += usage.getListedBlocks();
  t.prefix_hit_blocks += usage.getHitBlocks();
  t.partial_hit_tokens += usage.getPartialTokens();
  t.preemptions += usage.getPreemptions();
  t.ttft_ms.push_back(to_ms(Tick{usage.getFirstToken()} - Tick{usage.getArrival()}));
  if (usage.getGeneratedTokens() > 1) {
    t.tpot_ms.push_back(to_ms(Tick{usage.getEnded()} - Tick{usage.getFirstToken()}) /
                        static_cast<double>(usage.getGeneratedTokens() - 1));
  }
}

void Driver::account_waste(wire::Reply::Reader reply) {
  if (reply.getEnding() != wire::Ending::FINISHED) {
    return;
  }
  const uint64_t block = options_.block_tokens;
  const uint64_t length =
      reply.getUsage().getPromptTokens() + reply.getUsage().getGeneratedTokens();
  length_tokens_ += length;
  contiguous_tokens_ += std::max<uint64_t>(length, options_.contiguous_tokens);
  paged_tokens_ += (length + block - 1) / block * block;
}

void Driver::fill_report(RunReport& report) const {
  report.all = report_.all;
  report.tenants = report_.tenants;
  report.gauges = report_.gauges;
  operator_.fill_report(report);
  report.verified_bytes = report_.verified_bytes;
  report.mismatches = report_.mismatches;
  report.first_mismatch = report_.first_mismatch;
  report.failed_loads = report_.failed_loads;
  report.copied_blocks = report_.copied_blocks;
  report.steps = report_.steps;
  report.control_us = report_.control_us;
  report.changing_us = report_.changing_us;
  if (paged_tokens_ > 0) {
    const auto length = static_cast<double>(length_tokens_);
    report.waste_contiguous = 1 - length / static_cast<double>(contiguous_tokens_);
    report.waste_paged = 1 - length / static_cast<double>(paged_tokens_);
  }
  report.virtual_s = static_cast<double>(now_.ns) / 1e9;
}

}  // namespace troupe
