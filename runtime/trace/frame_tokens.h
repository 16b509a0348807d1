// Which messages carry token values, and where: the only text in a lane, so it is permuted before
// it is hashed or written. A new field with tokens must be named here (tests/trace walks the schema
// for it).
#pragma once

#include "runtime/core/frame.h"
#include "runtime/trace/token_cipher.h"

#include <span>

namespace troupe::trace {

/// Whether messages of this kind may carry tokens.
bool carries_tokens(Kind kind) noexcept;

/// The tokens in a message, in place; empty when it has none. `words` must be well-formed.
std::span<const uint32_t> tokens_in(Kind kind, std::span<const capnp::word> words);

/// Permutes the tokens of one message in place. `words` must be well-formed.
void permute_tokens(Kind kind, std::span<capnp::word> words, const TokenCipher& cipher);

}  // namespace troupe::trace
