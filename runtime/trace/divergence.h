// The first thing in which two runs differ, down to the field: what a replay, or the comparison of
// two recordings, has to say when it fails.
#pragma once

#include "runtime/core/frame.h"

#include <optional>
#include <string>

namespace troupe::trace {

/// Where two messages first differ, in the order of the schema. Values as text.
struct FieldDiff {
  std::string field;  // "reserve.rows[3].tokens"; "" when one message could not be read
  std::string expected;
  std::string got;
};

/// Nothing when both say the same, byte layout apart. Both must have passed check_frame.
std::optional<FieldDiff> first_difference(std::span<const capnp::word> expected,
                                          std::span<const capnp::word> got);

/// A message as text, at most `limit` bytes.
std::string message_text(std::span<const capnp::word> words, size_t limit = 4000);

struct Divergence {
  std::string actor;          // whose step it is
  uint64_t seq = 0;           // of its inbox
  Kind kind = Kind::INVALID;  // of the message that was being handled
  std::string what;           // one sentence
  FieldDiff field;            // where it is known
  std::string text() const;
};

}  // namespace troupe::trace
