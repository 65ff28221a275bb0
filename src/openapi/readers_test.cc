// The description against the readers of src/api: what is described is read, and what is read is described.

#include "openapi/testing/readers.h"

#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "openapi/description.h"

namespace coxswain::openapi {
namespace {

// Puts an object into a whole document.
using Place = std::function<json::Value(json::Value)>;

Status read_strictly(Read read, const json::Value& body) {
  return read(body, UnknownFields::kRefused).status;
}

json::Value parsed(std::string_view text) {
  const auto out = json::parse(text);
  EXPECT_TRUE(out.ok()) << text;
  return out.ok() ? *out : json::Value();
}

json::Value with(json::Value object, std::string_view name, json::Value value) {
  object.as_object().set(std::string(name), std::move(value));
  return object;
}

// Names of objects in a type, each with whether it stands in an array; what an alias stands for in its place.
std::vector<std::pair<const Object*, bool>> objects_of(const Description& all,
                                                       std::string_view type,
                                                       bool in_array = false) {
  std::vector<std::pair<const Object*, bool>> out;
  for (std::size_t i = 0; i < type.size(); ++i) {
    if (type[i] == '\'') i = type.find('\'', i + 1);  // behind a text
    if (std::isupper(static_cast<unsigned char>(type[i])) == 0) continue;
    const std::size_t end = std::min(type.find_first_of(" |]}", i), type.size());
    const bool array = in_array || (i > 0 && type[i - 1] == '[');
    const Object* object = all.find(type.substr(i, end - i));
    EXPECT_NE(object, nullptr) << type;
    if (object != nullptr && object->type.empty()) {
      out.emplace_back(object, array);
    } else if (object != nullptr) {
      for (const auto& member : objects_of(all, object->type, array)) out.push_back(member);
    }
    i = end;
  }
  return out;
}

// Every object of requests with a place for it in a whole document. Some have several: a block's role decides.
struct Visit {
  const Object* object;
  json::Value smallest;
  std::vector<Place> places;
  Read read;
  std::string where;
};

// The place of an object in a member of what `at` visits.
Visit below(const Visit& at, std::string_view member, const Object* object, bool in_array) {
  Visit out{object, parsed(object->smallest), {}, at.read, at.where};
  out.where.append(".").append(member).append(".").append(object->name);
  std::vector<json::Value> around{at.smallest};
  if (at.smallest.find("role") != nullptr) around.push_back(with(at.smallest, "role", "assistant"));
  for (const Place& place : at.places) {
    for (const json::Value& smallest : around) {
      out.places.push_back([=](json::Value value) {
        if (in_array) value = json::Array{std::move(value)};
        return place(with(smallest, member, std::move(value)));
      });
    }
  }
  return out;
}

void visit(const Description& all,
           const Visit& at,
           std::size_t depth,
           const std::function<void(const Visit&)>& act) {
  act(at);
  if (depth == 0) return;
  for (const Member& member : at.object->members) {
    for (const auto& [object, in_array] : objects_of(all, member.type))
      visit(all, below(at, member.name, object, in_array), depth - 1, act);
  }
}

void visit_requests(const std::function<void(const Visit&)>& act) {
  const Description all = describe(api::ApiStyle::kOpenAi);
  for (const Operation& operation : all.operations()) {
    if (operation.request.empty()) continue;
    const auto all_readers = readers();
    const auto read = all_readers.find(operation.request);
    ASSERT_NE(read, all_readers.end()) << operation.request << " has no reader in this test";
    const Object* object = all.find(operation.request);
    ASSERT_NE(object, nullptr) << operation.request;
    constexpr std::size_t kDepth = 4;
    visit(all,
          {object,
           parsed(object->smallest),
           {[](json::Value value) { return value; }},
           read->second,
           std::string(operation.request)},
          kDepth,
          act);
  }
}

// A value of a type that the member does not have; null where it has all.
json::Value wrong_value(const Description& all, std::string_view type) {
  std::string kinds(type);
  if (!objects_of(all, type).empty()) kinds += "|object";
  const auto has = [&](std::string_view kind) { return kinds.find(kind) != std::string::npos; };
  if (has("any")) return {};
  if (!has("bool")) return json::Value(true);
  if (!has("[")) return json::Array{json::Value(true)};
  if (!has("object") && !has("{")) return json::Object();
  return {};
}

TEST(Readers, TakeWhatTheDescriptionHas) {
  const Description all = describe(api::ApiStyle::kOpenAi);
  std::size_t n_members = 0;
  visit_requests([&](const Visit& at) {
    for (const Member& member : at.object->members) {
      const json::Value wrong = wrong_value(all, member.type);
      if (wrong.is_null()) continue;
      ++n_members;
      std::string said;
      for (const Place& place : at.places) {
        const Status status = read_strictly(at.read, place(with(at.smallest, member.name, wrong)));
        said += status.ok() ? "accepted; " : status.message() + "; ";
        const bool names_it = said.find(member.name) != std::string::npos &&
                              said.find("unknown field") == std::string::npos;
        if (!status.ok() && names_it) said = "named";
        if (said == "named") break;
      }
      EXPECT_EQ(said, "named") << at.where << "." << member.name << " = " << json::write(wrong);
    }
  });
  EXPECT_GT(n_members, 300U);
}

TEST(Readers, TakeTheSmallestDocuments) {
  const Description all = describe(api::ApiStyle::kOpenAi);
  for (const auto& [name, read] : readers()) {
    const Status status = read_strictly(read, parsed(all.find(name)->smallest));
    EXPECT_TRUE(status.ok()) << name << ": " << status.message();
  }
  for (const Operation& operation : all.operations()) {
    if (operation.request.empty()) continue;
    const Status status = read_strictly(readers().at(operation.request), parsed(operation.example));
    EXPECT_TRUE(status.ok()) << operation.id << ": " << status.message();
  }
}

// Every string in the sources of the readers that could be the name of a member.
std::set<std::string> names_in_sources() {
  std::set<std::string> out;
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  if (root == nullptr) return out;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(root) + "/src/api")) {
    const std::string name = entry.path().filename();
    if (!name.ends_with(".cc") || name.ends_with("_test.cc")) continue;
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::size_t i = text.find('"'); i != std::string::npos; i = text.find('"', i + 1)) {
      const std::size_t end =
          text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", i + 1);
      if (end != std::string::npos && end > i + 1 && text[end] == '"')
        out.insert(text.substr(i + 1, end - i - 1));
    }
  }
  return out;
}

