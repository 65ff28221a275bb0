#include "grammar/json_schema.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/testing/grammars.h"

namespace coxswain::grammar {
namespace {

using testing::Grammar;
using testing::grammar_of;
using Space = SchemaOptions::Space;
constexpr SchemaOptions kCompact{.space = Space::kNone};

Result<Grammar> compile_text(std::string_view schema, const SchemaOptions& options = kCompact) {
  const auto value = json::parse(schema);
  if (!value.ok()) return value.status();
  return grammar_of(value.value(), options);
}

struct Case {
  const char* schema;
  std::vector<const char*> accepted;
  std::vector<const char*> rejected;
};

void check(const Case& one, const SchemaOptions& options = kCompact) {
  const auto grammar = compile_text(one.schema, options);
  ASSERT_TRUE(grammar.ok()) << one.schema << ": " << grammar.status().message();
  for (const char* text : one.accepted)
    EXPECT_TRUE(grammar->accepts(text)) << one.schema << " " << text;
  for (const char* text : one.rejected)
    EXPECT_FALSE(grammar->accepts(text)) << one.schema << " " << text;
}

std::string refusal(std::string_view schema) {
  const auto grammar = compile_text(schema);
  return grammar.ok() ? std::string() : grammar.status().message();
}

TEST(JsonSchema, AnyValueIsAnyJson) {
  check({"{}",
         {"null",
          "true",
          "-0",
          "1.5e-7",
          R"("")",
          R"("\ud83d\ude00\/")",
          "[]",
          "[[],{}]",
          R"({"a":{"b":[1,""]}})"},
         {"",
          "nul",
          "01",
          "1.",
          ".5",
          "+1",
          "\"",
          "\"\n\"",
          R"("\ud83d")",
          R"("\ude00")",
          R"("\x")",
          "[1,]",
          "{a:1}",
          "[1]]"}});
  check({"true", {"1"}, {"[1"}});
}

TEST(JsonSchema, Types) {
  check({R"({"type":["integer","null"]})", {"3", "-12", "null"}, {"3.5", "\"3\"", "true"}});
  check({R"({"type":"number","not":{"type":"integer"}})",
         {"0.5", "-3.25"},
         {"3", "3.0", "1e3", "-0.0", "7200200392517334.5"}});
}

TEST(JsonSchema, EnumAndConst) {
  check({R"({"enum":["a\"b",1.50,null,{"x":[1,2]}]})",
         {R"("a\"b")", "1.50", "null", R"({"x":[1,2]})"},
         {"1.5e0", R"({"x":[2,1]})", "\"a\""}});
  check({R"({"enum":[1,"a",2],"type":"integer","minimum":2})", {"2"}, {"1", "\"a\""}});
  check({R"({"enum":["ab","b"],"pattern":"^a"})", {"\"ab\""}, {"\"b\""}});
  check({R"({"const":{"a":1,"b":[true]}})",
         {R"({"a": 1, "b": [ true ]})"},
         {R"({"b":[true],"a":1})"}},
        {});
}

TEST(JsonSchema, ObjectsComeInTheOrderOfProperties) {
  constexpr const char* kSchema =
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},)"
      R"("required":["b"],"additionalProperties":false})";
  check(
      {kSchema,
       {R"({"b":""})", R"({"a":1,"b":""})", R"({"b":"","c":null})", R"({"a":1,"b":"x","c":null})"},
       {"{}",
        R"({"a":1})",
        R"({"b":"","a":1})",
        R"({"b":"",})",
        R"({"b":"","d":1})",
        R"({"b":"","b":""})"}});
  check({R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"additionalProperties":false})",
         {"{}", R"({"a":1})", R"({"b":1})", R"({"a":1,"c":1})", R"({"b":1,"c":1})"},
         {R"({,"a":1})", R"({"a":1,})", R"({"c":1,"a":1})"}});
}

