// The choice among named templates, and templates inside GGUF files.

#include "chat/template_set.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "gguf/testing/file_bytes.h"

namespace coxswain::chat {
namespace {

TemplateSet set_of(std::vector<NamedTemplate> templates) {
  auto set = TemplateSet::compile(std::move(templates));
  EXPECT_TRUE(set.ok());
  return std::move(set).value();
}

RenderInput input_with(std::string_view members) {
  const auto document = json::parse(members);
  EXPECT_TRUE(document.ok());
  RenderInput input;
  input.messages = json::Array{};
  for (const auto& [name, value] : document->as_object()) {
    if (name == "tools") input.tools = value;
    if (name == "documents") input.documents = value;
    if (name == "extra") input.extra = value;
  }
  return input;
}

// The text, or "!" and the error.
std::string rendered(const TemplateSet& set, std::string_view members) {
  const auto out = set.render(input_with(members));
  return out.ok() ? out->text : "!" + out.status().message();
}

TEST(TemplateSet, OneTemplateServesAll) {
  const TemplateSet set = set_of({{"default", "plain"}});
  EXPECT_EQ(rendered(set, "{}"), "plain");
  EXPECT_EQ(rendered(set, R"({"tools":[{}],"documents":[{}]})"), "plain");
}

TEST(TemplateSet, ToolsTakeToolUse) {
  const TemplateSet set = set_of({{"default", "plain"}, {"tool_use", "tools"}, {"rag", "rag"}});
  EXPECT_EQ(rendered(set, R"({"tools":[{}]})"), "tools");
  EXPECT_EQ(rendered(set, R"({"tools":[]})"), "tools") << "given is given, also when empty";
  EXPECT_EQ(rendered(set, R"({"tools":null})"), "plain");
  EXPECT_EQ(rendered(set, R"({"tools":[{}],"documents":[{}]})"), "tools");
}

TEST(TemplateSet, DocumentsTakeRagUnlessDefaultReadsThem) {
  const NamedTemplate rag{"rag", "rag {{ documents | length }}"};
  EXPECT_EQ(rendered(set_of({{"default", "plain"}, rag}), R"({"documents":[{},{}]})"), "rag 2");
  EXPECT_EQ(rendered(set_of({{"default", "plain"}, rag}), "{}"), "plain");
  EXPECT_EQ(
      rendered(set_of({{"default", "own {{ documents | length }}"}, rag}), R"({"documents":[{}]})"),
      "own 1");
  EXPECT_EQ(rendered(set_of({{"default", "plain"}}), R"({"documents":[{}]})"), "plain");
  EXPECT_EQ(rendered(set_of({{"tool_use", "tools"}, rag}), R"({"documents":[{}]})"), "rag 1");
}

TEST(TemplateSet, ATemplateIsAskedForByName) {
  const TemplateSet set = set_of({{"default", "plain"}, {"tool_use", "tools"}, {"rag", "rag"}});
  EXPECT_EQ(rendered(set, R"({"extra":{"chat_template":"rag"}})"), "rag");
  EXPECT_EQ(rendered(set, R"({"extra":{"chat_template":"default"},"tools":[{}]})"), "plain");
  EXPECT_EQ(rendered(set, R"({"extra":{"chat_template":"{{ 1 }}"}})"),
            "!the model has no chat template named \"{{ 1 }}\"; there are: default, tool_use, rag");
  EXPECT_EQ(rendered(set, R"({"extra":{"enable_thinking":false}})"), "plain");
}

TEST(TemplateSet, NoDefaultIsAnErrorOfTheRequest) {
  const TemplateSet set = set_of({{"tool_use", "tools"}});
  EXPECT_EQ(rendered(set, R"({"tools":[{}]})"), "tools");
  const auto out = set.render(input_with("{}"));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.status().kind(), ErrorKind::kTemplateError);
  EXPECT_EQ(out.status().message(),
            "the model has no chat template named \"default\"; there are: tool_use");
}

TEST(TemplateSet, ABrokenTemplateIsNamed) {
  const auto set = TemplateSet::compile({{"default", "fine"}, {"rag", "a\n{% if %}"}});
  ASSERT_FALSE(set.ok());
  EXPECT_NE(set.status().message().find("`rag`"), std::string::npos);
  EXPECT_NE(set.status().message().find("line 2"), std::string::npos);
}

class GgufTemplates : public testing::Test {
 protected:
  // Keys of every shape, then the templates.
  static std::string file_of(const std::vector<std::pair<std::string, std::string>>& templates) {
    namespace gguf = gguf::testing;
    gguf::FileBytes file;
    file.key("general.file_type", gguf::u32_value(7))
        .key("tokenizer.ggml.tokens", gguf::strings_value({"a", "bc"}))
        .key("tokenizer.ggml.scores", gguf::f32s_value({1.0F, 2.0F}));
    for (const auto& [name, source] : templates) file.key(name, gguf::string_value(source));
    return file.bytes();
  }
  void write(const std::string& name, const std::string& bytes) { temp_.write(name, bytes); }
  std::string names(const std::string& path) {
    const auto loaded = load_templates(path, "");
    if (!loaded.ok()) return "!" + loaded.status().message();
    std::string out;
    for (const NamedTemplate& t : *loaded) out += t.name + "=" + t.source + ";";
    return out;
  }

  const base::TempFolder temp_;
  const std::string& folder_ = temp_.path();
};

TEST_F(GgufTemplates, DefaultAndNamedOnes) {
  write("b.gguf",
        file_of({{"tokenizer.chat_template", "plain \xE2\x98\xA0"},
                 {"tokenizer.chat_template.tool_use", "tools"},
                 {"tokenizer.chat_templates_of_others", "no"}}));
  EXPECT_EQ(names(folder_ + "/b.gguf"), "default=plain \xE2\x98\xA0;tool_use=tools;");
  EXPECT_EQ(names(folder_), "default=plain \xE2\x98\xA0;tool_use=tools;");
  write("a.gguf", file_of({}));
  EXPECT_EQ(names(folder_), "") << "the first file by name counts";
}

TEST_F(GgufTemplates, FilesOfTheFolderWin) {
  write("a.gguf", file_of({{"tokenizer.chat_template", "gguf"}}));
  write("tokenizer_config.json", R"({"model_max_length":7})");
  EXPECT_EQ(names(folder_), "default=gguf;");
  write("tokenizer_config.json", R"({"chat_template":"config"})");
  EXPECT_EQ(names(folder_), "default=config;");
}

TEST_F(GgufTemplates, DamagedFilesAreErrors) {
  const std::string whole =
      file_of({{"tokenizer.chat_template", "plain"}, {"tokenizer.chat_template.rag", "documents"}});
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write("a.gguf", whole.substr(0, n));
    EXPECT_TRUE(names(folder_ + "/a.gguf").starts_with("!")) << n << " bytes";
  }
  write("a.gguf", file_of({{"tokenizer.chat_template", "\xFF"}}));
  EXPECT_NE(names(folder_).find("no UTF-8"), std::string::npos);
  write("a.gguf", file_of({{"tokenizer.chat_template", std::string((4 << 20) + 1, 'x')}}));
  EXPECT_NE(names(folder_).find("longer than 4 MiB"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::chat
