// A story as text for people and JSON for machines.
#pragma once

#include "apps/explain/story.h"

#include <string>
#include <vector>

namespace troupe {

std::string totals_text(const Story& story);
std::string totals_json(const Story& story);
std::string request_text(const Story& story, const RequestStory& request);
std::string request_json(const Story& story, const RequestStory& request);
/// All lives that `id` names: a handle in decimal, or leading digits of a key. Empty: none.
std::vector<uint32_t> find_blocks(const Story& story, const std::string& id);
std::string block_text(const Story& story, uint32_t life);
std::string block_json(const Story& story, const std::vector<uint32_t>& lives);

}  // namespace troupe
