// One JSON object a line. A small parser of its own: the ids of a request are most of the bytes,
// and reading them straight into the vector is several times faster than a document tree.
#include "apps/trace_input/parsers.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace troupe {
namespace {

constexpr int kNestingMax = 32;
constexpr double kLengthMax = 1e12;
constexpr double kTimeMaxMs = 1e15;

std::string excerpt(std::string_view text) {
  constexpr size_t kShown = 40;
  std::string out(1, '\'');
  for (const char c : text.substr(0, kShown)) {  // a file of anything must not reach a terminal
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  out += text.size() > kShown ? "…'" : "'";
  return out;
}

class LineParser {
 public:
  LineParser(std::string_view line, TraceRequest& out)
      : p_(line.data()), end_(line.data() + line.size()), out_(out) {}

  Status parse() {
    if (!eat('{')) {
      return bad("a request line must be a JSON object and start with '{'");
    }
    if (!eat('}')) {
      do {
        std::string key;
        TROUPE_TRY(string(key));
        if (!eat(':')) {
          return bad("no ':' after \"" + key + "\"");
        }
        TROUPE_TRY(field(key));
      } while (eat(','));
      if (!eat('}')) {
        return bad("expected ',' or '}'");
      }
    }
    skip_space();
    return p_ == end_ ? Status::ok() : bad("text after the object");
  }

 private:
  Status bad(const std::string& what) const {
    return Status(Code::kInvalidArgument,
                  what + " at " +
                      (p_ == end_ ? std::string("the end of the line")
                                  : excerpt(std::string_view(p_, static_cast<size_t>(end_ - p_)))));
  }
  void skip_space() {
    while (p_ != end_ && (*p_ == ' ' || *p_ == '\t')) {
      ++p_;
    }
  }
  bool eat(char c) {
    skip_space();
    if (p_ != end_ && *p_ == c) {
      ++p_;
      return true;
    }
    return false;
  }

  Status field(const std::string& key) {
    if (key == "hash_ids") {
      return ids(key, out_.hash_ids, std::numeric_limits<int64_t>::max());
    }
    if (key == "tokens") {
      return ids(key, out_.tokens, std::numeric_limits<uint32_t>::max());
    }
    if (key == "timestamp") {
      return number(key, 0, kTimeMaxMs, out_.timestamp_ms);
    }
    if (key == "pause_ms") {
      return number(key, 0, kTimeMaxMs, out_.pause_ms);
    }
    if (key == "input_length") {
      return integer(key, 0, out_.input_length);
    }
    if (key == "output_length") {
      return integer(key, 0, out_.output_length);
    }
    if (key == "session_id") {
      return integer(key, -1, out_.session_id);
    }
    if (key == "request_id") {
      return integer(key, -1, out_.request_id);
    }
    if (key == "parent") {
      return integer(key, -1, out_.parent);
    }
    if (key == "block_size") {
      int64_t size = 0;
      TROUPE_TRY(integer(key, 1, size));
      if (size > 1 << 20) {
        return Status(Code::kOutOfRange,
                      "block_size is " + std::to_string(size) + ", the limit is 1048576 tokens");
      }
      out_.block_size = static_cast<uint32_t>(size);
      return Status::ok();
    }
    if (key == "tenant") {
      return string(out_.tenant);
    }
    if (key == "hints") {
      return string(out_.hints);
    }
    return skip_value(0);
  }

  Status number(const std::string& key, double low, double high, double& value) {
    skip_space();
    const auto [next, error] = std::from_chars(p_, end_, value);
    if (error != std::errc() || !std::isfinite(value)) {
      return bad(key + " must be a number");
    }
    if (value < low || value > high) {
      return bad(key + " is outside " + std::to_string(low) + " … " + std::to_string(high));
    }
    p_ = next;
    return Status::ok();
  }

  // Lengths may be written as 12 or 12.0; 12.5 tokens are an error.
  Status integer(const std::string& key, int64_t low, int64_t& value) {
    skip_space();
    const char* start = p_;
    double wide = 0;
    TROUPE_TRY(number(key, -kLengthMax, kLengthMax, wide));
    const auto [next, error] = std::from_chars(start, end_, value);
    if (error != std::errc() || next != p_) {
      if (wide != std::floor(wide)) {
        p_ = start;
        return bad(key + " must be a whole number");
      }
      value = static_cast<int64_t>(wide);
    }
    if (value < low) {
      p_ = start;
      return bad(key + " is " + std::to_string(value) + ", the least is " + std::to_string(low));
    }
    return Status::ok();
  }

  template <class T>
  Status ids(const std::string& key, std::vector<T>& to, int64_t limit) {
    to.clear();
    if (!eat('[')) {
      return bad(key + " must be a list");
    }
    if (eat(']')) {
      return Status::ok();
    }
    do {
      skip_space();
      uint64_t value = 0;
      const auto [next, error] = std::from_chars(p_, end_, value);
      if (error != std::errc() ||
          (next != end_ && (*next == '.' || *next == 'e' || *next == 'E'))) {
        return bad(key + "[" + std::to_string(to.size()) + "] must be a whole number from 0 up");
      }
      if (value > static_cast<uint64_t>(limit)) {
        return bad(key + "[" + std::to_string(to.size()) + "] is above " + std::to_string(limit));
      }
      p_ = next;
      to.push_back(static_cast<T>(value));
    } while (eat(','));
    return eat(']') ? Status::ok() : bad("expected ',' or ']' in " + key);
  }

  Status string(std::string& to) {
    to.clear();
    if (!eat('"')) {
      return bad("expected a string");
    }
    while (p_ != end_ && *p_ != '"') {
      if (static_cast<unsigned char>(*p_) < 0x20) {
        return bad("control character in a string");
      }
      if (*p_ != '\\') {
        to.push_back(*p_++);
        continue;
      }
      TROUPE_TRY(escape(to));
    }
    return eat('"') ? Status::ok() : bad("a string does not end");
  }

  Status escape(std::string& to) {
    ++p_;
    if (p_ == end_) {
      return bad("a string ends in a backslash");
    }
    const char c = *p_++;
    switch (c) {
      case '"':
      case '\\':
      case '/':
        to.push_back(c);
        return Status::ok();
      case 'b':
        to.push_back('\b');
        return Status::ok();
      case 'f':
        to.push_back('\f');
        return Status::ok();
      case 'n':
        to.push_back('\n');
        return Status::ok();
      case 'r':
        to.push_back('\r');
        return Status::ok();
      case 't':
        to.push_back('\t');
        return Status::ok();
      case 'u':
        return unicode(to);
      default:
        return bad("unknown escape in a string");
    }
  }

  Status unicode(std::string& to) {
    uint32_t code = 0;
    TROUPE_TRY(hex4(code));
    if (code >= 0xD800 && code < 0xDC00 && end_ - p_ >= 6 && p_[0] == '\\' && p_[1] == 'u') {
      p_ += 2;
      uint32_t low = 0;
      TROUPE_TRY(hex4(low));
      if (low < 0xDC00 || low > 0xDFFF) {
        return bad("a surrogate pair is broken");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    const auto put = [&to](uint32_t byte) { to.push_back(static_cast<char>(byte)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xC0 | (code >> 6));
      put(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      put(0xE0 | (code >> 12));
      put(0x80 | ((code >> 6) & 0x3F));
      put(0x80 | (code & 0x3F));
    } else {
      put(0xF0 | (code >> 18));
      put(0x80 | ((code >> 12) & 0x3F));
      put(0x80 | ((code >> 6) & 0x3F));
      put(0x80 | (code & 0x3F));
    }
    return Status::ok();
  }

  Status hex4(uint32_t& code) {
    if (end_ - p_ < 4) {
      return bad("\\u needs four hex digits");
    }
    const auto [next, error] = std::from_chars(p_, p_ + 4, code, 16);
    if (error != std::errc() || next != p_ + 4) {
      return bad("\\u needs four hex digits");
    }
    p_ = next;
    return Status::ok();
  }

  // Fields that we do not know are allowed: published traces add their own.
  Status skip_value(int depth) {
    skip_space();
    if (depth > kNestingMax) {
      return bad("nested deeper than " + std::to_string(kNestingMax));
    }
    if (p_ == end_) {
      return bad("a value is missing");
    }
    std::string ignored;
    if (*p_ == '"') {
      return string(ignored);
    }
    if (*p_ == '{' || *p_ == '[') {
      const bool object = *p_ == '{';
      const char close = object ? '}' : ']';
      ++p_;
      if (eat(close)) {
        return Status::ok();
      }
      do {
        if (object) {
          TROUPE_TRY(string(ignored));
          if (!eat(':')) {
            return bad("expected ':'");
          }
        }
        TROUPE_TRY(skip_value(depth + 1));
      } while (eat(','));
      return eat(close) ? Status::ok() : bad("a list or object does not end");
    }
    for (const std::string_view word : {"true", "false", "null"}) {
      if (std::string_view(p_, static_cast<size_t>(end_ - p_)).substr(0, word.size()) == word) {
        p_ += word.size();
        return Status::ok();
      }
    }
    double value = 0;
    const auto [next, error] = std::from_chars(p_, end_, value);
    if (error != std::errc()) {
      return bad("unreadable value");
    }
    p_ = next;
    return Status::ok();
  }

  const char* p_;
  const char* end_;
  TraceRequest& out_;
};

class JsonlReader final : public TraceReader {
 public:
  JsonlReader(std::string path, BufferedInput input)
      : path_(std::move(path)), input_(std::move(input)) {}

  Expected<bool> next(TraceRequest& out) override {
    std::string_view line;
    while (!done_) {
      ++line_;
      Expected<bool> got = input_.line(line);
      if (!got) {
        done_ = true;
        return Status(got.status().code(), where() + got.status().text());
      }
      if (!*got) {
        done_ = true;
        break;
      }
      if (line.find_first_not_of(" \t") == std::string_view::npos) {
        continue;
      }
      out.clear();
      out.line = line_;
      const Status status = parse_jsonl_line(line, out);
      if (!status) {
        done_ = true;
        return Status(status.code(), where() + status.text());
      }
      return true;
    }
    return false;
  }

 private:
  std::string where() const { return path_ + ":" + std::to_string(line_) + ": "; }
  std::string path_;
  BufferedInput input_;
  uint64_t line_ = 0;
  bool done_ = false;
};

}  // namespace

Status parse_jsonl_line(std::string_view line, TraceRequest& out) {
  return LineParser(line, out).parse();
}

std::unique_ptr<TraceReader> make_jsonl_reader(std::string path, BufferedInput input) {
  return std::make_unique<JsonlReader>(std::move(path), std::move(input));
}

}  // namespace troupe
