// `troupe bench disk`: the disk store (records, checksums on) against fio on the same file with the
// same block size and depth, both directions, in interleaved pairs of one run.
#pragma once

namespace troupe::apps {

/// Parses its own arguments (`--help` lists them), prints a table, or with `--json` a list of `op`,
/// `block_bytes`, `ours_bytes_per_s`, `fio_bytes_per_s`, `ratio` and more. Returns 0; 1 for an
/// error or wrong bytes; 2 for bad arguments; 4 when fio is not installed.
int bench_disk_main(int argc, char** argv);

}  // namespace troupe::apps
