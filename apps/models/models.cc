#include "apps/models/models.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace troupe {
namespace {

constexpr std::string_view kModelsToml =
#include "models_toml.inc"
    ;

/// Reads one table and remembers which keys it asked for, so that the rest can be called unknown.
class Table {
 public:
  Table(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  Status text(const char* key, std::string& out) {
    known_.insert(key);
    const toml::node* node = table_.get(key);
    const auto value = node != nullptr ? node->value_exact<std::string>() : std::nullopt;
    if (!value || value->empty()) {
      return error(node, std::string(key) + " must be a text that is not empty");
    }
    out = *value;
    return Status::ok();
  }
  template <class T>
  Status number(const char* key, T& out) {
    known_.insert(key);
    const toml::node* node = table_.get(key);
    const auto value = node != nullptr ? node->value_exact<int64_t>() : std::nullopt;
    constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
    if (!value || *value < 1 || *value > kMost) {
      return error(node, std::string(key) + (value ? " " + std::to_string(*value) : "") +
                             " must be a whole number in 1 … " + std::to_string(kMost));
    }
    out = static_cast<T>(*value);
    return Status::ok();
  }
  const toml::array* tables(const char* key) {
    known_.insert(key);
    const toml::array* array = table_[key].as_array();
    return array != nullptr && !array->empty() && array->is_array_of_tables() ? array : nullptr;
  }
  Status error(const toml::node* node, const std::string& what) const {
    const auto line = (node != nullptr ? node : &table_)->source().begin.line;
    return {Code::kInvalidArgument, where_ + ", line " + std::to_string(line) + ": " + what};
  }
  Status no_unknown_keys() const {
    for (const auto& [key, node] : table_) {
      if (known_.count(std::string(key.str())) == 0) {
        return error(&node, "unknown key " + std::string(key.str()));
      }
    }
    return Status::ok();
  }

 private:
  const toml::table& table_;
  std::string where_;
  std::set<std::string> known_;
};

Status read_group(const toml::table& toml, const std::string& where, Format dtype,
                  std::vector<LayerGroup>& out) {
  Table table(toml, where);
  std::string name;
  std::string attention_text;
  uint32_t layers = 0;
  TROUPE_TRY(table.text("name", name));
  TROUPE_TRY(table.text("attention", attention_text));
  TROUPE_TRY(table.number("layers", layers));
  const Expected<Attention> attention = parse_attention(attention_text);
  if (!attention) {
    return table.error(toml.get("attention"), attention.status().text());
  }
  if (*attention == Attention::kRecurrent) {
    return table.error(toml.get("attention"), "recurrent groups have no table form yet");
  }
  if (*attention == Attention::kMla) {
    uint32_t latent = 0;
    uint32_t rope = 0;
    TROUPE_TRY(table.number("latent", latent));
    TROUPE_TRY(table.number("rope", rope));
    out.push_back(mla_group(name, layers, latent, rope, dtype));
    return table.no_unknown_keys();
  }
  AttentionShape shape{.layers = layers, .kv_heads = 0, .head_dim = 0, .dtype = dtype};
  uint32_t window = 0;
  TROUPE_TRY(table.number("kv_heads", shape.kv_heads));
  TROUPE_TRY(table.number("head_dim", shape.head_dim));
  if (*attention == Attention::kSlidingWindow) {
    TROUPE_TRY(table.number("window", window));
  }
  out.push_back(attention_group(name, *attention, shape, window));
  return table.no_unknown_keys();
}

Status read_model(const toml::table& toml, const std::string& where, ModelEntry& out) {
  Table table(toml, where);
  std::string dtype;
  TROUPE_TRY(table.text("name", out.name));
  TROUPE_TRY(table.text("source", out.source));
  TROUPE_TRY(table.text("dtype", dtype));
  TROUPE_TRY(table.number("context", out.context_tokens));
  const Expected<Format> format = parse_format(dtype);
  if (!format) {
    return table.error(toml.get("dtype"), format.status().text());
  }
  out.dtype = *format;
  const toml::array* groups = table.tables("group");
  if (groups == nullptr) {
    return table.error(nullptr, "model " + out.name + " has no [[model.group]]");
  }
  for (const toml::node& node : *groups) {
    TROUPE_TRY(read_group(*node.as_table(), where, out.dtype, out.groups));
  }
  TROUPE_TRY(table.no_unknown_keys());
  const Status valid = validate(layout_of(out, 16));
  return valid ? valid : table.error(nullptr, "model " + out.name + ": " + valid.text());
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](char c) {
    return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  });
  return out;
}

}  // namespace

Expected<std::vector<ModelEntry>> parse_models(std::string_view toml, const std::string& name) {
  toml::table root;
  try {
    root = toml::parse(toml, name);
  } catch (const toml::parse_error& e) {
    return {Code::kInvalidArgument, name + ", line " + std::to_string(e.source().begin.line) +
                                        ": " + std::string(e.description())};
  }
  Table table(root, name);
  const toml::array* models = table.tables("model");
  if (models == nullptr) {
    return {Code::kInvalidArgument, name + ": no [[model]]"};
  }
  TROUPE_TRY(table.no_unknown_keys());
  std::vector<ModelEntry> out;
  for (const toml::node& node : *models) {
    ModelEntry entry;
    TROUPE_TRY(read_model(*node.as_table(), name, entry));
    for (const ModelEntry& other : out) {
      if (lower(other.name) == lower(entry.name)) {
        return {Code::kInvalidArgument, name + ": model " + entry.name + " stands there twice"};
      }
    }
    out.push_back(std::move(entry));
  }
  return out;
}

const std::vector<ModelEntry>& known_models() {
  static const std::vector<ModelEntry> models = [] {
    Expected<std::vector<ModelEntry>> parsed = parse_models(kModelsToml, "configs/models.toml");
    TROUPE_ASSERT(parsed.is_ok());
    return std::move(parsed).value();
  }();
  return models;
}

Expected<std::vector<ModelEntry>> read_models(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return {Code::kNotFound, "cannot open the model table " + path};
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_models(text.str(), path);
}

Expected<ModelEntry> find_model(const std::vector<ModelEntry>& models, std::string_view name) {
  std::string names;
  for (const ModelEntry& model : models) {
    if (lower(model.name) == lower(name)) {
      return model;
    }
    names += " " + model.name;
  }
  return {Code::kNotFound, "model \"" + std::string(name) + "\" is none of:" + names};
}

KvLayout layout_of(const ModelEntry& model, uint32_t block_tokens) {
  return {.model = model.name,
          .revision = {},
          .block_tokens = block_tokens,
          .keys_before_rope = false,
          .groups = model.groups,
          .shard = {}};
}

}  // namespace troupe
