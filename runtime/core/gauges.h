// One way to answer the director's status question: named integers.
#pragma once

#include <span>
#include <utility>

#include "runtime/core/actor_core.h"

namespace troupe {

using Gauge = std::pair<const char*, uint64_t>;

/// Sends `answer` with `gauges` for the director's question `control`.
inline void send_gauges(StepContext& cx, uint64_t control, std::span<const Gauge> gauges) {
  constexpr size_t kWordsPerGauge = 10;  // name of up to 56 characters
  cx.out.send(Kind::ANSWER, gauges.size() * kWordsPerGauge, [&](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setControl(control);
    auto list = answer.initGauges(static_cast<unsigned>(gauges.size()));
    for (unsigned i = 0; i < gauges.size(); ++i) {
      list[i].setName(gauges[i].first);
      list[i].setValue(static_cast<int64_t>(gauges[i].second));
    }
  });
}

}  // namespace troupe
