// Masks pass over subtrees of the vocabulary: each bit is what a walk over the token's own bytes says.

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/testing/texts.h"
#include "grammar/token_masks.h"

namespace coxswain::grammar {
namespace {

// Every byte, and random texts of what strings are made of, in large subtrees: words, quotes, escapes, white space,
// characters of two to four bytes, also cut, and what is no UTF-8.
std::vector<std::string> vocabulary(std::size_t n_texts) {
  const std::vector<std::string> pieces = {"a",
                                           "b",
                                           "c",
                                           "d",
                                           "e",
                                           "E",
                                           "t",
                                           "n",
                                           "0",
                                           "1",
                                           "7",
                                           " ",
                                           "a",
                                           "e",
                                           "t",
                                           " a",
                                           "\xC3\xA9",
                                           "\xC3",
                                           "\xE4\xBD",
                                           "\xA0",
                                           "-",
                                           "<",
                                           "\"",
                                           "\\",
                                           "\\n",
                                           "\n",
                                           "\xE4\xBD\xA0",
                                           "\xF0\x9F\x98\x80",
                                           "\xED\xA0\x80",
                                           "\xC0",
                                           "\x7F",
                                           ":",
                                           ",",
                                           "{",
                                           "}",
                                           "name",
                                           "te",
                                           "\t",
                                           "\xF0\x9F",
                                           "\xF4\x90\x80\x80"};
  std::mt19937 random(7);
  std::vector<std::string> out;
  for (unsigned byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
  for (std::size_t n = 0; n < n_texts; ++n) {
    std::string text;
    // Mostly letters, so that whole subtrees are.
    const std::size_t n_pieces = n % 5 == 0 ? pieces.size() : 16;
    for (std::size_t length = 2 + random() % 6; length > 0; --length)
      text += pieces[random() % n_pieces];
    out.push_back(std::move(text));
  }
  out.emplace_back(80, 'a');
  out.emplace_back(40, ' ');
  return out;
}

void expect_exact(const Source& source,
                  const std::vector<std::string>& tokens,
                  std::uint32_t seed) {
  auto program = compile(source);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const auto trie = testing::trie_of(tokens);
  const TokenMasks masks(std::move(program).value(), trie);
  std::mt19937 random(seed);
  for (int text = 0; text < 4; ++text) {
    TokenMasks::Position at = masks.begin();
    std::string so_far;
    for (int step = 0; step < 12; ++step) {
      const auto mask = masks.mask(at);
      ASSERT_TRUE(mask.ok());
      std::vector<TokenId> allowed;
      for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id) {
        TokenMasks::Position next = at;
        const bool follows = masks.advance(next, tokens[static_cast<std::size_t>(id)]);
        ASSERT_EQ(testing::is_allowed(**mask, id), follows)
            << source.text << " behind " << so_far << " token " << id << ": "
            << tokens[static_cast<std::size_t>(id)];
        if (follows) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const TokenId chosen = allowed[random() % allowed.size()];
      ASSERT_TRUE(masks.advance(at, chosen));
      so_far += tokens[static_cast<std::size_t>(chosen)];
    }
  }
}

void expect_exact(const std::vector<std::string>& tokens) {
  using Kind = Source::Kind;
  const std::vector<Source> sources = {
      {.text = R"({"type": "string"})"},
      {.text = R"({"type": "string", "maxLength": 5})"},
      {.text = R"({"type": "string", "minLength": 3, "maxLength": 30})"},
      {.text = R"({"type": "string", "maxLength": 34, "pattern": "a$"})"},
      {.text = R"({"type": "string", "maxLength": 3, "not": {"const": "tea"}})"},
      {.text = R"({"type": "array", "minItems": 9, "items": {"type": "string", "maxLength": 4}})"},
      {.text = R"({"type": "string", "minLength": 40, "maxLength": 70})"},
      {.text = R"({"type": "string", "pattern": "ate"})"},
      {.text = R"({"type": "string", "pattern": "^[a-e ]*$"})"},
      {.text =
           R"({"type": "object", "properties": {"name": {}, "nat": {}, "a": {"type": "string"}}})"},
      {.text = R"({"not": {"const": "tea"}, "type": "string"})"},
      {.kind = Kind::kJsonObject},
      {.kind = Kind::kRegex, .text = ".*"},
      {.kind = Kind::kRegex, .text = "([^<]|<[^b])*"},
      {.kind = Kind::kRegex, .text = "[^\"\\\\\n]{0,7}\""},
      {.kind = Kind::kRegex, .text = "([^\"\\\\\n][^\"\\\\\n])*\""},
      {.kind = Kind::kRegex, .text = "(a|[a-z]{0,9}|[a-z ]*t)*"},
      {.kind = Kind::kRegex, .text = "[\\x00-\\x7f]*"},
      {.kind = Kind::kTags,
       .tags = {{.begin = "<t", .schema = R"({"type": "object"})", .end = ">"}},
       .triggers = {"<t"}},
  };
  for (std::uint32_t i = 0; i < sources.size(); ++i) expect_exact(sources[i], tokens, i);
}

TEST(TextAhead, MasksAreThoseOfAWalkOverEveryToken) {
  const std::vector<std::string> tokens = vocabulary(10'000);
  // Of fewer, no subtrees are passed over.
  ASSERT_GE(testing::trie_of(tokens)->nodes().size(), 16'384U);
  expect_exact(tokens);
}

TEST(TextAhead, SmallVocabulariesLikewise) {
  const std::vector<std::string> tokens = vocabulary(1'000);
  ASSERT_LT(testing::trie_of(tokens)->nodes().size(), 16'384U);
  expect_exact(tokens);
}

}  // namespace
}  // namespace coxswain::grammar
