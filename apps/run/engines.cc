#include "apps/run/engines.h"

#include <toml++/toml.h>

#include <algorithm>

namespace troupe {
namespace {

constexpr char kTable[] =
#include "engines_toml.inc"
    ;

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

/// The row of `section` named `name`; an error lists the names.
Expected<const toml::table*> row(const toml::table& root, const char* section,
                                 std::string_view name) {
  std::string known;
  for (const auto& [key, node] : *root[section].as_table()) {
    if (lower(key.str()) == lower(name)) {
      return node.as_table();
    }
    known += std::string(known.empty() ? "" : ", ") + std::string(key.str());
  }
  return Status(Code::kNotFound, "engine data: \"" + std::string(name) + "\" is none of the " +
                                     section + " " + known);
}

double number(const toml::table& table, const char* key) {
  const auto value = table[key].value<double>();
  TROUPE_ASSERT(value.has_value());  // the table is compiled in and read by a test
  return *value;
}

}  // namespace

Expected<EngineFacts> find_engine(std::string_view gpu, std::string_view model,
                                  double kv_bytes_per_token) {
  const toml::table root = toml::parse(std::string_view(kTable));
  const auto g = row(root, "gpus", gpu);
  if (!g) {
    return g.status();
  }
  const auto m = row(root, "models", model);
  if (!m) {
    return m.status();
  }
  EngineFacts facts;
  facts.gpu = std::string(gpu);
  facts.model = std::string(model);
  facts.flops = number(**g, "flops");
  facts.memory_bytes_per_s = number(**g, "memory_bytes_per_s");
  facts.link_bytes_per_s = number(**g, "link_bytes_per_s");
  facts.parameters = number(**m, "parameters");
  facts.active_parameters = number(**m, "active_parameters");
  facts.layers = static_cast<uint32_t>(number(**m, "layers"));
  facts.heads = static_cast<uint32_t>(number(**m, "heads"));
  facts.head_dim = static_cast<uint32_t>(number(**m, "head_dim"));
  facts.kv_bytes_per_token = kv_bytes_per_token;
  return facts;
}

}  // namespace troupe
