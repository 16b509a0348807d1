// The lookups that understudies of a run saw, as a trace: `troupe lab` over it counts what they
// counted. Watches the inbox of `understudies`, on the thread that steps it.
#pragma once

#include "runtime/base/status.h"
#include "runtime/core/dispatcher.h"

#include <fstream>
#include <memory>
#include <string>
#include <unordered_map>

namespace troupe {

class LookupLog final : public DeliveryObserver {
 public:
  /// Errors: the file cannot be written.
  static Expected<std::unique_ptr<LookupLog>> open(const std::string& path);
  void attach(Dispatcher& dispatcher);
  /// Errors: something could not be written.
  Status close();

  void on_deliver(Address to, uint64_t inbox_seq, const Frame& frame) override;
  void on_stepped(Address, uint64_t, const std::vector<Outgoing>&) override {}

 private:
  std::string path_;
  std::ofstream file_;
  std::unordered_map<uint64_t, uint64_t> numbers_;  // key -> hash id; never iterated
  uint64_t skipped_ = 0;
};

}  // namespace troupe
