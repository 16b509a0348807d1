#include "runtime/trace/build_id.h"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <link.h>

namespace troupe::trace {
namespace {

/// Appends the build id note of the main program as hex; dl_iterate_phdr lists that program first.
int find_build_id(dl_phdr_info* program, size_t, void* out) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) {
      continue;
    }
    const char* at = reinterpret_cast<const char*>(program->dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (end - at >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof(note));
      const char* name = at + sizeof(note);
      const char* bytes = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(name, "GNU", 4) == 0) {
        for (uint32_t b = 0; b < note.n_descsz; ++b) {
          char hex[3];
          std::snprintf(hex, sizeof(hex), "%02x", static_cast<uint8_t>(bytes[b]));
          *static_cast<std::string*>(out) += hex;
        }
        return 1;
      }
      at = bytes + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;  // only the first program is asked
}

}  // namespace

std::string program_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
#ifdef __clang__
  return "clang " __clang_version__ ", " + id;
#else
  return "gcc " __VERSION__ ", " + id;
#endif
}

}  // namespace troupe::trace
