// `troupe policy debug X.so --trace F --until N`: the lab's replay with one policy, stopped under
// gdb at decision N, inside the policy. Two processes: this one starts gdb, gdb starts this program
// again with --here, which counts the questions and passes through `troupe_policy_decision` at the
// Nth only, so that the breakpoint has no condition and costs nothing before.
#include "apps/lab/replay.h"
#include "apps/lab/runner.h"
#include "apps/policy/debug_stop.h"
#include "apps/policy/policy_commands.h"
#include "runtime/plugin/registry.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <unistd.h>
#include <vector>

namespace troupe::policy_app {
namespace {

constexpr int kNotReached = 1;
constexpr int kBadInput = 2;

// Passes every call on to the policy and counts the questions.
struct Stopper {
  const plugin::EvictionInstance* inner;
  uint64_t until;
  uint64_t asked;

  static Stopper& of(void* self) { return *static_cast<Stopper*>(self); }
  static int32_t on_events(void* self, const void* events, uint64_t count, uint32_t stride) {
    const plugin::EvictionInstance& p = *of(self).inner;
    return p.table().on_events(p.self(), events, count, stride);
  }
  static int32_t victims(void* self, troupe_victims_call* call) {
    Stopper& s = of(self);
    const plugin::EvictionInstance& p = *s.inner;
    if (++s.asked == s.until) {
      troupe_policy_decision(s.asked, call, p.table().victims);
    }
    return p.table().victims(p.self(), call);
  }
  static uint64_t digest(void* self) { return of(self).inner->digest(); }
  static const void* extension(void*, const char*) {
    static const troupe_eviction kTable{sizeof kTable, 0, &on_events, &victims, &digest};
    return &kTable;
  }
  static void destroy(void*) {}  // lives on the stack of its user
};

int fail(int code, const std::string& text) {
  fprintf(stderr, "troupe policy debug: %s\n", text.c_str());
  return code;
}

int replay(const DebugOptions& o, const std::string& name, const std::string& params) {
  plugin::Registry registry(plugin::default_policy_dir(), {});
  auto trace = lab::load_trace(o.trace, 0);
  if (!trace) {
    return fail(kBadInput, trace.status().text());
  }
  const auto size = lab::parse_size(o.size, trace->unique);
  if (!size) {
    return fail(kBadInput, size.status().text());
  }
  plugin::InstanceOptions options;
  options.capacity = size->blocks;
  options.seed = o.seed;
  options.params = params;
  auto policy = registry.make_instance(name, options);
  if (!policy) {
    return fail(kBadInput, policy.status().text());
  }
  Stopper stopper{&*policy, o.until, 0};
  troupe_policy outer{};
  outer.struct_size = sizeof outer;
  outer.self = &stopper;
  outer.extension = &Stopper::extension;
  outer.destroy = &Stopper::destroy;
  auto stopping = plugin::EvictionInstance::adopt(outer, &policy->desc(), options, nullptr);
  if (!stopping) {
    return fail(kBadInput, stopping.status().text());
  }
  const auto counts = o.semantics == "prefix" ? lab::replay_prefix(*trace, size->blocks, *stopping)
                                              : lab::replay_object(*trace, size->blocks, *stopping);
  if (!counts) {
    return fail(kNotReached,
                "after " + std::to_string(stopper.asked) + " decisions: " + counts.status().text());
  }
  if (stopper.asked < o.until) {
    return fail(kNotReached, "the trace ends after " + std::to_string(stopper.asked) +
                                 " decisions at " + std::to_string(size->blocks) +
                                 " blocks; --until " + std::to_string(o.until) +
                                 " is beyond them: choose a smaller --until or --size");
  }
  printf("%lu decisions, %lu hits in %lu accesses\n", stopper.asked, counts->hits,
         counts->accesses);
  return 0;
}

std::vector<std::string> gdb_words(const DebugOptions& o, const std::string& policy) {
  std::error_code error;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::vector<std::string> words = {"gdb", "-q"};
  if (o.batch) {
    words.push_back("-batch");
  }
  const std::vector<std::string> steps = {
      "set pagination off", "set confirm off", "break troupe_policy_decision", "run", "info args",
      "tbreak *victims",    "continue"};
  for (const std::string& step : steps) {
    words.push_back("-ex");
    words.push_back(step);
  }
  if (o.batch) {
    words.push_back("-ex");
    words.push_back("backtrace");
    words.push_back("-ex");
    words.push_back("continue");  // to its end, where it removes its copy of the library
  }
  for (const std::string& word :
       {std::string("--args"), self, std::string("policy"), std::string("debug"), policy,
        std::string("--trace"), o.trace, std::string("--until"), std::to_string(o.until),
        std::string("--size"), o.size, std::string("--semantics"), o.semantics,
        std::string("--seed"), std::to_string(o.seed), std::string("--here")}) {
    words.push_back(word);
  }
  return words;
}

std::string quoted(const std::string& word) {
  if (!word.empty() && word.find_first_of(" *'\"$\\;&|<>()") == std::string::npos) {
    return word;
  }
  std::string out = "'";
  for (const char c : word) {
    out += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return out + "'";
}

}  // namespace

int debug(const DebugOptions& o) {
  const size_t colon = o.policy.find(':');
  std::string name = o.policy.substr(0, colon);
  const std::string params = colon == std::string::npos ? "" : o.policy.substr(colon + 1);
  if (name.size() > 3 && name.compare(name.size() - 3, 3, ".so") == 0) {
    std::error_code error;  // a name without a slash would be looked up among the built-ins
    name = std::filesystem::absolute(name, error).lexically_normal().string();
  }
  if (o.here) {
    return replay(o, name, params);
  }
  const plugin::Registry registry(plugin::default_policy_dir(), {});
  if (const auto image = plugin::Loader({}).inspect(registry.path_of(name)); !image) {
    return fail(kBadInput, image.status().text());
  }
  if (access(o.trace.c_str(), R_OK) != 0) {
    return fail(kBadInput, o.trace + ": " + strerror(errno));
  }
  std::vector<std::string> words = gdb_words(o, params.empty() ? name : name + ":" + params);
  if (o.print) {
    std::string line;
    for (const std::string& word : words) {
      line += (line.empty() ? "" : " ") + quoted(word);
    }
    printf("%s\n", line.c_str());
    return 0;
  }
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  return fail(kBadInput, errno == ENOENT
                             ? "gdb is not installed: apt-get install gdb (Debian, Ubuntu), or "
                               "use --print and run its line where gdb is"
                             : std::string("gdb cannot be started: ") + strerror(errno));
}

}  // namespace troupe::policy_app
