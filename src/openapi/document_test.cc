#include "openapi/document.h"

#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::openapi {
namespace {

using ::testing::IsSubsetOf;

// Every `$ref` of a document.
void collect(const json::Value& value, std::set<std::string>& out) {
  if (value.is_array()) {
    for (const json::Value& entry : value.as_array()) collect(entry, out);
  } else if (value.is_object()) {
    for (const auto& [name, member] : value.as_object()) {
      if (name == "$ref") out.insert(member.as_string());
      collect(member, out);
    }
  }
}

TEST(Document, EveryReferenceIsThereAndEveryObjectIsUsed) {
  for (const api::ApiStyle v1 : {api::ApiStyle::kOpenAi, api::ApiStyle::kTgi}) {
    const json::Value document = make_document({.version = "1.0", .v1 = v1});
    std::set<std::string> used;
    collect(document, used);
    std::set<std::string> there;
    for (const auto& [name, schema] : document.find("components")->find("schemas")->as_object())
      EXPECT_TRUE(there.insert("#/components/schemas/" + name).second) << name;
    EXPECT_EQ(there, used);
  }
}

TEST(Document, NamesOfOperationsAreDifferent) {
  std::set<std::string_view> ids;
  const Description description = describe(api::ApiStyle::kOpenAi);
  for (const Operation& operation : description.operations())
    EXPECT_TRUE(ids.insert(operation.id).second) << operation.id;
}

TEST(Document, KeysAreAskedForWhereThereAreSome) {
  const auto security = [](const DocumentOptions& options, const char* path, const char* method) {
    const json::Value document = make_document(options);
    return document.find("paths")->find(path)->find(method)->find("security")->as_array().size();
  };
  EXPECT_EQ(security({.version = "1"}, "/generate", "post"), 0U);
  EXPECT_EQ(security({.version = "1", .has_keys = true}, "/generate", "post"), 3U);
}

TEST(Document, StatusesOfWhatIsNotThereOrNotReady) {
  const json::Value document = make_document({.version = "1"});
  // The object of the body; empty: the status is not there.
  const auto body = [&](const char* path, const char* method, const char* status) -> std::string {
    const json::Value* answer =
        document.find("paths")->find(path)->find(method)->find("responses")->find(status);
    if (answer == nullptr) return "";
    const json::Value& media = *answer->find("content")->find("application/json");
    return media.find("schema")->find("$ref")->as_string();
  };
  const std::string folder = "#/components/schemas/";
  for (const char* path : {"/vertex", "/chat_tokenize"})
    EXPECT_EQ(body(path, "post", "404"), folder + "ErrorResponse");
  EXPECT_EQ(body("/v2/health/ready", "get", "503"), folder + "KserveReady");
  EXPECT_EQ(body("/v2/models/{model}/ready", "get", "503"), folder + "KserveModelReady");
  EXPECT_EQ(body("/v2/models/{model}", "get", "503"), "");
}

TEST(Pretty, LinesThatReadBackTheSame) {
  const json::Value document = make_document({.version = "1.0"});
  const std::string text = pretty(document);
  EXPECT_EQ(*json::parse(text), document);
  EXPECT_TRUE(text.starts_with("{\n  \"openapi\": \"3.1.0\",\n")) << text.substr(0, 60);
}

}  // namespace
}  // namespace coxswain::openapi
