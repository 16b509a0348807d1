// The subcommands of `troupe`. argv[0] is the subcommand's name.
#pragma once

namespace troupe {

int config_main(int argc, char** argv);
int run_main(int argc, char** argv);
int version_main(int argc, char** argv);

}  // namespace troupe
