// The operator of a run: commands about policies that fall due after so many replies, sent one
// after the other like any client's, and what came of them. Outside the troupe, beside the driver,
// which tells when requests were answered and brings the frames. Invariant: one command is open at
// a time.
#pragma once

#include "apps/run/stats.h"
#include "runtime/core/dispatcher.h"

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct Command {
  enum class Kind : uint8_t { kSwap, kRollback, kShadow, kUnshadow, kPromote, kPolicies };
  uint64_t at = 0;  // replies before it
  Kind kind = Kind::kPolicies;
  uint16_t slot = 0;   // of PolicySlotId
  std::string name;    // of the understudy
  std::string policy;  // built-in name or path of a library …
  std::string params;  // … and its parameters
  uint64_t blocks = 0;
  uint32_t one_in = 1;
  std::string text;  // as it was written
};

/// Reads "REPLIES=COMMAND", one of
///   swap [SLOT] POLICY[:PARAMS]    SLOT: device (when left out), host, disk, scheduling
///   rollback [SLOT]
///   shadow NAME=POLICY[:PARAMS] [blocks=N] [one-in=N]
///   unshadow NAME
///   promote NAME [SLOT]
///   policies
/// Errors name what is wrong and what could stand there.
Expected<Command> parse_command(std::string_view text);

class Operator {
 public:
  /// `turns`: policies that take turns on the device tier, one after every `every` replies (0:
  /// none).
  Operator(std::vector<Command> script, std::vector<std::string> turns, uint64_t every);

  void connect(Dispatcher& dispatcher) { link_ = &dispatcher; }
  /// Sends the next command that is due; false: none is, or one is open.
  bool send_due(uint64_t replies, Tick now);
  /// An answer to a control number from kFirstControl on.
  void on_answer(wire::Answer::Reader answer);
  void on_changed(wire::PolicyChanged::Reader changed, uint64_t replies);
  bool open() const noexcept { return open_ != Open::kNone; }
  void fill_report(RunReport& report) const { report.operated = facts_; }

  static constexpr uint64_t kFirstControl = 1000;

 private:
  enum class Open : uint8_t { kNone, kTurn, kScripted };
  void send(const Command& command, Tick now);

  std::vector<Command> script_;
  std::vector<std::string> turns_;
  uint64_t every_;
  size_t next_ = 0;       // of the script
  uint64_t turn_at_ = 0;  // replies at the last turn
  uint64_t next_control_ = kFirstControl;
  Open open_ = Open::kNone;
  std::chrono::steady_clock::time_point sent_;
  OperatorFacts facts_;
  Dispatcher* link_ = nullptr;
};

}  // namespace troupe
