#include "runtime/replay/system_replay.h"

#include <algorithm>
#include <deque>

namespace troupe::replay {
namespace {

using trace::Divergence;
using trace::LaneRecord;
using trace::RecordType;

/// One core and its lane. `head` is the next delivery of the lane, read but not taken.
struct Part {
  Part(trace::LaneFiles files, trace::ReadLimits limits, Actor& actor)
      : lane(std::move(files), limits), stepper(actor, lane.info().address) {}
  trace::LaneReader lane;
  Stepper stepper;
  LaneRecord head;
  Frame edge_frame;  // the head's message, when it came from outside
  bool has_head = false;
  bool open = false;  // the last step was not confirmed yet
  uint64_t last = 0;  // delivery replayed last
  std::string stopped;
  bool done = false;                       // end of the lane, or stopped
  std::vector<std::deque<Frame>> waiting;  // [sender] made again, not yet delivered
};

class SystemReplay {
 public:
  SystemReplay(const std::vector<trace::LaneFiles>& lanes, trace::ReadLimits limits, Troupe& troupe)
      : limits_(limits), troupe_(troupe), recorded_(lanes, limits) {}

  Status build(const std::vector<trace::LaneFiles>& lanes);
  SystemReport run();

 private:
  Part* part(Address address) {
    return address.v < parts_.size() ? parts_[address.v].get() : nullptr;
  }
  void wake(Address address);
  void advance(Address address, Part& part);
  bool read_head(Part& part);
  bool take_head(Address address, Part& part);
  void deliver_outputs(Address from, Part& part);
  void finish(Part& part);
  void diverge(Divergence divergence) {
    if (!report_.divergence) {
      report_.divergence = std::move(divergence);
    }
  }
  void explain_unreached();
  SystemReport summary();

  trace::ReadLimits limits_;
  Troupe& troupe_;
  LaneSearch recorded_;
  std::vector<std::unique_ptr<Part>> parts_;  // [address]
  std::deque<Address> ready_;
  std::vector<bool> queued_;  // [address]
  SystemReport report_;
};

Status SystemReplay::build(const std::vector<trace::LaneFiles>& lanes) {
  for (const trace::LaneFiles& files : lanes) {
    if (files.info.edge) {
      continue;
    }
    const Address address = files.info.address;
    const auto member =
        std::find_if(troupe_.members.begin(), troupe_.members.end(),
                     [&](const Member& m) { return m.address == address && m.actor != nullptr; });
    if (member == troupe_.members.end() || member->actor->name() != files.info.actor) {
      return Status(Code::kInvalidArgument, "the recording has actor " + files.info.actor +
                                                " at address " + std::to_string(address.v) +
                                                ", which this build does not make");
    }
    parts_.resize(std::max<size_t>(parts_.size(), address.v + size_t{1}));
    parts_[address.v] = std::make_unique<Part>(files, limits_, *member->actor);
  }
  queued_.resize(parts_.size());
  for (const auto& part : parts_) {
    if (part != nullptr) {
      part->waiting.resize(parts_.size());
    }
  }
  return Status::ok();
}

void SystemReplay::wake(Address address) {
  if (!queued_[address.v]) {
    queued_[address.v] = true;
    ready_.push_back(address);
  }
}

SystemReport SystemReplay::run() {
  for (uint16_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] != nullptr) {
      wake(Address(i));
    }
  }
  while (!ready_.empty() && !report_.divergence) {
    const Address address = ready_.front();
    ready_.pop_front();
    queued_[address.v] = false;
    advance(address, *parts_[address.v]);
  }
  return summary();
}

/// Replays as much of one actor as its lane and the messages made so far allow.
void SystemReplay::advance(Address address, Part& part) {
  while (!report_.divergence && read_head(part) && take_head(address, part)) {
  }
}

/// Reads up to the next delivery. False: the lane is at its end, or must stop.
bool SystemReplay::read_head(Part& part) {
  while (!part.has_head && !part.done) {
    if (!part.lane.next(part.head)) {
      finish(part);
      break;
    }
    switch (part.head.type) {
      case RecordType::kStepped:
        part.open = false;
        if (auto divergence = part.stepper.compare(part.head, recorded_)) {
          diverge(std::move(*divergence));
          return false;
        }
        break;
      case RecordType::kDelivery:
        if (part.head.seq != part.last + 1) {
          part.stopped = "deliveries from " + std::to_string(part.last + 1) + " are missing";
          part.done = true;
          break;
        }
        part.has_head = true;
        part.edge_frame = Frame();
        if (this->part(part.head.header.from) == nullptr) {
          if (!part.head.has_payload) {
            part.stopped = "delivery " + std::to_string(part.head.seq) +
                           " came from outside and has no payload";
            part.has_head = false;
            part.done = true;
            break;
          }
          part.edge_frame = Frame::make(part.head.header, part.head.payload);
        }
        break;
      default:
        part.stopped =
            "the recorder left out deliveries from " + std::to_string(part.head.first_seq);
        part.done = true;
    }
  }
  return part.has_head;
}

