#include "runtime/replay/compare.h"

#include "runtime/core/routes.h"
#include "runtime/trace/frame_tokens.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

namespace troupe::replay {
namespace {

using trace::Divergence;
using trace::LaneRecord;
using trace::RecordType;

/// Pairs the token values of two recordings, one to one, as they are met.
class TokenPairs {
 public:
  /// False when a pair contradicts an earlier one; `at`: which.
  bool match(std::span<const uint32_t> a, std::span<const uint32_t> b, size_t& at) {
    for (at = 0; at < std::min(a.size(), b.size()); ++at) {
      if (to_.size() >= kPairsMax && to_.count(a[at]) == 0) {
        continue;
      }
      const uint32_t there = to_.emplace(a[at], b[at]).first->second;
      const uint32_t back = from_.emplace(b[at], a[at]).first->second;
      if (there != b[at] || back != a[at]) {
        return false;
      }
    }
    return true;
  }

 private:
  static constexpr size_t kPairsMax = 16U << 20;  // about 1 GiB; later ones are not compared
  std::unordered_map<uint32_t, uint32_t> to_;
  std::unordered_map<uint32_t, uint32_t> from_;
};

class Comparison {
 public:
  Comparison(trace::LaneReader& expected, trace::LaneReader& got, TokenPairs& tokens)
      : expected_(expected), got_(got), tokens_(tokens) {}

  LaneComparison run() {
    result_.actor = expected_.info().actor;
    LaneRecord a;
    LaneRecord b;
    while (!result_.divergence) {
      const bool more_a = expected_.next(a);
      const bool more_b = got_.next(b);
      if (!more_a || !more_b) {
        if (more_a || more_b) {
          result_.note = std::string("the ") + (more_a ? "second" : "first") +
                         " recording of this lane ends after delivery " +
                         std::to_string(result_.same);
        }
        break;
      }
      compare(a, b);
    }
    return std::move(result_);
  }

