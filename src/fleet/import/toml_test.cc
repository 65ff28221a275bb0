#include "fleet/import/toml.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

std::string read(std::string_view text) {
  const auto value = parse_toml(text);
  return value.ok() ? json::write(value.value()) : value.status().message();
}

TEST(Toml, ReadsTablesAndValues) {
  EXPECT_EQ(read(R"(# a template
top = 1
[router]
prefill_upper_bound = [0.4, 0.7]   # several runs
name = "a \"b\" # no comment"
raw = 'c:\d'
big = 1_000
neg = -2.5
on = true
[models."llama 3"]
path = "/m"
[models.b]
list = [
  ["x", 1],  # first
  [],
]
inline = { a = 1, b = "c" }
[empty]
)"),
            R"({"top":1,"router":{"prefill_upper_bound":[0.4,0.7],"name":"a \"b\" # no comment",)"
            R"("raw":"c:\\d","big":1000,"neg":-2.5,"on":true},"models":{"llama 3":{"path":"/m"},)"
            R"("b":{"list":[["x",1],[]],"inline":{"a":1,"b":"c"}}},"empty":{}})");
  EXPECT_EQ(read(""), "{}");
  EXPECT_EQ(read("a = 1\r\nb = 2"), R"({"a":1,"b":2})");
  EXPECT_EQ(read("[a.b]\n[a]\nx = 1\n"), R"({"a":{"b":{},"x":1}})");
}

TEST(Toml, RefusesByLineAndName) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"a = 1\na = 2", "line 2: `a` comes twice"},
      {"[t]\n[t]", "line 2: the table comes twice"},
      {"t = 1\n[t]", "line 2: `t` is a value, no table"},
      {"[[t]]", "line 1: arrays of tables are not supported"},
      {"a.b = 1", "line 1: dotted keys are not supported"},
      {"a = \"\"\"x\"\"\"", "line 1: strings over several lines are not supported"},
      {"a = \"x", "line 1: a string does not end on its line"},
      {"a = \"\\q\"", "line 1: no such escape"},
      {"a = [1, 2", "line 1: `,` or `]` is expected in an array"},
      {"a = 1979-05-27", "line 1: a string, number, boolean, array or inline table is expected"},
      {"a = 0x10", "line 1: a string, number, boolean, array or inline table is expected"},
      {"a = inf", "line 1: a string, number, boolean, array or inline table is expected"},
      {"a =", "line 1: a string, number, boolean, array or inline table is expected"},
      {"a 1", "line 1: `=` is expected behind `a`"},
      {"a = 1 b = 2", "line 1: nothing may stand behind a value but a comment"},
      {"= 1", "line 1: a key is expected"},
      {"[t", "line 1: `]` is expected"},
      {"a = { b = 1", "line 1: `,` or `}` is expected in an inline table"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(read(text), message) << text;
  EXPECT_NE(read("a = " + std::string(100, '[')).find("nested too deeply"), std::string::npos);
}

// Whatever stands in a file, it is read or refused.
TEST(Toml, EveryPrefixOfATemplateIsReadOrRefused) {
  const std::string_view whole = "[a.\"b\"]\nx = [1, { y = 'z' }]\ns = \"\\t\"\n";
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    for (const char last : {'\0', '\n', '"', '[', '\\', '='}) {
      std::string text(whole.substr(0, n));
      if (last != '\0') text.push_back(last);
      const auto value = parse_toml(text);
      EXPECT_TRUE(value.ok() || value.status().code() == Code::kInvalidArgument) << text;
    }
  }
}

TEST(Toml, TextIsUtf8) {
  const auto broken = parse_toml("a = 1\n[\"b\x99\"]\n");
  ASSERT_FALSE(broken.ok());
  EXPECT_EQ(broken.status().message(), "line 2: this is not UTF-8");
}

}  // namespace
}  // namespace coxswain::fleet
