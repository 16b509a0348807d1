// `troupe explain`: why blocks missed, and what became of one. Exit codes: 0 done; 1 the sums are
// not those of the replies, or the recording is not whole; 2 bad input, or no such request or
// block.
#include "apps/commands.h"
#include "apps/explain/explain_report.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace troupe {
namespace {

int fail(const std::string& text) {
  std::fprintf(stderr, "troupe explain: %s\n", text.c_str());
  return 2;
}

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return 0;
}

int explain_request(const Story& story, uint64_t id, bool json) {
  const auto found = story.requests.find(id);
  if (found == story.requests.end()) {
    return fail("no request " + std::to_string(id) + "; the recording has " +
                (story.requests.empty() ? std::string("none")
                                        : std::to_string(story.requests.begin()->first) + " to " +
                                              std::to_string(story.requests.rbegin()->first)));
  }
  return print(json ? request_json(story, found->second) : request_text(story, found->second));
}

int explain_block(const Story& story, const std::string& id, bool json) {
  const std::vector<uint32_t> lives = find_blocks(story, id);
  if (lives.empty()) {
    return fail("no block has the handle or key \"" + id +
                "\"; a key takes 16 or more hexadecimal digits");
  }
  if (json) {
    return print(block_json(story, lives));
  }
  for (const uint32_t life : lives) {
    print(block_text(story, life));
  }
  return 0;
}

}  // namespace

int explain_main(int argc, char** argv) {
  CLI::App app{"Says from a recording why blocks missed, and what became of a block"};
  std::string directory;
  uint64_t request = 0;
  std::string block;
  bool json = false;
  app.add_option("DIR", directory, "directory that troupe run --record wrote")->required();
  app.add_flag("--json", json, "JSON on standard output");
  CLI::App* one = app.add_subcommand("request", "the misses of one request");
  one->add_option("ID", request, "as replies and lanes have it")->required();
  CLI::App* life = app.add_subcommand("block", "the life of one block");
  life->add_option("ID", block, "its handle, or 16 or more digits of its key")->required();
  for (CLI::App* sub : {one, life}) {
    sub->add_flag("--json", json, "JSON on standard output");
  }
  app.require_subcommand(0, 1);
  app.footer(
      "Example:\n  troupe explain /tmp/lanes\n  troupe explain /tmp/lanes request 17\n"
      "  troupe explain /tmp/lanes block 42\n"
      "Exit codes: 0 done, 1 sums disagree or the recording is not whole, 2 bad input.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  std::vector<std::string> notices;
  const auto lanes = trace::list_lanes(directory, {}, notices);
  if (!lanes) {
    return fail(lanes.status().text());
  }
  const auto story = tell_story(*lanes);
  if (!story) {
    return fail(story.status().text());
  }
  notices.insert(notices.end(), story->notices.begin(), story->notices.end());
  for (const std::string& notice : notices) {
    std::fprintf(stderr, "notice: %s\n", notice.c_str());
  }
  int code = 0;
  if (one->parsed()) {
    code = explain_request(*story, request, json);
  } else if (life->parsed()) {
    code = explain_block(*story, block, json);
  } else {
    print(json ? totals_json(*story) : totals_text(*story));
    code = story->disagreements == 0 ? 0 : 1;
  }
  return code != 0 ? code : (notices.empty() ? 0 : 1);
}

}  // namespace troupe
