// One way to answer the director's status question: named integers.
#pragma once

#include "runtime/core/actor_core.h"

#include <iterator>
#include <string>
#include <utility>

namespace troupe {

using Gauge = std::pair<const char*, uint64_t>;

/// Sends `answer` with `gauges`, pairs of name and value, for the director's question `control`.
template <class Gauges>
void send_gauges(StepContext& cx, uint64_t control, const Gauges& gauges) {
  constexpr size_t kWordsPerGauge = 10;  // name of up to 56 characters
  cx.out.send(Kind::ANSWER, std::size(gauges) * kWordsPerGauge, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(control);
    auto list = answer.initGauges(static_cast<unsigned>(std::size(gauges)));
    for (unsigned i = 0; const auto& [name, value] : gauges) {
      list[i].setName(std::string(name).c_str());
      list[i++].setValue(static_cast<int64_t>(value));
    }
  });
}

}  // namespace troupe
