// Cache traces that know objects, not requests: libCacheSim's oracleGeneral records and
// time,id,size CSV. Every access becomes a request of one block. Azure's arrivals CSV has requests
// without blocks.
#include "apps/trace_input/parsers.h"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

namespace troupe {
namespace {

constexpr size_t kOracleRecordBytes = 24;
constexpr int64_t kMsPerDay = 86'400'000;

class OracleReader final : public TraceReader {
 public:
  OracleReader(std::string path, BufferedInput input)
      : path_(std::move(path)), input_(std::move(input)) {}

  Expected<bool> next(TraceRequest& out) override {
    std::string_view bytes;
    Expected<bool> got = input_.record(kOracleRecordBytes, bytes);
    if (!got) {
      return Status(got.status().code(),
                    path_ + ": record " + std::to_string(record_ + 1) + ": " + got.status().text());
    }
    if (!*got) {
      return false;
    }
    uint32_t seconds = 0;
    uint64_t id = 0;
    memcpy(&seconds, bytes.data(), sizeof seconds);
    memcpy(&id, bytes.data() + 4, sizeof id);
    out.clear();
    out.line = ++record_;
    out.timestamp_ms = static_cast<double>(seconds) * 1000;
    out.block_size = 1;
    out.input_length = 1;
    out.hash_ids.push_back(id);
    return true;
  }

 private:
  std::string path_;
  BufferedInput input_;
  uint64_t record_ = 0;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '"')) {
    text.remove_suffix(1);
  }
  return text;
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  text = trimmed(text);
  const auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && next == text.data() + text.size();
}

// "2023-11-16 18:17:03.9799600" as milliseconds since 1970, by days-from-civil arithmetic.
bool parse_date_ms(std::string_view text, double& ms) {
  const std::string copy(trimmed(text));
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  double second = 0;
  if (sscanf(copy.c_str(), "%d-%d-%d%*1[ T]%d:%d:%lf", &year, &month, &day, &hour, &minute,
             &second) != 6 ||
      month < 1 || month > 12 || day < 1 || day > 31) {
    return false;
  }
  const int shifted_year = month <= 2 ? year - 1 : year;
  const int64_t era = shifted_year / 400;
  const int64_t year_of_era = shifted_year - era * 400;
  const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  const int64_t days =
      era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719468;
  ms = static_cast<double>(days * kMsPerDay + (hour * 60 + minute) * int64_t{60'000}) +
       second * 1000;
  return true;
}

class CsvReader final : public TraceReader {
 public:
  CsvReader(std::string path, BufferedInput input)
      : path_(std::move(path)), input_(std::move(input)) {}

  Expected<bool> next(TraceRequest& out) override {
    std::string_view line;
    while (!done_) {
      Expected<bool> got = input_.line(line);
      if (!got) {
        done_ = true;
        return got.status();
      }
      if (!*got) {
        done_ = true;
        break;
      }
      ++line_;
      if (line.empty()) {
        continue;
      }
      if (line_ == 1 && take_header(line)) {
        continue;
      }
      out.clear();
      out.line = line_;
      const Status status = azure_ ? azure_row(line, out) : object_row(line, out);
      if (!status) {
        done_ = true;
        return Status(status.code(), path_ + ":" + std::to_string(line_) + ": " + status.text());
      }
      return true;
    }
    return false;
  }

 private:
  bool take_header(std::string_view line) {
    azure_ = line.find("ContextTokens") != std::string_view::npos;
    return line.find_first_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") !=
           std::string_view::npos;
  }

  static std::vector<std::string_view> cells(std::string_view line) {
    std::vector<std::string_view> out;
    size_t from = 0;
    for (;;) {
      const size_t comma = line.find(',', from);
      out.push_back(line.substr(from, comma == std::string_view::npos ? comma : comma - from));
      if (comma == std::string_view::npos) {
        return out;
      }
      from = comma + 1;
    }
  }

  Status azure_row(std::string_view line, TraceRequest& out) {
    const auto c = cells(line);
    double ms = 0;
    if (c.size() < 3 || !parse_date_ms(c[0], ms) || !parse_number(c[1], out.input_length) ||
        !parse_number(c[2], out.output_length)) {
      return Status(Code::kInvalidArgument,
                    "expected TIMESTAMP,ContextTokens,GeneratedTokens, got '" +
                        std::string(line.substr(0, 60)) + "'");
    }
    if (out.input_length < 0 || out.output_length < 0) {
      return Status(Code::kOutOfRange, "a token count is negative");
    }
    if (!started_) {
      started_ = true;
      start_ms_ = ms;
    }
    out.timestamp_ms = ms - start_ms_;
    return Status::ok();
  }

  // libCacheSim's default column order; the size column may be missing.
  Status object_row(std::string_view line, TraceRequest& out) {
    const auto c = cells(line);
    double seconds = 0;
    uint64_t id = 0;
    if (c.size() < 2 || !parse_number(c[0], seconds) || !parse_number(c[1], id)) {
      return Status(Code::kInvalidArgument, "expected time,id[,size] with whole-number ids, got '" +
                                                std::string(line.substr(0, 60)) + "'");
    }
    out.timestamp_ms = seconds * 1000;
    out.block_size = 1;
    out.input_length = 1;
    out.hash_ids.push_back(id);
    return Status::ok();
  }

  std::string path_;
  BufferedInput input_;
  uint64_t line_ = 0;
  double start_ms_ = 0;
  bool started_ = false;
  bool azure_ = false;
  bool done_ = false;
};

}  // namespace

std::unique_ptr<TraceReader> make_csv_reader(std::string path, BufferedInput input) {
  return std::make_unique<CsvReader>(std::move(path), std::move(input));
}

std::unique_ptr<TraceReader> make_oracle_reader(std::string path, BufferedInput input) {
  return std::make_unique<OracleReader>(std::move(path), std::move(input));
}

}  // namespace troupe
