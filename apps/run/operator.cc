#include "apps/run/operator.h"

#include "actors/roles.h"
#include "runtime/core/wire.h"

#include <algorithm>
#include <charconv>
#include <sstream>

namespace troupe {
namespace {

constexpr std::string_view kSlots[] = {"device", "host", "disk", "scheduling"};
constexpr size_t kChangesKept = 64;  // in the report; all are counted

Status wrong(std::string_view text, const std::string& why) {
  return Status(Code::kInvalidArgument, "command \"" + std::string(text) + "\": " + why);
}

bool to_number(std::string_view text, uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

/// The slot that `word` names; false: it names none.
bool to_slot(std::string_view word, uint16_t& slot) {
  const auto found = std::find(std::begin(kSlots), std::end(kSlots), word);
  if (found == std::end(kSlots)) {
    return false;
  }
  slot = static_cast<uint16_t>(found - std::begin(kSlots));
  return true;
}

void split_policy(std::string_view word, Command& command) {
  const size_t colon = word.find(':');
  command.policy = word.substr(0, colon);
  command.params = colon == std::string_view::npos ? "" : word.substr(colon + 1);
}

Status read_shadow(const std::vector<std::string>& words, std::string_view text, Command& c) {
  const size_t equals = words.size() < 2 ? std::string::npos : words[1].find('=');
  if (equals == std::string::npos || equals == 0) {
    return wrong(text, "shadow wants NAME=POLICY[:PARAMS] [blocks=N] [one-in=N]");
  }
  c.name = words[1].substr(0, equals);
  split_policy(std::string_view(words[1]).substr(equals + 1), c);
  for (size_t i = 2; i < words.size(); ++i) {
    uint64_t n = 0;
    const size_t eq = words[i].find('=');
    const std::string key = words[i].substr(0, eq);
    if (eq == std::string::npos || !to_number(std::string_view(words[i]).substr(eq + 1), n) ||
        n == 0 || n > UINT32_MAX || (key != "blocks" && key != "one-in")) {
      return wrong(text, "\"" + words[i] + "\" is neither blocks=N nor one-in=N, N from 1 on");
    }
    if (key == "blocks") {
      c.blocks = n;
    } else {
      c.one_in = static_cast<uint32_t>(n);
    }
  }
  return Status::ok();
}

Status read_words(const std::vector<std::string>& words, std::string_view text, Command& c) {
  const std::string verb = words.empty() ? "" : words[0];
  const size_t n = words.size();
  if (verb == "policies" && n == 1) {
    c.kind = Command::Kind::kPolicies;
  } else if (verb == "swap" && (n == 2 || (n == 3 && to_slot(words[1], c.slot)))) {
    c.kind = Command::Kind::kSwap;
    split_policy(words[n - 1], c);
  } else if (verb == "rollback" && (n == 1 || (n == 2 && to_slot(words[1], c.slot)))) {
    c.kind = Command::Kind::kRollback;
  } else if (verb == "shadow") {
    c.kind = Command::Kind::kShadow;
    return read_shadow(words, text, c);
  } else if (verb == "unshadow" && n == 2) {
    c.kind = Command::Kind::kUnshadow;
    c.name = words[1];
  } else if (verb == "promote" && (n == 2 || (n == 3 && to_slot(words[2], c.slot)))) {
    c.kind = Command::Kind::kPromote;
    c.name = words[1];
  } else {
    return wrong(text,
                 "is none of swap [SLOT] POLICY[:PARAMS], rollback [SLOT], shadow NAME=POLICY "
                 "[blocks=N] [one-in=N], unshadow NAME, promote NAME [SLOT], policies; SLOT is "
                 "device, host, disk or scheduling");
  }
  return Status::ok();
}

}  // namespace

Expected<Command> parse_command(std::string_view text) {
  Command command;
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || !to_number(text.substr(0, equals), command.at)) {
    return wrong(text, "wants REPLIES=COMMAND, such as 1000=swap device s3fifo_leaf");
  }
  command.text = text.substr(equals + 1);
  std::istringstream stream(command.text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) {
    words.push_back(word);
  }
  TROUPE_TRY(read_words(words, text, command));
  return command;
}

Operator::Operator(std::vector<Command> script, std::vector<std::string> turns, uint64_t every)
    : script_(std::move(script)), turns_(std::move(turns)), every_(turns_.empty() ? 0 : every) {
  std::stable_sort(script_.begin(), script_.end(),
                   [](const Command& a, const Command& b) { return a.at < b.at; });
}

bool Operator::send_due(uint64_t replies, Tick now) {
  if (open()) {
    return false;
  }
  if (next_ < script_.size() && script_[next_].at <= replies) {
    facts_.commands.push_back({replies, script_[next_].text, false, "", 0, {}});
    open_ = Open::kScripted;
    send(script_[next_++], now);
    return true;
  }
  if (every_ == 0 || replies - turn_at_ < every_) {
    return false;
  }
  Command turn;
  turn.kind = Command::Kind::kSwap;
  turn.policy = turns_[facts_.swaps++ % turns_.size()];
  turn_at_ = replies;
  open_ = Open::kTurn;
  send(turn, now);
  return true;
}

void Operator::send(const Command& c, Tick now) {
  sent_ = std::chrono::steady_clock::now();
  const size_t words = 40 + (c.policy.size() + c.params.size() + c.name.size()) / 8;
  link_->post(wire::Message::CONTROL, now, words, [&](wire::Message::Builder m) {
    auto out = m.initControl();
    out.setControl(next_control_++);
    switch (c.kind) {
      case Command::Kind::kSwap: {
        auto request = out.initSwapPolicy();
        request.setSlot(c.slot);
        auto swap = request.initSwap();
        swap.setName(c.policy);
        swap.setParams(c.params);
        break;
      }
      case Command::Kind::kRollback:
        out.initRollback().setSlot(c.slot);
        break;
      case Command::Kind::kShadow:
      case Command::Kind::kUnshadow: {
        auto shadow = out.initShadow();
        shadow.setName(c.name);
        shadow.setPolicy(c.policy);
        shadow.setParams(c.params);
        shadow.setBlocks(c.blocks);
        shadow.setOneIn(c.one_in);
        shadow.setRemove(c.kind == Command::Kind::kUnshadow);
        break;
      }
      case Command::Kind::kPromote: {
        auto promote = out.initPromote();
        promote.setName(c.name);
        promote.setSlot(c.slot);
        break;
      }
      case Command::Kind::kPolicies:
        out.setPolicies();
        break;
    }
  });
}

void Operator::on_answer(wire::Answer::Reader answer) {
  const auto spent = std::chrono::steady_clock::now() - sent_;
  const double us = std::chrono::duration<double, std::micro>(spent).count();
  const bool ok = answer.getStatus() == static_cast<uint16_t>(Code::kOk);
  if (open_ == Open::kTurn) {
    facts_.swap_us.push_back(us);
    if (!ok) {
      ++facts_.swaps_failed;
      facts_.swap_error = answer.getText().cStr();
    }
  } else {
    OperatorFacts::Done& done = facts_.commands.back();
    done.ok = ok;
    done.text = answer.getText().cStr();
    done.us = us;
    for (const auto gauge : answer.getGauges()) {
      done.gauges[gauge.getName().cStr()] = gauge.getValue();
    }
  }
  open_ = Open::kNone;
}

void Operator::on_changed(wire::PolicyChanged::Reader changed, uint64_t replies) {
  ++facts_.changes;
  facts_.changes_undecided += changed.getDecided() == 0 ? 1 : 0;
  const auto cause = changed.getCause();
  if (open_ == Open::kTurn && cause == wire::PolicyChanged::Cause::SWAP) {
    return;  // counted among the turns
  }
  if (facts_.listed.size() < kChangesKept) {
    facts_.listed.push_back({replies, std::string(kSlots[changed.getSlot() % std::size(kSlots)]),
                             changed.getFrom().cStr(), changed.getTo().cStr(),
                             cause == wire::PolicyChanged::Cause::SWAP       ? "swap"
                             : cause == wire::PolicyChanged::Cause::ROLLBACK ? "rollback"
                                                                             : "the policy failed",
                             changed.getWhy().cStr(), changed.getGeneration(),
                             changed.getDecided()});
  }
}

}  // namespace troupe
