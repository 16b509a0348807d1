// `troupe lab`: policies over a trace, next to the offline bound.
#pragma once

namespace troupe {

/// Arguments as main gets them, argv[0] being the command's name. Exit codes: 0 done, 1 a run
/// failed, 2 wrong arguments, 3 the trace cannot be read.
int lab_main(int argc, char** argv);

}  // namespace troupe
