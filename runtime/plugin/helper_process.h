// One running troupe-policy-host, from the server's side: start, write records, wait for answers,
// and find out how it ended. The shared memory's size is sealed, so the helper can't pull it away.
#pragma once

#include "runtime/base/status.h"
#include "runtime/plugin/hosted.h"
#include "runtime/plugin/hosted_wire.h"

#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace troupe::plugin {

class HelperProcess {
 public:
  explicit HelperProcess(const HostedOptions& options) : options_(options) {}
  ~HelperProcess();
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  /// Errors: kNotFound (no program), kInternal (how it ended), kUnsupported (what it refused).
  Expected<hosted::Hello> start(const std::string& library, const std::string& id,
                                const InstanceOptions& instance);
  /// Writes a record made of `parts`, each padded to 8 bytes. False: the helper is gone.
  bool write(uint32_t kind, std::span<const std::span<const uint8_t>> parts);
  /// The same, then waits for the answer. Its body lies at `body` until the next call. `status`:
  /// the policy's. False: the helper is gone, hung, or answers nonsense; it is stopped.
  bool ask(uint32_t kind, std::span<const std::span<const uint8_t>> parts, int32_t& status,
           std::vector<uint8_t>& body);
  /// Empty while all is well; else what ended it.
  const std::string& failure() const noexcept { return failure_; }
  pid_t process() const noexcept { return process_; }

 private:
  Status map(uint32_t capacity);
  Status spawn(const std::string& program, const std::string& library, const std::string& id,
               const InstanceOptions& instance);
  bool room_for(uint32_t bytes, int64_t deadline);
  bool answered(uint32_t number, int64_t deadline);
  bool alive();
  void stop(const std::string& why);
  const char* doing() const;

  HostedOptions options_;
  int fd_ = -1;
  uint64_t mapped_ = 0;
  hosted::Shared* shared_ = nullptr;
  uint8_t* ring_ = nullptr;
  uint8_t* answer_ = nullptr;
  uint32_t answer_max_ = 0;
  uint32_t head_ = 0;
  uint32_t asked_ = 1;  // the helper's own first answer
  uint32_t kind_ = 0;   // of the record at hand, for messages
  pid_t process_ = 0;
  std::string failure_;
};

}  // namespace troupe::plugin
