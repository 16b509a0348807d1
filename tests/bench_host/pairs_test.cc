// The statistics of the paired benches, with scripted durations: nothing here reads a clock.
#include "apps/bench_host/pairs.h"

#include "apps/bench_host/bench_host.h"

#include <catch2/catch.hpp>

#include <string>
#include <vector>

using namespace troupe::apps;

TEST_CASE("interval of the median by order statistics, against the textbook table") {
  // 1-based ranks at 95 %: n = 6: 1..6, 11: 2..10, 15: 4..12, 20: 6..15, 21: 6..16, 51: 19..33.
  REQUIRE(median_interval_low(6) == 0);
  REQUIRE(median_interval_low(11) == 1);
  REQUIRE(median_interval_low(15) == 3);
  REQUIRE(median_interval_low(20) == 5);
  REQUIRE(median_interval_low(21) == 5);
  REQUIRE(median_interval_low(51) == 18);
  REQUIRE(median_interval_low(3) == 0);
}

TEST_CASE("pairs take turns and report the median of their ratios") {
  std::string order;
  double slow = 2.0;
  const auto a = [&] {
    order += 'a';
    slow += 0.5;
    return slow;
  };
  const auto b = [&] {
    order += 'b';
    return 1.0;
  };
  const PairResult result = run_pairs(7, a, b);
  REQUIRE(order == "ababbaabbaabbaab");  // a warm-up of each, then ab, ba, ab, …
  REQUIRE(result.ratio == Approx(4.5));  // warm-up 2.5; then 3.0 … 6.0
  REQUIRE(result.low == Approx(3.0));
  REQUIRE(result.high == Approx(6.0));
  REQUIRE(result.a_seconds == Approx(4.5));
  REQUIRE(result.b_seconds == Approx(1.0));
}

TEST_CASE("the program refuses values out of range and runs a small case") {
  const auto run = [](std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) {
      argv.push_back(word.data());
    }
    return bench_host_main(static_cast<int>(argv.size()), argv.data());
  };
  REQUIRE(run({"bench host", "--pairs", "2"}) == 2);
  REQUIRE(run({"bench host", "--block-bytes", "12"}) == 2);
  REQUIRE(run({"bench host", "--pairs", "6", "--mebibytes", "16", "--block-bytes", "65536",
               "--json"}) == 0);
}
