#include "apps/run/driver.h"

#include "actors/roles.h"
#include "runtime/core/wire.h"

#include <algorithm>

namespace troupe {
Driver::Driver(const Workload& work, DriverOptions options, const KeyContext& keys,
               std::span<std::byte> arena, uint64_t granule_bytes)
    : work_(work),
      options_(std::move(options)),
      keys_(keys),
      arena_(arena),
      granule_bytes_(granule_bytes),
      operator_(options_.script, options_.swap_policies, options_.swap_every) {}

void Driver::start() {
  const std::lock_guard lock(mutex_);
  // What the script wants before the first request is answered before it is sent.
  if (!operator_.send_due(0, now_)) {
    send_arrivals();
  }
}

void Driver::send_arrivals() {
  while (!stopping_ && next_item_ < work_.items.size()) {
    const WorkItem& item = work_.items[next_item_];
    if (options_.serial) {
      if (in_flight_ > 0) {
        return;
      }
    } else if (options_.speed <= 0) {
      if (in_flight_ >= options_.max_in_flight) {
        return;
      }
    } else {
      const Tick arrival{static_cast<int64_t>(item.timestamp_ms * 1e6 / options_.speed)};
      if (arrival > now_) {
        if (in_flight_ > 0) {
          return;  // a step or a reply will move the clock on
        }
        now_ = arrival;  // nothing runs: the clock jumps to the next arrival
      }
    }
    submit(next_item_++);
  }
}

void Driver::submit(uint32_t index) {
  const WorkItem& item = work_.items[index];
  const uint64_t ticket = index + 1ULL;
  const uint32_t block = options_.block_tokens;
  Live& live = live_[ticket];
  live.item = index;
  live.tokens = token_stream(work_, index, options_.prompt_only);
  // Prompt-only runs allocate exactly the listed blocks; what the trace does not list is left out.
  uint32_t prompt = item.prompt;
  if (options_.prompt_only && work_.block_size != 0) {
    const uint64_t listed = static_cast<uint64_t>(item.ids) * work_.block_size;
    prompt = listed == 0 ? prompt : static_cast<uint32_t>(std::min<uint64_t>(prompt, listed));
    live.tokens.resize(prompt);
  }
  const TenantConfig& tenant = options_.tenants[item.tenant];
  live.root = keys_.root({.domain = tenant.domain, .adapter = {}, .media = {}});
  live.keys.resize(live.tokens.size() / block);
  keys_.chain(live.root, live.tokens, block, live.keys);
  const bool partial = options_.prompt_only && prompt % block != 0;
  const uint32_t full = prompt / block;
  std::vector<BlockKey> sent(live.keys.begin(), live.keys.begin() + full);
  if (partial) {
    const std::span tail = std::span<const uint32_t>(live.tokens).subspan(full * size_t{block});
    sent.push_back(keys_.block(parent_of(live, full), tail));
  }
  ++in_flight_;
  ++report_.all.requests;
  ++report_.tenants[work_.tenants[item.tenant]].requests;
  const double at = options_.serial || options_.speed <= 0 ? 0 : item.timestamp_ms / options_.speed;
  const int64_t arrival = at > 0 ? static_cast<int64_t>(at * 1e6) : now_.ns;
  link_->post(Kind::SUBMIT, now_, data_words(prompt * 4UL) + sent.size() * 4 + 32,
              [&](wire::Message::Builder m) {
                auto spec = m.initSubmit().initSpec();
                spec.setTicket(ticket);
                spec.setTenant(item.tenant);
                spec.setDomain(tenant.domain);
                spec.setPriority(tenant.priority);
                spec.setSession(item.session);
                spec.setPromptTokens(prompt);
                spec.setMaxNewTokens(options_.prompt_only ? 0 : item.output);
                spec.setOpaque(!options_.caching);
                if (options_.caching) {
                  spec.setTokens(data_of(std::span<const uint32_t>(live.tokens).first(prompt)));
                  spec.setKeys(data_of(sent));
                }
                spec.setSealPartial(partial);
                spec.setPromptOnly(options_.prompt_only);
                spec.setArrival(arrival);
              });
}

void Driver::on_frame(const Frame& frame) {
  const std::lock_guard lock(mutex_);
  FrameReader reader(frame.words());
  const auto message = reader.message();
  switch (message.which()) {
    case Kind::ACCEPTED: {
      const auto accepted = message.getAccepted();
      live_.at(accepted.getTicket()).request = accepted.getRequest();
      ticket_of_[accepted.getRequest()] = accepted.getTicket();
      break;
    }
    case Kind::PLAN:
      if (step_timed_) {
        const auto spent = std::chrono::steady_clock::now() - step_sent_;
        const double us = std::chrono::duration<double, std::micro>(spent).count();
        report_.control_us.push_back(us);
        if (step_changing_ || operator_.open()) {
          report_.changing_us.push_back(us);
        }
        step_timed_ = false;
      }
      on_plan(message.getPlan());
      break;
    case Kind::REPLY:
      on_reply(message.getReply());
      break;
    case Kind::POLICY_CHANGED:
      operator_.on_changed(message.getPolicyChanged(), terminal_);
      break;
    case Kind::ANSWER:
      on_answer(message.getAnswer());
      break;
    default:
      TROUPE_ASSERT(false);  // the routes name no other kind for the client
  }
}

const BlockKey& Driver::parent_of(const Live& live, uint32_t block) const {
  return block == 0 ? live.root : live.keys[block - 1];
}

std::span<std::byte> Driver::block_bytes(const Live& live, uint32_t block) const {
  const uint64_t bytes =
      static_cast<uint64_t>(options_.content.block_tokens) * options_.content.token_bytes;
  return arena_.subspan(live.table[block] * granule_bytes_, bytes);
}

void Driver::verify(Live& live, uint32_t from_token, uint32_t to_token) {
  const uint32_t block_tokens = options_.block_tokens;
  for (uint32_t at = from_token; at < to_token;) {
    const uint32_t block = at / block_tokens;
    const uint32_t first = at % block_tokens;
    const uint32_t last = std::min(block_tokens, to_token - block * block_tokens);
    const auto tokens =
        std::span<const uint32_t>(live.tokens).subspan(block * size_t{block_tokens});
    const uint32_t good = verify_content(options_.content, parent_of(live, block), tokens, first,
                                         last, block_bytes(live, block));
    if (good != last) {
      if (report_.mismatches++ == 0) {
        report_.first_mismatch = "line " + std::to_string(work_.items[live.item].line) +
                                 ": block " + std::to_string(block) + " token " +
                                 std::to_string(good) + " in granule " +
                                 std::to_string(live.table[block]);
      }
    }
    report_.verified_bytes += static_cast<uint64_t>(last - first) * options_.content.token_bytes;
    at = block * block_tokens + last;
  }
}

void Driver::fill(Live& live, uint32_t from_token, uint32_t to_token) {
  const uint32_t block_tokens = options_.block_tokens;
  for (uint32_t at = from_token; at < to_token;) {
    const uint32_t block = at / block_tokens;
    const uint32_t last = std::min(block_tokens, to_token - block * block_tokens);
    const auto tokens =
        std::span<const uint32_t>(live.tokens).subspan(block * size_t{block_tokens});
    fill_content(options_.content, parent_of(live, block), tokens, at % block_tokens, last,
                 block_bytes(live, block));
    at = block * block_tokens + last;
  }
}

void Driver::enter(Live& live, wire::PlanRow::Reader row) {
  // What is reused is what was valid before the step; a full hit computes its last token again,
  // whose bytes are there all the same.
  const uint32_t block_tokens = options_.block_tokens;
  const uint32_t known = static_cast<uint32_t>(work_.items[live.item].prompt) + live.generated;
  uint32_t reused =
      std::min<uint32_t>(row.getHitBlocks() * block_tokens + row.getPartialTokens(),
                         std::min<uint32_t>(known, static_cast<uint32_t>(live.tokens.size())));
  reused = std::max(reused, row.getBefore());
  verify(live, 0, reused);
}

void Driver::on_plan(wire::Run::Reader plan) {
  idle_ns_ = 0;
  const auto slots = span_of<uint32_t>(plan.getSlots());
  StepWork work;
  for (const auto row : plan.getRows()) {
    const auto ticket = ticket_of_.find(row.getRequest());
    TROUPE_ASSERT(ticket != ticket_of_.end());
    Live& live = live_.at(ticket->second);
    const size_t first = row.getFirstBlock();
    if (live.table.size() < first + row.getCount()) {
      live.table.resize(first + row.getCount());
    }
    std::copy_n(slots.begin() + row.getOffset(), row.getCount(),
                live.table.begin() + static_cast<ptrdiff_t>(first));
    if (row.getEntered()) {
      live.table.resize(first + row.getCount());
    }
    if (row.getFailed()) {
      ++report_.failed_loads;
      continue;
    }
    if (row.getEntered()) {
      enter(live, row);
    }
    const uint32_t end = row.getBefore() + row.getTokens();
    fill(live, row.getBefore(), end);
    work.tokens += row.getTokens();
    work.attention_pairs += static_cast<uint64_t>(row.getTokens()) * end;
    work.context_tokens += row.getTokens() == 1 ? row.getBefore() : 0;
  }
  for (const auto load : plan.getLoads()) {
    const bool host = load.getSource().getTier() == static_cast<uint8_t>(Tier::kHost);
    (host ? work.host_load_bytes : work.disk_load_bytes) += options_.true_block_bytes;
  }
  report_.copied_blocks += plan.getCows().size();
  answer_plan(plan, work);
}

uint32_t Driver::cached_at_end(const WorkItem& item) const noexcept {
  return item.prompt + item.output - 1;  // the last generated token's own cache is never computed
}

void Driver::answer_plan(wire::Run::Reader plan, const StepWork& work) {
  const uint32_t block = options_.block_tokens;
  const auto rows = plan.getRows();
  std::vector<Done> done(rows.size());
  std::vector<uint32_t> tokens;
  std::vector<BlockKey> keys;
  for (unsigned i = 0; i < done.size(); ++i) {
    const auto row = rows[i];
    done[i] = {row.getRequest(),
               row.getSequence(),
               row.getBefore(),
               row.getFailed() ? 0 : row.getTokens(),
               0,
               0,
               row.getFailed()};
    Live& live = live_.at(ticket_of_.at(row.getRequest()));
    const WorkItem& item = work_.items[live.item];
    const uint32_t known = item.prompt + live.generated;
    if (row.getFailed() || options_.prompt_only || row.getBefore() + row.getTokens() != known ||
        live.generated >= item.output) {
      continue;
    }
    tokens.push_back(live.tokens[known]);
    ++live.generated;
    done[i].generated = 1;
    if (!options_.caching) {
      continue;
    }
    if (live.generated < item.output) {
      if ((known + 1) % block == 0) {
        keys.push_back(live.keys[(known + 1) / block - 1]);
        done[i].keys = 1;
      }
      continue;
    }
    // The last one: a partial tail can be found again by its own key.
    const uint32_t cached = cached_at_end(item);
    const uint32_t full = cached / block;
    if (options_.publish_partial && cached % block != 0 && cached >= item.prompt) {
      const std::span tail =
          std::span<const uint32_t>(live.tokens).subspan(full * size_t{block}, cached % block);
      keys.push_back(keys_.block(parent_of(live, full), tail));
      done[i].keys = 1;
    }
  }
  const Tick duration = done.empty() ? Tick{0} : step_time(options_.engine, work);
  now_ = now_ + duration;
  ++report_.steps;
  answer_ = {true, plan.getStep(), std::move(done), std::move(tokens), std::move(keys)};
  if (!options_.serial && !sweep_due()) {
    post_answer();
  }
}

bool Driver::sweep_due() const noexcept {
  return sweep_every_ != 0 && report_.steps % sweep_every_ == 0;
}

void Driver::stop_if_asked() {
  if (stopping_ || options_.stop == nullptr || !options_.stop->load()) {
    return;
  }
  stopping_ = true;
  std::vector<uint64_t> tickets;
  for (const auto& [ticket, live] : live_) {
    tickets.push_back(ticket);
  }
  std::sort(tickets.begin(), tickets.end());  // the map's order is nobody's business
  for (const uint64_t ticket : tickets) {
    link_->post(Kind::CANCEL, now_, 0,
                [&](wire::Message::Builder m) { m.initCancel().setTicket(ticket); });
  }
}

void Driver::on_answer(wire::Answer::Reader answer) {
  if (answer.getControl() >= Operator::kFirstControl) {
    operator_.on_answer(answer);
    if (!options_.serial && !operator_.send_due(terminal_, now_) && next_item_ == 0) {
      send_arrivals();
    }
    return;
  }
  for (const auto gauge : answer.getGauges()) {
    report_.gauges[gauge.getName().cStr()] = gauge.getValue();
  }
}

Expected<bool> Driver::go_on() {
  const std::lock_guard lock(mutex_);
  if (answer_.there) {
    if (sweep_due()) {
      TROUPE_TRY(sweep_());
    }
    post_answer();
    return true;
  }
  if (!options_.serial) {
    return pass_time();
  }
  if (operator_.send_due(terminal_, now_)) {
    return true;  // alone, so that it meets the same events on both dispatchers
  }
  const uint32_t sent = next_item_;
  send_arrivals();
  return next_item_ != sent || pass_time();
}

/// Nothing runs, and what is in flight waits for something that takes time (a disk, a deadline):
/// the clock goes on, in growing steps, to the next arrival at most. False when nothing is in
/// flight, or when nothing has come of it for long.
bool Driver::pass_time() {
  constexpr int64_t kStep = 50'000;
  constexpr int64_t kPatience = 3'600'000'000'000;
  if (in_flight_ == 0 || idle_ns_ > kPatience) {
    return false;
  }
  int64_t next = now_.ns + std::max(kStep, idle_ns_ / 16);
  if (!options_.serial && options_.speed > 0 && !stopping_ && next_item_ < work_.items.size()) {
    const double at = work_.items[next_item_].timestamp_ms * 1e6 / options_.speed;
    next = std::max(now_.ns + 1, std::min(next, static_cast<int64_t>(at)));
  }
  idle_ns_ += next - now_.ns;
  now_ = Tick{next};
  link_->post(Kind::ADVANCE, now_, 0,
              [&](wire::Message::Builder m) { m.initAdvance().setTick(now_.ns); });
  if (!options_.serial) {
    send_arrivals();
  }
  return true;
}

/// The clock first, then what came while the step ran, then its end.
void Driver::post_answer() {
  stop_if_asked();
  link_->post(Kind::ADVANCE, now_, 0,
              [&](wire::Message::Builder m) { m.initAdvance().setTick(now_.ns); });
  if (!options_.serial) {
    send_arrivals();
  }
  answer_.there = false;
  post_step_done();
}

void Driver::post_step_done() {
  const std::vector<Done>& done = answer_.done;
  const std::vector<uint32_t>& tokens = answer_.tokens;
  const std::vector<BlockKey>& keys = answer_.keys;
  step_sent_ = std::chrono::steady_clock::now();
  step_timed_ = true;
  step_changing_ = operator_.open();
  link_->post(Kind::STEP_DONE, now_,
              done.size() * 6 + data_words(tokens.size() * 4) + keys.size() * 4 + 4,
              [&](wire::Message::Builder m) {
                auto out = m.initStepDone();
                out.setStep(answer_.step);
                auto list = out.initRows(static_cast<unsigned>(done.size()));
                for (unsigned i = 0; i < done.size(); ++i) {
                  auto row = list[i];
                  row.setRequest(done[i].request);
                  row.setSequence(done[i].sequence);
                  row.setBefore(done[i].before);
                  row.setComputed(done[i].computed);
                  row.setGenerated(done[i].generated);
                  row.setFailed(done[i].failed);
                  row.setKeys(done[i].keys);
                }
                out.setTokens(data_of(tokens));
                out.setKeys(data_of(keys));
              });
}

void Driver::on_reply(wire::Reply::Reader reply) {
  const auto found = live_.find(reply.getTicket());
  TROUPE_ASSERT(found != live_.end());  // one terminal reply a ticket
  const Live& live = found->second;
  const WorkItem& item = work_.items[live.item];
  account(reply, report_.all);
  account(reply, report_.tenants[work_.tenants[item.tenant]]);
  account_waste(reply);
  ticket_of_.erase(live.request);
  live_.erase(found);
  --in_flight_;
  ++terminal_;
  if (on_progress) {
    on_progress(terminal_, work_.items.size());
  }
  if (!options_.serial) {
    operator_.send_due(terminal_, now_);
    send_arrivals();
  }
}

}  // namespace troupe
