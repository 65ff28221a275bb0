#include <string>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "chat/template_set.h"

namespace coxswain::chat {
namespace {

class LoadTemplates : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { temp_.write(name, text); }
  std::string names(const std::string& override_path = "") {
    auto loaded = load_templates(folder_, override_path);
    if (!loaded.ok()) return "!" + loaded.status().message();
    std::string out;
    for (const NamedTemplate& t : *loaded) out += t.name + "=" + t.source + ";";
    return out;
  }

  const base::TempFolder temp_;
  const std::string& folder_ = temp_.path();
};

TEST_F(LoadTemplates, NoneIsAnEmptyList) {
  EXPECT_EQ(names(), "");
}

TEST_F(LoadTemplates, LaterFormsWinOverOlderOnes) {
  write("tokenizer_config.json", R"({"chat_template":"config"})");
  EXPECT_EQ(names(), "default=config;");
  write("chat_template.json", R"({"chat_template":"json"})");
  EXPECT_EQ(names(), "default=json;");
  write("chat_template.jinja", "jinja");
  EXPECT_EQ(names(), "default=jinja;");
  write("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(names(), "default=jinja;tool_use=tools;");
}

TEST_F(LoadTemplates, ListsOfNamedTemplates) {
  write(
      "tokenizer_config.json",
      R"({"chat_template":[{"name":"default","template":"a"},{"name":"tool_use","template":"b"}]})");
  EXPECT_EQ(names(), "default=a;tool_use=b;");
}

TEST_F(LoadTemplates, AnOwnFileReplacesAll) {
  write("tokenizer_config.json", R"({"chat_template":"config"})");
  write("own.jinja", "own");
  write("own.json", R"({"chat_template":"from json"})");
  EXPECT_EQ(names(folder_ + "/own.jinja"), "default=own;");
  EXPECT_EQ(names(folder_ + "/own.json"), "default=from json;");
  EXPECT_TRUE(names(folder_ + "/missing.jinja").starts_with("!cannot open"));
}

TEST_F(LoadTemplates, BrokenFilesAreNamed) {
  write("tokenizer_config.json", R"({"chat_template":[{"name":"default"}]})");
  EXPECT_NE(names().find("tokenizer_config.json"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template":7})");
  EXPECT_TRUE(names().starts_with("!"));
  write("tokenizer_config.json", "{");
  EXPECT_TRUE(names().starts_with("!"));
}

}  // namespace
}  // namespace coxswain::chat
