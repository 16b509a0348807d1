#include "runtime/core/routes.h"

#include <capnp/schema.h>

namespace troupe {

void RouteTable::add(const Route& route) {
  TROUPE_ASSERT(static_cast<size_t>(route.kind) < kKinds);
  if (route.from.v >= senders_) {
    senders_ = static_cast<size_t>(route.from.v) + 1;
    to_.resize(senders_ * kKinds);
  }
  auto& by_instance = to_[route.from.v * kKinds + static_cast<size_t>(route.kind)];
  if (by_instance.size() <= route.instance) {
    by_instance.resize(static_cast<size_t>(route.instance) + 1);
  }
  TROUPE_ASSERT(by_instance[route.instance].is_none());
  by_instance[route.instance] = route.to;
  routes_.push_back(route);
}

std::string kind_name(Kind kind) {
  for (const auto field : capnp::Schema::from<wire::Message>().asStruct().getUnionFields()) {
    if (field.getProto().getDiscriminantValue() == static_cast<uint16_t>(kind)) {
      return field.getProto().getName().cStr();
    }
  }
  return "kind" + std::to_string(static_cast<unsigned>(kind));
}

}  // namespace troupe
