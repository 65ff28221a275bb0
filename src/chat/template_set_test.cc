// The choice among named templates, and templates inside GGUF files.

#include "chat/template_set.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

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
  template <typename T>
  static std::string bytes_of(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof(T)};
  }
  static std::string text_of(std::string_view text) {
    return bytes_of<std::uint64_t>(text.size()) + std::string(text);
  }
  static std::string string_key(std::string_view key, std::string_view value) {
    return text_of(key) + bytes_of<std::uint32_t>(8) + text_of(value);
  }
  // Keys of every shape that has to be skipped, then `keys`.
  static std::string file_of(std::uint64_t n_keys, const std::string& keys) {
    const std::string number =
        text_of("general.file_type") + bytes_of<std::uint32_t>(4) + bytes_of<std::uint32_t>(7);
    const std::string strings = text_of("tokenizer.ggml.tokens") + bytes_of<std::uint32_t>(9) +
                                bytes_of<std::uint32_t>(8) + bytes_of<std::uint64_t>(2) +
                                text_of("a") + text_of("bc");
    const std::string numbers = text_of("tokenizer.ggml.scores") + bytes_of<std::uint32_t>(9) +
                                bytes_of<std::uint32_t>(6) + bytes_of<std::uint64_t>(2) +
                                bytes_of(1.0F) + bytes_of(2.0F);
    return "GGUF" + bytes_of<std::uint32_t>(3) + bytes_of<std::uint64_t>(0) +
           bytes_of<std::uint64_t>(n_keys + 3) + number + strings + numbers + keys;
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
        file_of(3,
                string_key("tokenizer.chat_template", "plain \xE2\x98\xA0") +
                    string_key("tokenizer.chat_template.tool_use", "tools") +
                    string_key("tokenizer.chat_templates_of_others", "no")));
  EXPECT_EQ(names(folder_ + "/b.gguf"), "default=plain \xE2\x98\xA0;tool_use=tools;");
  EXPECT_EQ(names(folder_), "default=plain \xE2\x98\xA0;tool_use=tools;");
  write("a.gguf", file_of(0, ""));
  EXPECT_EQ(names(folder_), "") << "the first file by name counts";
}

TEST_F(GgufTemplates, FilesOfTheFolderWin) {
  write("a.gguf", file_of(1, string_key("tokenizer.chat_template", "gguf")));
  write("tokenizer_config.json", R"({"model_max_length":7})");
  EXPECT_EQ(names(folder_), "default=gguf;");
  write("tokenizer_config.json", R"({"chat_template":"config"})");
  EXPECT_EQ(names(folder_), "default=config;");
}

TEST_F(GgufTemplates, DamagedFilesAreErrors) {
  const std::string whole = file_of(2,
                                    string_key("tokenizer.chat_template", "plain") +
                                        string_key("tokenizer.chat_template.rag", "documents"));
  for (std::size_t n = 0; n < whole.size(); ++n) {
    write("a.gguf", whole.substr(0, n));
    EXPECT_TRUE(names(folder_ + "/a.gguf").starts_with("!")) << n << " bytes";
  }
  write("a.gguf", file_of(1, string_key("tokenizer.chat_template", "\xFF")));
  EXPECT_NE(names(folder_).find("no UTF-8"), std::string::npos);
  write("a.gguf", file_of(1, text_of("k") + bytes_of<std::uint32_t>(99)));
  EXPECT_NE(names(folder_).find("damaged at key k"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::chat
