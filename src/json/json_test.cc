#include "json/json.h"

#include <array>
#include <random>
#include <string>

#include <gtest/gtest.h>

namespace coxswain::json {
namespace {

Status error_of(std::string_view text, const ParseLimits& limits = {}) {
  return parse(text, limits).status();
}

TEST(JsonParse, KeepsNumbersExact) {
  const auto value =
      parse(R"({"a":18446744073709551615,"b":-9223372036854775808,"c":1.5e3,"d":0.1})");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(value->find("a")->to_uint64(), 18446744073709551615ULL);
  EXPECT_EQ(value->find("a")->to_int64(), std::nullopt);
  EXPECT_EQ(value->find("b")->to_int64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(value->find("c")->to_int64(), std::nullopt);
  EXPECT_EQ(value->find("c")->to_double(), 1500.0);
  EXPECT_EQ(value->find("d")->number_text(), "0.1");
  EXPECT_EQ(value->find("d")->to_double(), 0.1);
}

TEST(JsonParse, KeepsOrderAndEveryCharacter) {
  const auto value = parse("{\"z\":\"a\\u0000b\",\"a\":\"\\ud83d\\ude00 \\/ \xC3\xA9\"}");
  ASSERT_TRUE(value.ok()) << value.status().message();
  EXPECT_EQ(value->as_object().begin()->first, "z");
  EXPECT_EQ(value->find("z")->as_string(), std::string("a\0b", 3));
  EXPECT_EQ(value->find("a")->as_string(), "\xF0\x9F\x98\x80 / \xC3\xA9");
}

TEST(JsonParse, RefusesWhatIsNotStrictJson) {
  for (const std::string_view text : {"",
                                      " ",
                                      "{",
                                      "[1,]",
                                      "{\"a\":1,}",
                                      "[1] 2",
                                      "// c\n1",
                                      "{'a':1}",
                                      "NaN",
                                      "Infinity",
                                      "01",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1e",
                                      "tru",
                                      "\"\\x\"",
                                      "\"a",
                                      "\"\n\"",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "1e400",
                                      "-1e400",
                                      "\xEF\xBB\xBF{}",
                                      "\"\xff\"",
                                      "\"\xC0\x80\"",
                                      "\"\xED\xA0\x80\"",
                                      "[\"a\" \"b\"]",
                                      "{\"a\" 1}",
                                      "{1:2}"}) {
    const Status status = error_of(text);
    EXPECT_EQ(status.kind(), ErrorKind::kInvalidJson) << text;
  }
}

TEST(JsonParse, RefusesRepeatedKeysInSmallAndLargeObjects) {
  EXPECT_EQ(error_of(R"({"a":1,"a":2})").kind(), ErrorKind::kValidation);
  std::string large = "{";
  for (int i = 0; i < 100; ++i) large += "\"k" + std::to_string(i) + "\":0,";
  EXPECT_TRUE(parse(large + "\"k100\":1}").ok());
  EXPECT_EQ(error_of(large + "\"k7\":1}").kind(), ErrorKind::kValidation);
  EXPECT_EQ(error_of(large + "\"k99\":1}").kind(), ErrorKind::kValidation);
}

TEST(JsonParse, HoldsEveryLimit) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(parse(nested(128)).ok());
  EXPECT_FALSE(parse(nested(129)).ok());
  EXPECT_FALSE(parse(std::string(1'000'000, '[')).ok());
  ParseLimits limits;
  limits.elements_max = 3;
  limits.members_max = 2;
  EXPECT_TRUE(parse("[1,2,3]", limits).ok());
  EXPECT_EQ(error_of("[1,2,3,4]", limits).kind(), ErrorKind::kValidation);
  EXPECT_EQ(error_of(R"({"a":1,"b":2,"c":3})", limits).kind(), ErrorKind::kValidation);
  EXPECT_EQ(error_of(R"({"a":{"stop":[[1],[1,2,3,4]]}})", limits).message().substr(0, 45),
            "`stop` must have at most 3 elements. Given: m");
  EXPECT_EQ(error_of(R"({"stop":[1,2,3,4]})", limits).field(), "stop");
  EXPECT_TRUE(parse("[" + std::string(64, '1') + "]").ok());
  EXPECT_EQ(error_of("[" + std::string(65, '1') + "]").kind(), ErrorKind::kInvalidJson);
}

TEST(JsonParse, ArraysWithALimitElsewhereAreExemptOneLevelDeep) {
  constexpr std::array<std::string_view, 1> kNames{"prompt"};
  ParseLimits limits;
  limits.elements_max = 2;
  limits.arrays_without_limit = kNames;
  EXPECT_TRUE(parse(R"({"prompt":[1,2,3]})", limits).ok());
  EXPECT_TRUE(parse(R"({"prompt":[[1,2,3],4,5]})", limits).ok());
  EXPECT_FALSE(parse(R"({"prompt":[[[1,2,3]]]})", limits).ok());
  EXPECT_FALSE(parse(R"({"prompt":{"a":[1,2,3]}})", limits).ok());
  EXPECT_FALSE(parse(R"({"prompt":[{"a":[1,2,3]}]})", limits).ok());
  EXPECT_FALSE(parse(R"({"a":{"prompt":[1,2,3]}})", limits).ok());
  EXPECT_FALSE(parse(R"({"prompts":[1,2,3]})", limits).ok());
  EXPECT_FALSE(parse(R"([1,2,3])", limits).ok());
}

TEST(JsonParse, SaysWhere) {
  EXPECT_NE(error_of("{\n  \"a\": x}").message().find("line 2 column 8"), std::string::npos)
      << error_of("{\n  \"a\": x}").message();
}

TEST(JsonParse, TruncatedAnywhereIsAnErrorNotACrash) {
  const std::string text = R"({"a":[1,-2.5e-3,true,null,"x\u00e9\n"],"b":{"c":{}}})";
  ASSERT_TRUE(parse(text).ok());
  for (std::size_t n = 0; n < text.size(); ++n) EXPECT_FALSE(parse(text.substr(0, n)).ok()) << n;
}

TEST(JsonWrite, RoundTrips) {
  const std::string text = R"({"a":[1,-2.5e-3,true,null,"x\n\"\\\u0001é"],"b":{"c":{},"d":[]}})";
  const auto value = parse(text);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(write(*value), text);
}

