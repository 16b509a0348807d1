#include "runtime/plugin/elf_image.h"

#include <algorithm>
#include <cstring>
#include <elf.h>

namespace troupe::plugin {
namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#endif
constexpr size_t kHeadersMax = 256;
constexpr size_t kSymbolsMax = 1 << 20;

class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  bool has(uint64_t at, uint64_t size) const {
    return at <= bytes_.size() && size <= bytes_.size() - at;
  }
  template <class T>
  bool get(uint64_t at, T& out) const {
    if (!has(at, sizeof(T))) {
      return false;
    }
    memcpy(&out, bytes_.data() + at, sizeof(T));
    return true;
  }
  /// Zero-terminated text inside [from, from + size).
  std::string text(uint64_t from, uint64_t size, uint64_t at) const {
    if (at >= size || !has(from, size)) {
      return {};
    }
    const auto* start = reinterpret_cast<const char*>(bytes_.data() + from + at);
    return std::string(start, strnlen(start, size - at));
  }

 private:
  std::span<const uint8_t> bytes_;
};

Status truncated(const char* what) {
  return Status(Code::kCorrupt, std::string("truncated: the file ends inside ") + what);
}

Status check_header(const Bytes& file, Elf64_Ehdr& header) {
  char magic[SELFMAG] = {};
  if (!file.get(0, magic) || memcmp(magic, ELFMAG, SELFMAG) != 0) {
    return Status(Code::kInvalidArgument, "not an ELF file");
  }
  if (!file.get(0, header)) {
    return truncated("the ELF header");
  }
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kMachine) {
    return Status(Code::kUnsupported, "built for another machine (ELF machine " +
                                          std::to_string(header.e_machine) + ", here " +
                                          std::to_string(kMachine) + ")");
  }
  if (header.e_type != ET_DYN) {
    return Status(Code::kInvalidArgument,
                  "not a shared library (ELF type " + std::to_string(header.e_type) + ")");
  }
  if (header.e_phnum == 0 || header.e_phnum > kHeadersMax ||
      header.e_phentsize != sizeof(Elf64_Phdr) || header.e_shnum > 4 * kHeadersMax) {
    return Status(Code::kCorrupt, "the ELF header names an impossible number of headers");
  }
  return Status::ok();
}

// Looks through one note segment. Found: *found = true.
Status find_note(const Bytes& file, uint64_t at, uint64_t size, troupe_note& note, bool& found) {
  const uint64_t end = at + size;
  while (at + sizeof(Elf64_Nhdr) <= end) {
    Elf64_Nhdr head{};
    if (!file.get(at, head)) {
      return truncated("a note");
    }
    const uint64_t name_at = at + sizeof head;
    const uint64_t name_room = (uint64_t{head.n_namesz} + 3) & ~uint64_t{3};
    const uint64_t payload_at = name_at + name_room;
    char name[sizeof TROUPE_NOTE_NAME] = {};
    if (head.n_namesz == sizeof name && file.get(name_at, name) &&
        memcmp(name, TROUPE_NOTE_NAME, sizeof name) == 0 && head.n_type == TROUPE_NOTE_TYPE) {
      if (head.n_descsz < sizeof note) {
        return Status(Code::kCorrupt, "its note holds " + std::to_string(head.n_descsz) +
                                          " bytes, at least " + std::to_string(sizeof note) +
                                          " are needed");
      }
      if (!file.get(payload_at, note)) {
        return truncated("the note");
      }
      found = true;
      return Status::ok();
    }
    at = payload_at + ((uint64_t{head.n_descsz} + 3) & ~uint64_t{3});
  }
  return Status::ok();
}

Status read_segments(const Bytes& file, const Elf64_Ehdr& header, ElfImage& image, bool& noted) {
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!file.get(header.e_phoff + i * sizeof segment, segment)) {
      return truncated("the program headers");
    }
    if (segment.p_type != PT_NOTE && segment.p_type != PT_DYNAMIC && segment.p_type != PT_LOAD) {
      image.has_tls |= segment.p_type == PT_TLS;
      image.has_executable_stack |= segment.p_type == PT_GNU_STACK && (segment.p_flags & PF_X) != 0;
      continue;
    }
    if (!file.has(segment.p_offset, segment.p_filesz)) {
      return truncated("a segment");
    }
    if (segment.p_type == PT_NOTE && !noted) {
      TROUPE_TRY(find_note(file, segment.p_offset, segment.p_filesz, image.note, noted));
    }
    if (segment.p_type == PT_DYNAMIC) {
      Elf64_Dyn entry{};
      for (uint64_t at = 0; at + sizeof entry <= segment.p_filesz; at += sizeof entry) {
        file.get(segment.p_offset + at, entry);
        image.has_text_relocations |= entry.d_tag == DT_TEXTREL ||
                                      (entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_TEXTREL));
      }
    }
  }
  return Status::ok();
}

