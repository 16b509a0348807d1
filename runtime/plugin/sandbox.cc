#include "runtime/plugin/sandbox.h"

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <vector>

namespace troupe::plugin {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr uint32_t kArch = AUDIT_ARCH_AARCH64;
#else
#error "name this machine's audit architecture"
#endif

sock_filter statement(unsigned code, uint32_t value) {
  return {static_cast<uint16_t>(code), 0, 0, value};
}
sock_filter jump(unsigned code, uint32_t value, unsigned yes, unsigned no) {
  return {static_cast<uint16_t>(code), static_cast<uint8_t>(yes), static_cast<uint8_t>(no), value};
}

// Kills on every call but `allowed`; calls of `no_exec` only without PROT_EXEC in their third
// argument.
std::string install(std::initializer_list<long> allowed, std::initializer_list<long> no_exec) {
  constexpr unsigned kLoad = BPF_LD | BPF_W | BPF_ABS;
  constexpr unsigned kEqual = BPF_JMP | BPF_JEQ | BPF_K;
  std::vector<sock_filter> f;
  f.push_back(statement(kLoad, offsetof(seccomp_data, arch)));
  f.push_back(jump(kEqual, kArch, 1, 0));
  f.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  f.push_back(statement(kLoad, offsetof(seccomp_data, nr)));
  for (const long call : allowed) {
    f.push_back(jump(kEqual, static_cast<uint32_t>(call), 0, 1));
    f.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  }
  for (const long call : no_exec) {
    f.push_back(jump(kEqual, static_cast<uint32_t>(call), 0, 4));
    f.push_back(statement(kLoad, offsetof(seccomp_data, args) + 2 * sizeof(uint64_t)));
    f.push_back(jump(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 1, 0));
    f.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    f.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  }
  f.push_back(statement(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
  const sock_fprog program{static_cast<unsigned short>(f.size()), f.data()};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    return std::string("seccomp: ") + strerror(errno);
  }
  return "";
}

}  // namespace

bool sandbox_is_built_in() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return false;
#else
  return true;
#endif
}

std::string enter_sandbox_to_load(uint64_t memory_bytes) {
  if (!sandbox_is_built_in()) {
    return "";
  }
  const struct {
    __rlimit_resource what;
    rlim_t most;
    const char* name;
  } limits[] = {{RLIMIT_AS, memory_bytes, "memory"},
                {RLIMIT_CORE, 0, "core files"},
                {RLIMIT_FSIZE, 0, "file sizes"},
                {RLIMIT_NOFILE, 32, "open files"},
                {RLIMIT_STACK, 8U << 20, "stack"}};
  for (const auto& limit : limits) {
    const rlimit value{limit.most, limit.most};
    if (setrlimit(limit.what, &value) != 0) {
      return std::string("limit of ") + limit.name + ": " + strerror(errno);
    }
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) {
    return std::string("no new privileges: ") + strerror(errno);
  }
  return install({SYS_openat,       SYS_read,           SYS_pread64,        SYS_close,
                  SYS_fstat,        SYS_newfstatat,     SYS_lseek,          SYS_mmap,
                  SYS_munmap,       SYS_mremap,         SYS_mprotect,       SYS_madvise,
                  SYS_brk,          SYS_futex,          SYS_exit,           SYS_exit_group,
                  SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_getrandom,      SYS_prctl,
                  SYS_seccomp,      SYS_getppid,        SYS_restart_syscall},
                 {});
}

std::string enter_sandbox_to_run() {
  if (!sandbox_is_built_in()) {
    return "";
  }
  return install(
      {SYS_munmap, SYS_mremap, SYS_madvise, SYS_brk, SYS_futex, SYS_exit, SYS_exit_group,
       SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_getrandom, SYS_getppid, SYS_restart_syscall},
      {SYS_mmap, SYS_mprotect});
}

}  // namespace troupe::plugin