TEST(JsonWrite, BrokenUtf8BecomesTheReplacementCharacter) {
  std::string out;
  append_quoted(out,
                "a\xFF"
                "b\xE2\x82");
  EXPECT_EQ(out,
            "\"a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD\xEF\xBF\xBD\"");
  EXPECT_TRUE(parse(out).ok());
}

TEST(JsonWrite, FloatsAreShortestAndFiniteOnly) {
  std::string out;
  append_real32(out, 0.1F);
  out += ' ';
  append_real32(out, std::numeric_limits<float>::quiet_NaN());
  out += ' ';
  append_real32(out, -1.2F);
  EXPECT_EQ(out, "0.1 null -1.2");
  EXPECT_EQ(write(Value::real(-1.2)), "-1.2");
}

TEST(JsonValue, CopiesDoNotShareChanges) {
  Value a = *parse(R"({"x":1})");
  Value b = a;
  b.as_object().set("x", Value::integer(2));
  b.as_object().set("y", "new");
  EXPECT_EQ(write(a), R"({"x":1})");
  EXPECT_EQ(write(b), R"({"x":2,"y":"new"})");
  EXPECT_FALSE(a == b);
}

TEST(JsonValue, LargeObjectsFindEveryKey) {
  Object object;
  for (int i = 0; i < 1000; ++i) object.append_new("k" + std::to_string(i), Value::integer(i));
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(object.find("k" + std::to_string(i))->to_int64(), i);
  EXPECT_EQ(object.find("k1000"), nullptr);
  Object copy = object;
  copy.append_new("k1000", nullptr);
  EXPECT_NE(copy.find("k1000"), nullptr);
  EXPECT_EQ(object.find("k1000"), nullptr);
  EXPECT_TRUE(copy.erase("k3"));
  EXPECT_EQ(copy.find("k3"), nullptr);
  EXPECT_EQ(copy.find("k4")->to_int64(), 4);
}

TEST(JsonParse, RandomBytesNeverCrash) {
  std::mt19937 random(1);
  const std::string alphabet = "{}[]\",:0123456789.eE+-truefalsnl\\u \n\xC3\xA9";
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const std::size_t n = random() % 24;
    for (std::size_t i = 0; i < n; ++i) text += alphabet[random() % alphabet.size()];
    const auto value = parse(text);
    if (value.ok()) {
      const auto again = parse(write(*value));
      ASSERT_TRUE(again.ok()) << text;
      EXPECT_TRUE(*again == *value) << text;
    }
  }
}

}  // namespace
}  // namespace coxswain::json
