#include "grammar/token_masks.h"

#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/regex.h"
#include "grammar/testing/texts.h"

namespace coxswain::grammar {
namespace {

Program compiled(std::string_view pattern) {
  Expressions expressions;
  const auto root = parse_regex(expressions, pattern);
  EXPECT_TRUE(root.ok()) << root.status().message();
  auto program = compile_program(expressions, root.value());
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(program.value());
}

TEST(TokenTrie, HoldsEveryTokenOnce) {
  const std::vector<std::string> tokens = {
      "ab", "", "a", "abc", "b", "a", std::string("\0x", 2), "\xFF"};
  const auto trie = testing::trie_of(tokens);
  std::multiset<TokenId> seen;
  std::string path;
  for (std::size_t i = 0; i < trie->nodes().size(); ++i) {
    const auto& node = trie->nodes()[i];
    path.resize(node.depth - 1U);
    path += static_cast<char>(node.byte);
    EXPECT_GT(node.end, i);
    for (const TokenId id :
         trie->tokens().subspan(node.first_token, node.last_token - node.first_token)) {
      EXPECT_EQ(tokens[static_cast<std::size_t>(id)], path);
      seen.insert(id);
    }
  }
  EXPECT_EQ(seen, (std::multiset<TokenId>{0, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(trie->bytes(3), "abc");
  EXPECT_EQ(trie->bytes(1), "");
  EXPECT_EQ(trie->bytes(-1), "");
  EXPECT_EQ(trie->bytes(8), "");
}

TEST(TokenTrie, TellsPlainTokensFromOthers) {
  const std::vector<std::string> tokens = {"ab",
                                           "a\"b",
                                           "a",
                                           "ab",
                                           "\n",
                                           std::string(32, 'b'),
                                           std::string(33, 'b'),
                                           "\xC3\xA9",
                                           "\xC3",
                                           "\xA9",
                                           "a\xC3x",
                                           "\\",
                                           ""};
  const auto trie = testing::trie_of(tokens);
  std::set<TokenId> plain;
  for (const std::uint32_t place : trie->plain_tokens()) plain.insert(trie->tokens()[place]);
  EXPECT_EQ(plain, (std::set<TokenId>{0, 2, 3, 5, 7, 8}));
  std::set<TokenId> others;
  for (std::size_t i = 0; i < trie->others().size(); ++i) {
    const TokenTrie::OtherNode& other = trie->others()[i];
    const auto& node = trie->nodes()[other.node];
    EXPECT_EQ(trie->before(other.node).others, i);
    EXPECT_EQ(trie->before(node.end).others, other.end);
    if (!other.has_tokens) continue;
    for (const TokenId id :
         trie->tokens().subspan(node.first_token, node.last_token - node.first_token))
      others.insert(id);
  }
  EXPECT_EQ(others, (std::set<TokenId>{1, 4, 6, 9, 10, 11}));
  for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id)
    EXPECT_EQ(testing::is_allowed(trie->plain(), id), plain.contains(id)) << id;
  EXPECT_EQ(trie->before(trie->nodes().size()).plain_tokens, plain.size());
  const auto plain_up_to = [&](std::size_t n_characters) {
    std::set<TokenId> out;
    for (TokenId id = 0; id < static_cast<TokenId>(tokens.size()); ++id)
      if (testing::is_allowed(trie->plain_up_to(n_characters), id)) out.insert(id);
    return out;
  };
  EXPECT_EQ(plain_up_to(0), std::set<TokenId>{});
  EXPECT_EQ(plain_up_to(1), (std::set<TokenId>{2, 7, 8}));
  EXPECT_EQ(plain_up_to(31), (std::set<TokenId>{0, 2, 3, 7, 8}));
  EXPECT_EQ(plain_up_to(99), plain);
}

// Every text of at most n tokens.
std::set<std::string> texts_of(const std::vector<std::string>& tokens, std::size_t n) {
  std::set<std::string> out = {""};
  std::set<std::string> spelled = out;
  for (; n > 0; --n) {
    std::set<std::string> longer;
    for (const std::string& text : spelled) {
      for (const std::string& token : tokens) longer.insert(text + token);
    }
    out.insert(longer.begin(), longer.end());
    spelled = std::move(longer);
  }
  return out;
}

// The texts that the masks let through are those that the pattern matches, no more and no fewer, however the
// vocabulary cuts them.
TEST(TokenMasks, LetThroughWhatMatchesAndNothingElse) {
  constexpr std::size_t kTokens = 5;
  const std::vector<std::vector<std::string>> vocabularies = {
      {"a", "b", "c"}, {"a", "b", "c", "ab", "bc", "abc", "aa"}, {"ab", "b", "ca", "c", "bca"}};
  for (const std::string pattern :
       {"(ab|c)*", "a{2,3}b?", "[ab]*c[ab]*", "(a|ab)(c|bc)", "abcabc"}) {
    const Program program = compiled(pattern);
    const std::regex expected(pattern);
    for (const auto& tokens : vocabularies) {
      std::set<std::string> texts = texts_of(tokens, kTokens);
      std::erase_if(texts,
                    [&](const std::string& text) { return !std::regex_match(text, expected); });
      EXPECT_EQ(testing::texts_by_masks(program, tokens, kTokens), texts) << pattern;
    }
  }
}

TEST(TokenMasks, TextThatHasToFollowIsFoundInItsLongestTokens) {
  const std::vector<std::string> tokens = {
      "a", "b", "c", "d", "ab", "abc", "ca", "", "abc", "abcx", "x", "bcd"};
  const auto forced = [&](std::string_view pattern, std::string_view before, std::size_t n_max) {
    const TokenMasks masks(compiled(pattern), testing::trie_of(tokens));
    TokenMasks::Position at = masks.begin();
    EXPECT_TRUE(masks.advance(at, before));
    std::vector<TokenId> ids = {99};
    masks.find_forced(at, n_max, ids);
    std::string out;
    for (const TokenId id : ids)
      out += (out.empty() ? "" : "|") + tokens[static_cast<std::size_t>(id)];
    return out;
  };
  EXPECT_EQ(forced("abcabcd", "", 9), "abc|abc|d");
  EXPECT_EQ(forced("abcabcd", "", 2), "abc|abc");
  EXPECT_EQ(forced("abcabcd", "", 0), "");
  EXPECT_EQ(forced("abcabcd", "a", 9), "b|ca|bcd");
  EXPECT_EQ(forced("abcabcd", "abcabcd", 9), "");
  // As far as it is the only one: to a choice, an end that is not the only one, a byte of several.
  EXPECT_EQ(forced("abc(abc|d)", "", 9), "abc");
  EXPECT_EQ(forced("abc(abc|d)", "abcd", 9), "");
  EXPECT_EQ(forced("abc(abc|d)", "abca", 9), "b|c");
  EXPECT_EQ(forced("ab(cab)*", "", 9), "ab");
  EXPECT_EQ(forced("ab[cd]d", "", 9), "ab");
  EXPECT_EQ(forced("ab[^c]", "", 9), "ab");
  EXPECT_EQ(forced("(abc|abcabc)d", "", 9), "abc");
  EXPECT_EQ(forced("(ab|abca)bcdd", "", 9), "ab");
  EXPECT_EQ(forced("(abca|abca)bcdd", "", 9), "abc|abc|d|d");
  // No token has a byte of it; a text without an end.
  EXPECT_EQ(forced("abzab", "", 9), "ab");
  EXPECT_EQ(forced("(ca){9999}", "", 99).size(), 3 * kForcedBytesMax / 2 - 1);
}

// Whatever follows begins so.
TEST(TokenMasks, NoTextLeavesWhatHasToFollow) {
  const std::vector<std::string> tokens = {"a", "b", "c", "ab", "bc", "abc", "aa"};
  for (const std::string pattern :
       {"(ab|c)*", "a{2,3}b?", "[ab]*c[ab]*", "(a|ab)(c|bc)", "abcabc", "ab(ca|cb)a"}) {
    const Program program = compiled(pattern);
    const TokenMasks masks(program, testing::trie_of(tokens));
    const std::set<std::string> texts = testing::texts_by_masks(program, tokens, 6);
    for (const std::string& before : texts_of({"a", "b", "c"}, 5)) {
      TokenMasks::Position at = masks.begin();
      if (!masks.advance(at, before)) continue;
      std::vector<TokenId> ids;
      masks.find_forced(at, 9, ids);
      std::string forced = before;
      for (const TokenId id : ids) forced += tokens[static_cast<std::size_t>(id)];
      EXPECT_TRUE(masks.advance(at, std::string_view(forced).substr(before.size())));
      for (const std::string& text : texts)
        EXPECT_TRUE(!text.starts_with(before) || text.starts_with(forced)) << text << forced;
    }
  }
}

// Lists of texts within each other: tokens begin in one rule and end in others.
Program lists() {
  Expressions e;
  const RuleId text = e.add_rule();
  const RuleId item = e.add_rule();
  e.define(text, e.sequence({e.bytes("'"), e.repeat(e.characters({{'a', 'b'}}), 0), e.bytes("'")}));
  const Node more = e.repeat(e.sequence({e.bytes(","), e.rule(item)}), 0);
  const Node list =
      e.sequence({e.bytes("["), e.optional(e.sequence({e.rule(item), more})), e.bytes("]")});
  e.define(item, e.choice({e.rule(text), list}));
  auto program = compile_program(e, e.sequence({list, e.optional(e.bytes("!"))}));
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(program.value());
}

TEST(TokenMasks, TokensMayLeaveManyRulesAtOnce) {
  const std::vector<std::string> tokens = {"[",
                                           "]",
                                           "'",
                                           "a",
                                           ",",
                                           "]]",
                                           "['",
                                           "a'",
                                           "']",
                                           "'],['",
                                           "',",
                                           "','",
                                           "a','b",
                                           "']]",
                                           "]]!",
                                           "b']]]!",
                                           "!"};
  const Program program = lists();
  const testing::Acceptor acceptor(program);
  std::set<std::string> expected;
  std::set<std::string> spelled = {""};
  for (int n = 0; n < 5; ++n) {
    std::set<std::string> longer;
    for (const std::string& text : spelled) {
      for (const std::string& token : tokens) {
        if (acceptor.begins(text + token)) longer.insert(text + token);
      }
    }
    for (const std::string& text : longer) {
      if (acceptor.accepts(text)) expected.insert(text);
    }
    spelled = std::move(longer);
  }
  EXPECT_GT(expected.size(), 100U);
  EXPECT_EQ(testing::texts_by_masks(program, tokens, 5), expected);
}

TEST(TokenMasks, CharactersMayBeCutAnywhere) {
  const TokenMasks masks(compiled("é+"),
                         testing::trie_of({"\xC3", "\xA9", "é", "\xA9\xC3", "e", "\xA8"}));
  TokenMasks::Position at = masks.begin();
  EXPECT_EQ((*masks.mask(at).value())[0], 0b000101U);
  ASSERT_TRUE(masks.advance(at, 0));
  EXPECT_FALSE(masks.is_whole(at));
  EXPECT_EQ((*masks.mask(at).value())[0], 0b001010U);
  ASSERT_TRUE(masks.advance(at, 3));
  EXPECT_FALSE(masks.advance(at, 2));
  ASSERT_TRUE(masks.advance(at, 1));
  EXPECT_TRUE(masks.is_whole(at));
  EXPECT_FALSE(masks.is_at_end(at));
}

TEST(TokenMasks, AtTheEndNothingFollows) {
  const TokenMasks masks(compiled("ab"), testing::trie_of({"a", "b", "ab"}));
  TokenMasks::Position at = masks.begin();
  EXPECT_FALSE(masks.is_whole(at));
  ASSERT_TRUE(masks.advance(at, "ab"));
  EXPECT_TRUE(masks.is_at_end(at));
  EXPECT_EQ((*masks.mask(at).value())[0], 0U);
  EXPECT_FALSE(masks.advance(at, 0));
  EXPECT_TRUE(masks.is_at_end(at));  // as it was
}

// More sets and masks than are kept: every one is made anew, and positions from before go on.
TEST(TokenMasks, ForgettingChangesNothing) {
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  const std::string pattern = "([a-m]{0,3000}z|[n-y]{0,3000}z)";
  const TokenMasks masks(compiled(pattern), testing::trie_of(tokens));
  TokenMasks::Position low = masks.begin();
  TokenMasks::Position high = masks.begin();
  const TokenMask first = *masks.mask(low).value();
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ((*masks.mask(low).value())[0], i == 0 ? 0x3FFFFFFU : 0x2001FFFU) << i;
    ASSERT_TRUE(masks.advance(low, i % 13));
    ASSERT_TRUE(masks.advance(high, 13 + i % 12));
    if (i % 7 == 0) {
      ASSERT_EQ((*masks.mask(high).value())[0], 0x3FFE000U) << i;
    }
  }
  EXPECT_EQ((*masks.mask(low).value())[0], 0x2000000U);
  EXPECT_EQ((*masks.mask(high).value())[0], 0x2000000U);
  EXPECT_EQ(*masks.mask(masks.begin()).value(), first);
}

TEST(TokenMasks, ManyThreadsAskAtOnce) {
  std::vector<std::string> tokens;
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  const TokenMasks masks(compiled("([a-m]{1,40}[n-z]{1,40})*"), testing::trie_of(tokens));
  std::vector<std::thread> threads;
  std::vector<std::string> texts(4);
  for (std::size_t t = 0; t < texts.size(); ++t) {
    threads.emplace_back([&, t] {
      TokenMasks::Position at = masks.begin();
      for (std::size_t i = 0; i < 500; ++i) {
        const auto mask = masks.mask(at);
        TokenId id = static_cast<TokenId>((i * 7 + 3) % 26);
        while (!testing::is_allowed(*mask.value(), id)) id = (id + 1) % 26;
        if (!masks.advance(at, id)) return;
        texts[t] += tokens[static_cast<std::size_t>(id)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(texts[0].size(), 500U);
  for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
}

// A grammar that would be in too many places at once is given up.
TEST(TokenMasks, AGrammarInTooManyStatesIsGivenUp) {
  Expressions expressions;
  // Every rule may go on with any other: after a few bytes a text may lie in very many calls.
  std::vector<RuleId> ids;
  ids.reserve(40);
  for (int i = 0; i < 40; ++i) ids.push_back(expressions.add_rule());
  for (const RuleId id : ids) {
    std::vector<Node> choices = {expressions.bytes("b")};
    for (const RuleId other : ids) {
      choices.push_back(expressions.sequence(
          {expressions.bytes("a"), expressions.rule(other), expressions.bytes("b")}));
    }
    expressions.define(id, expressions.choice(choices));
  }
  auto program = compile_program(expressions, expressions.rule(ids.front()));
  ASSERT_TRUE(program.ok()) << program.status().message();
  const TokenMasks masks(std::move(program.value()), testing::trie_of({"a", "aaaaaaaa", "b"}));
  const auto mask = masks.mask(masks.begin());
  ASSERT_FALSE(mask.ok());
  EXPECT_EQ(mask.status().message(), "the grammar is in too many states at once");
}

}  // namespace
}  // namespace coxswain::grammar
