// A CUDA driver without a GPU: device memory is host memory, streams are queues that advance one
// command per query, kernels run on the CPU loops. Any error can be made to happen at the n-th
// call, alone or sticky, and everything that was created must have been given back at the end.
#pragma once

#include "kernels/cuda/driver.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace troupe::kernels::cuda {

class FakeDriver {
 public:
  /// Only one at a time: the table's functions have no context argument.
  FakeDriver();
  ~FakeDriver();
  DriverTable table() const;

  /// The `call`-th call from now on (1 is the next) answers `error`; `sticky`: and all after it.
  void fail_at(uint64_t call, Result error, bool sticky);
  uint64_t calls() const { return calls_; }
  /// What was created and not given back: "2 events, 1 stream", or empty.
  std::string leaks() const;

 private:
  struct Stream {
    std::deque<std::function<bool()>> commands;  // false: not ready yet
  };
  struct Event {
    uint64_t recorded = 0;
    uint64_t reached = 0;
  };
  friend struct FakeCalls;

  Result step();
  /// Runs at most one command of every stream.
  bool advance();

  uint64_t calls_ = 0;
  uint64_t fail_call_ = 0;
  Result fail_error_ = 0;
  bool fail_sticky_ = false;
  Result stuck_ = 0;
  int contexts_ = 0;
  int modules_ = 0;
  std::set<uint64_t> memory_;
  std::set<void*> host_memory_;
  std::set<void*> registered_;
  std::map<void*, Stream> streams_;
  std::map<void*, Event> events_;
  uint64_t next_handle_ = 1;
};

}  // namespace troupe::kernels::cuda
