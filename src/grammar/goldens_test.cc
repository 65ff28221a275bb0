// Schemas that others have published, with instances that are valid and invalid: of the latter none may be written.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/testing/grammars.h"

namespace coxswain::grammar {
namespace {

using json::Value;
using testing::Grammar;
using testing::grammar_of;
using testing::spaced;
using Space = SchemaOptions::Space;

constexpr std::size_t kFileBytesMax = 64U << 20;

std::string data_path(const std::string& name) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  return data == nullptr ? std::string() : std::string(data) + "/" + name;
}

bool is_there(const std::string& path) {
  return !path.empty() && std::ifstream(path).good();
}

// As an instance's own order says, and in the order of `properties` where the schema has one.
Value ordered(const Value& value, const Value& schema) {
  if (!value.is_object()) return value;
  const Value* properties = schema.find("properties");
  json::Object out;
  if (properties != nullptr && properties->is_object()) {
    for (const auto& [name, part] : properties->as_object()) {
      if (const Value* member = value.find(name)) out.append_new(name, ordered(*member, part));
    }
  }
  for (const auto& [name, member] : value.as_object()) {
    if (out.find(name) == nullptr) out.append_new(name, member);
  }
  return out;
}

std::vector<std::string> texts_of(const Value& value, const Value& schema) {
  std::vector<std::string> out;
  for (const Value& one : {value, ordered(value, schema)}) {
    out.push_back(json::write(one));
    out.push_back(spaced(one, std::nullopt));
    out.push_back(spaced(one, "  "));
    out.push_back(spaced(one, "\t"));
  }
  return out;
}

struct Tally {
  std::size_t schemas = 0;
  std::size_t refused = 0;
  std::size_t valid = 0;
  std::size_t written = 0;
};

void check_group(const std::string& name, const Value& group, Tally& tally) {
  const Value& schema = *group.find("schema");
  ++tally.schemas;
  const auto bounded = grammar_of(schema, {});
  const auto compact = grammar_of(schema, {.space = Space::kNone});
  ASSERT_EQ(bounded.ok(), compact.ok()) << name;
  if (!bounded.ok()) {
    ++tally.refused;
    const std::string why = bounded.status().message();
    EXPECT_TRUE(why.find("at '") != std::string::npos ||
                bounded.status().code() == Code::kResourceExhausted)
        << name << ": " << why;
    if (std::getenv("COXSWAIN_TEST_LOG") != nullptr)  // NOLINT(concurrency-mt-unsafe)
      std::cout << "refused " << name << ": " << why << "\n";
    return;
  }
  for (const Value& test : group.find("tests")->as_array()) {
    const Value& data = *test.find("data");
    const std::string text = json::write(data);
    if (test.find("valid")->as_bool()) {
      ++tally.valid;
      bool written = false;
      for (const std::string& one : texts_of(data, schema)) {
        written = written || bounded.value().accepts(one);
      }
      if (written) ++tally.written;
      if (!written && std::getenv("COXSWAIN_TEST_LOG") != nullptr)  // NOLINT(concurrency-mt-unsafe)
        std::cout << "unwritable " << name << ": " << text << "\n";
      continue;
    }
    EXPECT_FALSE(compact.value().accepts(text)) << name << ": " << text;
    for (const std::string& one : texts_of(data, schema))
      EXPECT_FALSE(bounded.value().accepts(one)) << name << ": " << one;
  }
}

std::string text_of(const Value& group, std::string_view key) {
  const Value* value = group.find(key);
  return value != nullptr && value->is_string() ? value->as_string() : std::string();
}

Tally check_suite(const std::string& path) {
  Tally tally;
  const auto groups = json::parse_file(path, kFileBytesMax);
  EXPECT_TRUE(groups.ok()) << groups.status().message();
  if (!groups.ok()) return tally;
  for (const Value& group : groups.value().as_array())
    check_group(text_of(group, "file") + ": " + text_of(group, "description"), group, tally);
  return tally;
}

void print(const char* name, const Tally& tally) {
  std::cout << name << ": " << tally.schemas << " schemas, " << tally.refused << " refused, "
            << tally.written << " of " << tally.valid << " valid instances can be written\n";
}

TEST(Goldens, Draft7) {
  const std::string path = data_path("structured/jsts-draft7.json");
  if (!is_there(path)) GTEST_SKIP() << "COXSWAIN_DATA has no structured/jsts-draft7.json";
  const Tally tally = check_suite(path);
  print("draft7", tally);
  EXPECT_LE(tally.refused, 21U);
  EXPECT_GE(tally.written, 501U);
}

TEST(Goldens, Draft2020) {
  const std::string path = data_path("structured/jsts-draft2020-12.json");
  if (!is_there(path)) GTEST_SKIP() << "COXSWAIN_DATA has no structured/jsts-draft2020-12.json";
  const Tally tally = check_suite(path);
  print("draft2020-12", tally);
  EXPECT_LE(tally.refused, 40U);
  EXPECT_GE(tally.written, 663U);
}

TEST(Goldens, SchemasOfTheWild) {
  const std::string path = data_path("structured/jsonschemabench.jsonl");
  if (!is_there(path)) GTEST_SKIP() << "COXSWAIN_DATA has no structured/jsonschemabench.jsonl";
  std::ifstream file(path);
  Tally tally;
  for (std::string line; std::getline(file, line);) {
    const auto group = json::parse(line);
    ASSERT_TRUE(group.ok()) << group.status().message();
    check_group(text_of(group.value(), "id"), group.value(), tally);
  }
  print("jsonschemabench", tally);
  EXPECT_LE(tally.refused, 71U);
  EXPECT_GE(tally.written, 481U);
}

struct Pair {
  const char* first;
  const char* second;
  SchemaOptions options;
};

struct Compared {
  std::size_t n_accepted = 0;
  std::size_t n_rejected = 0;
};

// What two other engines agree on. The third pair passes over bounds, and alternatives beside `properties`: there the
// schema itself decides.
void compare_with(const Pair& pair, const Value& one, Compared& compared) {
  const std::string& id = one.find("id")->as_string();
  const auto grammar = grammar_of(*one.find("schema"), pair.options);
  ASSERT_TRUE(grammar.ok()) << id << ": " << grammar.status().message();
  for (const Value& string : one.find("strings")->as_array()) {
    const std::string& text = string.find("text")->as_string();
    const bool valid = string.find("valid")->as_bool();
    const Value* first = string.find("engines")->find(pair.first);
    const Value* second = string.find("engines")->find(pair.second);
    const bool ours = grammar.value().accepts(text);
    EXPECT_TRUE(valid || !ours) << id << " " << text;
    if (first == nullptr || second == nullptr) continue;
    const bool accepted = first->find("accepted")->as_bool();
    if (accepted != second->find("accepted")->as_bool()) continue;
    if (accepted && valid) {
      EXPECT_TRUE(ours) << id << " (" << pair.first << ") " << text;
      ++compared.n_accepted;
    } else if (!accepted && !(valid && one.find("schema")->find("oneOf") != nullptr)) {
      EXPECT_FALSE(ours) << id << " (" << pair.first << ") " << text;
      ++compared.n_rejected;
    }
  }
}

TEST(Goldens, OtherEngines) {
  const std::string path = data_path("goldens/grammar/cases.json");
  if (!is_there(path)) GTEST_SKIP() << "COXSWAIN_DATA has no goldens/grammar/cases.json";
  const auto goldens = json::parse_file(path, kFileBytesMax);
  ASSERT_TRUE(goldens.ok()) << goldens.status().message();
  const Pair pairs[] = {
      {"xgrammar", "llguidance", {}},
      {"xgrammar-compact", "llguidance-compact", {.space = Space::kNone}},
      {"outlines-regex", "outlines-regex-xgrammar", kTgiSchema},
  };
  Compared compared;
  for (const Value& one : goldens.value().find("cases")->as_array()) {
    if (one.find("kind")->as_string() != "json_schema") continue;
    for (const Pair& pair : pairs) compare_with(pair, one, compared);
  }
  EXPECT_GT(compared.n_accepted, 80U);
  EXPECT_GT(compared.n_rejected, 40U);
}

}  // namespace
}  // namespace coxswain::grammar
