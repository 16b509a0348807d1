// Which build this program is, so that a replay by another one is told apart.
#pragma once

#include <string>

namespace troupe::trace {

/// Compiler and the linker's build id of the running program, which is a hash of what was linked.
std::string program_id();

}  // namespace troupe::trace
