#include "runtime/replay/stepper.h"

#include "runtime/core/routes.h"

#include <cstring>
#include <xxhash.h>

namespace troupe::replay {

using trace::Divergence;
using trace::LaneRecord;
using trace::OutputMark;
using trace::RecordType;

std::vector<uint64_t> LaneSearch::find(Address from, uint64_t from_seq) const {
  for (const trace::LaneFiles& files : lanes_) {
    trace::LaneReader reader(files, limits_);
    LaneRecord record;
    while (reader.next(record)) {
      if (record.type == RecordType::kDelivery && record.has_payload &&
          record.header.from == from && record.header.seq == from_seq) {
        const auto* words = reinterpret_cast<const uint64_t*>(record.payload.data());
        return {words, words + record.payload.size()};
      }
    }
  }
  return {};
}

void Stepper::step(uint64_t seq, const Frame& frame) {
  seq_ = seq;
  const FrameHeader& header = frame.header();
  kind_ = header.kind;
  out_.items().clear();
  out_.begin(address_, seq, header.tick);
  FrameReader reader(frame.words());
  StepContext cx{header.tick, out_};
  actor_.step(Envelope{header, reader.message()}, cx);
  ++counts_.deliveries;
}

Divergence Stepper::diverged(std::string what) const {
  Divergence divergence;
  divergence.actor = actor_.name();
  divergence.seq = seq_;
  divergence.kind = kind_;
  divergence.what = std::move(what);
  return divergence;
}

std::optional<Divergence> Stepper::compare(const LaneRecord& stepped,
                                           const RecordedMessages& recorded) {
  const std::vector<Outgoing>& sent = out_.items();
  const auto name = [](uint16_t kind) { return kind_name(static_cast<Kind>(kind)); };
  for (size_t i = 0; i < std::min(sent.size(), stepped.outputs.size()); ++i) {
    const std::span<const capnp::word> words = sent[i].frame.words();
    const OutputMark got{XXH3_64bits(words.data(), words.size_bytes()),
                         static_cast<uint32_t>(words.size()), static_cast<uint16_t>(sent[i].kind),
                         sent[i].instance};
    const OutputMark& expected = stepped.outputs[i];
    ++counts_.outputs;
    if (got == expected) {
      continue;
    }
    const std::string which = "message " + std::to_string(i + 1) + " of this step";
    if (got.kind != expected.kind || got.instance != expected.instance) {
      Divergence other = diverged(which + " is another one");
      other.field = {"kind", name(expected.kind) + "/" + std::to_string(expected.instance),
                     name(got.kind) + "/" + std::to_string(got.instance)};
      return other;
    }
    Divergence differs = diverged(which + " (" + name(got.kind) + ") differs");
    const std::vector<uint64_t> payload = recorded.find(address_, stepped.first_seq + i);
    if (!payload.empty()) {
      const auto* begin = reinterpret_cast<const capnp::word*>(payload.data());
      if (auto field = trace::first_difference({begin, payload.size()}, words)) {
        differs.field = std::move(*field);
        return differs;
      }
    }
    differs.field = {"digest", std::to_string(expected.digest), std::to_string(got.digest)};
    return differs;
  }
  if (sent.size() != stepped.outputs.size()) {
    Divergence count = diverged("the step sent more or fewer messages");
    count.field = {"messages", std::to_string(stepped.outputs.size()), std::to_string(sent.size())};
    return count;
  }
  if (stepped.state) {
    ++counts_.states;
    if (*stepped.state != actor_.digest().value()) {
      Divergence state = diverged("the state after this step differs");
      state.field = {"state digest", std::to_string(*stepped.state),
                     std::to_string(actor_.digest().value())};
      return state;
    }
  }
  return std::nullopt;
}

std::optional<Divergence> Stepper::compare_final(std::optional<uint64_t> state) {
  if (!state) {
    return std::nullopt;
  }
  ++counts_.states;
  const uint64_t got = actor_.digest().value();
  if (*state == got) {
    return std::nullopt;
  }
  Divergence differs = diverged("the state at the end of the recording differs");
  differs.field = {"state digest", std::to_string(*state), std::to_string(got)};
  return differs;
}

}  // namespace troupe::replay