TEST(JsonSchema, AdditionalNamesAreNotTheDeclaredOnes) {
  check(
      {R"({"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"string"}})",
       {R"({"ab":1,"a":""})", R"({"a":"","abc":"","":""})", R"({"é\"":"x"})"},
       {R"({"ab":""})", R"({"\u0061b":""})", R"({"a":1})", R"({"a":"","ab":1})"}});
  check({R"({"type":"object","required":["x"],"additionalProperties":{"type":"integer"}})",
         {R"({"x":1})", R"({"x":1,"y":2})"},
         {"{}", R"({"y":1})", R"({"x":""})"}});
}

TEST(JsonSchema, ClosedObjects) {
  check(
      {R"({"type":"object","properties":{"a":{"type":"object"},"b":{"type":"array","items":{}}},"required":["a"]})",
       {R"({ "a" : { "x" : 1 } , "b" : [ 1, 2 ] })", R"({"a":{}})"},
       {R"({"a":{},"c":1})", R"({  "a":{}})", "{\n\"a\":{}}", R"({"a":{},"b":[1 ,2]})"}},
      kTgiSchema);
}

TEST(JsonSchema, PatternsOfNames) {
  check(
      {R"({"type":"object","patternProperties":{"^n_":{"type":"integer"},"s$":{"maxLength":1}},"additionalProperties":false})",
       {"{}", R"({"n_a":1})", R"({"xs":"a"})", R"({"n_s":1})"},
       {R"({"n_a":""})", R"({"x":1})", R"({"xs":"ab"})", R"({"n_s":"a"})"}});
  check(
      {R"({"type":"object","properties":{"n_a":{"minimum":5}},"patternProperties":{"^n_":{"type":"integer"}},"required":["n_a"]})",
       {R"({"n_a":5})", R"({"n_a":7,"z":""})"},
       {R"({"n_a":4})", R"({"n_a":""})", R"({"n_a":5,"n_b":""})"}});
  check({R"({"type":"object","propertyNames":{"pattern":"^[a-c]+$","maxLength":2}})",
         {"{}", R"({"ab":1,"c":2})"},
         {R"({"d":1})", R"({"abc":1})", R"({"\u0061":1})"}});
}

TEST(JsonSchema, NumbersOfMembers) {
  check(
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,"additionalProperties":false})",
       {R"({"a":1,"b":1})", R"({"a":1,"c":1})", R"({"b":1,"c":1})"},
       {"{}", R"({"a":1})", R"({"a":1,"b":1,"c":1})"}});
  check({R"({"type":"object","minProperties":1,"maxProperties":2})",
         {R"({"a":1})", R"({"a":1,"b":1})"},
         {"{}", R"({"a":1,"b":1,"c":1})"}});
  // One name may come twice, and is one member then.
  EXPECT_NE(refusal(R"({"type":"object","minProperties":2})").find("'/minProperties'"),
            std::string::npos);
}

TEST(JsonSchema, Arrays) {
  check({R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
         {"[1]", "[1,2,3]"},
         {"[]", "[1,2,3,4]", "[\"\"]", "[1,]"}});
  check(
      {R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}],"items":false,"minItems":1})",
       {"[1]", R"([1,""])"},
       {"[]", R"([""])", R"([1,"",2])"}});
  check({R"({"type":"array","items":[{"type":"integer"}],"additionalItems":{"type":"null"}})",
         {"[]", "[1]", "[1,null,null]"},
         {"[null]", "[1,1]"}});
  check({R"({"type":"array","items":{"type":"integer"},"contains":{"minimum":5}})",
         {"[5]", "[1,7,2]"},
         {"[]", "[1,2]", R"([5,""])"}});
  check({R"({"type":"array","items":{"enum":["a","b","c"]},"uniqueItems":true,"minItems":2})",
         {R"(["a","b"])", R"(["a","c"])", R"(["a","b","c"])"},
         {R"(["a"])", R"(["a","a"])", "[]"}});
}

