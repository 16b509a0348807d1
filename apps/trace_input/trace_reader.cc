#include "apps/trace_input/trace_reader.h"

#include "apps/trace_input/parsers.h"

namespace troupe {
namespace {

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

TraceFormat guess_format(std::string_view path) {
  if (ends_with(path, ".zst")) {
    path.remove_suffix(4);
  }
  if (ends_with(path, ".jsonl") || ends_with(path, ".json")) {
    return TraceFormat::kJsonl;
  }
  if (ends_with(path, ".csv")) {
    return TraceFormat::kCsv;
  }
  if (ends_with(path, ".oracleGeneral") || ends_with(path, ".oracleGeneral.bin")) {
    return TraceFormat::kOracleGeneral;
  }
  return TraceFormat::kAuto;
}

}  // namespace

void TraceRequest::clear() {
  timestamp_ms = 0;
  input_length = 0;
  output_length = 0;
  session_id = -1;
  block_size = 512;
  hash_ids.clear();
  request_id = -1;
  parent = -1;
  pause_ms = -1;
  tenant.clear();
  hints.clear();
  tokens.clear();
  line = 0;
}

Expected<std::unique_ptr<TraceReader>> TraceReader::open(const std::string& path,
                                                         TraceFormat format) {
  if (format == TraceFormat::kAuto) {
    format = guess_format(path);
  }
  if (format == TraceFormat::kAuto) {
    return Status(Code::kUnsupported,
                  path +
                      ": the name does not say what it is; known are .jsonl, .csv and "
                      ".oracleGeneral, each also with .zst");
  }
  Expected<std::unique_ptr<ByteSource>> source = ByteSource::open(path);
  if (!source) {
    return source.status();
  }
  BufferedInput input(std::move(source).value());
  switch (format) {
    case TraceFormat::kCsv:
      return make_csv_reader(path, std::move(input));
    case TraceFormat::kOracleGeneral:
      return make_oracle_reader(path, std::move(input));
    case TraceFormat::kJsonl:
    case TraceFormat::kAuto:
      break;
  }
  return make_jsonl_reader(path, std::move(input));
}

}  // namespace troupe