/// Steps the head of the lane if its message is there.
bool SystemReplay::take_head(Address address, Part& part) {
  Frame frame = std::move(part.edge_frame);
  if (!frame) {
    std::deque<Frame>& waiting = part.waiting[part.head.header.from.v];
    if (waiting.empty()) {
      return false;  // woken when its sender gets there
    }
    frame = std::move(waiting.front());
    waiting.pop_front();
    if (frame.header().seq != part.head.header.seq) {
      Divergence order;
      order.actor = part.stepper.actor().name();
      order.seq = part.head.seq;
      order.kind = part.head.header.kind;
      order.what = "another message of the same sender comes next";
      order.field = {"from_seq", std::to_string(part.head.header.seq),
                     std::to_string(frame.header().seq)};
      diverge(std::move(order));
      return false;
    }
  }
  if (part.open) {
    part.stepper.unconfirmed();
  }
  part.open = true;
  part.has_head = false;
  part.last = part.head.seq;
  part.stepper.step(part.head.seq, frame);
  deliver_outputs(address, part);
  return true;
}

void SystemReplay::deliver_outputs(Address from, Part& part) {
  for (const Outgoing& out : part.stepper.outputs()) {
    const Address to = troupe_.routes.find(from, out.kind, out.instance);
    if (to.is_none()) {
      Divergence undeclared;
      undeclared.actor = part.stepper.actor().name();
      undeclared.seq = part.last;
      undeclared.kind = part.stepper.last_kind();
      undeclared.what = "the step sent " + kind_name(out.kind) + ", which has no route";
      diverge(std::move(undeclared));
      return;
    }
    Part* receiver = this->part(to);
    if (receiver != nullptr) {
      receiver->waiting[from.v].push_back(out.frame);
      wake(to);
    }
  }
}

void SystemReplay::finish(Part& part) {
  part.done = true;
  if (part.open) {
    part.stepper.unconfirmed();
  }
  if (auto divergence = part.stepper.compare_final(part.lane.final_state())) {
    diverge(std::move(*divergence));
  }
}

/// The lane goes on, but a message that it names never came: tells who did not send it.
void SystemReplay::explain_unreached() {
  bool all_clean = true;
  for (const auto& part : parts_) {
    all_clean =
        all_clean && (part == nullptr || (part->lane.problems().clean() && part->stopped.empty()));
  }
  for (const auto& part : parts_) {
    if (part == nullptr || !part->has_head) {
      continue;
    }
    const FrameHeader& wanted = part->head.header;
    part->stopped = "it waits for message " + std::to_string(wanted.seq) + " of actor " +
                    std::to_string(wanted.from.v) + ", which was not sent in this replay";
    if (all_clean) {
      Divergence never;
      never.actor = part->stepper.actor().name();
      never.seq = part->head.seq;
      never.kind = wanted.kind;
      never.what = part->stopped;
      diverge(std::move(never));
    }
  }
}

SystemReport SystemReplay::summary() {
  if (!report_.divergence) {
    explain_unreached();
  }
  report_.complete = !report_.divergence;
  for (const auto& part : parts_) {
    if (part == nullptr) {
      continue;
    }
    LaneReport lane;
    lane.actor = part->stepper.actor().name();
    lane.stopped = part->stopped;
    if (!report_.divergence) {
      // What is left of the lane is read to be counted, and for its notices.
      report_.not_replayed += part->has_head ? 1 : 0;
      LaneRecord record;
      while (!part->done && part->lane.next(record)) {
        report_.not_replayed += record.type == RecordType::kDelivery ? 1 : 0;
      }
    }
    for (const std::deque<Frame>& waiting : part->waiting) {
      report_.in_flight += waiting.size();
    }
    lane.counts = part->stepper.counts();
    lane.digest = part->stepper.actor().digest().value();
    lane.problems = part->lane.problems();
    lane.check = part->stepper.actor().check();
    lane.complete = part->stopped.empty() && lane.problems.clean() && !report_.divergence;
    report_.complete = report_.complete && lane.complete;
    report_.deliveries += lane.counts.deliveries;
    report_.outputs += lane.counts.outputs;
    report_.notices.insert(report_.notices.end(), lane.problems.notices.begin(),
                           lane.problems.notices.end());
    report_.lanes.push_back(std::move(lane));
  }
  for (const Member& member : troupe_.members) {
    const bool replayed = member.address.v < parts_.size() && parts_[member.address.v] != nullptr;
    if (!member.mover && member.actor != nullptr && !replayed) {
      report_.notices.push_back(std::string(member.actor->name()) +
                                ": no lane in the recording, so it was not replayed");
      report_.complete = false;
    }
  }
  report_.digest = system_digest(troupe_);
  return std::move(report_);
}

}  // namespace

Expected<SystemReport> replay_system(const std::vector<trace::LaneFiles>& lanes,
                                     trace::ReadLimits limits, Troupe& troupe) {
  SystemReplay replay(lanes, limits, troupe);
  TROUPE_TRY(replay.build(lanes));
  return replay.run();
}

uint64_t system_digest(const Troupe& troupe) {
  Digest digest;
  for (const Member& member : troupe.members) {
    if (!member.mover && member.actor != nullptr) {
      digest.add(member.address.v).add(member.actor->digest().value());
    }
  }
  return digest.value();
}

}  // namespace troupe::replay