 private:
  void diverge(std::string what, trace::FieldDiff field) {
    Divergence divergence;
    divergence.actor = result_.actor;
    divergence.seq = seq_;
    divergence.kind = kind_;
    divergence.what = std::move(what);
    divergence.field = std::move(field);
    result_.divergence = std::move(divergence);
  }
  void compare(const LaneRecord& a, const LaneRecord& b) {
    if (a.type == RecordType::kDelivery) {
      seq_ = a.seq;
      kind_ = a.header.kind;
    }
    if (a.type != b.type || a.seq != b.seq) {
      diverge("one recording has a gap here", {"record", text(a), text(b)});
    } else if (a.type == RecordType::kDelivery) {
      deliveries(a, b);
    } else if (a.type == RecordType::kStepped) {
      outcomes(a, b);
    }
  }
  static std::string text(const LaneRecord& record) {
    const char* type = record.type == RecordType::kDelivery  ? "delivery "
                       : record.type == RecordType::kStepped ? "outcome of "
                                                             : "gap up to ";
    return type + std::to_string(record.seq);
  }
  void deliveries(const LaneRecord& a, const LaneRecord& b) {
    const auto differs = [&](const char* field, uint64_t x, uint64_t y) {
      if (x != y && !result_.divergence) {
        diverge("another message was delivered", {field, std::to_string(x), std::to_string(y)});
      }
    };
    differs("from", a.header.from.v, b.header.from.v);
    differs("from_seq", a.header.seq, b.header.seq);
    if (a.header.kind != b.header.kind && !result_.divergence) {
      diverge("another message was delivered",
              {"kind", kind_name(a.header.kind), kind_name(b.header.kind)});
    }
    differs("tick", static_cast<uint64_t>(a.header.tick.ns),
            static_cast<uint64_t>(b.header.tick.ns));
    if (!result_.divergence && a.has_payload && b.has_payload) {
      payloads(a, b);
    }
    result_.same += result_.divergence ? 0 : 1;
  }
  void payloads(const LaneRecord& a, const LaneRecord& b) {
    const std::span<const uint32_t> x = trace::tokens_in(kind_, a.payload);
    const std::span<const uint32_t> y = trace::tokens_in(kind_, b.payload);
    size_t at = 0;
    if (!tokens_.match(x, y, at)) {
      diverge("the message differs", {"tokens[" + std::to_string(at) + "]",
                                      "a token equal to an earlier one", "another token"});
      return;
    }
    // What is left are the other fields: with the tokens of the first, both should be equal.
    other_.resize(b.payload.size());
    std::memcpy(other_.data(), b.payload.data(), b.payload.size_bytes());
    if (x.size() == y.size() && !x.empty()) {
      const size_t offset = static_cast<size_t>(reinterpret_cast<const uint8_t*>(y.data()) -
                                                reinterpret_cast<const uint8_t*>(b.payload.data()));
      std::memcpy(reinterpret_cast<uint8_t*>(other_.data()) + offset, x.data(), x.size_bytes());
    }
    if (auto field = trace::first_difference(
            a.payload, {reinterpret_cast<const capnp::word*>(other_.data()), other_.size()})) {
      diverge("the message differs", std::move(*field));
    }
  }
  void outcomes(const LaneRecord& a, const LaneRecord& b) {
    for (size_t i = 0; i < std::min(a.outputs.size(), b.outputs.size()); ++i) {
      const trace::OutputMark& x = a.outputs[i];
      const trace::OutputMark& y = b.outputs[i];
      const bool tokens = trace::carries_tokens(static_cast<Kind>(x.kind));
      if (x.kind != y.kind || x.instance != y.instance || (!tokens && x.digest != y.digest)) {
        diverge(
            "what the step sent differs in message " + std::to_string(i + 1),
            {"kind/digest", kind_name(static_cast<Kind>(x.kind)) + "/" + std::to_string(x.digest),
             kind_name(static_cast<Kind>(y.kind)) + "/" + std::to_string(y.digest)});
        return;
      }
    }
    if (a.outputs.size() != b.outputs.size()) {
      diverge("the step sent more or fewer messages",
              {"messages", std::to_string(a.outputs.size()), std::to_string(b.outputs.size())});
    } else if (a.state && b.state && *a.state != *b.state) {
      diverge("the state after this step differs",
              {"state digest", std::to_string(*a.state), std::to_string(*b.state)});
    }
  }

  trace::LaneReader& expected_;
  trace::LaneReader& got_;
  TokenPairs& tokens_;
  LaneComparison result_;
  uint64_t seq_ = 0;
  Kind kind_ = Kind::INVALID;
  std::vector<uint64_t> other_;
};

}  // namespace

std::vector<LaneComparison> compare_recordings(const std::vector<trace::LaneFiles>& expected,
                                               const std::vector<trace::LaneFiles>& got,
                                               trace::ReadLimits limits) {
  std::map<uint16_t, std::pair<const trace::LaneFiles*, const trace::LaneFiles*>> rows;
  for (const trace::LaneFiles& files : expected) {
    rows[files.info.address.v].first = &files;
  }
  for (const trace::LaneFiles& files : got) {
    rows[files.info.address.v].second = &files;
  }
  std::vector<LaneComparison> result;
  TokenPairs tokens;
  for (const auto& [address, both] : rows) {
    if (both.first == nullptr || both.second == nullptr) {
      LaneComparison only;
      only.actor = (both.first != nullptr ? both.first : both.second)->info.actor;
      only.note = std::string("only the ") + (both.first != nullptr ? "first" : "second") +
                  " recording has this lane";
      result.push_back(std::move(only));
      continue;
    }
    trace::LaneReader a(*both.first, limits);
    trace::LaneReader b(*both.second, limits);
    result.push_back(Comparison(a, b, tokens).run());
  }
  return result;
}

}  // namespace troupe::replay
