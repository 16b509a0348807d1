#include "tests/tidy/rules.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace troupe::tidy {
namespace {

bool starts(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}
bool ends(std::string_view text, std::string_view with) {
  return text.size() >= with.size() && text.substr(text.size() - with.size()) == with;
}
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Calls f(line number, line) for each line.
template <class F>
void each_line(std::string_view text, F f) {
  size_t number = 1;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    f(number++, text.substr(0, end));
    if (end == std::string_view::npos) {
      return;
    }
    text.remove_prefix(end + 1);
  }
}

size_t columns(std::string_view line) {  // UTF-8: continuation bytes take none
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// Whether `word` stands in `line` and not inside a longer name. A word that ends in ( is a call:
/// not a member of something (x.time() is its own business) unless written std:: or ::.
bool has_word(std::string_view line, std::string_view word) {
  for (size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1)) {
    const char before = at == 0 ? ' ' : line[at - 1];
    const size_t end = at + word.size();
    const char after = end < line.size() ? line[end] : ' ';
    const bool call = word.back() == '(';
    const bool member = before == '.' || (before == '>' && at > 1 && line[at - 2] == '-');
    if (!is_word(before) && (call ? !member : !is_word(after))) {
      return true;
    }
  }
  return false;
}

struct Ban {
  std::string_view word;
  std::string_view instead;
};

constexpr std::array kDeterministicBans = {
    Ban{"std::chrono", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"steady_clock", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"system_clock", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"clock_gettime", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"gettimeofday", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"time(", "the tick that the message carries (runtime/base/tick.h)"},
    Ban{"rand(", "an Rng in the state (runtime/base/rng.h)"},
    Ban{"random_device", "an Rng in the state (runtime/base/rng.h)"},
    Ban{"mt19937", "an Rng in the state (runtime/base/rng.h)"},
    Ban{"getrandom", "an Rng in the state (runtime/base/rng.h)"},
    Ban{"std::thread", "a message to a mover"},
    Ban{"std::jthread", "a message to a mover"},
    Ban{"std::async", "a message to a mover"},
    Ban{"std::future", "a row in state with a deadline"},
    Ban{"std::mutex", "state of one actor: step runs serially"},
    Ban{"std::lock_guard", "state of one actor: step runs serially"},
    Ban{"std::atomic", "state of one actor: step runs serially"},
    Ban{"condition_variable", "a row in state that a message wakes"},
    Ban{"thread_local", "a member of the core"},
    Ban{"std::ifstream", "a message to a mover"},
    Ban{"std::ofstream", "a message to a mover"},
    Ban{"std::fstream", "a message to a mover"},
    Ban{"fopen(", "a message to a mover"},
    Ban{"mmap(", "a message to a mover"},
    Ban{"getenv(", "a field of the core's configuration"},
    Ban{"std::filesystem", "a message to a mover"},
    Ban{"unordered_map",
        "std::map, or a vector indexed by the dense id: order may reach a message"},
    Ban{"unordered_set", "std::set, or a bit per dense id: order may reach a message"},
    Ban{"std::hash", "a key made at the ingress, or mix64"},
    Ban{"uintptr_t", "an id: addresses differ between runs"},
};

/// In actors and built-in policies; the ABI passes parameters as numbers.
constexpr std::array kDecisionBans = {
    Ban{"float", "int64 or fixed point: sums of floats differ between builds"},
    Ban{"double", "int64 or fixed point: sums of floats differ between builds"},
};

constexpr std::array kEverywhereBans = {
    Ban{"using namespace std", "the names you need, with std::"},
    Ban{"std::rand", "Rng (runtime/base/rng.h)"},
    Ban{"strcpy(", "std::string or memcpy with a length"},
    Ban{"sprintf(", "snprintf or std::to_string"},
    Ban{"sleep_for", "an event or a message: nothing here waits by the clock"},
    Ban{"std::endl", "\"\\n\""},
    Ban{"reinterpret_pointer_cast", "a type of its own"},
};

