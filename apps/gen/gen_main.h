// `troupe gen`. argv[0] is the command's name, the rest its own arguments. Returns the exit code:
// 0 done, 1 the file can't be written, 2 bad arguments.
#pragma once

namespace troupe {
int gen_main(int argc, char** argv);
}
