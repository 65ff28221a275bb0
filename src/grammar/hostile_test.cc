// Grammars made to take long, or to become large: each is refused, or compiled and walked, within a bound of work.

#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/token_masks.h"

namespace coxswain::grammar {
namespace {

using Kind = Source::Kind;

// Of CPU time. The longest took 0.4 s where it was written, 6 s under a sanitizer; what has no bound does not end.
constexpr double kSecondsMax = 60.0;
constexpr int kWalkTokens = 30;

constexpr const char* kTaken = "";
constexpr const char* kStates = "more than 200000 states";
constexpr const char* kTextStates = "the restrictions of the text need more than";
constexpr const char* kAlternatives = "more than 256 alternatives";
constexpr const char* kCombinations = "more than 20000 combinations";
constexpr const char* kMerges = "more than 200000 merges";
constexpr const char* kNesting = "groups nest more than 200 deep";
constexpr const char* kAnchor = "an anchor of the pattern has something before";
constexpr const char* kRanges = "more than 1000000 ranges of characters";
constexpr const char* kNeedsGroup = "a repetition of a repetition needs a group";

struct Hostile {
  std::string name;
  Source source;
  const char* refusal;  // a part of the message; kTaken: none
};
using Set = std::vector<Hostile>;

std::string repeated(std::string_view text, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += text;
  return out;
}

// write("0"), write("1"), ... with commas.
std::string listed(std::size_t n, const std::function<std::string(const std::string&)>& write) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) out += (i > 0 ? "," : "") + write(std::to_string(i));
  return out;
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

void add_schema(Set& out, std::string name, std::string schema, const char* refusal) {
  out.push_back({std::move(name), {.text = std::move(schema)}, refusal});
}

// Each definition refers to the one before twice: 2^44 references.
void add_doubled(Set& out) {
  const std::string doubled = R"({"$defs":{"d0":{"type":"string"})" + [] {
    std::string definitions;
    for (int i = 1; i <= 44; ++i) {
      const std::string before = R"({"$ref":"#/$defs/d)" + std::to_string(i - 1) + "\"}";
      definitions.append(",\"d").append(std::to_string(i)).append(R"(":{"KEY":[)");
      definitions.append(before).append(",").append(before).append("]}");
    }
    return definitions;
  }() + "},";
  struct Row {
    const char* key;
    const char* alone;
    const char* with_enum;
    const char* negated;
  };
  constexpr const char* kCannotTell = "matches the other keywords cannot be told";
  const Row rows[] = {
      {"allOf", kTaken, kCannotTell, kAlternatives},
      {"anyOf", kAlternatives, kAlternatives, kTaken},
      {"oneOf", kMerges, kMerges, kCombinations},
      {"prefixItems", kTaken, kTaken, kTaken},
  };
  for (const Row& row : rows) {
    const std::string begin = replaced(doubled, "KEY", row.key);
    const std::string name = std::string("doubled ") + row.key;
    add_schema(out, name, begin + R"("$ref":"#/$defs/d44"})", row.alone);
    add_schema(out,
               name + " with enum",
               begin + R"("$ref":"#/$defs/d44","enum":["a","b"]})",
               row.with_enum);
    add_schema(out, name + " in not", begin + R"("not":{"$ref":"#/$defs/d44"}})", row.negated);
  }
}

void add_references(Set& out) {
  std::string chain = R"({"$defs":{"d0":{"type":"string"})";
  for (int i = 1; i <= 5000; ++i) {
    chain += ",\"d" + std::to_string(i) + R"(":{"$ref":"#/$defs/d)" + std::to_string(i - 1) + "\"}";
  }
  add_schema(
      out, "a long chain", chain + R"(},"$ref":"#/$defs/d5000"})", "more than 100 schemas lead");
  add_schema(out,
             "recursion in every member",
             R"({"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{)" +
                 listed(400,
                        [](const std::string& i) {
                          return "\"m" + i +
                                 R"(":{"anyOf":[{"$ref":"#/$defs/n"},{"type":"null"}]})";
                        }) +
                 "}}}}",
             "the nesting of values is limited to 150");
  add_schema(out,
             "recursion without end",
             R"({"$ref":"#/$defs/a","$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/b"},)"
             R"("minItems":1},"b":{"type":"array","items":{"$ref":"#/$defs/a"},"minItems":1}}})",
             "allows no text at all");
  add_schema(out, "itself", R"({"$ref":"#"})", "refers to itself for the same value");
  add_schema(
      out, "deep", repeated(R"({"items":)", 5'000) + "{}" + repeated("}", 5'000), "too deep");
}

void add_alternatives(Set& out) {
  add_schema(out,
             "all of any",
             R"({"allOf":[)" +
                 listed(40,
                        [](const std::string& i) {
                          return R"({"anyOf":[{"minimum":)" + i + R"(},{"minLength":)" + i + "}]}";
                        }) +
                 "]}",
             kAlternatives);
  add_schema(out,
             "one of many",
             R"({"oneOf":[)" +
                 listed(200,
                        [](const std::string& i) {
                          return R"({"properties":{"p)" + i +
                                 R"(":{"oneOf":[{"minimum":1},{"maximum":3}]}}})";
                        }) +
                 "]}",
             kCombinations);
  add_schema(
      out,
      "all of patterns",
      R"({"type":"string","allOf":[)" +
          listed(60,
                 [](const std::string& i) { return R"({"pattern":"[ab]*a[ab]{)" + i + "}\"}"; }) +
          "]}",
      kTextStates);
}

void add_enums(Set& out) {
  const auto quoted = [](const std::string& i) { return "\"v" + i + "\""; };
  const std::string huge = R"("enum":[)" + listed(20'000, quoted) + "]";
  add_schema(out, "a huge enum", "{" + huge + "}", kTaken);
  add_schema(
      out,
      "a huge enum of long texts",
      R"({"enum":[)" +
          listed(9'000,
                 [](const std::string& i) { return "\"" + i + std::string(20, 'v') + "\""; }) +
          "]}",
      kStates);
  add_schema(
      out,
      "a huge enum of objects",
      R"({"enum":[)" +
          listed(6'000, [](const std::string& i) { return "{\"k" + i + "\":[" + i + ",{}]}"; }) +
          "]}",
      kTaken);
  add_schema(out,
             "elements that differ",
             R"({"type":"array","uniqueItems":true,"items":{)" + huge + "}}",
             kStates);
  add_schema(
      out,
      "two huge enums",
      R"({"allOf":[{)" + huge.substr(0, 100'000) + "\"]},{" + huge.substr(0, 90'000) + "\"]}]}",
      kTaken);
  add_schema(out,
             "a huge enum of many alternatives",
             "{" + huge + R"(,"allOf":[)" +
                 listed(12,
                        [](const std::string& i) {
                          return R"({"anyOf":[{"minLength":)" + i + R"(},{"maxLength":)" + i +
                                 "}]}";
                        }) +
                 "]}",
             kCombinations);
  add_schema(out,
             "a huge value of many alternatives",
             R"({"const":[)" + listed(20'000, quoted) + R"(],"anyOf":[)" +
                 listed(5'000, [](const std::string& i) { return R"({"const":)" + i + "}"; }) +
                 "]}",
             "more than 400000 comparisons of values");
  add_schema(out,
             "a huge value that differs",
             R"({"uniqueItems":true,"const":[)" + listed(20'000, quoted) + "]}",
             kStates);
  add_schema(out, "many excluded", R"({"type":"string","not":{)" + huge + "}}", kTaken);
}

void add_members(Set& out) {
  add_schema(out,
             "many members",
             R"({"type":"object","properties":{)" +
                 listed(3'000,
                        [](const std::string& i) {
                          return "\"name_of_member_" + i + R"(":{"type":"string","maxLength":40})";
                        }) +
                 "}}",
             kTaken);
  add_schema(out,
             "many members and a bound",
             R"({"type":"object","maxProperties":60,"properties":{)" +
                 listed(1'500, [](const std::string& i) { return "\"n" + i + R"(":{})"; }) + "}}",
             kStates);
  add_schema(out,
             "members with patterns",
             R"({"type":"object","properties":{)" +
                 listed(1'200,
                        [](const std::string& i) {
                          return "\"n" + i + R"(":{"type":"string","pattern":"(a|b)*a[ab]{9}c)" +
                                 i + R"(","maxLength":90,"minLength":3})";
                        }) +
                 "}}",
             "the lengths of what the pattern matches");
  add_schema(out,
             "patterns of names",
             R"({"type":"object","patternProperties":{)" +
                 listed(4,
                        [](const std::string& i) {
                          return "\"[ab]*a[ab]{9" + i + R"(}":{"type":"null"})";
                        }) +
                 "}}",
             kTextStates);
  add_schema(out,
             "many patterns of names",
             R"({"type":"object","patternProperties":{)" +
                 listed(4'000, [](const std::string& i) { return "\"a" + i + R"(":{})"; }) + "}}",
             "more than 4 patterns cannot be told apart");
}

void add_bounds(Set& out) {
  add_schema(out,
             "bounds within bounds",
             repeated(R"({"type":"array","maxItems":4000,"items":)", 60) + R"({"type":"array"})" +
                 repeated("}", 60),
             kStates);
  add_schema(out,
             "long strings",
             R"({"type":"array","prefixItems":[)" +
                 listed(300,
                        [](const std::string& i) {
                          return R"({"type":"string","minLength":9)" + i.substr(0, 1) + "00}";
                        }) +
                 "]}",
             kTaken);
  add_schema(out,
             "digits",
             R"({"type":"integer","multipleOf":1999,"minimum":17,"maximum":99999999999999})",
             kStates);
  add_schema(out,
             "many divisors",
             R"({"prefixItems":[)" +
                 listed(900,
                        [](const std::string& i) {
                          return R"({"type":"integer","multipleOf":1)" + i + "}";
                        }) +
                 "]}",
             "the size of its grammar is limited");
}

// Alone, as the pattern of a schema, and where the language has to be made deterministic.
void add_pattern(Set& out,
                 const std::string& name,
                 const std::string& pattern,
                 const char* refusal,
                 const char* with_bounds) {
  out.push_back({name, {.kind = Kind::kRegex, .text = pattern}, refusal});
  const std::string quoted = replaced(pattern, "\\", "\\\\");
  add_schema(
      out, name + " in a schema", R"({"type":"string","pattern":")" + quoted + "\"}", refusal);
  add_schema(out,
             name + " with bounds",
             R"({"type":"string","minLength":7,"maxLength":900,"not":{"pattern":"x"},"pattern":")" +
                 quoted + "\"}",
             with_bounds);
}

void add_patterns(Set& out) {
  add_pattern(out, "doubling repeats", "((((((a{9}){9}){9}){9}){9}){9}){9}", kTaken, kTextStates);
  add_pattern(out,
              "stars of stars",
              repeated("(", 60) + "a*" + repeated("*)*", 30) + repeated(")", 30),
              kNeedsGroup,
              kNeedsGroup);
  add_pattern(
      out, "groups of stars", repeated("(", 150) + "a*" + repeated(")*", 150), kTaken, kTaken);
  add_pattern(out, "a letter long ago", "(a|b)*a(a|b){30}", kTaken, kTextStates);
  add_pattern(
      out, "two letters long ago", "([a-z]*q[a-z]{900}|[a-z]*x[a-z]{700})*", kTaken, kTextStates);
  add_pattern(
      out, "optional ones", repeated("a?", 3'000) + repeated("a", 3'000), kTaken, kTextStates);
  add_pattern(out, "a bound of alternatives", "(aa|aab|aabb|b|ab){1,900}c", kTaken, kTextStates);
  add_pattern(out, "wide classes", repeated("[^\\u0000-\\u07ff]", 3'000), kTaken, kTextStates);
  add_pattern(out, "properties", repeated("\\p{L}", 2'000), kRanges, kRanges);
  add_pattern(out,
              "groups in groups",
              repeated("(", 4'000) + "a" + repeated(")", 4'000),
              kNesting,
              kNesting);
  add_pattern(out, "anchors everywhere", repeated("(^a|b$)", 40), kAnchor, kAnchor);
}

void add_rules(Set& out) {
  const auto add = [&](std::string name, std::string rules, const char* refusal) {
    out.push_back({std::move(name), {.kind = Kind::kRules, .text = std::move(rules)}, refusal});
  };
  std::string calls = "root ::= r0\n";
  for (int i = 0; i < 2'000; ++i) {
    const std::string next = " r" + std::to_string(i + 1);
    calls.append("r")
        .append(std::to_string(i))
        .append(" ::=")
        .append(next)
        .append(next)
        .append("\n");
  }
  add("rules that call two", calls + "r2000 ::= \"a\"\n", kTaken);
  add("rules that call themselves", "root ::= \"a\" root root | \"a\" root | \"b\"\n", kTaken);
  add("empty rules in turn",
      "root ::= a* \na ::= b* \nb ::= \"\" | a\n",
      "calls itself before it reads anything");
  add("repeats of rules",
      "root ::= a{90000}\na ::= b{90000}\nb ::= c{90000} | \"x\"\nc ::= \"y\"{90000}\n",
      kStates);
}

void add_texts(Set& out) {
  Source choices{.kind = Kind::kChoice};
  for (int i = 0; i < 30'000; ++i) choices.choices.push_back("c" + std::to_string(i));
  out.push_back({"many choices", std::move(choices), kTaken});
  Source tags{.kind = Kind::kTags};
  for (int i = 0; i < 900; ++i) {
    const std::string begin = "<" + std::to_string(i);
    tags.tags.push_back({.begin = begin + ">", .schema = R"({"type":"object"})", .end = "</>"});
    tags.triggers.push_back(begin);
  }
  out.push_back({"many tags", std::move(tags), kStates});
  const std::string large(10U << 20, ' ');
  constexpr const char* kBytes = "has 10485760 bytes; at most 262144 are allowed";
  for (const Kind kind : {Kind::kJsonSchema, Kind::kRegex, Kind::kRules})
    out.push_back({"ten megabytes", {.kind = kind, .text = large}, kBytes});
  out.push_back({"ten megabytes", {.kind = Kind::kChoice, .choices = {large}}, kBytes});
}

// Where the masks lead, always by another token.
void walk(Program program) {
  const auto trie = std::make_shared<const TokenTrie>(
      256, [](TokenId id) { return std::string(1, static_cast<char>(id)); });
  const TokenMasks masks(std::move(program), trie);
  auto at = masks.begin();
  for (int i = 0; i < kWalkTokens; ++i) {
    const auto mask = masks.mask(at);
    if (!mask.ok()) {
      EXPECT_EQ(mask.status().message(), "the grammar is in too many states at once");
      return;
    }
    std::vector<TokenId> next;
    for (TokenId id = 0; id < 256; ++id) {
      if (((**mask)[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0) next.push_back(id);
    }
    ASSERT_TRUE(!next.empty() || masks.is_whole(at));
    if (next.empty()) return;
    ASSERT_TRUE(masks.advance(at, next[static_cast<std::size_t>(i * 7) % next.size()]));
  }
}

TEST(Hostile, EndWithinABoundOfWork) {
  Set set;
  for (const auto add : {add_doubled,
                         add_references,
                         add_alternatives,
                         add_enums,
                         add_members,
                         add_bounds,
                         add_patterns,
                         add_rules,
                         add_texts})
    add(set);
  for (const Hostile& hostile : set) {
    SCOPED_TRACE(hostile.name);
    const std::clock_t begin = std::clock();
    auto program = compile(hostile.source);
    const std::string message = program.ok() ? "" : program.status().message();
    if (hostile.refusal == kTaken)
      EXPECT_EQ(message, "");
    else
      EXPECT_NE(message.find(hostile.refusal), std::string::npos) << message.substr(0, 200);
    if (program.ok()) walk(std::move(program).value());
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, kSecondsMax);
  }
}

}  // namespace
}  // namespace coxswain::grammar