/// Whether a line opens a function body at `indent`, as clang-format writes it.
bool opens_function(std::string_view line, size_t indent) {
  if (line.size() <= indent || !ends(line, "{") || line.find_first_not_of(' ') != indent) {
    return false;
  }
  const std::string_view body = line.substr(indent);
  for (const std::string_view other :
       {"namespace", "class ", "struct ", "enum ", "union ", "extern ", "static const", "if ",
        "for ", "while ", "switch ", "else", "do ", "{", "}", "template", "const auto",
        "constexpr std::array"}) {
    if (starts(body, other)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_cpp(std::string_view path) {
  for (const std::string_view end : {".h", ".cc", ".c", ".cu", ".cuh"}) {
    if (ends(path, end)) {
      return true;
    }
  }
  return false;
}

std::string code_only(std::string_view text) {
  std::string out(text);
  enum class In { kCode, kLine, kBlock, kText, kChar } in = In::kCode;
  for (size_t i = 0; i < out.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    switch (in) {
      case In::kCode:
        if (c == '/' && (next == '/' || next == '*')) {
          in = next == '/' ? In::kLine : In::kBlock;
          out[i] = out[i + 1] = ' ';
          ++i;
        } else if (c == '"' && i > 0 && text[i - 1] == 'R') {
          const size_t open = text.find('(', i);
          const std::string end = ")" + std::string(text.substr(i + 1, open - i - 1)) + "\"";
          const size_t close = std::min(text.find(end, open), text.size());
          for (; i < close; ++i) {
            out[i] = out[i] == '\n' ? '\n' : ' ';
          }
          i += end.size() - 1;
        } else if (c == '"') {
          in = In::kText;
        } else if (c == '\'' && (i == 0 || !is_word(text[i - 1]))) {  // 1'000 is a number
          in = In::kChar;
        }
        break;
      case In::kLine:
        in = c == '\n' ? In::kCode : In::kLine;
        out[i] = c == '\n' ? '\n' : ' ';
        break;
      case In::kBlock:
        out[i] = c == '\n' ? '\n' : ' ';
        if (c == '*' && next == '/') {
          out[++i] = ' ';
          in = In::kCode;
        }
        break;
      case In::kText:
      case In::kChar:
        if (c == '\\') {
          out[i] = ' ';
          out[++i] = ' ';
        } else if (c == (in == In::kText ? '"' : '\'')) {
          in = In::kCode;
        } else {
          out[i] = c == '\n' ? '\n' : ' ';
        }
        break;
    }
  }
  return out;
}

void check_size(const Source& source, Violations& out) {
  const auto lines = static_cast<size_t>(std::count(source.text.begin(), source.text.end(), '\n'));
  if (lines > kFileLinesMax) {
    out.push_back({source.path, 0,
                   std::to_string(lines) + " lines, the limit is " + std::to_string(kFileLinesMax) +
                       ": one idea a file, split it"});
  }
}

void check_columns(const Source& source, Violations& out) {
  each_line(source.text, [&](size_t number, std::string_view line) {
    const size_t wide = columns(line);
    if (wide > kColumnsMax && line.find("://") == std::string_view::npos) {
      out.push_back(
          {source.path, number,
           std::to_string(wide) + " columns, the limit is " + std::to_string(kColumnsMax)});
    }
  });
}

void check_function_lengths(const Source& source, Violations& out) {
  const std::string code = code_only(source.text);
  for (const size_t indent : {size_t{0}, size_t{2}}) {
    const std::string close = std::string(indent, ' ') + "}";
    size_t opened = 0;
    size_t rows = 0;  // of tables inside: data is no logic
    bool in_table = false;
    each_line(code, [&](size_t number, std::string_view line) {
      if (opened == 0 && opens_function(line, indent)) {
        opened = number;
        rows = 0;
      } else if (opened != 0 && starts(line, close)) {
        const size_t lines = number - opened - 1 - rows;  // between the braces
        if (lines > kFunctionLinesMax) {
          out.push_back({source.path, opened,
                         "a function of " + std::to_string(lines) + " lines, the limit is " +
                             std::to_string(kFunctionLinesMax) + ": name its parts"});
        }
        opened = 0;
      } else if (in_table || ends(line, "= {")) {
        ++rows;
        in_table = !ends(line, "};");
      }
    });
  }
}

void check_characters(const Source& source, Violations& out) {
  each_line(source.text, [&](size_t number, std::string_view line) {
    for (const char c : line) {
      if (c == '\t' || c == '\r' || (static_cast<unsigned char>(c) < 0x20)) {
        out.push_back(
            {source.path, number, "a tab or control character: write blanks or an escape"});
        break;
      }
    }
    if (!line.empty() && line.back() == ' ') {
      out.push_back({source.path, number, "blanks at the end of the line"});
    }
  });
  if (!source.text.empty() && source.text.back() != '\n') {
    out.push_back({source.path, 0, "the last line has no end"});
  }
}

void check_header_form(const Source& source, Violations& out) {
  if (!ends(source.path, ".h") && !ends(source.path, ".cuh")) {
    return;
  }
  const bool c_header = starts(source.path, "policies/abi/");
  if (!starts(source.text, "//") && !starts(source.text, "/*")) {
    out.push_back({source.path, 1, "no comment at the top: say what it is and where it sits"});
  }
  // Highway's -inl.h files are included once for each SIMD target.
  const bool repeated = ends(source.path, "-inl.h");
  if (!c_header && !repeated && source.text.find("#pragma once\n") == std::string::npos) {
    out.push_back({source.path, 0, "no #pragma once"});
  }
}

void check_everywhere_bans(const Source& source, Violations& out) {
  const std::string code = code_only(source.text);
  each_line(code, [&](size_t number, std::string_view line) {
    for (const Ban& ban : kEverywhereBans) {
      if (has_word(line, ban.word)) {
        out.push_back(
            {source.path, number, std::string(ban.word) + ": use " + std::string(ban.instead)});
      }
    }
  });
  constexpr std::array kMarks = {std::string_view("FIX"), std::string_view("TO")};
  each_line(source.text, [&](size_t number, std::string_view line) {
    if (has_word(line, std::string(kMarks[0]) + "ME") ||
        has_word(line, std::string(kMarks[1]) + "DO")) {
      out.push_back(
          {source.path, number, "an open end: finish it, or file an issue and say its number"});
    }
  });
}

void check_deterministic_bans(const Source& source, Violations& out) {
  const bool core = starts(source.path, "actors/") && !starts(source.path, "actors/movers/");
  // The process that checks plug-ins times them; it is no policy.
  const bool policy = starts(source.path, "policies/") && !starts(source.path, "policies/check/");
  if (!core && !policy) {
    return;
  }
  const bool decides = core || starts(source.path, "policies/builtin/");
  each_line(code_only(source.text), [&](size_t number, std::string_view line) {
    const auto banned = [&](const Ban& ban) {
      if (has_word(line, ban.word)) {
        out.push_back({source.path, number,
                       std::string(ban.word) + " in a deterministic folder: use " +
                           std::string(ban.instead)});
      }
    };
    std::for_each(kDeterministicBans.begin(), kDeterministicBans.end(), banned);
    if (decides) {
      std::for_each(kDecisionBans.begin(), kDecisionBans.end(), banned);
    }
    for (const std::string_view keyed : {"std::map<", "std::set<"}) {
      const size_t at = line.find(keyed);
      const size_t key_end = at == std::string_view::npos ? at : line.find_first_of(",>", at);
      if (key_end != std::string_view::npos && line[key_end - 1] == '*') {
        out.push_back({source.path, number, "a container keyed by address: key it by an id"});
      }
    }
  });
}

void check_readme(const Source& source, Violations& out) {
  if (!ends(source.path, "/README.md")) {
    return;
  }
  const auto lines = static_cast<size_t>(std::count(source.text.begin(), source.text.end(), '\n'));
  if (lines > kReadmeLinesMax) {
    out.push_back({source.path, 0,
                   std::to_string(lines) + " lines, a folder's README has at most " +
                       std::to_string(kReadmeLinesMax)});
  }
}

}  // namespace troupe::tidy
