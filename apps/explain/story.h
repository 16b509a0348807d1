// Explains a recording: the prefix index is run again from its lane, and beside each of its steps
// this page notes what became of every block and why each block that a request asked for was not
// there. A request's way: what is explained is its first lookup, the one that the counters count.
#pragma once

#include "actors/prefix_index/prefix_index.h"
#include "apps/explain/block_lives.h"
#include "runtime/trace/lane_reader.h"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

enum class Miss : uint8_t {
  kUnknown = 0,      // an error of this page: tests hold it at none
  kNeverStored,      // nobody had it before
  kEvicted,          // it was there
  kOtherDomain,      // the same tokens are there, for another domain or of another block class
  kDiffers,          // the nearest cached prefix goes on with other tokens
  kLoadFailed,       // it was there, and its bytes did not verify
  kPurged,           // an operator took it away
  kNotYetPublished,  // another request was computing it
  kOverDeadline,     // the same, and the request had waited as long as it may
  kMoving,           // on its way between tiers, and not waited for
  kAlignment,        // the tokens are there within a longer block, or as a tail not on the device
  kNotLookedUp,      // the request ended while it was queued
  kCount
};
const char* miss_name(Miss miss) noexcept;

/// Neighbouring blocks of one request that missed for the same reason.
struct MissRun {
  Miss why = Miss::kUnknown;
  uint32_t first = 0;  // index in the prompt
  uint32_t count = 0;
  uint32_t life = kNoLife;  // of the first block, where there is one
  uint64_t value = 0;       // differs: token; other domain: that domain; published: that request
};

struct RequestStory {
  uint64_t request = 0;
  uint32_t tenant = 0;
  uint32_t domain = 0;
  Tick looked_up;
  bool first_lookup = false;
  bool forced = false;  // it had waited long enough and took what was there
  uint32_t listed = 0;
  uint32_t hits = 0;
  uint32_t on_device = 0;
  std::vector<MissRun> misses;
  bool answered = false;
  uint32_t usage_listed = 0;  // as its reply counts
  uint32_t usage_hits = 0;
};

/// A policy's answer, as eviction passed it on.
struct PolicyAnswer {
  Tick at;
  uint8_t tier = 0;
  std::vector<uint32_t> lives;  // in the order named; kNoLife: no block by then
  std::vector<int64_t> scores;  // one each, or none
};

struct Story {
  std::map<uint64_t, RequestStory> requests;
  BlockLives blocks;
  std::vector<PolicyAnswer> answers;
  /// Swaps of policies: slot, from which tick on, name.
  struct Swap {
    uint8_t tier = 0;
    Tick at;
    std::string name;
  };
  std::vector<Swap> swaps;
  std::string policy;                                                // of the start
  std::array<uint64_t, static_cast<size_t>(Miss::kCount)> totals{};  // missed blocks by reason
  uint64_t listed = 0;
  uint64_t hits = 0;
  uint64_t disagreements = 0;  // requests whose sums are not those of their reply
  std::vector<std::string> notices;

  std::string policy_at(uint8_t tier, Tick at) const;
};

/// Reads the recording. Errors: no full recording, a lane that is not whole or does not replay.
Expected<Story> tell_story(const std::vector<trace::LaneFiles>& lanes);

}  // namespace troupe
