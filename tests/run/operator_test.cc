// What an operator can do to a run's policies, and what comes of it.
#include "apps/run/operator.h"

#include "apps/run/run.h"
#include "tests/run/small_runs.h"

#include <catch2/catch.hpp>

namespace troupe {

using namespace small_runs;

namespace {

RunOptions with(std::initializer_list<const char*> commands) {
  RunOptions options;
  for (const char* text : commands) {
    auto command = parse_command(text);
    INFO(command.status().to_string());
    REQUIRE(command.is_ok());
    options.script.push_back(*command);
  }
  return options;
}

}  // namespace

TEST_CASE("commands are read word by word, wrong ones are named with what could stand there") {
  const auto swap = parse_command("12=swap host ./a.so:x=1,y=2");
  REQUIRE(swap.is_ok());
  CHECK(swap->at == 12);
  CHECK(swap->slot == 1);
  CHECK(swap->policy == "./a.so");
  CHECK(swap->params == "x=1,y=2");
  const auto shadow = parse_command("0=shadow big=troupe blocks=900 one-in=8");
  REQUIRE(shadow.is_ok());
  CHECK(shadow->name == "big");
  CHECK(shadow->blocks == 900);
  CHECK(shadow->one_in == 8);
  for (const char* text : {"",
                           "swap lru",
                           "x=swap lru",
                           "-1=rollback",
                           "5=",
                           "5=swap",
                           "5=swap nowhere lru",
                           "5=swap device lru more",
                           "5=rollback nowhere",
                           "5=shadow lru",
                           "5=shadow =lru",
                           "5=shadow a=lru blocks=0",
                           "5=shadow a=lru blocks=1e3",
                           "5=shadow a=lru one-in=5000000000",
                           "5=shadow a=lru size=3",
                           "5=unshadow",
                           "5=promote",
                           "5=promote a nowhere",
                           "5=dance",
                           "99999999999999999999=policies"}) {
    CAPTURE(text);
    const auto command = parse_command(text);
    REQUIRE(!command.is_ok());
    CHECK(command.status().code() == Code::kInvalidArgument);
    CHECK(command.status().text().find(text) != std::string::npos);
  }
}

TEST_CASE("an operator watches, promotes, rolls back; every request is answered all the while") {
  for (const char* dispatcher : {"inline", "caf"}) {
    for (const bool serial : {true, false}) {
      CAPTURE(dispatcher, serial);
      RunConfig config = small(120, 60);
      config.dispatcher = dispatcher;
      RunOptions options =
          with({"0=shadow s=s3fifo_leaf", "0=shadow l=lru", "20=policies", "30=promote s",
                "50=rollback", "60=rollback", "60=unshadow s", "61=promote s", "62=rollback host",
                "63=swap scheduling lpm", "64=swap nonsense"});
      options.serial = serial;
      const RunReport report = must_run(config, sessions(20, 4, 8), options);
      CHECK(report.all.completed == 80);
      CHECK(report.mismatches == 0);
      const auto& done = report.operated.commands;
      REQUIRE(done.size() == 11);
      const std::vector<bool> ok = {true, true,  true, true, true, true,
                                    true, false, true, true, false};
      for (size_t i = 0; i < ok.size(); ++i) {
        CAPTURE(done[i].command, done[i].text);
        CHECK(done[i].ok == ok[i]);
      }
      CHECK(done[2].gauges.at("understudy.s.complete") == 1);
      CHECK(done[2].gauges.at("understudy.s.accesses") ==
            done[2].gauges.at("understudy.l.accesses"));
      CHECK(done[7].text.find("\"s\"") != std::string::npos);
      CHECK(done[10].text.find("nonsense") != std::string::npos);
      std::vector<std::string> to;
      for (const auto& change : report.operated.listed) {
        to.push_back(change.slot + " " + change.to + " " + change.cause);
      }
      CHECK(to == std::vector<std::string>{"device s3fifo_leaf swap", "device lru rollback",
                                           "device s3fifo_leaf rollback", "host lru rollback",
                                           "scheduling lpm swap"});
      const std::string text = report_text(report);
      CHECK(text.find("understudy l") != std::string::npos);
      CHECK(text.find("device: lru -> s3fifo_leaf") != std::string::npos);
    }
  }
}

TEST_CASE("an understudy of the live policy hits what the live one hits, one request at a time") {
  RunOptions options = with({"0=shadow twin=lru"});
  options.serial = true;
  options.prompt_only = true;
  const RunReport report = must_run(small(300), sessions(20, 4, 8), options);
  CHECK(report.gauges.at("understudy.twin.hits") ==
        static_cast<int64_t>(report.all.prefix_hit_blocks));
  CHECK(report.gauges.at("understudy.twin.accesses") ==
        static_cast<int64_t>(report.all.prefix_query_blocks));
  CHECK(report.gauges.at("understudy.twin.evictions") > 0);
}

}  // namespace troupe
