// The table of engines behind the virtual clock. Data: configs/engines.toml, compiled in.
#pragma once

#include <string>
#include <string_view>

#include "apps/run/engine_model.h"
#include "runtime/base/status.h"

namespace troupe {

/// Facts of `model` on `gpu`, names without regard to case. `kv_bytes_per_token`: from the model's
/// layout. Errors: not found, listing the names that are known.
Expected<EngineFacts> find_engine(std::string_view gpu, std::string_view model,
                                  double kv_bytes_per_token);

}  // namespace troupe
