// `troupe doctor`. argv[0] is the command's name, the rest its own arguments. Returns the exit
// code: 0 nothing is broken (things may lack), 1 something that was asked for can't work, 2 bad
// arguments.
#pragma once

namespace troupe {
int doctor_main(int argc, char** argv);
}
