// `troupe policy new NAME`: a ready project outside this tree, with the headers beside it; built
// and checked at once, so that its author starts from something that passes.
#include "apps/policy/policy_commands.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace troupe::policy_app {
namespace {

namespace fs = std::filesystem;

int fail(const std::string& text) {
  fprintf(stderr, "troupe policy new: %s\n", text.c_str());
  return 2;
}

// The folder that holds policies/ and cmake/: beside an installed program, else the source tree.
fs::path source_root() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed = self.parent_path().parent_path() / "share" / "troupe";
  return fs::exists(installed / "policies" / "abi", error) ? installed : TROUPE_POLICY_SOURCE;
}

bool valid_name(const std::string& name) {
  constexpr size_t kNameMax = 31;  // the note's field
  return !name.empty() && name.size() <= kNameMax &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos &&
         (name[0] < '0' || name[0] > '9');
}

void fill(const fs::path& from, const fs::path& to, const std::string& name) {
  std::ifstream in(from);
  in.exceptions(std::ios::badbit | std::ios::failbit);
  std::stringstream text;
  text << in.rdbuf();
  std::string filled = text.str();
  const std::string mark = "@NAME@";
  for (size_t at = filled.find(mark); at != std::string::npos; at = filled.find(mark, at)) {
    filled.replace(at, mark.size(), name);
  }
  std::ofstream out(to);
  out.exceptions(std::ios::badbit | std::ios::failbit);
  out << filled;
}

void write_project(const fs::path& dir, const std::string& name) {
  const fs::path root = source_root();
  fs::create_directories(dir / "troupe" / "policies");
  fs::create_directories(dir / "troupe" / "cmake");
  for (const char* part : {"policies/abi", "policies/sdk"}) {
    fs::copy(root / part, dir / "troupe" / part, fs::copy_options::recursive);
  }
  fs::copy_file(root / "cmake" / "policy.cmake", dir / "troupe" / "cmake" / "policy.cmake");
  fill(root / "policies" / "template" / "CMakeLists.txt.in", dir / "CMakeLists.txt", name);
  fill(root / "policies" / "template" / "policy.cc", dir / (name + ".cc"), name);
}

bool run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

}  // namespace

int create(const NewOptions& options) {
  if (!valid_name(options.name)) {
    return fail("name '" + options.name +
                "' must be 1 to 31 of a-z, 0-9 and _, not starting with a digit");
  }
  const fs::path dir = options.dir.empty() ? fs::path(options.name) : fs::path(options.dir);
  std::error_code error;
  if (fs::exists(dir, error)) {
    return fail(dir.string() + " is there already; choose another folder with --dir");
  }
  try {
    write_project(dir, options.name);
  } catch (const std::exception& e) {
    return fail(e.what());
  }
  printf("wrote %s\n", dir.c_str());
  if (!options.build) {
    return 0;
  }
  const std::string build = (dir / "build").string();
  if (!run({"cmake", "-S", dir.string(), "-B", build}) || !run({"cmake", "--build", build})) {
    fprintf(stderr, "troupe policy new: the build failed; its messages are above\n");
    return 1;
  }
  CheckOptions check_options;
  check_options.path = build + "/policies/" + options.name + ".so";
  const int code = check(check_options);
  printf("compare it: troupe lab --trace TRACE --policy vllm_lru,./%s,opt\n",
         check_options.path.c_str());
  return code;
}

}  // namespace troupe::policy_app
