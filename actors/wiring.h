// THE page of the system: which actors exist (roles.h), which messages go where (routes_table.cc), and
// how a troupe is put together. Whoever starts one, live, inline, replayed or simulated, starts here.
#pragma once

#include "actors/roles.h"
#include "runtime/core/routes.h"

namespace troupe {

/// The routes of design §4, in the order a request travels.
RouteTable make_routes();

}  // namespace troupe
