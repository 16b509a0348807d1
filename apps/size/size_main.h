// `troupe size`. argv[0] is the command's name, the rest its own arguments. Returns the exit code:
// 0 done, 2 bad arguments or an unknown model or format.
#pragma once

namespace troupe {
int size_main(int argc, char** argv);
}
