#include "runtime/trace/frame_tokens.h"

#include "runtime/core/wire.h"

namespace troupe::trace {
namespace {

capnp::Data::Reader tokens_of(Kind kind, wire::Message::Reader message) {
  switch (kind) {
    case Kind::SUBMIT:
      return message.getSubmit().getSpec().getTokens();
    case Kind::ADMIT:
      return message.getAdmit().getSpec().getTokens();
    case Kind::STEP_DONE:
      return message.getStepDone().getTokens();
    case Kind::COMMIT:
      return message.getCommit().getTokens();
    case Kind::PUBLISH:
      return message.getPublish().getTokens();
    default:
      return {};
  }
}

}  // namespace

bool carries_tokens(Kind kind) noexcept {
  return kind == Kind::SUBMIT || kind == Kind::ADMIT || kind == Kind::STEP_DONE ||
         kind == Kind::COMMIT || kind == Kind::PUBLISH;
}

std::span<const uint32_t> tokens_in(Kind kind, std::span<const capnp::word> words) {
  if (!carries_tokens(kind)) {
    return {};
  }
  FrameReader reader(words);
  wire::Message::Reader message = reader.message();
  // A message of another kind has default values where this one's tokens would be.
  return message.which() == kind ? span_of<uint32_t>(tokens_of(kind, message))
                                 : std::span<const uint32_t>();
}

void permute_tokens(Kind kind, std::span<capnp::word> words, const TokenCipher& cipher) {
  const std::span<const uint32_t> tokens = tokens_in(kind, words);
  // The reader lends the bytes read-only, but they lie in `words`, which the caller lets us write.
  cipher.apply({const_cast<uint32_t*>(tokens.data()), tokens.size()});
}

}  // namespace troupe::trace
