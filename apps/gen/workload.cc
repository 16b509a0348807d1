#include "apps/gen/workload.h"

#include "runtime/base/rng.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <queue>
#include <unordered_map>

namespace troupe {
namespace {

/// Content that is the same wherever it stands: `id` names it, `length` goes with it.
struct Piece {
  uint64_t id = 0;
  uint32_t length = 0;
};

/// A conversation so far: its pieces as they were appended, cut in blocks as they fill.
struct Conversation {
  uint64_t length = 0;
  uint64_t state = 0;  // of everything appended, pieces and positions
  std::vector<uint64_t> hash_ids;
  std::vector<uint32_t> tokens;
};

struct Session {
  uint64_t id = 0;
  uint32_t tenant = 0;
  bool subagent = false;
  uint32_t turns_left = 0;
  uint32_t fork_turn = 0;  // turns left when a subagent forks; 0: none
  int64_t last_request = -1;
  Piece answer;  // of the turn before, not in the conversation yet
  Conversation talk;
};

/// Uniform in (0, 1).
double uniform(Rng& rng) {
  constexpr double kScale = 0x1p-53;
  return (static_cast<double>(rng.next() >> 11) + 0.5) * kScale;
}

double normal(Rng& rng) {
  constexpr double kTwoPi = 6.283185307179586;
  const double a = uniform(rng);
  const double b = uniform(rng);
  return std::sqrt(-2 * std::log(a)) * std::cos(kTwoPi * b);
}

/// A whole number whose logarithm is normal around log(median).
uint64_t lognormal(Rng& rng, double median, double sigma, uint64_t low, uint64_t high) {
  const double value = std::round(median * std::exp(sigma * normal(rng)));
  return static_cast<uint64_t>(
      std::clamp(value, static_cast<double>(low), static_cast<double>(high)));
}

/// Draws ranks 0 … n-1 with chance ∝ 1 / (rank + 1)^exponent.
class Zipf {
 public:
  Zipf(uint32_t n, double exponent) : cumulative_(n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; ++i) {
      sum += std::pow(static_cast<double>(i) + 1, -exponent);
      cumulative_[i] = sum;
    }
  }
  uint32_t draw(Rng& rng) const {
    const double at = uniform(rng) * cumulative_.back();
    const auto it = std::lower_bound(cumulative_.begin(), cumulative_.end(), at);
    return static_cast<uint32_t>(
        std::min<size_t>(static_cast<size_t>(it - cumulative_.begin()), cumulative_.size() - 1));
  }

 private:
  std::vector<double> cumulative_;
};

/// Names of content that many sessions share; unique per tenant, kind and number.
constexpr uint64_t kSystem = 1;
constexpr uint64_t kTools = 2;
constexpr uint64_t kDocument = 3;
constexpr uint64_t kPrivate = 4;
uint64_t piece_id(uint64_t kind, uint64_t owner, uint64_t number) {
  return mix64(mix64(kind * 0x9E3779B97F4A7C15ULL + owner) + number);
}

class Generator {
 public:
  Generator(const WorkloadParams& p, const std::function<Status(const WorkloadRequest&)>& sink)
      : p_(p), sink_(sink), rng_(p.seed), tenant_(p.tenants, 1), document_(p.documents, p.zipf) {}

  Status run() {
    double at_ms = 0;
    for (uint32_t i = 0; i < p_.sessions; ++i) {
      const double gap = -std::log(uniform(rng_)) / p_.sessions_per_s * 1000;
      at_ms += i == 0 ? 0 : gap;
      push(at_ms, new_session());
    }
    while (!queue_.empty()) {
      const Next next = queue_.top();
      queue_.pop();
      TROUPE_TRY(turn(next.at_ms, next.session));
    }
    return Status::ok();
  }

 private:
  struct Next {
    double at_ms = 0;
    uint64_t order = 0;  // ties go to the one that was planned first
    size_t session = 0;
    bool operator>(const Next& o) const {
      return at_ms != o.at_ms ? at_ms > o.at_ms : order > o.order;
    }
  };

  void push(double at_ms, size_t session) { queue_.push({at_ms, order_++, session}); }

  size_t new_session() {
    Session s;
    s.id = sessions_.size();
    s.tenant = tenant_.draw(rng_);
    s.turns_left =
        static_cast<uint32_t>(lognormal(rng_, p_.turns_median, p_.turns_sigma, 1, p_.turns_max));
    if (s.turns_left > 1 && rng_.chance(p_.subagent_percent, 100)) {
      s.fork_turn = 1 + static_cast<uint32_t>(rng_.below(s.turns_left - 1));
    }
    append(s.talk, {piece_id(kSystem, s.tenant, 0), p_.system_tokens});
    append(s.talk, {piece_id(kTools, s.tenant, 0), p_.tool_tokens});
    for (uint32_t i = 0; i < p_.documents_per_session; ++i) {
      append(s.talk, document(s.tenant, document_.draw(rng_)));
    }
    sessions_.push_back(std::move(s));
    return sessions_.size() - 1;
  }

