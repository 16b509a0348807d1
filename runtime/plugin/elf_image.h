// What an ELF file says about itself, read as plain bytes: the note of a policy, what it exports
// and imports, and the properties that make a library unsafe to swap. Nothing of the file is
// executed or mapped, and every offset is checked, since the file is not trusted yet.
#pragma once

#include "policies/abi/troupe_policy.h"
#include "runtime/base/status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::plugin {

struct ElfImage {
  troupe_note note{};
  std::vector<std::string> exports;         // defined global and weak symbols
  std::vector<std::string> imports;         // undefined ones, versions cut off
  std::vector<std::string> unique_symbols;  // STB_GNU_UNIQUE: keep the library mapped for ever
  bool has_tls = false;                     // PT_TLS: thread_local data keeps it mapped, too
  bool has_text_relocations = false;
  bool has_executable_stack = false;
  bool exports_symbol(const std::string& name) const;
};

/// Reads `bytes` [a whole file]. Errors, all with the reason: not ELF, truncated, not a shared
/// library of this machine, no note, a note of another ABI.
Expected<ElfImage> read_elf(std::span<const uint8_t> bytes);

/// The rules that a loader insists on: note and ABI (checked by read_elf), both entry points, no
/// UNIQUE symbols, no thread-local data, no text relocations, no executable stack.
Status check_loadable(const ElfImage& image);

}  // namespace troupe::plugin
