// Puts one recorded message into a core and compares what the core answers with the record.
#pragma once

#include "runtime/core/actor_core.h"
#include "runtime/trace/divergence.h"
#include "runtime/trace/lane_reader.h"

#include <optional>

namespace troupe::replay {

/// Finds the payload that was recorded of a message, wherever it was received: by sender and the
/// sender's sequence. Empty when no lane has it.
class RecordedMessages {
 public:
  virtual ~RecordedMessages() = default;
  virtual std::vector<uint64_t> find(Address from, uint64_t from_seq) const = 0;
};

/// Searches all lanes of a recording, from their beginning: for the one message that differs.
class LaneSearch final : public RecordedMessages {
 public:
  LaneSearch(std::vector<trace::LaneFiles> lanes, trace::ReadLimits limits)
      : lanes_(std::move(lanes)), limits_(limits) {}
  std::vector<uint64_t> find(Address from, uint64_t from_seq) const override;

 private:
  std::vector<trace::LaneFiles> lanes_;
  trace::ReadLimits limits_;
};

struct StepCounts {
  uint64_t deliveries = 0;
  uint64_t outputs = 0;      // messages compared
  uint64_t states = 0;       // state digests compared
  uint64_t unconfirmed = 0;  // steps whose outcome the lane does not have
};

class Stepper {
 public:
  Stepper(Actor& actor, Address address) : actor_(actor), address_(address) {}
  /// Runs one step; what it sent is in outputs() until the next.
  void step(uint64_t seq, const Frame& frame);
  std::vector<Outgoing>& outputs() noexcept { return out_.items(); }
  /// Compares the last step with its record. `recorded` serves to name the field that differs.
  std::optional<trace::Divergence> compare(const trace::LaneRecord& stepped,
                                           const RecordedMessages& recorded);
  /// Compares the state at the end of the lane.
  std::optional<trace::Divergence> compare_final(std::optional<uint64_t> state);
  void unconfirmed() noexcept { ++counts_.unconfirmed; }
  const StepCounts& counts() const noexcept { return counts_; }
  Actor& actor() noexcept { return actor_; }
  const Actor& actor() const noexcept { return actor_; }
  Kind last_kind() const noexcept { return kind_; }

 private:
  trace::Divergence diverged(std::string what) const;
  Actor& actor_;
  Address address_;
  Outbox out_;
  uint64_t seq_ = 0;
  Kind kind_ = Kind::INVALID;
  StepCounts counts_;
};

}  // namespace troupe::replay