  /// A document's length is drawn from its name, so that it is the same in every session.
  Piece document(uint32_t tenant, uint32_t rank) const {
    const uint64_t id = piece_id(kDocument, tenant, rank);
    Rng own(id);
    constexpr double kSigma = 0.4;
    return {id, static_cast<uint32_t>(
                    lognormal(own, p_.document_tokens, kSigma, 1, 16ULL * p_.document_tokens))};
  }

  /// What a turn adds beside the answer before it, so that the prompts of a session of median
  /// length add up to session_input_median: turns · first + growth · turns · (turns - 1) / 2.
  double message_median() const {
    const double turns = p_.turns_median;
    const double shared = static_cast<double>(p_.system_tokens) + p_.tool_tokens +
                          static_cast<double>(p_.documents_per_session) * p_.document_tokens;
    const double answer = answer_median();
    const double wanted = static_cast<double>(p_.session_input_median) - turns * shared +
                          answer * turns * (1 - turns) / 2;
    // Every turn, the first one too, brings one message: 1 + 2 + … + turns of them are read.
    return std::max(1.0, wanted / (turns * (turns + 1) / 2));
  }
  double answer_median() const {
    return std::max(1.0, static_cast<double>(p_.session_output_median) / p_.turns_median);
  }

  double pause_ms() {
    const uint64_t percent = rng_.below(100);
    const auto between = [this](double low, double high) {
      return low * std::pow(high / low, uniform(rng_));
    };
    if (percent < p_.followup_1s_percent) {
      return between(50, 1000);
    }
    return percent < p_.followup_10s_percent ? between(1000, 10000) : between(10000, 600000);
  }

  Status turn(double at_ms, size_t index) {
    constexpr double kSigma =
        0.5;  // e^(s²/2) below makes the mean, not the median, the stated figure
    const double mean = std::exp(-kSigma * kSigma / 2);
    Session& s = sessions_[index];
    if (s.answer.length > 0) {
      append(s.talk, s.answer);
    }
    const auto message =
        static_cast<uint32_t>(lognormal(rng_, message_median() * mean, kSigma, 1, 1ULL << 20));
    append(s.talk, {piece_id(kPrivate, s.id, ++private_), message});
    const auto answer =
        static_cast<uint32_t>(lognormal(rng_, answer_median() * mean, kSigma, 1, 1ULL << 16));
    s.answer = {piece_id(kPrivate, s.id, ++private_), answer};
    --s.turns_left;
    const double served = static_cast<double>(answer) * p_.service_ms_per_token;
    const double pause = s.turns_left > 0 ? pause_ms() : -1;

    WorkloadRequest r;
    r.timestamp_ms = std::round(at_ms * 1000) / 1000;
    r.request_id = next_request_++;
    r.parent = s.last_request;
    r.session_id = s.id;
    r.tenant = s.tenant;
    r.subagent = s.subagent;
    r.input_length = s.talk.length;
    r.output_length = answer;
    r.pause_ms = pause < 0 ? -1 : std::round(pause * 1000) / 1000;
    r.hash_ids = s.talk.hash_ids;
    r.tokens = s.talk.tokens;
    s.last_request = static_cast<int64_t>(r.request_id);
    if (s.turns_left > 0) {
      push(at_ms + served + pause, index);
    } else {
      s.talk = {};  // memory is that of live conversations only
    }
    if (s.fork_turn != 0 && s.turns_left == s.fork_turn) {
      fork(at_ms + served, index);
    }
    return sink_(r);
  }

  /// A subagent starts from what its parent has said and heard, and continues under its own id.
  void fork(double at_ms, size_t index) {
    Session child = sessions_[index];
    child.id = sessions_.size();
    child.subagent = true;
    child.fork_turn = 0;
    child.turns_left = static_cast<uint32_t>(
        lognormal(rng_, p_.subagent_turns_median, p_.turns_sigma, 1, p_.turns_max));
    sessions_.push_back(std::move(child));
    const double start = pause_ms();
    push(at_ms + std::min(start, 1000.0), sessions_.size() - 1);
  }

