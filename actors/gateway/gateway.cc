#include "actors/gateway/gateway.h"

#include "runtime/core/gauges.h"

namespace troupe {

void Gateway::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::SUBMIT: on_submit(in, cx); break;
    case Kind::REPLY: on_reply(in.message.getReply(), cx); break;
    case Kind::CANCEL: on_cancel(in.message.getCancel(), cx); break;
    case Kind::TRIM: on_trim(in.message.getTrim(), cx); break;
    case Kind::DRAIN: on_drain(in.message.getDrain().getControl(), cx); break;
    case Kind::STATUS_ASK: answer_status(in.message.getStatusAsk().getControl(), cx); break;
    default: unexpected_.note(in.message.which());
  }
}

Gateway::Refused Gateway::validate(wire::Spec::Reader spec) const noexcept {
  using wire::Refusal;
  if (draining_) {
    return {Refusal::DRAINING, 0, 0};
  }
  if (spec.getVersion() != 1) {
    return {Refusal::UNSUPPORTED, spec.getVersion(), 1};
  }
  const uint8_t block_class = spec.getBlockClass();
  if (block_class >= config_.class_tokens.size()) {
    return {Refusal::INVALID_REQUEST, block_class, config_.class_tokens.size()};
  }
  if (spec.getTenant() >= config_.tenants) {
    return {Refusal::INVALID_REQUEST, spec.getTenant(), config_.tenants};
  }
  const uint64_t prompt = spec.getPromptTokens();
  const uint64_t block_tokens = config_.class_tokens[block_class];
  const uint64_t full = prompt / block_tokens;
  const uint64_t listed = full + (spec.getSealPartial() && prompt % block_tokens != 0 ? 1 : 0);
  const uint64_t tokens = spec.getOpaque() ? 0 : prompt;
  // Opaque without any key: the request is neither matched nor published.
  const bool uncached = spec.getOpaque() && spec.getKeys().size() == 0;
  if (spec.getTicket() == 0) {
    return {Refusal::INVALID_REQUEST, 0, 1};  // 0 means "none" wherever a ticket may be left out
  }
  // Kept open in the schema, not built yet: asking for them must not be ignored.
  if (spec.getRope() != 0 || spec.getRopeOffset() != 0 || spec.getContentHashes().size() != 0) {
    return {Refusal::UNSUPPORTED, spec.getRope(), 0};
  }
  constexpr uint64_t kTokensMax = 1ULL << 30;  // sums of two lengths stay far inside 32 bits
  if (prompt > kTokensMax || spec.getMaxNewTokens() > kTokensMax) {
    return {Refusal::TOO_LONG, prompt + spec.getMaxNewTokens(), kTokensMax};
  }
  if (prompt == 0 || spec.getTokens().size() != tokens * 4 ||
      (spec.getKeys().size() != listed * 32 && !uncached)) {
    const bool by_keys = spec.getTokens().size() == tokens * 4;
    if (by_keys) {
      return {Refusal::INVALID_REQUEST, spec.getKeys().size() / 32, listed};
    }
    return {Refusal::INVALID_REQUEST, spec.getTokens().size() / 4, tokens};
  }
  if (spec.getMaxNewTokens() > config_.max_new_tokens) {
    return {Refusal::INVALID_REQUEST, spec.getMaxNewTokens(), config_.max_new_tokens};
  }
  if (!spec.getPromptOnly() && spec.getMaxNewTokens() == 0) {
    return {Refusal::INVALID_REQUEST, 0, 1};
  }
  if (by_ticket_.contains(spec.getTicket())) {
    return {Refusal::DUPLICATE_TICKET, spec.getTicket(), 0};
  }
  const uint64_t total = prompt + (spec.getPromptOnly() ? 0 : spec.getMaxNewTokens());
  const uint64_t blocks = (total + block_tokens - 1) / block_tokens;
  // A sequence that shares its partial tail needs one more block while it is copied on write.
  const uint64_t copy = spec.getPromptOnly() ? 0 : 1;
  const uint64_t needed = (blocks + copy) * config_.class_granules[block_class];
  if (needed > config_.device_granules) {
    return {Refusal::TOO_LONG, needed, config_.device_granules};
  }
  if (by_request_.size() >= config_.max_live) {
    return {Refusal::QUEUE_FULL, by_request_.size() + 1, config_.max_live};
  }
  return {};
}

void Gateway::on_submit(const Envelope& in, StepContext& cx) {
  const auto spec = in.message.getSubmit().getSpec();
  const Refused refused = validate(spec);
  if (refused.why != wire::Refusal::NONE) {
    ++refused_;
    cx.out.send(Kind::REPLY, 32, [&](wire::Message::Builder m) {
      auto reply = m.initReply();
      reply.setTicket(spec.getTicket());
      reply.setRefusal(refused.why);
      reply.setValue(refused.value);
      reply.setLimit(refused.limit);
      auto usage = reply.initUsage();
      usage.setPromptTokens(spec.getPromptTokens());
      usage.setArrival(spec.getArrival());
      usage.setEnded(cx.now.ns);
    });
    return;
  }
  const uint64_t request = next_request_++;
  by_request_.emplace(request, spec.getTicket());
  by_ticket_.emplace(spec.getTicket(), request);
  ++admitted_;
  cx.out.send(Kind::ACCEPTED, 0, [&](wire::Message::Builder m) {
    auto accepted = m.initAccepted();
    accepted.setTicket(spec.getTicket());
    accepted.setRequest(request);
  });
  cx.out.send(Kind::ADMIT, spec.totalSize().wordCount, [&](wire::Message::Builder m) {
    auto admit = m.initAdmit();
    admit.setRequest(request);
    admit.setSpec(spec);
    admit.getSpec().setParent(request_of(spec.getParent()));
  });
}

