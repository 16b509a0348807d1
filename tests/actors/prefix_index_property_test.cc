// The radix tree against a simple model: random inserts, removals, moves and leases, every lookup
// compared with a search through all blocks.
#include "tests/actors/prefix_index_world.h"

#include <algorithm>
#include <map>

namespace troupe {
namespace {

using namespace test;
using prefix::BlockTree;
using prefix::Lookup;
using prefix::make_of;
using prefix::Motion;
using prefix::NewBlock;
using prefix::TreeConfig;

constexpr uint32_t kCapacity = 300;
constexpr uint8_t kTiers = 7;

struct ModelBlock {
  uint32_t parent = kNoBlock;
  BlockKey key;
  uint8_t make = 0;
  Tokens tokens;
  uint8_t mask = 0;
  Motion motion = Motion::kNone;
  uint32_t leases = 0;
};

class Model {
 public:
  std::map<uint32_t, ModelBlock> blocks;

  uint32_t find(uint32_t parent, const BlockKey& key, uint8_t make) const {
    for (const auto& [id, b] : blocks) {
      if (b.parent == parent && b.key == key && b.make == make) {
        return id;
      }
    }
    return kNoBlock;
  }
  bool has_child(uint32_t block) const {
    return std::any_of(blocks.begin(), blocks.end(),
                       [&](const auto& e) { return e.second.parent == block; });
  }
  bool child_on(uint32_t block, uint8_t tier) const {
    return std::any_of(blocks.begin(), blocks.end(), [&](const auto& e) {
      return e.second.parent == block && ((e.second.mask >> tier) & 1U) != 0 &&
             e.second.motion != prefix::leaving(tier);
    });
  }
  bool may_leave(uint32_t block, uint8_t tier) const {
    const ModelBlock& b = blocks.at(block);
    if (((b.mask >> tier) & 1U) == 0 || b.leases != 0 || b.motion != Motion::kNone ||
        child_on(block, tier)) {
      return false;
    }
    const bool last_place = b.mask == (1U << tier) && tier == 2;
    return !last_place || !(child_on(block, 0) || child_on(block, 1) || child_on(block, 2));
  }
  BlockTree::Partial best_partial(uint32_t parent, const Tokens& tokens, uint8_t make,
                                  uint32_t least) const {
    BlockTree::Partial best;
    for (const auto& [id, b] : blocks) {
      if (b.parent != parent || b.make != make || (b.mask & 1U) == 0 || b.motion != Motion::kNone) {
        continue;
      }
      const size_t n = std::min(tokens.size(), b.tokens.size());
      const auto differ = std::mismatch(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(n),
                                        b.tokens.begin());
      const auto shared = static_cast<uint32_t>(differ.first - tokens.begin());
      if (shared >= least && shared < kBlock && shared > best.tokens) {
        best = {id, shared};
      }
    }
    return best;
  }
};

class Pair {
 public:
  explicit Pair(uint64_t seed) : rng(seed), tree(TreeConfig{kCapacity, kBlock, kTiers}) {}

