#include "reply/json_scanner.h"

#include <string>

#include <gtest/gtest.h>

#include "json/json.h"

namespace coxswain::reply {
namespace {

using Step = JsonScanner::Step;

// The length of the value that `text` begins with; npos if it does not end within or is none.
std::size_t value_length(std::string_view text) {
  JsonScanner scanner;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const Step step = scanner.feed(text[i]);
    if (step == Step::kEnd) return i + 1;
    if (step == Step::kEndBefore) return i;
    if (step == Step::kBad) return std::string_view::npos;
  }
  return std::string_view::npos;
}

TEST(JsonScanner, EndsWhereAValueEnds) {
  for (const std::string_view text : {"{}",
                                      "[]",
                                      "\"\"",
                                      "{ }",
                                      R"({"a":1,"b":[true,false,null],"c":{"d":"}"}})",
                                      R"([0,-0,-1.5e+7,10,2E-3,"\u00e9\"\\",[[]],{"x":{}}])",
                                      R"("]\"}")"}) {
    std::string more(text);
    more += " tail";
    EXPECT_EQ(value_length(more), text.size()) << text;
    EXPECT_TRUE(json::parse(text).ok()) << text;
  }
}

TEST(JsonScanner, ScalarsEndBeforeWhatFollows) {
  for (const std::string_view text : {"0", "-12", "3.25", "1e9", "true", "false", "null"}) {
    std::string more(text);
    more += ',';
    EXPECT_EQ(value_length(more), text.size()) << text;
    EXPECT_EQ(value_length(text), std::string_view::npos) << text;
  }
}

TEST(JsonScanner, RefusesWhatIsNoJson) {
  for (const std::string_view text :
       {"{,}",       "{\"a\"}",       "{\"a\":}",  "{\"a\":1,}", "[1,]", "[1 2]", "{\"a\" 1}",
        "{'a':1}",   "[01]",          "[1.]",      "[-]",        "[1e]", "[tru]", "[nulll]",
        "[\"\\x\"]", "[\"\\u12g4\"]", "{\"a\":1]", "[1}",        "x",    " 1",    "]"}) {
    std::string more(text);
    more += "]}]}";
    EXPECT_EQ(value_length(more), std::string_view::npos) << text;
  }
}

TEST(JsonScanner, NestingHasALimit) {
  std::string deep(JsonScanner::kDepthMax, '[');
  deep.append(JsonScanner::kDepthMax, ']');
  EXPECT_EQ(value_length(deep), deep.size());
  deep.insert(0, "[");
  deep += ']';
  EXPECT_EQ(value_length(deep), std::string_view::npos);
}

}  // namespace
}  // namespace coxswain::reply