TEST(JsonSchema, Strings) {
  check({R"({"type":"string","minLength":2,"maxLength":3})",
         {R"("ab")", R"("é😀")", R"("\n\u0001\"")"},
         {R"("a")", R"("abcd")", R"("\u0061b")"}});
  check({R"({"type":"string","pattern":"^a+$","maxLength":2})",
         {R"("a")", R"("aa")"},
         {R"("")", R"("aaa")"}});
  check({R"({"type":"string","allOf":[{"pattern":"a"},{"pattern":"b"}],"maxLength":3})",
         {R"("ab")", R"("xba")"},
         {R"("a")", R"("abxx")"}});
  check(
      {R"({"type":"string","not":{"pattern":"^x"}})", {R"("")", R"("ax")"}, {R"("x")", R"("xa")"}});
  check({R"({"type":"string","not":{"enum":["no","nope"]}})",
         {R"("n")", R"("nop")", R"("yes")"},
         {R"("no")", R"("nope")"}});
}

TEST(JsonSchema, Formats) {
  const auto format = [](const std::string& name) {
    return compile_text(R"({"type":"string","format":")" + name + R"("})");
  };
  const auto expect = [&](const char* name,
                          const std::vector<std::string>& yes,
                          const std::vector<std::string>& no) {
    const auto grammar = format(name);
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    for (const std::string& text : yes)
      EXPECT_TRUE(grammar->accepts('"' + text + '"')) << name << " " << text;
    for (const std::string& text : no)
      EXPECT_FALSE(grammar->accepts('"' + text + '"')) << name << " " << text;
  };
  expect("date",
         {"2024-02-29", "2000-02-29", "2023-12-31"},
         {"2023-02-29", "1900-02-29", "2023-04-31", "2023-1-1"});
  expect("date-time",
         {"2024-01-31T23:59:59Z", "2024-01-31T00:00:00.5+05:30"},
         {"2024-01-31", "2024-01-31T24:00:00Z", "2024-01-31T23:59:59"});
  expect("time", {"12:00:00Z"}, {"12:00:00", "12:60:00Z"});
  expect("duration", {"P1Y2M3D", "PT1H30M", "P2W"}, {"P", "PT", "P1H", "1D"});
  expect("email", {"a.b@example.org"}, {"a", "a@", ".a@b", "a..b@c"});
  expect("uuid", {"2EB8AA08-aa98-11ea-b4aa-73b441d16380"}, {"2eb8aa08-aa98-11ea-b4aa73b441d16380"});
  expect("ipv4", {"192.168.0.1", "255.255.255.255"}, {"256.1.1.1", "1.2.3", "01.2.3.4"});
  expect("ipv6",
         {"::", "::1", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1", "1::8"},
         {":", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::"});
  expect("uri",
         {"https://a.b/c?d=e#f", "urn:x:y", "http://[::1]:80/"},
         {"/a", "a b:c", "http://a b", "//a"});
  expect("hostname", {"a.example", "x-1"}, {"-a", "a-", "a..b", "a_b"});
  expect("color", {"anything"}, {});
}

TEST(JsonSchema, Alternatives) {
  check(
      {R"({"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"additionalProperties":true,"anyOf":[)"
       R"({"properties":{"k":{"const":"a"}}},{"properties":{"k":{"const":"b"},"n":{"type":"integer"}},"required":["n"]}]})",
       {R"({"k":"a"})", R"({"k":"b","n":1})"},
       {R"({"k":"b"})", R"({"k":"c"})"}});
  check({R"({"oneOf":[{"type":"integer"},{"minimum":2,"type":"number"}]})",
         {"1", "2.5"},
         {"3", "1.5"}});
  check({R"({"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}]})",
         {R"({"a":1})", R"({"b":1})"},
         {"{}", R"({"a":1,"b":1})"}});
  check({R"({"allOf":[{"type":"integer","minimum":3},{"maximum":5}]})",
         {"3", "5"},
         {"2", "6", "4.0"}});
  check(
      {R"({"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"integer"}},"required":["a"],)"
       R"("if":{"properties":{"a":{"const":true}}},"then":{"required":["b"]}})",
       {R"({"a":true,"b":1})", R"({"a":false})", R"({"a":false,"b":1})"},
       {R"({"a":true})"}});
  check({R"({"type":"object","dependentRequired":{"a":["b"]},"properties":{"a":{},"b":{}}})",
         {"{}", R"({"a":1,"b":1})", R"({"b":1})"},
         {R"({"a":1})"}});
  check(
      {R"({"type":"object","allOf":[{"properties":{"a":{}}}],"properties":{"b":{}},"unevaluatedProperties":false})",
       {R"({"b":1,"a":1})", "{}"},
       {R"({"c":1})"}});
}