  uint32_t below(uint64_t bound) { return static_cast<uint32_t>(rng.below(bound)); }
  uint32_t any() {
    if (model.blocks.empty()) {
      return kNoBlock;
    }
    auto it = model.blocks.begin();
    std::advance(it, static_cast<ptrdiff_t>(rng.below(model.blocks.size())));
    return it->first;
  }
  Tokens few_tokens(size_t n) {  // a small alphabet: siblings share leading tokens often
    Tokens t;
    for (size_t i = 0; i < n; ++i) {
      t.push_back(below(3));
    }
    return t;
  }
  BlockKey key_for(uint32_t parent, const Tokens& tokens, uint32_t salt) {
    uint64_t chain = parent == kNoBlock ? 17 : model.blocks.at(parent).key.w[3];
    for (const uint32_t t : tokens) {
      chain = mix64(chain ^ t);
    }
    chain = mix64(chain + salt + tokens.size());
    BlockKey key;
    for (uint64_t& word : key.w) {
      chain = mix64(chain);
      word = chain;
    }
    return key;
  }
  void insert() {
    const uint32_t parent = rng.chance(1, 5) ? kNoBlock : any();
    if (model.blocks.size() >= kCapacity ||
        (parent != kNoBlock && model.blocks.at(parent).tokens.size() < kBlock &&
         (model.blocks.at(parent).make & prefix::kOpaqueBit) == 0)) {
      return;
    }
    const bool opaque = rng.chance(1, 8);
    ModelBlock b;
    b.parent = parent;
    b.make = make_of(static_cast<uint8_t>(below(2)), opaque);
    b.tokens = few_tokens(rng.chance(1, 6) ? 1 + below(kBlock - 1) : kBlock);
    b.key = opaque ? BlockKey{{below(4), 0, 0, 0}} : key_for(parent, b.tokens, below(2));
    b.mask = parent == kNoBlock || (model.blocks.at(parent).mask & 1U) != 0
                 ? static_cast<uint8_t>(1 + below(7))
                 : static_cast<uint8_t>(2 * (1 + below(3)));
    if (model.find(parent, b.key, b.make) != kNoBlock) {
      return;
    }
    uint32_t id = parent + 1;  // a run goes on where it can
    if (parent == kNoBlock || id >= kCapacity || model.blocks.count(id) != 0 || rng.chance(1, 4)) {
      do {
        id = below(kCapacity);
      } while (model.blocks.count(id) != 0);
    }
    NewBlock n;
    n.block = id;
    n.parent = parent;
    n.key = b.key;
    n.make = b.make;
    n.count = static_cast<uint16_t>(b.tokens.size());
    n.tokens = opaque ? std::span<const uint32_t>() : std::span<const uint32_t>(b.tokens);
    n.mask = b.mask;
    tree.insert(n);
    model.blocks.emplace(id, b);
  }
  void remove() {
    const uint32_t id = any();
    if (id != kNoBlock && !model.has_child(id) && model.blocks.at(id).leases == 0) {
      tree.remove(id);
      model.blocks.erase(id);
    }
  }
  void change() {
    const uint32_t id = any();
    if (id == kNoBlock) {
      return;
    }
    ModelBlock& b = model.blocks.at(id);
    const auto tier = static_cast<uint8_t>(below(3));
    const auto bit = static_cast<uint8_t>(1U << tier);
    switch (below(5)) {
      case 0:
        if ((b.mask & bit) == 0 &&
            (tier != 0 || b.parent == kNoBlock || (model.blocks.at(b.parent).mask & 1U) != 0)) {
          tree.add_tier(id, tier);
          b.mask |= bit;
        }
        break;
      case 1: {
        bool child_on_device = false;
        for (const auto& [other, o] : model.blocks) {
          child_on_device = child_on_device || (o.parent == id && (o.mask & 1U) != 0);
        }
        if ((b.mask & bit) != 0 && b.mask != bit && (tier != 0 || !child_on_device)) {
          tree.drop_tier(id, tier);
          b.mask &= static_cast<uint8_t>(~bit);
        }
        break;
      }
      case 2:
        b.motion = static_cast<Motion>(below(4) == 0 ? 1 + below(5) : 0);
        tree.set_motion(id, b.motion);
        break;
      case 3:
        tree.lease(id);
        ++b.leases;
        break;
      default:
        if (b.leases > 0) {
          tree.unlease(id);
          --b.leases;
        }
    }
  }
  /// A chain that follows the tree for a while and then leaves it.
  void look() {
    std::vector<BlockKey> keys;
    Tokens tokens;
    std::vector<uint32_t> path;
    for (uint32_t id = any(); id != kNoBlock; id = model.blocks.at(id).parent) {
      path.insert(path.begin(), id);
    }
    const uint8_t make = path.empty() ? 0 : model.blocks.at(path.back()).make;
    for (const uint32_t id : path) {
      keys.push_back(model.blocks.at(id).key);
      Tokens t = model.blocks.at(id).tokens;
      t.resize(kBlock, 9);
      if (rng.chance(1, 20)) {
        t[below(kBlock)] = 8;  // the key is right, a token is not
      }
      tokens.insert(tokens.end(), t.begin(), t.end());
    }
    keys.push_back(key_for(path.empty() ? kNoBlock : path.back(), {7}, 5));
    tokens.resize(tokens.size() + kBlock, 7);

    std::vector<uint32_t> expected;
    uint32_t expected_obstacle = kNoBlock;
    uint32_t at = kNoBlock;
    uint32_t known = 0;
    bool open = true;
    for (size_t i = 0; i < keys.size(); ++i) {
      at = model.find(at, keys[i], make);
      if (at == kNoBlock) {
        break;
      }
      ++known;
      if (!open) {
        continue;
      }
      const ModelBlock& b = model.blocks.at(at);
      const Tokens asked(tokens.begin() + static_cast<ptrdiff_t>(i * kBlock),
                         tokens.begin() + static_cast<ptrdiff_t>((i + 1) * kBlock));
      if (b.motion != Motion::kNone) {
        expected_obstacle = at;
        open = false;
      } else if (b.tokens.size() != kBlock ||
                 ((b.make & prefix::kOpaqueBit) == 0 && b.tokens != asked)) {
        open = false;
      } else {
        expected.push_back(at);
      }
    }
    std::vector<uint32_t> found;
    uint32_t obstacle = 0;
    tree.match(Lookup{keys, tokens, kBlock, make}, found, obstacle);
    REQUIRE(found == expected);
    REQUIRE(obstacle == expected_obstacle);
    REQUIRE(tree.longest_prefix(keys, make, 0) == known);

    const uint32_t parent = any();
    const auto any_make = static_cast<uint8_t>(below(2));
    const Tokens asked = few_tokens(1 + below(kBlock));
    const auto best = tree.best_partial(parent, asked, any_make, 1, kBlock);
    const auto model_best = model.best_partial(parent, asked, any_make, 1);
    REQUIRE(best.tokens == model_best.tokens);
    if (parent != kNoBlock) {
      for (uint8_t tier = 0; tier < 3; ++tier) {
        REQUIRE(tree.may_leave(parent, tier) == model.may_leave(parent, tier));
      }
    }
  }

