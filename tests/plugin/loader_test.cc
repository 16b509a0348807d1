// What the loader refuses, with which reason, and that what it loads is the copy it checked.
#include "runtime/plugin/loader.h"

#include "runtime/plugin/instance.h"

#include <catch2/catch.hpp>

#include <fcntl.h>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace troupe;
using namespace troupe::plugin;

namespace {

std::vector<std::string> words(const std::string& list) {
  std::vector<std::string> out;
  std::stringstream in(list);
  for (std::string word; std::getline(in, word, ',');) {
    out.push_back(word);
  }
  return out;
}

std::string zoo(const std::string& name) {
  return std::string(TROUPE_ZOO) + "/" + name + ".so";
}
std::string policy(const std::string& name) {
  return std::string(TROUPE_POLICIES) + "/" + name + ".so";
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TempDir {
 public:
  TempDir() { REQUIRE(mkdtemp(path_.data()) != nullptr); }
  ~TempDir() {
    for (const std::string& f : files_) {
      unlink(f.c_str());
    }
    rmdir(path_.c_str());
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string file(const std::string& name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }
  std::string copy_of(const std::string& from, const std::string& name) {
    const std::string to = file(name);
    unlink(to.c_str());
    std::ifstream in(from, std::ios::binary);
    std::ofstream out(to, std::ios::binary);
    out << in.rdbuf();
    return to;
  }

 private:
  std::string path_ = "/tmp/troupe_loader_XXXXXX";
  std::vector<std::string> files_;
};

}  // namespace

TEST_CASE("the loader refuses every library of the zoo that must not run, and says why") {
  const std::map<std::string, std::string> reasons = {
      {"no_note", "no .note.troupe note"},
      {"note_other_id", "its note says 'other', its description 'zoo'"},
      {"note_other_abi", "its note names ABI 2.0"},
      {"note_short", "its note holds 4 bytes"},
      {"tls", "thread-local data"},
      {"no_describe", "missing symbol troupe_policy_describe"},
      {"no_create", "missing symbol troupe_policy_create"},
      {"desc_other_abi", "speaks ABI 2"},
      {"desc_short", "its description has 16 bytes"},
      {"desc_no_id", "lacks id"},
      {"desc_unknown_kind", "is of kind 77"},
      {"desc_needs_unknown", "needs host capabilities"},
      {"desc_never_ends", "more than 64 policies"},
      {"desc_none", "describes no policy"}};
  for (const std::string& name : words(ZOO_LOAD)) {
    INFO(name);
    Loader loader({});
    const auto library = loader.load(zoo(name));
    REQUIRE_FALSE(library);
    CHECK(contains(library.status().text(), reasons.at(name)));
    CHECK(contains(library.status().text(), zoo(name)));
  }
#if !defined(__clang__)
  Loader loader({});
  CHECK(contains(loader.load(zoo("unique")).status().text(), "UNIQUE symbol"));
#endif
}

TEST_CASE("instances that cannot be made are refused with the reason") {
  const std::map<std::string, std::string> reasons = {
      {"create_refuses", "create with '' gave up"},
      {"create_no_destroy", "create left extension or destroy out"},
      {"no_extension", "offers no whole troupe.eviction/1"},
      {"half_table", "offers no whole troupe.eviction/1"}};
  for (const std::string& name : words(ZOO_CREATE)) {
    INFO(name);
    Loader loader({});
    const auto library = loader.load(zoo(name));
    REQUIRE(library);
    InstanceOptions options;
    options.capacity = 16;
    const auto made = EvictionInstance::create((*library)->create, (*library)->policies.front(),
                                               options, *library);
    REQUIRE_FALSE(made);
    CHECK(contains(made.status().text(), reasons.at(name)));
  }
}

TEST_CASE("files that are no library, cut ones and links are refused") {
  TempDir dir;
  const std::string text = dir.file("text.so");
  std::ofstream(text) << "#!/bin/sh\n";
  Loader loader({});
  CHECK(contains(loader.load(text).status().text(), "not an ELF file"));
  const std::string cut = dir.copy_of(policy("lru"), "cut.so");
  struct stat st {};
  REQUIRE(stat(cut.c_str(), &st) == 0);
  for (const off_t size :
       {off_t{0}, off_t{3}, off_t{40}, off_t{500}, st.st_size / 2, st.st_size - 1}) {
    REQUIRE(truncate(cut.c_str(), size) == 0);
    INFO(size);
    CHECK_FALSE(loader.load(cut));
    dir.copy_of(policy("lru"), "cut.so");
  }
  const std::string link = dir.file("link.so");
  REQUIRE(symlink(policy("lru").c_str(), link.c_str()) == 0);
  CHECK(contains(loader.load(link).status().text(), "symbolic link"));
  CHECK(contains(loader.load("/nonexistent.so").status().text(), "No such file"));
  CHECK(contains(loader.load("/tmp").status().text(), "not a regular file"));
  const std::string open_to_all = dir.copy_of(policy("lru"), "open.so");
  REQUIRE(chmod(open_to_all.c_str(), 0666) == 0);
  CHECK(contains(loader.load(open_to_all).status().text(), "writable by nobody else"));
}

TEST_CASE("a replaced file loads as another library; the old one stays what it was") {
  TempDir dir;
  const std::string path = dir.copy_of(policy("fifo"), "p.so");
  Loader loader({});
  const auto first = loader.load(path);
  REQUIRE(first);
  CHECK(loader.load(path).value() == *first);
  dir.copy_of(policy("lru"), "p.so");
  const auto second = loader.load(path);
  REQUIRE(second);
  CHECK(std::string((*first)->policies.front()->id) == "fifo");
  CHECK(std::string((*second)->policies.front()->id) == "lru");
  CHECK((*first)->digest != (*second)->digest);
}

TEST_CASE("an allow-list admits by digest only") {
  Loader probe({});
  const auto known = probe.load(policy("lru"));
  REQUIRE(known);
  LoaderOptions options;
  options.allow_list = {hex((*known)->digest)};
  Loader strict(options);
  CHECK(strict.load(policy("lru")));
  CHECK(contains(strict.load(policy("fifo")).status().text(), "is not on the allow-list"));
}
