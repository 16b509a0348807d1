// runtime/trace: tokens are permuted by a published cipher, every field with tokens is known, and
// no bytes whatever can make a core read outside of a frame or meet an exception.
#include "runtime/core/outbox.h"
#include "runtime/core/wire.h"
#include "runtime/trace/divergence.h"
#include "runtime/trace/frame_check.h"
#include "runtime/trace/frame_tokens.h"

#include <capnp/dynamic.h>
#include <capnp/schema.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

namespace troupe {
namespace {

using trace::check_frame;

std::vector<uint64_t> copy_of(const Frame& frame) {
  std::vector<uint64_t> words(frame.words().size());
  std::memcpy(words.data(), frame.words().data(), frame.words().size_bytes());
  return words;
}

std::span<const capnp::word> view(const std::vector<uint64_t>& words) {
  return {reinterpret_cast<const capnp::word*>(words.data()), words.size()};
}

Frame submit_frame(const std::vector<uint32_t>& tokens) {
  FrameScratch scratch;
  return scratch.build(FrameHeader{}, 4096, [&](wire::Message::Builder m) {
    auto spec = m.initSubmit().initSpec();
    spec.setTicket(9);
    spec.setTokens(data_of(tokens));
    spec.setKeys(data_of(std::vector<uint64_t>{1, 2, 3, 4}));
    spec.setArrival(77);
  });
}

/// One frame each of shapes that differ: lists of structs with and without pointers, text, nested
/// unions.
std::vector<Frame> frames_of_many_shapes() {
  FrameScratch scratch;
  std::vector<Frame> frames{submit_frame({1, 2, 3})};
  const auto add = [&](auto fill) { frames.push_back(scratch.build(FrameHeader{}, 4096, fill)); };
  add([](wire::Message::Builder m) {
    auto step = m.initReserve();
    step.setStep(5);
    auto rows = step.initRows(3);
    rows[1].setTokens(7);
    step.initNews(2)[0].setHitBlocks(4);
    step.setBlocks(data_of(std::vector<uint32_t>{1, 2, 3}));
  });
  add([](wire::Message::Builder m) {
    auto commit = m.initCommit();
    commit.initRows(2);
    commit.initReplies(2)[1].initUsage().setPromptTokens(11);
    commit.setTokens(data_of(std::vector<uint32_t>{8, 9}));
  });
  add([](wire::Message::Builder m) {
    auto answer = m.initAnswer();
    answer.setText("all is well");
    auto gauges = answer.initGauges(2);
    gauges[0].setName("blocks");
    gauges[1].setName("leases");
  });
  add([](wire::Message::Builder m) {
    auto swap = m.initControl().initSwapPolicy().initSwap();
    swap.setName("lru");
    swap.setParams("");
  });
  add([](wire::Message::Builder m) {
    auto batches = m.initEvents().initBatches(3);
    batches[0].setBlocks(data_of(std::vector<uint32_t>{1, 2}));
    batches[2].setTokens(data_of(std::vector<uint32_t>{16, 16}));
  });
  return frames;
}

/// Opens everything in a message, as cores do. Throws what a core would meet.
void open_all(const capnp::DynamicStruct::Reader& value);
void open_all(const capnp::DynamicValue::Reader& value) {
  if (value.getType() == capnp::DynamicValue::STRUCT) {
    open_all(value.as<capnp::DynamicStruct>());
  } else if (value.getType() == capnp::DynamicValue::LIST) {
    for (const auto element : value.as<capnp::DynamicList>()) {
      open_all(element);
    }
  }
}
void open_all(const capnp::DynamicStruct::Reader& value) {
  for (const auto field : value.getSchema().getNonUnionFields()) {
    open_all(value.get(field));
  }
  KJ_IF_MAYBE (field, value.which()) {
    open_all(value.get(*field));
  }
}

TEST_CASE("the token cipher is Speck32/64") {
  // The test vector of the paper.
  CHECK(trace::TokenCipher(0x1918111009080100ULL).apply(0x6574694CU) == 0xA86842F2U);
}

TEST_CASE("the token cipher is a permutation, the same in any length of input") {
  const trace::TokenCipher cipher(0x0123456789ABCDEFULL);
  std::vector<uint32_t> tokens(100003);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<uint32_t>(i);
  }
  cipher.apply(tokens);
  for (const size_t i : {size_t{0}, size_t{63}, size_t{64}, size_t{100000}, size_t{100002}}) {
    CHECK(tokens[i] == cipher.apply(static_cast<uint32_t>(i)));
  }
  std::sort(tokens.begin(), tokens.end());
  CHECK(std::adjacent_find(tokens.begin(), tokens.end()) == tokens.end());
}

TEST_CASE("only the tokens of a message change") {
  const trace::TokenCipher cipher(5);
  const Frame frame = submit_frame({10, 20, 10});
  std::vector<uint64_t> words = copy_of(frame);
  trace::permute_tokens(Kind::SUBMIT, {reinterpret_cast<capnp::word*>(words.data()), words.size()},
                        cipher);
  const auto tokens = trace::tokens_in(Kind::SUBMIT, view(words));
  REQUIRE(tokens.size() == 3);
  CHECK(tokens[0] == cipher.apply(10));
  CHECK(tokens[0] == tokens[2]);
  CHECK(tokens[0] != tokens[1]);
  std::memcpy(const_cast<uint32_t*>(tokens.data()), std::vector<uint32_t>{10, 20, 10}.data(), 12);
  CHECK(words == copy_of(frame));
}

TEST_CASE("every field with tokens is known to the recorder") {
  // Any Data whose name says tokens, in any message; Events.tokens are counts, not values.
  std::set<std::string> found;
  const std::function<void(const std::string&, capnp::StructSchema)> walk =
      [&](const std::string& at, capnp::StructSchema schema) {
        for (const auto field : schema.getFields()) {
          const std::string name = field.getProto().getName().cStr();
          capnp::Type type = field.getType();
          if (type.isData() && name.find("oken") != std::string::npos) {
            found.insert(at + "." + name);
          }
          if (type.isList()) {
            type = type.asList().getElementType();
          }
          if (type.isStruct()) {
            walk(at.empty() ? name : at + "." + name, type.asStruct());
          }
        }
      };
  walk("", capnp::Schema::from<wire::Message>());
  CHECK(found == std::set<std::string>{"submit.spec.tokens", "admit.spec.tokens", "stepDone.tokens",
                                       "commit.tokens", "publish.tokens", "events.batches.tokens"});
}

TEST_CASE("frames that we build pass the check") {
  for (const Frame& frame : frames_of_many_shapes()) {
    CHECK(check_frame(frame.words()).to_string() == "ok");
  }
}

TEST_CASE("whatever bits are flipped, a frame that passes can be opened everywhere") {
  uint64_t passed = 0;
  uint64_t refused = 0;
  for (const Frame& frame : frames_of_many_shapes()) {
    const std::vector<uint64_t> good = copy_of(frame);
    for (size_t bit = 0; bit < good.size() * 64; ++bit) {
      std::vector<uint64_t> bad = good;
      bad[bit / 64] ^= uint64_t{1} << (bit % 64);
      if (!check_frame(view(bad))) {
        ++refused;
        continue;
      }
      ++passed;
      FrameReader reader(view(bad));
      REQUIRE_NOTHROW(open_all(capnp::DynamicStruct::Reader(reader.message())));
    }
    for (size_t cut = 0; cut < good.size(); ++cut) {
      std::vector<uint64_t> bad(good.begin(), good.begin() + static_cast<int64_t>(cut));
      if (check_frame(view(bad))) {
        FrameReader reader(view(bad));
        REQUIRE_NOTHROW(open_all(capnp::DynamicStruct::Reader(reader.message())));
      }
    }
  }
  CHECK(passed > 1000);
  CHECK(refused > 100);
}

TEST_CASE("bytes that stand for more than they are get refused") {
  // A list of 2^29 - 1 structs of no size, in three words.
  const uint64_t root = 0x0001000100000000ULL;  // one data word, one pointer
  const uint64_t which = static_cast<uint64_t>(Kind::EVENTS);
  const std::vector<uint64_t> huge{root, which,
                                   0x0001000000000000ULL,  // EventBatch: one pointer
                                   (7ULL << 32) | 1,       // composite list of 0 words
                                   (0x1FFFFFFFULL << 2)};  // tag: elements of no size
  CHECK(check_frame(view(huge)).code() == Code::kCorrupt);
  // One text that stands for sixteen: pointers of a list all lead to it.
  FrameScratch scratch;
  const Frame frame = scratch.build(FrameHeader{}, 512, [](wire::Message::Builder m) {
    m.initAnswer().initGauges(16)[0].setName(std::string(63, 'x').c_str());
  });
  std::vector<uint64_t> words = copy_of(frame);
  const uint64_t text = uint64_t{64} << 35 | uint64_t{2}
                                                 << 32;  // 64 bytes, upper half of its pointer
  const auto first = std::find_if(words.begin(), words.end(), [&](uint64_t word) {
    return (word & ~uint64_t{0xFFFFFFFF}) == text;
  });
  REQUIRE(first != words.end());
  for (int i = 1; i < 16; ++i) {
    first[2 * i] = *first - (static_cast<uint64_t>(2 * i) << 2);
  }
  CHECK(check_frame(view(words)).code() == Code::kCorrupt);
}

TEST_CASE("the first difference of two messages is named by its path") {
  FrameScratch scratch;
  const auto reserve = [&](uint32_t tokens, uint32_t block) {
    return scratch.build(FrameHeader{}, 512, [&](wire::Message::Builder m) {
      auto step = m.initReserve();
      step.initRows(4)[3].setTokens(tokens);
      step.setBlocks(data_of(std::vector<uint32_t>{1, block}));
    });
  };
  const Frame a = reserve(7, 2);
  CHECK_FALSE(trace::first_difference(a.words(), reserve(7, 2).words()));
  const auto row = trace::first_difference(a.words(), reserve(8, 2).words());
  REQUIRE(row);
  CHECK(row->field == "reserve.rows[3].tokens");
  CHECK(row->expected == "7");
  CHECK(row->got == "8");
  const auto bytes = trace::first_difference(a.words(), reserve(7, 3).words());
  REQUIRE(bytes);
  CHECK(bytes->field == "reserve.blocks[byte 4]");
  CHECK(bytes->got == "03000000");
  const auto kind = trace::first_difference(a.words(), submit_frame({}).words());
  REQUIRE(kind);
  CHECK(kind->field == "kind");
  CHECK(kind->expected == "reserve");
  CHECK(kind->got == "submit");
}

}  // namespace
}  // namespace troupe