  Rng rng;
  BlockTree tree;
  Model model;
};

}  // namespace

TEST_CASE("the tree and a search through all blocks agree, whatever happened before") {
  for (const uint64_t seed : {1U, 2U, 3U, 4U}) {
    Pair pair(seed);
    for (int i = 0; i < 25000; ++i) {
      const uint32_t dice = pair.below(10);
      const bool grow = (i / 2000) % 2 == 0;  // phases of growth and of decay
      if (dice < (grow ? 4U : 1U)) {
        pair.insert();
      } else if (dice < 5) {
        pair.remove();
      } else if (dice < 8) {
        pair.change();
      } else {
        pair.look();
      }
      if (i % 2500 == 0) {
        const Status status = pair.tree.check();
        INFO("seed " << seed << " operation " << i << ": " << status.to_string());
        REQUIRE(status.is_ok());
      }
    }
    // The tree as saved is the tree.
    StateSink first;
    pair.tree.save(first);
    BlockTree copy(TreeConfig{kCapacity, kBlock, kTiers});
    StateSource source(first.data());
    const Status loaded = copy.load(source);
    INFO(loaded.to_string());
    REQUIRE(loaded.is_ok());
    StateSink second;
    copy.save(second);
    REQUIRE(first.data() == second.data());
    REQUIRE(copy.digest() == pair.tree.digest());
  }
}

TEST_CASE("a damaged snapshot of the tree is refused, never loaded in part") {
  Pair pair(9);
  for (int i = 0; i < 400; ++i) {
    pair.insert();
  }
  StateSink sink;
  pair.tree.save(sink);
  for (size_t cut = 0; cut < sink.data().size(); cut += 97) {
    BlockTree copy(TreeConfig{kCapacity, kBlock, kTiers});
    StateSource source(std::span(sink.data()).first(cut));
    CHECK_FALSE(copy.load(source).is_ok());
  }
}

TEST_CASE("answers depend on which tokens are equal, not on how they compare") {
  // A recording knows tokens under a permutation only, and its replay must decide alike.
  constexpr uint32_t kBlocks = 400;
  const auto other = [](uint32_t token) { return token * 0x9E3779B1U ^ 0x5555U; };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    Rng rng(seed);
    BlockTree plain(TreeConfig{kBlocks, 8, 3});
    BlockTree permuted(TreeConfig{kBlocks, 8, 3});
    const auto draw = [&](size_t n) {
      Tokens tokens(n);
      for (uint32_t& t : tokens) {
        t = static_cast<uint32_t>(rng.below(3));
      }
      return tokens;
    };
    const auto mapped = [&](Tokens tokens) {
      for (uint32_t& t : tokens) {
        t = other(t);
      }
      return tokens;
    };
    for (uint32_t i = 0; i < kBlocks; ++i) {
      const Tokens tokens = draw(1 + rng.below(8));
      const Tokens as_mapped = mapped(tokens);
      NewBlock b;
      b.block = i;
      b.parent = i < 3 ? kNoBlock : static_cast<uint32_t>(rng.below(3));
      b.key = BlockKey{{rng.next(), rng.next(), 0, i}};
      b.count = static_cast<uint16_t>(tokens.size());
      b.mask = static_cast<uint8_t>(1 + rng.below(3));
      b.tokens = tokens;
      plain.insert(b);
      b.tokens = as_mapped;
      permuted.insert(b);
      if (rng.chance(1, 4)) {
        plain.set_motion(i, Motion::kLoading);
        permuted.set_motion(i, Motion::kLoading);
      }
    }
    uint64_t found = 0;
    for (int i = 0; i < 500; ++i) {
      const auto parent = static_cast<uint32_t>(rng.below(3));
      const Tokens asked = draw(1 + rng.below(8));
      const auto least = static_cast<uint32_t>(rng.below(4));
      const auto a = plain.best_partial(parent, asked, 0, least, 8);
      const auto b = permuted.best_partial(parent, mapped(asked), 0, least, 8);
      REQUIRE(a.block == b.block);
      REQUIRE(a.tokens == b.tokens);
      found += a.block != kNoBlock ? 1 : 0;
    }
    CHECK(found > 100);
    std::vector<uint32_t> a;
    std::vector<uint32_t> b;
    plain.collect_subtree(1, a);
    permuted.collect_subtree(1, b);
    CHECK(a == b);
  }
}

TEST_CASE("thousands of siblings: the best partial match is a neighbour, found without a scan") {
  BlockTree tree(TreeConfig{5000, 16, 1});
  Rng rng(3);
  NewBlock root;
  root.block = 0;
  root.key = BlockKey{{1, 2, 3, 4}};
  root.count = 16;
  const Tokens head = prompt(16, 1);
  root.tokens = head;
  root.mask = 1;
  tree.insert(root);
  std::vector<Tokens> all;
  for (uint32_t i = 1; i < 5000; ++i) {
    Tokens t = prompt(16, i);
    for (size_t k = 0; k < 8; ++k) {
      t[k] = 5;  // a chat template: all begin the same way
    }
    NewBlock b = root;
    b.block = i;
    b.parent = 0;
    b.key = BlockKey{{rng.next(), 0, 0, i}};
    b.tokens = t;
    tree.insert(b);
    all.push_back(t);
  }
  for (size_t i = 0; i < all.size(); i += 61) {
    Tokens asked = all[i];
    asked[12] ^= 1U;
    const auto best = tree.best_partial(0, asked, 0, 8, 16);
    CHECK(best.block == i + 1);
    CHECK(best.tokens == 12);
  }
}

}  // namespace troupe