// What a document with a member of that name comes to.
Status outcome(const Visit& at, const Place& place, const std::string& name) {
  json::Object value;
  value.append_new("zz", json::Value(true));
  return read_strictly(at.read, place(with(at.smallest, name, json::Value(std::move(value)))));
}

// What other servers document and nobody reads here.
bool is_refused_by_name(const Status& status, const std::string& name) {
  return status.code() == Code::kUnimplemented &&
         (status.field() == name || status.field().ends_with("." + name));
}

TEST(Readers, TakeNothingElse) {
  const std::string unknown = "zzzz";
  const std::set<std::string> names = names_in_sources();
  if (names.empty()) GTEST_SKIP() << "COXSWAIN_SOURCE_DIR is not set";
  ASSERT_TRUE(names.contains("thinking_token_budget"));
  std::set<std::string> said;
  visit_requests([&](const Visit& at) {
    for (const Place& place : at.places) {
      const std::string of_unknown = outcome(at, place, unknown).message();
      const std::size_t i = of_unknown.find(unknown);
      for (const std::string& name : names) {
        if (at.object->find(name) != nullptr) continue;
        const Status status = outcome(at, place, name);
        std::string expected = of_unknown;
        if (i != std::string::npos) expected.replace(i, unknown.size(), name);
        if (status.message() == expected || is_refused_by_name(status, name)) continue;
        if (said.insert(std::string(at.object->name) + name).second)
          ADD_FAILURE() << at.where << " does not describe " << name << ": " << status.message();
      }
    }
  });
}

}  // namespace
}  // namespace coxswain::openapi
