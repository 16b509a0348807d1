// The table of well-known models as layouts. Data: configs/models.toml, compiled in.
#pragma once

#include "runtime/layout/layout.h"

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

struct ModelEntry {
  std::string name;
  std::string source;           // where the numbers stand in public
  uint64_t context_tokens = 0;  // longest sequence that the model was made for
  Format dtype = Format::kBf16;
  std::vector<LayerGroup> groups;
};

/// The table that is compiled in. Valid by test.
const std::vector<ModelEntry>& known_models();
/// A table of the same form. `name` is for messages. Errors: invalid argument, with line, key and
/// value.
Expected<std::vector<ModelEntry>> parse_models(std::string_view toml, const std::string& name);
/// parse_models of a file. Errors: also not found.
Expected<std::vector<ModelEntry>> read_models(const std::string& path);
/// By name, without regard to case. Error: not found, listing the names.
Expected<ModelEntry> find_model(const std::vector<ModelEntry>& models, std::string_view name);
/// The model's layout for blocks of `block_tokens`, whole (no shard). [validate before use]
KvLayout layout_of(const ModelEntry& model, uint32_t block_tokens);

}  // namespace troupe
