#include "openapi/notation.h"

#include <gtest/gtest.h>

namespace coxswain::openapi {
namespace {

TEST(Notation, TypesAndTheirBounds) {
  const auto text = [](std::string_view type) { return json::write(schema_of(type)); };
  EXPECT_EQ(text("bool"), R"({"type":"boolean"})");
  EXPECT_EQ(text("any"), "{}");
  EXPECT_EQ(text("number > 0 <= 1"), R"({"type":"number","exclusiveMinimum":0,"maximum":1})");
  EXPECT_EQ(text("u32 >= 1"), R"({"type":"integer","minimum":1,"maximum":4294967295})");
  EXPECT_EQ(text("string >= 1 <= 64"), R"({"type":"string","minLength":1,"maxLength":64})");
  EXPECT_EQ(text("[Token]"), R"({"type":"array","items":{"$ref":"#/components/schemas/Token"}})");
  EXPECT_EQ(text("[string >= 1] <= 4"),
            R"({"type":"array","items":{"type":"string","minLength":1},"maxItems":4})");
  EXPECT_EQ(text("{number|null}"),
            R"({"type":"object","additionalProperties":)"
            R"({"anyOf":[{"type":"number"},{"type":"null"}]}})");
  EXPECT_EQ(text("'a'"), R"({"type":"string","const":"a"})");
  EXPECT_EQ(text("'a'|'b c'"), R"({"type":"string","enum":["a","b c"]})");
  EXPECT_EQ(text("string|[string]"),
            R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})");
}

TEST(Notation, OrNull) {
  const auto text = [](std::string_view type) { return json::write(nullable_schema_of(type)); };
  EXPECT_EQ(text("any"), "{}");
  EXPECT_EQ(text("bool"), R"({"type":["boolean","null"]})");
  EXPECT_EQ(text("'a'|'b'"), R"({"type":["string","null"],"enum":["a","b",null]})");
  EXPECT_EQ(text("'a'"), R"({"anyOf":[{"type":"string","const":"a"},{"type":"null"}]})");
  EXPECT_EQ(text("Token"), R"({"anyOf":[{"$ref":"#/components/schemas/Token"},{"type":"null"}]})");
  EXPECT_EQ(text("bool|number"),
            R"({"anyOf":[{"type":"boolean"},{"type":"number"},{"type":"null"}]})");
}

TEST(NotationDeathTest, WhatIsNone) {
  EXPECT_DEATH(schema_of("strng"), "no type");
  EXPECT_DEATH(schema_of("[string"), "has no end");
  EXPECT_DEATH(schema_of("string string"), "behind its end");
}

}  // namespace
}  // namespace coxswain::openapi