  /// Adds a piece: a block's id is decided by all pieces that begin before its end, and by where.
  void append(Conversation& talk, Piece piece) {
    uint64_t state = mix64(talk.state ^ mix64(piece.id + talk.length));
    if (p_.tokens) {
      for (uint32_t i = 0; i < piece.length; ++i) {
        talk.tokens.push_back(static_cast<uint32_t>(mix64(piece.id + i) % p_.vocabulary));
      }
    }
    const uint64_t end = talk.length + piece.length;
    while ((talk.hash_ids.size() + 1) * p_.block_tokens <= end) {
      const uint64_t key = mix64(state + talk.hash_ids.size());
      const auto [it, fresh] = ids_.try_emplace(key, ids_.size());
      talk.hash_ids.push_back(it->second);
    }
    talk.length = end;
    talk.state = state;
  }

  const WorkloadParams& p_;
  const std::function<Status(const WorkloadRequest&)>& sink_;
  Rng rng_;
  Zipf tenant_;
  Zipf document_;
  std::vector<Session> sessions_;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue_;
  std::unordered_map<uint64_t, uint64_t> ids_;  // block content -> dense id; only looked up
  uint64_t order_ = 0;
  uint64_t private_ = 0;
  uint64_t next_request_ = 0;
};

void append_number(double value, std::string& out) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed, 3);
  out.append(text.data(), end.ptr);
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class T>
void append_list(const char* name, const std::vector<T>& items, std::string& out) {
  out += name;
  std::array<char, 24> text{};
  for (size_t i = 0; i < items.size(); ++i) {
    const auto end = std::to_chars(text.data(), text.data() + text.size(), items[i]);
    out += i == 0 ? "" : ", ";
    out.append(text.data(), end.ptr);
  }
  out += "]";
}

}  // namespace

Status check(const WorkloadParams& p) {
  std::string errors;
  const auto range = [&errors](const char* name, double value, double low, double high) {
    if (!(value >= low && value <= high)) {
      errors += std::string(name) + " " + number_text(value) + " is not in " + number_text(low) +
                " … " + number_text(high) + "\n";
    }
  };
  range("tenants", p.tenants, 1, 10000);
  range("sessions", p.sessions, 1, 1e6);
  range("sessions_per_s", p.sessions_per_s, 1e-6, 1e6);
  range("block_tokens", p.block_tokens, 1, 1 << 20);
  range("turns_median", p.turns_median, 1, 10000);
  range("turns_sigma", p.turns_sigma, 0, 3);
  range("turns_max", p.turns_max, p.turns_median, 100000);
  range("session_input_median", static_cast<double>(p.session_input_median), 1, 1e9);
  range("session_output_median", static_cast<double>(p.session_output_median), 1, 1e8);
  range("followup_1s_percent", p.followup_1s_percent, 0, p.followup_10s_percent);
  range("followup_10s_percent", p.followup_10s_percent, p.followup_1s_percent, 100);
  range("subagent_percent", p.subagent_percent, 0, 100);
  range("subagent_turns_median", p.subagent_turns_median, 1, 10000);
  range("system_tokens", p.system_tokens, 1, 1e6);
  range("tool_tokens", p.tool_tokens, 1, 1e6);
  range("documents", p.documents, 1, 1e6);
  range("document_tokens", p.document_tokens, 1, 1e6);
  range("documents_per_session", p.documents_per_session, 0, 100);
  range("zipf", p.zipf, 0, 10);
  range("service_ms_per_token", p.service_ms_per_token, 0, 1e5);
  range("vocabulary", p.vocabulary, 2, 4294967295.0);
  if (errors.empty()) {
    return Status::ok();
  }
  errors.pop_back();
  return {Code::kInvalidArgument, errors};
}

Status generate(const WorkloadParams& params,
                const std::function<Status(const WorkloadRequest&)>& sink) {
  TROUPE_TRY(check(params));
  return Generator(params, sink).run();
}

void append_jsonl(const WorkloadRequest& r, uint32_t block_tokens, std::string& out) {
  out += "{\"timestamp\": ";
  append_number(r.timestamp_ms, out);
  out += ", \"input_length\": " + std::to_string(r.input_length);
  out += ", \"output_length\": " + std::to_string(r.output_length);
  out += ", \"session_id\": " + std::to_string(r.session_id);
  out += ", \"request_id\": " + std::to_string(r.request_id);
  out += ", \"parent\": " + std::to_string(r.parent);
  out += ", \"tenant\": \"tenant-" + std::to_string(r.tenant) + "\"";
  out += ", \"block_size\": " + std::to_string(block_tokens);
  if (r.pause_ms >= 0) {
    out += ", \"pause_ms\": ";
    append_number(r.pause_ms, out);
    out += ", \"hints\": \"pause\"";
  }
  append_list(", \"hash_ids\": [", r.hash_ids, out);
  if (!r.tokens.empty()) {
    append_list(", \"tokens\": [", r.tokens, out);
  }
  out += "}\n";
}

}  // namespace troupe
