// `troupe bench host`: the host mover's byte path (a Device on the CPU backend) against a plain
// memcpy of the same bytes by as many threads, in one run.
#pragma once

namespace troupe::apps {

/// Parses its own arguments (`--help` lists them), prints a table, or JSON with `--json`. Returns
/// 0, 2 for bad arguments or too little memory, 1 for an error or wrong bytes.
int bench_host_main(int argc, char** argv);

}  // namespace troupe::apps
