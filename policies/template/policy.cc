// @NAME@: what it gives up first, and why. Copied from policies/template: change everything below.
// As it stands: of the leaves that nobody uses, the one whose last use lies farthest back goes
// first, but a block that was used again since it came counts as `bonus` requests younger.
#include "policies/sdk/eviction.h"
#include "policies/sdk/heap.h"

#include <array>
#include <vector>

namespace {
using namespace troupe::sdk;

struct Policy {
  static constexpr Describe kAbout{.id = "@NAME@", .version = "1", .paper = "name your source"};
  static constexpr std::array kParams{troupe_param_desc{
      "bonus", "requests by which a reused block counts as younger", 0, 1e6, 100}};
  // What one block needs to remember; saved and loaded as it is, so no padding and no pointers.
  struct Record {
    int64_t last, again;
  };

  Policy(const Config& c, const Blocks&)
      : bonus_(static_cast<int64_t>(c.params["bonus"])), leaves_(c.capacity), state_(c.capacity) {}

  void on_insert(const NewBlock& n, const Moment& m) {
    state_[n.block] = {static_cast<int64_t>(m.ordinal), 0};
  }
  void on_hit(uint32_t b, const Moment& m) { state_[b] = {static_cast<int64_t>(m.ordinal), 1}; }
  void on_leaf(uint32_t b) { leaves_.push(b, {state_[b].last + state_[b].again * bonus_, 0}); }
  void on_no_leaf(uint32_t b) { leaves_.erase(b); }
  uint32_t victim() { return leaves_.empty() ? kNone : leaves_.pop(); }

  Record save(uint32_t b) const { return state_[b]; }
  bool load(uint32_t b, const Record& r) {
    state_[b] = r;
    return true;
  }

 private:
  int64_t bonus_;
  Heap leaves_;
  std::vector<Record> state_;
};

}  // namespace

TROUPE_EVICTION_POLICY(Policy)