void Gateway::on_reply(wire::Reply::Reader reply, StepContext& cx) {
  const auto row = by_request_.find(reply.getRequest());
  if (row == by_request_.end()) {
    ++stray_;
    return;
  }
  const uint64_t ticket = row->second;
  by_ticket_.erase(ticket);
  by_request_.erase(row);
  ++answered_;
  cx.out.send(Kind::REPLY, 32, [&](wire::Message::Builder m) {
    m.setReply(reply);
    m.getReply().setTicket(ticket);
  });
  answer_drain(cx);
}

uint64_t Gateway::request_of(uint64_t ticket) const {
  const auto row = by_ticket_.find(ticket);
  return row == by_ticket_.end() ? 0 : row->second;
}

void Gateway::on_cancel(wire::Cancel::Reader cancel, StepContext& cx) {
  const uint64_t request = request_of(cancel.getTicket());
  if (request == 0) {
    ++stray_;  // already answered: its terminal reply is on the way or was sent
    return;
  }
  cx.out.send(Kind::CANCEL, 0, [&](wire::Message::Builder m) {
    auto out = m.initCancel();
    out.setTicket(cancel.getTicket());
    out.setRequest(request);
  });
}

void Gateway::on_trim(wire::Trim::Reader trim, StepContext& cx) {
  const uint64_t request = request_of(trim.getTicket());
  if (request == 0) {
    ++stray_;
    return;
  }
  cx.out.send(Kind::TRIM, 0, [&](wire::Message::Builder m) {
    auto out = m.initTrim();
    out.setTicket(trim.getTicket());
    out.setRequest(request);
    out.setTokens(trim.getTokens());
  });
}

void Gateway::on_drain(uint64_t control, StepContext& cx) {
  draining_ = true;
  drains_.push_back(control);
  answer_drain(cx);
}

void Gateway::answer_drain(StepContext& cx) {
  if (!by_request_.empty()) {
    return;
  }
  for (const uint64_t control : drains_) {
    cx.out.send(Kind::ANSWER, 32, [&](wire::Message::Builder m) {
      auto answer = m.initAnswer();
      answer.setControl(control);
      answer.setText("drained");
    });
  }
  drains_.clear();
}

void Gateway::answer_status(uint64_t control, StepContext& cx) {
  const Gauge gauges[] = {
      {"gateway.live", by_request_.size()}, {"gateway.admitted", admitted_},
      {"gateway.refused", refused_},        {"gateway.answered", answered_},
      {"gateway.stray", stray_},            {"gateway.unexpected", unexpected_.count}};
  send_gauges(cx, control, gauges);
}

Digest Gateway::digest() const noexcept {
  Digest d;
  d.add(next_request_).add(draining_ ? 1 : 0).add(admitted_).add(refused_).add(answered_);
  for (const auto& [request, ticket] : by_request_) {
    d.add(request).add(ticket);
  }
  return d;
}

Status Gateway::check() const {
  if (by_request_.size() != by_ticket_.size() || by_request_.size() > config_.max_live ||
      admitted_ != answered_ + by_request_.size()) {
    return Status(Code::kInternal,
                  "gateway: admitted " + std::to_string(admitted_) + " is not answered " +
                      std::to_string(answered_) + " + live " + std::to_string(by_request_.size()));
  }
  return unexpected_.count == 0
             ? Status::ok()
             : Status(Code::kInternal, "gateway: unexpected " + std::to_string(unexpected_.count));
}

Status Gateway::save(StateSink& sink) const {
  sink.u32(1);
  sink.u64(next_request_);
  sink.u8(draining_ ? 1 : 0);
  sink.array(drains_);
  sink.u64(admitted_);
  sink.u64(refused_);
  sink.u64(answered_);
  sink.u64(by_request_.size());
  for (const auto& [request, ticket] : by_request_) {
    sink.u64(request);
    sink.u64(ticket);
  }
  return Status::ok();
}

Status Gateway::load(StateSource& source) {
  if (const uint32_t schema = source.u32(); schema != 1) {
    return Status(Code::kUnsupported,
                  "gateway: state schema " + std::to_string(schema) + ", not 1");
  }
  next_request_ = source.u64();
  draining_ = source.u8() != 0;
  drains_ = source.array<uint64_t>();
  admitted_ = source.u64();
  refused_ = source.u64();
  answered_ = source.u64();
  by_request_.clear();
  by_ticket_.clear();
  const uint64_t rows = source.u64();
  for (uint64_t i = 0; i < rows && source.status(); ++i) {
    const uint64_t request = source.u64();
    const uint64_t ticket = source.u64();
    by_request_.emplace(request, ticket);
    by_ticket_.emplace(ticket, request);
  }
  return source.status();
}

}  // namespace troupe
