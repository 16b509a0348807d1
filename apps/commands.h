// The subcommands of `troupe`. argv[0] is the subcommand's name.
#pragma once

namespace troupe {

int bench_main(int argc, char** argv);
int config_main(int argc, char** argv);
int doctor_main(int argc, char** argv);
int explain_main(int argc, char** argv);
int gen_main(int argc, char** argv);
int lab_main(int argc, char** argv);
int policy_main(int argc, char** argv);
int replay_main(int argc, char** argv);
int run_main(int argc, char** argv);
int size_main(int argc, char** argv);
int trace_main(int argc, char** argv);
int version_main(int argc, char** argv);

}  // namespace troupe
