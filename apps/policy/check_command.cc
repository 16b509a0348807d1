// `troupe policy check X.so`: every test of the conformance kit in a process of its own, which is
// this program started again, so that a crash, a hang or an exit is one failed test, and addresses
// differ.
#include "apps/policy/policy_commands.h"
#include "policies/check/kit.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

extern char** environ;

namespace troupe::policy_app {
namespace {

constexpr size_t kOutputMax = 4096;
constexpr const char* kAnswersTest = "answers";  // not a test: prints what the script answered
constexpr int kPassed = 0;

struct Outcome {
  bool passed = false;
  std::string text;  // what the process wrote, or how it ended
};

// Reads until the child closes its output or the time is over.
bool read_output(int fd, uint32_t seconds, std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  char buffer[512];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd p{fd, POLLIN, 0};
    const int ready = poll(&p, 1, static_cast<int>(left.count() > 0 ? left.count() : 0));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return false;
    }
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) {
      return true;
    }
    if (text.size() < kOutputMax) {
      text.append(buffer, static_cast<size_t>(n));
    }
  }
}

Outcome start(const CheckOptions& options, const std::string& test) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return {false, "no pipe: " + std::string(strerror(errno))};
  }
  const std::string seed = std::to_string(options.seed);
  std::vector<std::string> words = {"troupe", "policy", "check",  options.path,
                                    "--one",  test,     "--seed", seed};
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  if (error != 0) {
    close(pipe_fds[0]);
    return {false, "cannot start: " + std::string(strerror(error))};
  }
  Outcome outcome;
  const bool in_time = read_output(pipe_fds[0], options.seconds, outcome.text);
  close(pipe_fds[0]);
  if (!in_time) {
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  while (!outcome.text.empty() && outcome.text.back() == '\n') {
    outcome.text.pop_back();
  }
  if (!in_time) {
    outcome.text = "did not end within " + std::to_string(options.seconds) + " s";
  } else if (WIFSIGNALED(status)) {
    outcome.text = std::string("killed by ") + strsignal(WTERMSIG(status));
  } else if (outcome.text.compare(0, 6, "status") != 0) {
    outcome.text = "ended the process with exit code " + std::to_string(WEXITSTATUS(status));
  } else {
    outcome.passed = WEXITSTATUS(status) == kPassed;
    outcome.text = outcome.text.substr(outcome.text.find(' ') + 1);
  }
  return outcome;
}

// The child's side. "status" in front tells the parent that the test itself spoke.
int run_here(const CheckOptions& options, const std::string& name) {
  const check::Context context{options.path, options.seed};
  if (name == kAnswersTest) {
    auto answers = check::script_answers(context);
    printf("status %s\n",
           answers ? std::to_string(*answers).c_str() : answers.status().text().c_str());
    return answers ? 0 : 1;
  }
  const Status status = check::run_test(name, context);
  printf("status %s\n", status ? "ok" : status.text().c_str());
  fflush(stdout);
  return status ? 0 : 1;
}

Outcome run_test(const CheckOptions& options, const check::Test& test) {
  if (!options.in_process) {
    return start(options, std::string(test.name));
  }
  const Status status = check::run_test(test.name, {options.path, options.seed});
  return {status.is_ok(), status.is_ok() ? "ok" : status.text()};
}

Outcome compare_processes(const CheckOptions& options) {
  const Outcome first = start(options, kAnswersTest);
  const Outcome second = start(options, kAnswersTest);
  if (!first.passed || !second.passed) {
    return {false, first.passed ? second.text : first.text};
  }
  return {
      first.text == second.text,
      first.text == second.text ? "ok" : "the same script gives other answers in another process"};
}

}  // namespace

int check(const CheckOptions& given) {
  CheckOptions options = given;
  std::error_code error;  // a name without a slash would be looked up on the library path
  options.path = std::filesystem::absolute(given.path, error).string();
  if (!options.one.empty()) {
    return run_here(options, options.one);
  }
  if (access(options.path.c_str(), R_OK) != 0) {
    fprintf(stderr, "troupe policy check: %s: %s\n", options.path.c_str(), strerror(errno));
    return 2;
  }
  unsigned passed = 0;
  unsigned failed = 0;
  const auto report = [&](std::string_view name, std::string_view what, const Outcome& outcome) {
    (outcome.passed ? passed : failed) += 1;
    printf("%-4s %.*s (%.*s)%s%s\n", outcome.passed ? "ok" : "FAIL", static_cast<int>(name.size()),
           name.data(), static_cast<int>(what.size()), what.data(), outcome.passed ? "" : ": ",
           outcome.passed ? "" : outcome.text.c_str());
    fflush(stdout);
  };
  bool loadable = true;
  for (const check::Test& test : check::kit_tests()) {
    if (test.name.find(options.filter) == std::string_view::npos) {
      continue;
    }
    if (!loadable) {
      break;  // what is no policy is not run
    }
    const Outcome outcome = run_test(options, test);
    report(test.name, test.what, outcome);
    loadable = test.name != "file_is_a_policy" || outcome.passed;
  }
  const std::string_view across = "determinism_across_processes";
  if (loadable && !options.in_process && across.find(options.filter) != std::string_view::npos) {
    report(across, "same answers at other addresses", compare_processes(options));
  }
  printf("%u passed, %u failed\n", passed, failed);
  if (failed == 0 && passed > 0 && options.filter.empty()) {
    const auto digest = check::pass_digest(options.path);
    printf("digest of the pass: %s\n", digest ? digest->c_str() : digest.status().text().c_str());
  }
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace troupe::policy_app
