// One process per store directory. The lock is the kernel's (flock), so it ends with its holder,
// however that ends; the file's text is for the refusal only.
#pragma once

#include "io/os.h"

#include <string>

namespace troupe::io {

/// The lock, held until the Fd closes. Errors: failed_precondition with the owner's pid; not_found,
/// unavailable (no directory, no permission).
Expected<Fd> lock_directory(const std::string& directory);

}  // namespace troupe::io
