// `troupe tiers DIR`: what a store directory holds, by namespace and format. `troupe fsck DIR`:
// verifies every record; with `--repair` drops what does not verify and takes in whole records the
// index lost.
#pragma once

namespace troupe::apps {

/// 0; 1 for an error; 2 for bad arguments; 3 when the store is in use or from a newer version.
int tiers_main(int argc, char** argv);

/// 0 when every record verifies (with --repair: after it); 1 when some do not, or for an error; 2
/// and 3 as tiers_main.
int fsck_main(int argc, char** argv);

}  // namespace troupe::apps
