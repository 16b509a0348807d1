#include "runtime/base/ids.h"

namespace troupe {

const char* tier_name(Tier tier) noexcept {
  switch (tier) {
    case Tier::kDevice: return "device";
    case Tier::kHost: return "host";
    case Tier::kDisk: return "disk";
    case Tier::kRemote: return "remote";
  }
  return "unknown";
}

}  // namespace troupe