Status read_symbols(const Bytes& file, const Elf64_Ehdr& header, ElfImage& image) {
  if (!file.has(header.e_shoff, header.e_shnum * sizeof(Elf64_Shdr))) {  // linkers put them last
    return truncated("the section headers");
  }
  for (uint64_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{};
    Elf64_Shdr strings{};
    file.get(header.e_shoff + i * sizeof section, section);
    if (section.sh_type != SHT_DYNSYM) {
      continue;
    }
    if (section.sh_link >= header.e_shnum ||
        !file.get(header.e_shoff + section.sh_link * sizeof strings, strings) ||
        !file.has(section.sh_offset, section.sh_size) ||
        section.sh_size / sizeof(Elf64_Sym) > kSymbolsMax) {
      return truncated("the dynamic symbols");
    }
    for (uint64_t at = sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= section.sh_size;
         at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      file.get(section.sh_offset + at, symbol);
      const std::string name = file.text(strings.sh_offset, strings.sh_size, symbol.st_name);
      const unsigned bind = ELF64_ST_BIND(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF) {
        image.imports.push_back(name);
      } else if (bind == STB_GNU_UNIQUE) {
        image.unique_symbols.push_back(name);
      } else if (bind != STB_LOCAL) {
        image.exports.push_back(name);
      }
    }
    return Status::ok();
  }
  return Status(Code::kInvalidArgument, "it has no dynamic symbol table to check");
}

}  // namespace

bool ElfImage::exports_symbol(const std::string& name) const {
  return std::find(exports.begin(), exports.end(), name) != exports.end();
}

Expected<ElfImage> read_elf(std::span<const uint8_t> bytes) {
  const Bytes file(bytes);
  Elf64_Ehdr header{};
  TROUPE_TRY(check_header(file, header));
  ElfImage image;
  bool noted = false;
  TROUPE_TRY(read_segments(file, header, image, noted));
  TROUPE_TRY(read_symbols(file, header, image));
  if (!noted) {
    return Status(Code::kInvalidArgument,
                  "no " TROUPE_NOTE_SECTION " note: not built by troupe_add_policy()");
  }
  if (image.note.abi_major != TROUPE_ABI_MAJOR) {
    return Status(Code::kUnsupported, "its note names ABI " + std::to_string(image.note.abi_major) +
                                          "." + std::to_string(image.note.abi_minor) +
                                          ", this host speaks " + std::to_string(TROUPE_ABI_MAJOR));
  }
  if (memchr(image.note.id, 0, sizeof image.note.id) == nullptr ||
      memchr(image.note.version, 0, sizeof image.note.version) == nullptr) {
    return Status(Code::kCorrupt, "a text field of its note does not end");
  }
  return image;
}

Status check_loadable(const ElfImage& image) {
  for (const char* entry : {TROUPE_DESCRIBE_SYMBOL, TROUPE_CREATE_SYMBOL}) {
    if (!image.exports_symbol(entry)) {
      return Status(Code::kInvalidArgument, std::string("missing symbol ") + entry);
    }
  }
  if (!image.unique_symbols.empty()) {
    return Status(Code::kInvalidArgument,
                  "UNIQUE symbol " + image.unique_symbols.front() +
                      " would keep it mapped for ever: build with -fno-gnu-unique");
  }
  if (image.has_tls) {
    return Status(Code::kInvalidArgument,
                  "thread-local data (PT_TLS) would keep it mapped for ever: remove thread_local");
  }
  if (image.has_text_relocations) {
    return Status(Code::kInvalidArgument, "text relocations: build with -fPIC");
  }
  if (image.has_executable_stack) {
    return Status(Code::kInvalidArgument, "it asks for an executable stack");
  }
  return Status::ok();
}

}  // namespace troupe::plugin
