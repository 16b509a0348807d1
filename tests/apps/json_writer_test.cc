#include "apps/json/json_writer.h"

#include <catch2/catch.hpp>

namespace troupe {

TEST_CASE("a JSON document keeps order, escapes text and has no trailing comma") {
  JsonWriter json;
  json.begin_object().field("b", 1).field("a", "q\"\\\n\x01").field("f", 0.1).field("t", true);
  json.key("empty").begin_array().end_array().key("list").begin_array().value(-3).value(2U);
  json.end_array().key("o").begin_object().end_object().end_object();
  CHECK(json.take() ==
        "{\n  \"b\": 1,\n  \"a\": \"q\\\"\\\\\\n\\u0001\",\n  \"f\": 0.1,\n  \"t\": true,\n"
        "  \"empty\": [],\n  \"list\": [\n    -3,\n    2\n  ],\n  \"o\": {}\n}\n");
  json.value(1.0 / 0.0);
  CHECK(json.take() == "null\n");
}

}  // namespace troupe
