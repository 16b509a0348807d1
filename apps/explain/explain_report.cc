#include "apps/explain/explain_report.h"

#include "apps/json/append_text.h"
#include "apps/json/json_writer.h"

#include <algorithm>
#include <cstdio>

namespace troupe {
namespace {

constexpr const char* kTiers[] = {"device", "host", "disk", "remote"};
/// Fewer digits of a key are too likely a handle.
constexpr size_t kKeyDigitsMin = 16;
/// Names that come after an evicted block in the answer, shown beside it.
constexpr size_t kNextShown = 3;

unsigned long long u(uint64_t value) {
  return value;
}

std::string score_text(const PolicyAnswer& answer, size_t place) {
  return place < answer.scores.size() ? " with score " + std::to_string(answer.scores[place]) : "";
}

/// By whom a block was evicted, and who stood behind it in the answer.
std::string blame_text(const Story& story, const LifeEvent& event) {
  if (event.answer == kNoAnswer) {
    return "";
  }
  const PolicyAnswer& answer = story.answers[event.answer];
  std::string out;
  append_text(out, " by %s, named %u of %zu%s", story.policy_at(answer.tier, answer.at).c_str(),
              event.place + 1, answer.lives.size(), score_text(answer, event.place).c_str());
  const size_t last = std::min(answer.lives.size(), event.place + 1 + kNextShown);
  for (size_t i = event.place + 1; i < last; ++i) {
    const uint32_t life = answer.lives[i];
    out += i == event.place + size_t{1} ? "; next were " : ", ";
    out += life == kNoLife ? "?" : key_text(story.blocks.at(life).name.key).substr(0, 16);
    out += score_text(answer, i);
  }
  return out;
}

std::string event_text(const Story& story, const LifeEvent& event) {
  std::string out;
  append_text(out, "at %.6f s (delivery %llu) %s, %s", static_cast<double>(event.at.ns) / 1e9,
              u(event.delivery), change_name(event.what), kTiers[event.tier & 3]);
  if (event.what == LifeChange::kStored) {
    append_text(out, ", by request %llu", u(event.request));
  }
  return out + blame_text(story, event);
}

std::string run_text(const Story& story, const MissRun& run) {
  std::string out = miss_name(run.why);
  switch (run.why) {
    case Miss::kDiffers:
      append_text(out, ", at token %llu", u(run.value));
      break;
    case Miss::kOtherDomain:
      append_text(out, ": %llu has the same tokens", u(run.value));
      break;
    case Miss::kNotYetPublished:
    case Miss::kOverDeadline:
      append_text(out, ": request %llu was computing it", u(run.value));
      break;
    case Miss::kEvicted:
    case Miss::kLoadFailed:
    case Miss::kPurged:
      out += ": " + event_text(story, story.blocks.at(run.life).events[run.value]);
      break;
    default:
      break;
  }
  return out;
}

void write(JsonWriter& json, const Story& story, const LifeEvent& event) {
  json.begin_object()
      .field("tick", event.at.ns)
      .field("delivery", event.delivery)
      .field("what", change_name(event.what))
      .field("tier", kTiers[event.tier & 3])
      .field("request", event.request);
  if (event.answer != kNoAnswer) {
    const PolicyAnswer& answer = story.answers[event.answer];
    json.field("policy", story.policy_at(answer.tier, answer.at))
        .field("place", event.place)
        .field("named", answer.lives.size());
    if (event.place < answer.scores.size()) {
      json.field("score", answer.scores[event.place]);
    }
  }
  json.end_object();
}

}  // namespace

std::string totals_text(const Story& story) {
  std::string out;
  append_text(out, "%zu requests asked for %llu blocks: %llu hits, %llu missed\n",
              story.requests.size(), u(story.listed), u(story.hits), u(story.listed - story.hits));
  for (size_t i = 0; i < story.totals.size(); ++i) {
    if (story.totals[i] > 0) {
      append_text(out, "  %10llu  %s\n", u(story.totals[i]), miss_name(static_cast<Miss>(i)));
    }
  }
  if (story.disagreements == 0) {
    out += "the sums are those of every request's reply\n";
  } else {
    append_text(out, "%llu requests have other sums than their replies\n", u(story.disagreements));
  }
  return out;
}

std::string totals_json(const Story& story) {
  JsonWriter json;
  json.begin_object()
      .field("requests", story.requests.size())
      .field("listed_blocks", story.listed)
      .field("hit_blocks", story.hits)
      .field("missed_blocks", story.listed - story.hits)
      .field("disagreements", story.disagreements);
  json.key("reasons").begin_object();
  for (size_t i = 0; i < story.totals.size(); ++i) {
    json.field(miss_name(static_cast<Miss>(i)), story.totals[i]);
  }
  return json.end_object().end_object().take();
}

std::string request_text(const Story& story, const RequestStory& request) {
  std::string out;
  append_text(out, "request %llu of tenant %u, domain %u", u(request.request), request.tenant,
              request.domain);
  if (request.first_lookup) {
    append_text(out, ", looked up at %.6f s%s", static_cast<double>(request.looked_up.ns) / 1e9,
                request.forced ? " (it had waited long enough)" : "");
  }
  append_text(out, "\n  %u blocks asked for, %u hit, %u of them on the device\n", request.listed,
              request.hits, request.on_device);
  for (const MissRun& run : request.misses) {
    const std::string which = run.count == 1 ? "block " + std::to_string(run.first)
                                             : "blocks " + std::to_string(run.first) + " to " +
                                                   std::to_string(run.first + run.count - 1);
    out += "  " + which + ": " + run_text(story, run) + "\n";
  }
  return out;
}

std::string request_json(const Story& story, const RequestStory& request) {
  JsonWriter json;
  json.begin_object()
      .field("request", request.request)
      .field("tenant", request.tenant)
      .field("domain", request.domain)
      .field("looked_up", request.looked_up.ns)
      .field("forced", request.forced)
      .field("listed_blocks", request.listed)
      .field("hit_blocks", request.hits);
  json.key("misses").begin_array();
  for (const MissRun& run : request.misses) {
    json.begin_object()
        .field("first", run.first)
        .field("count", run.count)
        .field("reason", miss_name(run.why))
        .field("value", run.value)
        .field("text", run_text(story, run));
    if (run.life != kNoLife) {
      json.field("key", key_text(story.blocks.at(run.life).name.key));
    }
    json.end_object();
  }
  return json.end_array().end_object().take();
}

std::vector<uint32_t> find_blocks(const Story& story, const std::string& id) {
  std::vector<uint32_t> found;
  const bool is_key = id.size() >= kKeyDigitsMin;
  for (uint32_t i = 0; i < story.blocks.all().size(); ++i) {
    const Life& life = story.blocks.at(i);
    if (is_key ? key_text(life.name.key).compare(0, id.size(), id) == 0
               : std::to_string(life.handle) == id) {
      found.push_back(i);
    }
  }
  return found;
}

std::string block_text(const Story& story, uint32_t id) {
  const Life& life = story.blocks.at(id);
  std::string out;
  append_text(out, "block %s\n  domain %u, %u blocks deep, %zu tokens, handle %u, %s\n",
              key_text(life.name.key).c_str(), life.name.domain, life.depth, life.tokens.size(),
              life.handle, life.live ? "in the cache at the end" : "not in the cache at the end");
  if (life.parent != kNoLife) {
    append_text(out, "  hangs on %s\n", key_text(story.blocks.at(life.parent).name.key).c_str());
  }
  for (const LifeEvent& event : life.events) {
    out += "  " + event_text(story, event) + "\n";
  }
  append_text(out, "  hit %llu times", u(life.hits));
  if (life.hits > 0) {
    append_text(out, ", last at %.6f s", static_cast<double>(life.last_hit.ns) / 1e9);
  }
  return out + "\n";
}

std::string block_json(const Story& story, const std::vector<uint32_t>& lives) {
  JsonWriter json;
  json.begin_array();
  for (const uint32_t id : lives) {
    const Life& life = story.blocks.at(id);
    json.begin_object()
        .field("key", key_text(life.name.key))
        .field("handle", life.handle)
        .field("domain", life.name.domain)
        .field("depth", life.depth)
        .field("tokens", life.tokens.size())
        .field("live", life.live)
        .field("hits", life.hits);
    json.key("events").begin_array();
    for (const LifeEvent& event : life.events) {
      write(json, story, event);
    }
    json.end_array().end_object();
  }
  return json.end_array().take();
}

}  // namespace troupe
