// What goes out: the batch of a step, commits with the terminal replies, the ordering question.
#include <algorithm>

#include "actors/scheduler/scheduler.h"
#include "runtime/core/gauges.h"

namespace troupe {

void Scheduler::release_sequence(uint32_t sequence) {
  if (sequence == kNoSequence) {
    return;
  }
  sequences_[sequence] = SequenceRow{};
  std::erase(running_, sequence);
  free_sequences_.push_back(sequence);
}

void Scheduler::leave(RequestRow& row, wire::Ending ending, wire::Refusal refusal,
                      bool gives_up) {
  Ended ended;
  ended.request = row.request;
  ended.ending = ending;
  ended.refusal = refusal;
  if (row.phase == Phase::kQueued) {
    unqueue(row.request);
  }
  if (row.sequence != kNoSequence) {
    SequenceRow& sequence = sequences_[row.sequence];
    // A row that never got its table (it was entering) has nothing to seal.
    ended.sequence = row.phase == Phase::kRunning ? row.sequence : kNoSequence;
    ended.sealed = ending == wire::Ending::FAILED_LOAD ? 0 : sequence.computed;
    ended.tokens = std::move(sequence.new_tokens);
    ended.keys = std::move(sequence.new_keys);
    release_sequence(row.sequence);
    row.sequence = kNoSequence;
  }
  blocked_ = false;
  ended.gives_up = gives_up;
  const bool comes_back = !ended.terminal();
  commit_.push_back(std::move(ended));
  if (comes_back) {
    row.probe = 0;
    enqueue(row.request, true);
  } else {
    row.phase = Phase::kEnding;
  }
}

void Scheduler::preempt_one() {
  if (running_.empty()) {
    return;
  }
  // The least urgent, among these the latest: what came first always gets through.
  const auto worse = [&](uint32_t a, uint32_t b) {
    const RequestRow& ra = *sequences_[a].row;
    const RequestRow& rb = *sequences_[b].row;
    return ra.priority != rb.priority ? ra.priority > rb.priority : ra.request < rb.request;
  };
  const uint32_t victim = *std::max_element(running_.begin(), running_.end(), worse);
  RequestRow& row = *sequences_[victim].row;
  if (running_.size() == 1) {
    // Alone: what the left-out new rows leased is given back by now, so it is tried again; a row
    // that stays too large would preempt itself for ever, and is refused.
    if (++row.drops > 2) {
      leave(row, wire::Ending::CANCELLED, wire::Refusal::TOO_LONG);
    }
    return;
  }
  ++row.preemptions;
  ++preemptions_;
  leave(row, config_.swap_on_preempt ? wire::Ending::PREEMPT_SWAP : wire::Ending::PREEMPT_RECOMPUTE,
        wire::Refusal::NONE);
}

void Scheduler::expire_queued(Tick now) {
  if (deadlines_ == 0) {
    return;
  }
  for (auto& [request, row] : requests_) {
    if (row.deadline.ns != 0 && row.deadline <= now &&
        (row.phase == Phase::kQueued || row.phase == Phase::kWaiting)) {
      leave(row, wire::Ending::EXPIRED, wire::Refusal::NONE);
    }
  }
}

void Scheduler::start_step(StepContext& cx) {
  uint32_t budget = config_.max_batch_tokens;
  // Tokens of running decodes are small and come first, so that prefill never starves them.
  for (const bool decodes : {true, false}) {
    for (const uint32_t handle : running_) {
      SequenceRow& sequence = sequences_[handle];
      const RequestRow& row = *sequence.row;
      const uint32_t left = target(row) - sequence.computed;
      if ((left == 1) == decodes) {
        sequence.in_step = std::min({left, config_.chunk_tokens, budget});
        budget -= sequence.in_step;
      }
    }
  }
  entering_.clear();
  for (size_t i = 0; i < queue_.size() && i < window_ && budget > 0 && !blocked_ &&
                     !free_sequences_.empty();
       ++i) {
    RequestRow& row = requests_.at(queue_[i]);
    const uint32_t expected = std::max(1U, target(row) - std::min(row.probe, target(row) - 1));
    row.phase = Phase::kEntering;
    row.sequence = free_sequences_.back();
    free_sequences_.pop_back();
    SequenceRow& sequence = sequences_[row.sequence];
    sequence = SequenceRow{};
    sequence.request = row.request;
    sequence.row = &row;
    sequence.in_step = std::min(config_.chunk_tokens, budget);
    budget -= std::min({expected, config_.chunk_tokens, budget});
    entering_.push_back(row.request);
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(entering_.size()));
  const bool any = std::any_of(running_.begin(), running_.end(), [&](uint32_t handle) {
    return sequences_[handle].in_step > 0;
  });
  if (any || !entering_.empty()) {
    progress_ = false;
    send_batch(cx);
  }
}

void Scheduler::send_batch(StepContext& cx) {
  in_flight_ = next_step_++;
  unsigned rows = 0;
  for (const uint32_t handle : running_) {
    rows += sequences_[handle].in_step > 0 ? 1 : 0;
  }
  const Kind kind = entering_.empty() ? Kind::RESERVE : Kind::MATCH;
  cx.out.send(kind, rows * 4UL + entering_.size() * 10UL, [&](wire::Message::Builder m) {
    auto batch = kind == Kind::RESERVE ? m.initReserve() : m.initMatch();
    batch.setStep(in_flight_);
    batch.setCommits(commits_);
    auto list = batch.initRows(rows);
    unsigned at = 0;
    for (const uint32_t handle : running_) {
      const SequenceRow& sequence = sequences_[handle];
      if (sequence.in_step == 0) {
        continue;
      }
      auto row = list[at++];
      row.setRequest(sequence.request);
      row.setSequence(handle);
      row.setBefore(sequence.computed);
      row.setTokens(sequence.in_step);
    }
    if (entering_.empty()) {
      return;
    }
    auto news = batch.initNews(static_cast<unsigned>(entering_.size()));
    for (unsigned i = 0; i < entering_.size(); ++i) {
      RequestRow& row = requests_.at(entering_[i]);
      if (row.scheduled.ns == 0) {
        row.scheduled = cx.now;
      }
      news[i].setRequest(row.request);
      news[i].setSequence(row.sequence);
      news[i].setBudget(sequences_[row.sequence].in_step);
      news[i].setTotal(target(row));
      news[i].setForce(row.force);
      news[i].setBlockClass(row.block_class);
      const auto parent = requests_.find(row.parent);
      const bool forks = parent != requests_.end() && parent->second.phase == Phase::kRunning;
      news[i].setParent(forks ? parent->second.sequence : kNoSequence);
      news[i].setPartialSource(kNoBlock);
    }
  });
}

void Scheduler::send_commit(StepContext& cx) {
  if (commit_.empty()) {
    return;
  }
  ++commits_;
  size_t tokens = 0;
  size_t keys = 0;
  unsigned replies = 0;
  for (const Ended& row : commit_) {
    tokens += row.tokens.size();
    keys += row.keys.size();
    replies += row.terminal() ? 1 : 0;
  }
  const size_t words = commit_.size() * 8 + replies * 24 + data_words(tokens * 4) + keys * 4 + 2;
  cx.out.send(Kind::COMMIT, words, [&](wire::Message::Builder m) {
    auto commit = m.initCommit();
    commit.setStep(next_step_ - 1);
    commit.setNumber(commits_);
    auto rows = commit.initRows(static_cast<unsigned>(commit_.size()));
    const auto all_tokens = span_of<uint32_t>(commit.initTokens(static_cast<unsigned>(tokens * 4)));
    const auto all_keys = span_of<BlockKey>(commit.initKeys(static_cast<unsigned>(keys * 32)));
    auto list = commit.initReplies(replies);
    size_t t = 0;
    size_t k = 0;
    unsigned r = 0;
    for (unsigned i = 0; i < commit_.size(); ++i) {
      const Ended& ended = commit_[i];
      std::copy(ended.tokens.begin(), ended.tokens.end(),
                all_tokens.begin() + static_cast<ptrdiff_t>(t));
      std::copy(ended.keys.begin(), ended.keys.end(), all_keys.begin() + static_cast<ptrdiff_t>(k));
      t += ended.tokens.size();
      k += ended.keys.size();
      auto row = rows[i];
      row.setRequest(ended.request);
      row.setSequence(ended.sequence);
      row.setSealed(ended.sealed);
      row.setEnding(ended.ending);
      row.setNewTokens(static_cast<uint32_t>(ended.tokens.size()));
      row.setNewKeys(static_cast<uint32_t>(ended.keys.size()));
      row.setReply(ended.terminal());
      if (!ended.terminal()) {
        continue;
      }
      const RequestRow& known = requests_.at(ended.request);
      auto reply = list[r++];
      reply.setRequest(ended.request);
      reply.setEnding(ended.ending);
      reply.setRefusal(ended.refusal);
      reply.setValue(ended.refusal == wire::Refusal::NONE ? 0 : known.prompt + known.max_new);
      auto usage = reply.initUsage();
      usage.setPromptTokens(known.prompt);
      usage.setReusedTokens(known.reused);
      usage.setComputedTokens(known.computed);
      usage.setGeneratedTokens(known.generated);
      usage.setPreemptions(known.preemptions);
      usage.setArrival(known.arrival.ns);
      usage.setScheduled(known.scheduled.ns);
      usage.setFirstToken(known.first_token.ns);
      usage.setEnded(cx.now.ns);
      deadlines_ -= known.deadline.ns != 0 ? 1 : 0;
      requests_.erase(ended.request);
    }
  });
  commit_.clear();
}

void Scheduler::ask_order(StepContext& cx) {
  if (!config_.ask_order || !order_stale_ || open_question_ != 0 || queue_.size() < 2) {
    return;
  }
  order_stale_ = false;
  open_question_ = next_question_++;
  const auto count = std::min<size_t>(queue_.size(), config_.order_window);
  cx.out.send(Kind::ORDER, count * 5 + 2, [&](wire::Message::Builder m) {
    auto order = m.initOrder();
    order.setQuestion(open_question_);
    auto rows = order.initRows(static_cast<unsigned>(count));
    for (unsigned i = 0; i < count; ++i) {
      const RequestRow& row = requests_.at(queue_[i]);
      rows[i].setRequest(row.request);
      rows[i].setTenant(row.tenant);
      rows[i].setPriority(row.priority);
      rows[i].setArrival(row.arrival.ns);
      rows[i].setRemaining(target(row) - std::min(row.probe, target(row)));
      rows[i].setProbe(row.probe);
    }
  });
}

void Scheduler::answer_status(uint64_t control, StepContext& cx) {
  const Gauge gauges[] = {
      {"scheduler.queued", queue_.size()},     {"scheduler.running", running_.size()},
      {"scheduler.steps", next_step_ - 1},     {"scheduler.preemptions", preemptions_},
      {"scheduler.known", requests_.size()},   {"scheduler.stray", stray_},
      {"scheduler.unexpected", unexpected_.count}};
  send_gauges(cx, control, gauges);
}

}  // namespace troupe
