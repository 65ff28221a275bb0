#include "serve/shard/script.h"

#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::serve {
namespace {

// A token is a byte.
class Bytes final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool) const override {
    return std::vector<TokenId>(text.begin(), text.end());
  }
  std::string decode(std::span<const TokenId> ids, bool) const override {
    return {ids.begin(), ids.end()};
  }
  std::unique_ptr<Stream> stream(std::span<const TokenId>, bool) const override { return nullptr; }
  std::string token_text(TokenId) const override { return {}; }
  bool is_special(TokenId) const override { return false; }
};

Result<std::shared_ptr<LogitsProcessor>> script_of(const std::string& text) {
  const base::TempFolder folder;
  const std::string path = folder.file("script.json");
  std::ofstream(path) << text;
  return load_script(path, std::make_shared<Bytes>());
}

// Which token the script has score best; 0: none.
char next(LogitsProcessor& script, const std::string& prompt, const std::string& output) {
  const Bytes bytes;
  const std::vector<TokenId> prompt_ids = bytes.encode(prompt, false).value();
  const std::vector<TokenId> output_ids = bytes.encode(output, false).value();
  std::vector<float> logits(128, 0.0F);
  logits[0] = 30.0F;
  EXPECT_TRUE(script.process({.prompt = prompt_ids, .output = output_ids}, logits).ok());
  return static_cast<char>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST(Script, TheEntryThatThePromptHasLastAnswers) {
  const auto script =
      script_of(R"([{"after": "one", "answer": "1."}, {"after": "two", "answer": "2."}])");
  ASSERT_TRUE(script.ok()) << script.status().message();
  EXPECT_EQ(next(**script, "say one", ""), '1');
  EXPECT_EQ(next(**script, "say one", "1"), '.');
  EXPECT_EQ(next(**script, "one, then two!", ""), '2');
  EXPECT_EQ(next(**script, "two, then one!", ""), '1');
  EXPECT_EQ(next(**script, "one, two, one", "1"), '.');
}

TEST(Script, TheModelAnswersTheRest) {
  const auto script = script_of(R"([{"after": "one", "answer": "1."}])");
  ASSERT_TRUE(script.ok());
  EXPECT_EQ(next(**script, "three", ""), 0);
  EXPECT_EQ(next(**script, "one", "1."), 0);
  EXPECT_EQ(next(**script, "one", "1.x"), 0);
  EXPECT_EQ(next(**script, "one", "2"), 0) << "the answer has left the script";
}

TEST(Script, ErrorsNameTheFileAndTheEntry) {
  const auto message = [](const std::string& text) { return script_of(text).status().message(); };
  EXPECT_NE(message("{}").find("script.json: must be an array"), std::string::npos);
  EXPECT_NE(message("[").find("script.json: "), std::string::npos);
  EXPECT_NE(message(R"([{"after": "a", "answer": "b"}, {"after": "a"}])")
                .find("entry 1: `after` and `answer` must be texts"),
            std::string::npos);
  const auto none = load_script("/nowhere/script.json", std::make_shared<Bytes>());
  EXPECT_EQ(none.status().message(), "`--script` /nowhere/script.json cannot be read");
}

}  // namespace
}  // namespace coxswain::serve
