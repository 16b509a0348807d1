// Construction, dispatch, admission.
#include "actors/prefix_index/prefix_index.h"

#include <algorithm>
#include <string>

namespace troupe {

using prefix::make_of;
using prefix::TreeConfig;

Status PrefixIndex::validate(const Config& c) {
  const auto bad = [](const std::string& what) {
    return Status(Code::kInvalidArgument, "prefix_index: " + what);
  };
  if (c.class_tokens.empty() || c.class_tokens.size() > 0x7F) {
    return bad("class_tokens has " + std::to_string(c.class_tokens.size()) +
               " classes, it must have 1 to 127");
  }
  for (const uint32_t tokens : c.class_tokens) {
    if (tokens == 0 || tokens > 0x7FFF) {
      return bad("class_tokens " + std::to_string(tokens) + " is not within 1 and 32767");
    }
  }
  if (c.capacity_blocks == 0 || c.capacity_blocks > 0xFFFFFFF0U) {
    return bad("capacity_blocks " + std::to_string(c.capacity_blocks) +
               " is not within 1 and 4294967280");
  }
  if ((c.tiers & 1U) == 0 || c.tiers >= (1U << kTierCount)) {
    return bad("tiers " + std::to_string(c.tiers) + " is no mask of tiers that has the device");
  }
  if (c.max_requests == 0) {
    return bad("max_requests is 0");
  }
  return Status::ok();
}

namespace {
TreeConfig tree_config(const PrefixIndexConfig& c) {
  TROUPE_ASSERT(PrefixIndex::validate(c).is_ok());
  TreeConfig t;
  t.capacity = c.capacity_blocks;
  t.token_stride = *std::max_element(c.class_tokens.begin(), c.class_tokens.end());
  t.tiers = c.tiers;
  return t;
}
}  // namespace

PrefixIndex::PrefixIndex(Config config)
    : config_(std::move(config)),
      tree_(tree_config(config_)),
      rows_(config_.max_requests),
      events_(config_.class_bytes) {}

void PrefixIndex::step(const Envelope& in, StepContext& cx) noexcept {
  switch (in.message.which()) {
    case Kind::ADMIT:
      on_admit(in.message.getAdmit(), cx);
      break;
    case Kind::MATCH:
      on_match(in.message.getMatch(), cx);
      break;
    case Kind::PUBLISH:
      on_publish(in.message.getPublish(), cx);
      break;
    case Kind::UNLINK:
      on_unlink(in.message.getUnlink(), cx);
      break;
    case Kind::SETTLE:
      on_settle(in.message.getSettle(), cx);
      break;
    case Kind::PURGE:
      on_purge(in.message.getPurge(), cx);
      break;
    case Kind::WATCH:
      watched_ = in.message.getWatch().getOn();
      break;
    case Kind::LOOKUPS_SEEN:
      unread_ -= std::min(unread_, in.message.getLookupsSeen().getCount());
      break;
    case Kind::STATUS_ASK:
      answer_status(in.message.getStatusAsk().getControl(), cx);
      break;
    default:
      unexpected_.note(in.message.which());
  }
}

void PrefixIndex::fill_row(Row& row, wire::Spec::Reader spec) {
  row.session = spec.getSession();
  row.parent = spec.getParent();
  row.tenant = spec.getTenant();
  row.domain = spec.getDomain();
  row.hints = spec.getHints();
  row.prompt_only = spec.getPromptOnly();
  row.make = make_of(spec.getBlockClass(), spec.getOpaque());
  row.total = spec.getPromptTokens();
  const auto tokens = span_of<uint32_t>(spec.getTokens());
  const auto keys = span_of<BlockKey>(spec.getKeys());
  const uint32_t block = block_tokens(row);
  if (!row.opaque()) {
    if (tokens.size() != row.total) {
      ++stray_;  // keys whose tokens can't be compared are not used: the prompt shares nothing
      return;
    }
    row.tokens.assign(tokens.begin(), tokens.end());
  }
  row.full_keys = static_cast<uint32_t>(std::min<size_t>(keys.size(), row.total / block));
  size_t used = row.full_keys;
  const uint32_t rest = row.total % block;
  if (keys.size() > row.full_keys && spec.getSealPartial() && rest != 0 &&
      row.full_keys == row.total / block) {
    row.tail_tokens = rest;
    ++used;
  }
  row.keys.assign(keys.begin(), keys.begin() + static_cast<ptrdiff_t>(used));
}

void PrefixIndex::on_admit(wire::Admit::Reader admit, StepContext& cx) {
  const auto spec = admit.getSpec();
  Row* row =
      spec.getBlockClass() < config_.class_tokens.size() ? rows_.add(admit.getRequest()) : nullptr;
  if (row == nullptr) {
    refuse(admit, cx);
    return;
  }
  fill_row(*row, spec);
  const Found found = look_up(*row, row->total);
  if (config_.stage) {
    stage(found, cx);  // while it stands in the queue
  }
  blocks_.clear();
  cx.out.send(Kind::QUEUED, 0, [&](wire::Message::Builder m) {
    auto queued = m.initQueued();
    queued.setRequest(row->request);
    queued.setTenant(row->tenant);
    queued.setPriority(spec.getPriority());
    queued.setPromptTokens(row->total);
    queued.setMaxNewTokens(spec.getMaxNewTokens());
    queued.setProbeTokens(found.tokens);
    queued.setArrival(spec.getArrival());
    queued.setDeadline(spec.getDeadline());
    queued.setParent(row->parent);
    queued.setBlockClass(spec.getBlockClass());
    queued.setPromptOnly(row->prompt_only);
    queued.setSession(row->session);
    queued.setSealPartial(spec.getSealPartial());
  });
}

void PrefixIndex::refuse(wire::Admit::Reader admit, StepContext& cx) {
  const auto spec = admit.getSpec();
  cx.out.send(Kind::REPLY, 0, [&](wire::Message::Builder m) {
    auto reply = m.initReply();
    reply.setTicket(spec.getTicket());
    reply.setRequest(admit.getRequest());
    reply.setEnding(wire::Ending::CANCELLED);
    if (spec.getBlockClass() >= config_.class_tokens.size()) {
      reply.setRefusal(wire::Refusal::INVALID_REQUEST);
      reply.setValue(spec.getBlockClass());
      reply.setLimit(config_.class_tokens.size());
    } else if (rows_.full()) {
      reply.setRefusal(wire::Refusal::QUEUE_FULL);
      reply.setValue(rows_.size());
      reply.setLimit(config_.max_requests);
    } else {
      reply.setRefusal(wire::Refusal::INVALID_REQUEST);  // a request id that is live already
      reply.setValue(admit.getRequest());
    }
  });
}

}  // namespace troupe
