#include "io/arena.h"

#include <catch2/catch.hpp>

#include <csignal>
#include <cstring>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using troupe::Code;
using troupe::io::Arena;
using troupe::io::ArenaOptions;

TEST_CASE("an arena is aligned, zeroed and at least as large as asked", "[arena]") {
  for (const size_t alignment : {size_t{4096}, size_t{2} << 20}) {
    for (const size_t bytes : {size_t{1}, size_t{4096}, size_t{3} << 20}) {
      ArenaOptions options;
      options.alignment = alignment;
      auto arena = Arena::create(bytes, options);
      REQUIRE(arena.is_ok());
      CHECK(reinterpret_cast<uintptr_t>(arena->data()) % alignment == 0);
      CHECK(arena->size() >= bytes);
      CHECK(arena->size() % 4096 == 0);
      for (const std::byte b : arena->bytes()) {
        if (b != std::byte{0}) {
          FAIL("a byte is not zero");
        }
      }
      std::memset(arena->data(), 0xAB, arena->size());
      CHECK(arena->bytes().back() == std::byte{0xAB});
    }
  }
}

TEST_CASE("wrong sizes and alignments are refused by name", "[arena]") {
  CHECK(Arena::create(0).status().code() == Code::kInvalidArgument);
  CHECK(Arena::create(size_t{1} << 60).status().code() == Code::kInvalidArgument);
  for (const size_t alignment : {size_t{0}, size_t{512}, size_t{4097}, size_t{1} << 40}) {
    ArenaOptions options;
    options.alignment = alignment;
    const auto arena = Arena::create(4096, options);
    REQUIRE(!arena.is_ok());
    CHECK(arena.status().text().find(std::to_string(alignment)) != std::string::npos);
  }
}

TEST_CASE("moving an arena moves its bytes and leaves nothing behind", "[arena]") {
  auto first = Arena::create(8192);
  REQUIRE(first.is_ok());
  first->bytes()[5] = std::byte{7};
  Arena second = std::move(first).value();
  CHECK(second.bytes()[5] == std::byte{7});
  Arena third;
  third = std::move(second);
  CHECK(third.bytes()[5] == std::byte{7});
  CHECK(second.size() == 0);  // NOLINT(bugprone-use-after-move): the moved-from state is promised
}

TEST_CASE("discard gives zeros back and refuses ranges outside", "[arena]") {
  ArenaOptions options;
  options.alignment = 4096;
  auto arena = Arena::create(16384, options);
  REQUIRE(arena.is_ok());
  std::memset(arena->data(), 0xFF, arena->size());
  REQUIRE(arena->discard(4096, 4096).is_ok());
  CHECK(arena->bytes()[4095] == std::byte{0xFF});
  CHECK(arena->bytes()[4096] == std::byte{0});
  CHECK(arena->bytes()[8191] == std::byte{0});
  CHECK(arena->bytes()[8192] == std::byte{0xFF});
  CHECK(arena->discard(1, 4096).code() == Code::kInvalidArgument);
  CHECK(arena->discard(16384, 4096).code() == Code::kInvalidArgument);
}

namespace {

/// Signal that ends a child which touches the byte at `offset` from the arena's begin; 0 for none.
int signal_of_touch(Arena& arena, long offset) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGSEGV, SIG_DFL);
    *static_cast<volatile std::byte*>(arena.data() + offset) = std::byte{1};
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace

TEST_CASE("guard pages stop the first byte outside", "[arena]") {
  ArenaOptions options;
  options.alignment = 4096;
  options.guard_pages = true;
  auto arena = Arena::create(8192, options);
  REQUIRE(arena.is_ok());
  CHECK(signal_of_touch(*arena, 0) == 0);
  CHECK(signal_of_touch(*arena, 8191) == 0);
  CHECK(signal_of_touch(*arena, 8192) == SIGSEGV);
  CHECK(signal_of_touch(*arena, -1) == SIGSEGV);
}

TEST_CASE("a refused pin is a fact, or an error when it is required", "[arena]") {
  // In a child: lowering the limit and giving up the capability must not touch the other tests.
  const pid_t child = fork();
  if (child == 0) {
    const rlimit small{4096, 4096};
    setrlimit(RLIMIT_MEMLOCK, &small);
    if (geteuid() == 0 && setuid(65534) != 0) {
      _exit(9);
    }
    ArenaOptions options;
    options.pin = true;
    auto soft = Arena::create(size_t{1} << 20, options);
    if (!soft.is_ok() || soft->facts().pinned ||
        soft->facts().note.find("4096") == std::string::npos) {
      _exit(1);
    }
    options.pin_required = true;
    auto hard = Arena::create(size_t{1} << 20, options);
    _exit(hard.status().code() == Code::kNoCapacity ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