TEST(JsonSchema, References) {
  check(
      {R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/n"}},)"
       R"("required":["v"],"additionalProperties":false}},"$ref":"#/$defs/n"})",
       {R"({"v":1})", R"({"v":1,"next":{"v":2,"next":{"v":3}}})"},
       {R"({"next":{"v":1}})", R"({"v":1,"next":{}})"}});
  check(
      {R"({"$id":"http://x/y","properties":{"a":{"$ref":"http://x/y#t"}},"$defs":{"u":{"$anchor":"t","type":"null"}},"type":"object"})",
       {R"({"a":null})"},
       {R"({"a":1})"}});
  check({R"({"definitions":{"a/b~":{"type":"null"}},"$ref":"#/definitions/a~1b~0"})",
         {"null"},
         {"1"}});
}

TEST(JsonSchema, DynamicReferencesLeadToTheOnlyAnchorOfTheirName) {
  check(
      {R"({"$dynamicAnchor":"n","type":"object","properties":{"v":{"type":"null"},"next":{"$dynamicRef":"#n"}},)"
       R"("additionalProperties":false})",
       {R"({"v":null,"next":{"next":{}}})"},
       {R"({"next":{"v":1}})", R"({"next":3})"}});
  // No dynamic anchor: as $ref, whatever others there are.
  check(
      {R"({"$dynamicRef":"#t","$defs":{"t":{"$anchor":"t","type":"null"},"u":{"$dynamicAnchor":"t2"},)"
       R"("v":{"$id":"v","$dynamicAnchor":"t2"}}})",
       {"null"},
       {"1"}});
  // Which of two it is depends on what has led there.
  EXPECT_NE(
      refusal(
          R"({"$id":"http://x/a","$dynamicAnchor":"n","type":"object","properties":{"b":{"$ref":"b"}},)"
          R"("$defs":{"b":{"$id":"b","$dynamicRef":"#n","$defs":{"c":{"$dynamicAnchor":"n"}}}}})")
          .find("'/$defs/b/$dynamicRef'"),
      std::string::npos);
  EXPECT_NE(refusal(R"({"$schema":"http://json-schema.org/draft-07/schema#","$dynamicRef":"#"})")
                .find("'/$dynamicRef'"),
            std::string::npos);
}

// What stands beside a reference is kept in every draft, but where less of it would allow more.
TEST(JsonSchema, ReferencesHaveNeighbours) {
  for (const std::string draft : {"http://json-schema.org/draft-07/schema#",
                                  "https://json-schema.org/draft/2020-12/schema"}) {
    const std::string schema = "{\"$schema\":\"" + draft +
                               R"(","$ref":"#/definitions/a","type":"object","definitions":{"a":)"
                               R"({"properties":{"b":{"type":"null"}}}}})";
    check({schema.c_str(), {R"({"b":null})", "{}"}, {"1", "[]", R"({"b":1})"}});
  }
  check(
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"enum":["x",1]}},)"
       R"("oneOf":[{"$ref":"#/definitions/a","type":"string"},{"enum":[1,2]}]})",
       {"\"x\"", "2"},
       {"1"}});
  check(
      {R"({"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"enum":["x",1]}},)"
       R"("type":"object","required":["k"],"oneOf":[)"
       R"({"properties":{"k":{"$ref":"#/definitions/a","type":"string"}}},{"properties":{"k":{"enum":[1,2]}}}]})",
       {R"({"k":2})"},
       {R"({"k":1})"}});
}

