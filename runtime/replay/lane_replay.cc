#include "runtime/replay/lane_replay.h"

namespace troupe::replay {
namespace {

using trace::LaneRecord;
using trace::RecordType;

class LaneReplay {
 public:
  LaneReplay(trace::LaneReader& lane, Actor& actor, const RecordedMessages& recorded,
             const LaneReplayOptions& options)
      : lane_(lane), stepper_(actor, lane.info().address), recorded_(recorded), options_(options) {}

  LaneReport run() {
    report_.actor = lane_.info().actor;
    LaneRecord record;
    bool going = true;
    while (going && lane_.next(record)) {
      going = take(record);
    }
    if (going) {
      if (open_) {
        stepper_.unconfirmed();
      }
      report_.divergence = stepper_.compare_final(lane_.final_state());
      report_.complete = !report_.divergence && lane_.problems().clean();
      if (!report_.complete && !report_.divergence) {
        report_.stopped = "the lane is not whole";
      }
    }
    report_.counts = stepper_.counts();
    report_.digest = stepper_.actor().digest().value();
    report_.problems = lane_.problems();
    report_.check = stepper_.actor().check();
    return std::move(report_);
  }

 private:
  bool stop(std::string why) {
    report_.stopped = std::move(why);
    return false;
  }
  bool take(const LaneRecord& record) {
    switch (record.type) {
      case RecordType::kDelivery:
        return take_delivery(record);
      case RecordType::kStepped:
        open_ = false;
        report_.divergence = stepper_.compare(record, recorded_);
        return !report_.divergence;
      default:
        return stop("the recorder left out deliveries from " + std::to_string(record.first_seq));
    }
  }
  bool take_delivery(const LaneRecord& record) {
    if (record.seq > options_.until) {
      return stop("asked to stop after delivery " + std::to_string(options_.until));
    }
    if (record.seq != last_ + 1) {
      return stop("deliveries from " + std::to_string(last_ + 1) + " are missing");
    }
    if (!record.has_payload) {
      return stop("the lane has no payloads (edges mode): replay the whole system instead");
    }
    if (open_) {
      stepper_.unconfirmed();
    }
    last_ = record.seq;
    open_ = true;
    const Frame frame = Frame::make(record.header, record.payload);
    stepper_.step(record.seq, frame);
    if (options_.on_step) {
      options_.on_step(record.seq, frame, stepper_.outputs());
    }
    return true;
  }

  trace::LaneReader& lane_;
  Stepper stepper_;
  const RecordedMessages& recorded_;
  const LaneReplayOptions& options_;
  LaneReport report_;
  uint64_t last_ = 0;
  bool open_ = false;  // a step was made that no record confirmed yet
};

}  // namespace

LaneReport replay_lane(trace::LaneReader& lane, Actor& actor, const RecordedMessages& recorded,
                       const LaneReplayOptions& options) {
  return LaneReplay(lane, actor, recorded, options).run();
}

}  // namespace troupe::replay