TEST(JsonSchema, ValuesAreEqualAsNumbersAndObjectsAre) {
  check(
      {R"({"allOf":[{"enum":[1.0,{"a":1,"b":[20]},"1","01e0"]},{"enum":[10e-1,{"b":[2e1],"a":1},"01e0"]}]})",
       {"1.0", R"({"a":1,"b":[20]})", "\"01e0\""},
       {"\"1\"", R"({"a":1,"b":[2]})"}});
  check({R"({"enum":[[1,2],[1,1.0],["1",1]],"uniqueItems":true})",
         {"[1,2]", R"(["1",1])"},
         {"[1,1.0]"}});
}

TEST(JsonSchema, RefusesByPointer) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"$ref":"#"})", "refers to itself"},
      {R"({"properties":{"a":{"$ref":"http://x/y"}}})", "'/properties/a/$ref'"},
      {R"({"$ref":"#/$defs/none"})", "'/$ref'"},
      {R"x({"properties":{"a/b":{"pattern":"(?=a)"}}})x", "'/properties/a~1b/pattern'"},
      {R"({"type":"array","uniqueItems":true})", "'/uniqueItems'"},
      {R"({"type":"object","properties":{"a":{"type":"thing"}}})", "'/properties/a/type'"},
      {R"({"minLength":-1})", "'/minLength'"},
      {R"({"multipleOf":0})", "'/multipleOf'"},
      {R"({"type":"integer","multipleOf":123457})", "'/multipleOf'"},
      {R"({"$dynamicRef":"#a"})", "'/$dynamicRef'"},
      {R"({"not":{}})", "no value"},
      {"false", "no value"},
      {R"({"type":"string","const":1})", "no value"},
      {R"({"required":["a"],"type":"object","properties":{"a":false}})", "no value"},
      {"3", "a schema is an object or a boolean"},
  };
  for (const auto& [schema, part] : cases)
    EXPECT_NE(refusal(schema).find(part), std::string::npos) << schema << ": " << refusal(schema);
  // Nothing ends such a value.
  EXPECT_FALSE(
      compile_text(R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})").ok());
  // What is not asked for is not looked at.
  EXPECT_EQ(refusal(R"({"type":"null","uniqueItems":true,"$defs":{"a":{"$ref":"http://x"}}})"), "");
}

std::string number_schema(const char* type, const std::string& rest) {
  return std::string(R"({"type":")") + type + "\"" + (rest.empty() ? "" : "," + rest) + "}";
}

// Every integer near zero, against what the bounds say.
TEST(JsonSchema, IntegersWithinBounds) {
  for (int low = -112; low <= 112; low += 7) {
    for (int high = low; high <= 130; high += 13) {
      const auto grammar =
          compile_text(number_schema("integer",
                                     "\"minimum\":" + std::to_string(low) +
                                         ",\"exclusiveMaximum\":" + std::to_string(high + 1)));
      ASSERT_TRUE(grammar.ok()) << grammar.status().message();
      for (int i = -1200; i <= 1200; ++i)
        ASSERT_EQ(grammar->accepts(std::to_string(i)), i >= low && i <= high)
            << low << " " << i << " " << high;
    }
  }
  check({R"({"type":"integer","minimum":100})",
         {"100", "99999999999"},
         {"99", "-100", "0100", "1e3"}});
  check({R"({"type":"integer","maximum":-5})", {"-5", "-123"}, {"-4", "0", "5", "-05"}});
}

TEST(JsonSchema, MultiplesOfIntegers) {
  for (const int step : {1, 2, 3, 7, 10, 12, 25, 100, 429}) {
    for (const char* bounds : {"",
                               ",\"minimum\":-57",
                               ",\"exclusiveMinimum\":103,\"maximum\":100000",
                               ",\"maximum\":-8"}) {
      const auto grammar =
          compile_text(number_schema("integer", "\"multipleOf\":" + std::to_string(step) + bounds));
      ASSERT_TRUE(grammar.ok()) << grammar.status().message();
      const std::string_view text = bounds;
      for (int i = -1500; i <= 1500; ++i) {
        bool expected = i % step == 0;
        if (text.find("-57") != std::string_view::npos) expected = expected && i >= -57;
        if (text.find("103") != std::string_view::npos) expected = expected && i > 103;
        if (text.find("-8") != std::string_view::npos) expected = expected && i <= -8;
        ASSERT_EQ(grammar->accepts(std::to_string(i)), expected) << step << bounds << " " << i;
      }
    }
  }
}

// Every text of up to five characters of digits and a point that is a number.
TEST(JsonSchema, NumbersWithinBounds) {
  const std::string letters = "0159.-";
  struct Bounds {
    const char* text;
    double low;
    double high;
    bool open;
  };
  const Bounds cases[] = {{R"("minimum":0.5,"maximum":9.15)", 0.5, 9.15, false},
                          {R"("exclusiveMinimum":0.5,"exclusiveMaximum":9.15)", 0.5, 9.15, true},
                          {R"("minimum":-1.5,"maximum":1)", -1.5, 1, false},
                          {R"("exclusiveMinimum":-1.05,"exclusiveMaximum":0)", -1.05, 0, true},
                          {R"("minimum":1.1,"maximum":1.19)", 1.1, 1.19, false},
                          {R"("exclusiveMinimum":1,"exclusiveMaximum":55)", 1, 55, true}};
  for (const Bounds& bounds : cases) {
    const auto grammar = compile_text(number_schema("number", bounds.text));
    ASSERT_TRUE(grammar.ok()) << grammar.status().message();
    const auto free = compile_text(R"({"type":"number"})");
    ASSERT_TRUE(free.ok());
    std::vector<std::string> texts = {""};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const std::string text = texts[i];
      if (text.size() < 5) {
        for (const char c : letters) texts.push_back(text + c);
      }
      if (!free->accepts(text)) {
        EXPECT_FALSE(grammar->accepts(text)) << text;
        continue;
      }
      const double value = std::stod(text);
      const bool expected = bounds.open ? value > bounds.low && value < bounds.high
                                        : value >= bounds.low && value <= bounds.high;
      // Zero is written without a sign.
      if (value == 0 && text[0] == '-') continue;
      ASSERT_EQ(grammar->accepts(text), expected) << bounds.text << " " << text;
    }
  }
}

TEST(JsonSchema, MultiplesOfParts) {
  check({R"({"type":"number","multipleOf":0.01})",
         {"0", "-1.5", "12.34", "3.10"},
         {"1.234", "0.001", "1e2"}});
  check({R"({"type":"number","multipleOf":0.5,"minimum":0,"maximum":5})",
         {"0", "0.5", "4.5", "5", "5.0"},
         {"5.5", "0.25", "-0.5"}});
  check({R"({"type":"number","multipleOf":2.5})", {"5", "-10", "0"}, {"2", "3", "4.5"}});
  check({R"({"type":"number","multipleOf":3})", {"3", "9.0", "-12"}, {"4", "3.5"}});
}

TEST(JsonSchema, WhiteSpace) {
  constexpr const char* kSchema =
      R"({"type":"object","properties":{"a":{"type":"array","items":{"type":"integer"}}},"required":["a"]})";
  check({kSchema,
         {R"({"a":[1,2]})",
          R"({"a": [1, 2]})",
          "{\n  \"a\": [\n    1,\n    2\n  ]\n}",
          "{\r\n\t\"a\" : [ 1 , 2 ]\r\n}"},
         {R"( {"a":[1]})", "{\"a\":[1]}\n", "{\n\n\n\n\"a\":[]}"}},
        {});
  check({kSchema, {R"({"a":[1,2]})"}, {R"({"a": [1]})"}});
}

// Schemas made to take long are refused, or done, at once.
}  // namespace
}  // namespace coxswain::grammar
