#include "runner/sequence_state.h"

#include <gtest/gtest.h>

#include "grammar/regex.h"
#include "runner/fake_model.h"
#include "runner/grammars.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

constexpr TokenId kEos = 2;
constexpr TokenId kHalf = 3;
constexpr TokenId kOtherHalf = 4;
TokenId letter(char c) {
  return 5 + (c - 'a');
}

class SequenceStateTest : public ::testing::Test {
 protected:
  SequenceState make(StoppingParams stopping, std::vector<TokenId> produced = {}) {
    SequenceSpec spec{
        .prompt = {letter('x')}, .produced = std::move(produced), .stopping = std::move(stopping)};
    return SequenceState(std::move(spec), codec_.get(), eos_, 1);
  }
  SequenceState make_with(const std::string& pattern,
                          StoppingParams stopping,
                          std::vector<TokenId> produced = {}) {
    SequenceSpec spec{
        .prompt = {letter('x')}, .produced = std::move(produced), .stopping = std::move(stopping)};
    spec.sampling.grammar = testing::regex_grammar(pattern);
    auto masks = grammars_.open(spec.sampling.grammar);
    EXPECT_TRUE(masks.ok()) << masks.status().message();
    return SequenceState(std::move(spec), codec_.get(), eos_, 1, std::move(masks).value());
  }
  // The ids that may follow, of the first `n`.
  std::vector<TokenId> allowed(const SequenceState& state, TokenId n = 31) {
    grammar::TokenMask mask;
    const Status status = state.find_allowed(mask);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(mask.size(), 1U);
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < n && !mask.empty(); ++id) {
      if (grammar::testing::is_allowed(mask, id)) ids.push_back(id);
    }
    return ids;
  }
  // Feeds ids until the sequence ends; the pieces are joined in text_.
  std::optional<SequenceFinish> feed(SequenceState& state, const std::vector<TokenId>& ids) {
    text_.clear();
    for (const TokenId id : ids) {
      auto accepted = state.accept({.token = {.id = id, .logprob = -1.0F}, .top = {}});
      text_ += accepted.token.text;
      if (accepted.finish) return accepted.finish;
    }
    return std::nullopt;
  }
  std::shared_ptr<const TextCodec> codec_ = make_fake_codec();
  Grammars grammars_{*codec_, 64};
  std::vector<TokenId> eos_ = {kEos};
  std::string text_;
};

TEST_F(SequenceStateTest, AGrammarFollowsTheOutput) {
  grammar::Expressions expressions;
  const auto root = grammar::parse_regex(expressions, "ab?é");
  auto program = grammar::compile_program(expressions, root.value());
  ASSERT_TRUE(program.ok());
  const auto trie = std::make_shared<const grammar::TokenTrie>(
      31, [&](TokenId id) { return codec_->token_bytes(id); });
  const auto masks = std::make_shared<const grammar::TokenMasks>(std::move(program).value(), trie);
  const auto allowed = [](const SequenceState& state) {
    grammar::TokenMask mask;
    EXPECT_TRUE(state.find_allowed(mask).ok());
    std::vector<TokenId> out;
    for (TokenId id = 0; id < 64; ++id) {
      if (mask.at(0) >> id & 1) out.push_back(id);
    }
    return out;
  };
  const std::vector<TokenId> ids = {letter('a'), letter('b'), kHalf, kOtherHalf, kEos};
  const std::vector<std::vector<TokenId>> expected = {
      {letter('a')}, {kHalf, letter('b')}, {kHalf}, {kOtherHalf}, {kEos}};
  auto state = [&](std::vector<TokenId> produced, bool ignore_eos = false) {
    SequenceSpec spec{.prompt = {letter('x')},
                      .produced = std::move(produced),
                      .stopping = {.max_new_tokens = 9, .ignore_eos = ignore_eos}};
    return SequenceState(std::move(spec), codec_.get(), eos_, 1, masks);
  };
  auto walked = state({});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(allowed(walked), expected[i]) << i;
    EXPECT_EQ(allowed(state({ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(i)})),
              expected[i])
        << i;
    const auto finish = feed(walked, {ids[i]});
    ASSERT_EQ(finish.has_value(), i + 1 == ids.size());
    if (finish) {
      EXPECT_EQ(finish->reason, FinishReason::kEosToken);
    }
  }
  // Without an end token the last one that may come ends the sequence.
  auto endless = state({letter('a'), kHalf}, true);
  const auto finish = feed(endless, {kOtherHalf});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kStopSequence);
  EXPECT_EQ(finish->generated_text, "a\xC3\xA9");
  EXPECT_EQ(finish->stop_text_begin, 3U);
  // What does not follow is not forgotten.
  grammar::TokenMask mask;
  EXPECT_EQ(state({letter('b')}).find_allowed(mask).code(), Code::kInvalidArgument);
}

TEST_F(SequenceStateTest, LengthWinsOverEosAndStop) {
  auto state = make({.max_new_tokens = 2, .stop_sequences = {"<2>"}});
  const auto finish = feed(state, {letter('a'), kEos});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kLength);
  EXPECT_EQ(finish->generated_text, "a");
  EXPECT_EQ(finish->stop_text_begin, 1u);
  EXPECT_EQ(text_, "a<2>");
  EXPECT_TRUE(state.finished());
}

TEST_F(SequenceStateTest, EosWinsOverStopAndCanBeIgnored) {
  auto state = make({.max_new_tokens = 9, .stop_sequences = {"<2>"}});
  EXPECT_EQ(feed(state, {letter('a'), kEos})->reason, FinishReason::kEosToken);
  auto ignoring = make({.max_new_tokens = 9, .stop_sequences = {"<2>"}, .ignore_eos = true});
  const auto finish = feed(ignoring, {letter('a'), kEos, letter('b')});
  EXPECT_EQ(finish->reason, FinishReason::kStopSequence);  // a stop string may name a special token
  EXPECT_EQ(finish->generated_text, "a");
  EXPECT_EQ(finish->stop_text_begin, 1u);
}

TEST_F(SequenceStateTest, AStopStringThenAnEndTokenWinOverTheLengthIfAskedFor) {
  const StoppingParams stopping{
      .max_new_tokens = 2, .stop_sequences = {"<2>", "b"}, .order = FinishOrder::kStopFirst};
  auto named = make(stopping);
  const auto by_name = feed(named, {letter('a'), kEos});
  ASSERT_TRUE(by_name);
  EXPECT_EQ(by_name->reason, FinishReason::kStopSequence);  // a stop string may name the end token
  EXPECT_EQ(by_name->stop_text_begin, 1u);
  auto stopped = make(stopping);
  const auto by_stop = feed(stopped, {letter('a'), letter('b')});
  ASSERT_TRUE(by_stop);
  EXPECT_EQ(by_stop->reason, FinishReason::kStopSequence);
  EXPECT_EQ(by_stop->generated_text.substr(by_stop->stop_text_begin), "b");
  auto ended = make({.max_new_tokens = 2, .order = FinishOrder::kStopFirst});
  EXPECT_EQ(feed(ended, {letter('a'), kEos})->reason, FinishReason::kEosToken);
  auto full = make(stopping);
  EXPECT_EQ(feed(full, {letter('a'), letter('a')})->reason, FinishReason::kLength);
}

TEST_F(SequenceStateTest, AStopSequenceOfIdsEndsAsAStopStringDoes) {
  const StoppingParams stopping{
      .max_new_tokens = 9,
      .stop_token_sequences = {{letter('c')}, {letter('b'), 1, letter('c')}, {letter('x')}}};
  auto state = make(stopping);  // the prompt's x is no output
  const auto finish = feed(state, {letter('a'), kHalf, kOtherHalf, letter('b'), 1, letter('c')});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kStopSequence);
  EXPECT_EQ(text_,
            "a\xC3\xA9"
            "b<1>c");
  EXPECT_EQ(finish->generated_text.substr(finish->stop_text_begin), "bc");  // the longest
  // Half of it before a restart.
  auto rebuilt = make(stopping, {letter('a'), kHalf, kOtherHalf, letter('b'), 1});
  EXPECT_EQ(feed(rebuilt, {letter('c')}), finish);
  // The length comes first, or last.
  auto at_length = make({.max_new_tokens = 1, .stop_token_sequences = {{letter('c')}}});
  EXPECT_EQ(feed(at_length, {letter('c')})->reason, FinishReason::kLength);
  auto stop_first = make({.max_new_tokens = 1,
                          .order = FinishOrder::kStopFirst,
                          .stop_token_sequences = {{letter('c')}}});
  EXPECT_EQ(feed(stop_first, {letter('c')})->reason, FinishReason::kStopSequence);
  // Without text.
  SequenceState blind({.prompt = {letter('x')}, .stopping = stopping}, nullptr, eos_, 1);
  EXPECT_EQ(feed(blind, {letter('c')})->reason, FinishReason::kStopSequence);
}

TEST_F(SequenceStateTest, EndTokensAreTheRequestsOwnIfItNamesAny) {
  auto own = make({.max_new_tokens = 9, .end_ids = {letter('c'), letter('d')}});
  const auto finish = feed(own, {kEos, letter('d')});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kEosToken);
  EXPECT_EQ(own.output().size(), 2U);
  auto none = make({.max_new_tokens = 3, .ignore_eos = true, .end_ids = {letter('c')}});
  EXPECT_EQ(feed(none, {letter('c'), kEos, letter('c')})->reason, FinishReason::kLength);
}

TEST_F(SequenceStateTest, EndTokensAreForbiddenUntilTheLeastLength) {
  std::vector<TokenId> ids;
  auto state = make({.max_new_tokens = 9, .min_new_tokens = 2});
  state.find_forbidden(ids);
  EXPECT_EQ(ids, eos_);
  feed(state, {letter('a')});
  state.find_forbidden(ids);
  EXPECT_EQ(ids, eos_);
  feed(state, {letter('a')});
  state.find_forbidden(ids);
  EXPECT_TRUE(ids.empty());
  make({.max_new_tokens = 9, .min_new_tokens = 2}, {letter('a')}).find_forbidden(ids);
  EXPECT_EQ(ids, eos_);
  make({.max_new_tokens = 9, .min_new_tokens = 2, .end_ids = {7}}).find_forbidden(ids);
  EXPECT_EQ(ids, std::vector<TokenId>{7});
  make({.max_new_tokens = 9, .ignore_eos = true, .min_new_tokens = 2}).find_forbidden(ids);
  EXPECT_TRUE(ids.empty());
}

TEST_F(SequenceStateTest, AllowedTokensBindTheGrammarToo) {
  using Ids = std::vector<TokenId>;
  const auto make_allowing = [&](Ids ids, const std::string& pattern, StoppingParams stopping) {
    SequenceSpec spec{.prompt = {letter('x')}, .stopping = std::move(stopping)};
    spec.sampling.allowed_tokens = std::move(ids);
    std::shared_ptr<const grammar::TokenMasks> masks;
    if (!pattern.empty()) {
      spec.sampling.grammar = testing::regex_grammar(pattern);
      masks = grammars_.open(spec.sampling.grammar).value();
    }
    return SequenceState(std::move(spec), codec_.get(), eos_, 1, std::move(masks));
  };
  const Ids ids = {letter('c'), letter('a')};
  EXPECT_EQ(allowed(make_allowing(ids, "", {.max_new_tokens = 9})),
            (Ids{kEos, letter('a'), letter('c')}));
  EXPECT_EQ(allowed(make_allowing(ids, "", {.max_new_tokens = 9, .ignore_eos = true})),
            (Ids{letter('a'), letter('c')}));
  EXPECT_EQ(allowed(make_allowing(ids, "", {.max_new_tokens = 9, .end_ids = {7}})),
            (Ids{letter('a'), 7}));  // 7 is c
  auto bound = make_allowing(ids, "[ab]c?", {.max_new_tokens = 9});
  EXPECT_EQ(allowed(bound), Ids{letter('a')});
  feed(bound, {letter('a')});
  EXPECT_EQ(allowed(bound), (Ids{kEos, letter('c')}));
}

TEST_F(SequenceStateTest, ARepetitionEndsAtASequenceBreaker) {
  using Ids = std::vector<TokenId>;
  const auto found_of = [](const SequenceState& state) {
    sampling::RepetitionScratch scratch;
    std::vector<sampling::Repetition> found;
    state.find_repetitions(scratch, found);
    return found;
  };
  const auto make_dry = [&](std::vector<std::string> breakers, Ids produced) {
    SequenceSpec spec{.prompt = {letter('a'), letter('b'), 1, letter('c'), letter('d')},
                      .produced = std::move(produced),
                      .stopping = {.max_new_tokens = 9}};
    spec.sampling.dry_multiplier = 1.0F;
    spec.sampling.dry_sequence_breakers = std::move(breakers);
    return SequenceState(std::move(spec), codec_.get(), eos_, 1);
  };
  using Found = std::vector<sampling::Repetition>;
  const Ids output = {letter('a'), letter('b'), 1, letter('c')};
  EXPECT_EQ(found_of(make_dry({}, output)), (Found{{.id = letter('d'), .length = 4}}));
  EXPECT_EQ(found_of(make_dry({"z", "b"}, output)), (Found{{.id = letter('d'), .length = 2}}));
  // A special token as it is spelled; behind it is too little.
  EXPECT_EQ(found_of(make_dry({"<1>"}, output)), Found{});
  EXPECT_EQ(found_of(make_dry({"d"}, output)), Found{});
  // The same whether tokens were produced here or elsewhere.
  auto walked = make_dry({"b"}, {});
  for (std::size_t n = 0; n < output.size(); ++n) {
    const Ids before(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(n));
    EXPECT_EQ(found_of(walked), found_of(make_dry({"b"}, before))) << n;
    feed(walked, {output[n]});
  }
  EXPECT_EQ(found_of(make({.max_new_tokens = 9})), Found{});
}

TEST_F(SequenceStateTest, StopOffsetsPointIntoTheTextWithoutSpecialTokens) {
  auto state = make({.max_new_tokens = 9, .stop_sequences = {"cd"}});
  const auto finish = feed(state, {letter('a'), 1, kHalf, kOtherHalf, letter('c'), letter('d')});
  ASSERT_TRUE(finish);
  EXPECT_EQ(text_,
            "a<1>\xC3\xA9"
            "cd");
  EXPECT_EQ(finish->generated_text,
            "a\xC3\xA9"
            "cd");
  EXPECT_EQ(finish->generated_text.substr(finish->stop_text_begin), "cd");
}

TEST_F(SequenceStateTest, ASplitLastCharacterBecomesAReplacementCharacter) {
  auto state = make({.max_new_tokens = 2});
  const auto finish = feed(state, {letter('a'), kHalf});
  EXPECT_EQ(finish->generated_text, "a\xEF\xBF\xBD");
  EXPECT_EQ(text_, finish->generated_text);
}

TEST_F(SequenceStateTest, ProducedTokensRebuildTheState) {
  const StoppingParams stopping{.max_new_tokens = 9, .stop_sequences = {"bcd"}};
  auto whole = make(stopping);
  const auto expected = feed(whole, {letter('a'), letter('b'), letter('c'), letter('d')});
  auto rebuilt = make(stopping, {letter('a'), letter('b')});
  EXPECT_EQ(rebuilt.length(), 3u);
  EXPECT_EQ(rebuilt.token_at(2), letter('b'));
  EXPECT_EQ(feed(rebuilt, {letter('c'), letter('d')}), expected);
  EXPECT_EQ(expected->stop_text_begin, 1u);
}

TEST_F(SequenceStateTest, TheGrammarFollowsTheOutput) {
  using Ids = std::vector<TokenId>;
  auto state = make_with("a(b|\xC3\xA9)+", {.max_new_tokens = 9});
  EXPECT_EQ(allowed(state), Ids{letter('a')});
  feed(state, {letter('a')});
  EXPECT_EQ(allowed(state), (Ids{kHalf, letter('b')}));
  feed(state, {kHalf});
  EXPECT_EQ(allowed(state), Ids{kOtherHalf});
  feed(state, {kOtherHalf});
  EXPECT_EQ(allowed(state), (Ids{kEos, kHalf, letter('b')}));
  // All tokens that spell b.
  EXPECT_EQ(allowed(state, 64),
            (Ids{kEos, kHalf, letter('b'), letter('b') + 26, letter('b') + 52}));
  const auto finish = feed(state, {letter('b') + 26, kEos});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kEosToken);
  EXPECT_EQ(finish->generated_text,
            "a\xC3\xA9"
            "b");
  // A request without one.
  grammar::TokenMask mask(3, 0);
  EXPECT_TRUE(make({.max_new_tokens = 9}).find_allowed(mask).ok());
  EXPECT_TRUE(mask.empty());
}

TEST_F(SequenceStateTest, ProducedTokensRebuildThePlaceInTheGrammar) {
  const std::vector<TokenId> ids = {
      letter('a'), kHalf, kOtherHalf, letter('b'), letter('a'), letter('b'), letter('c')};
  const std::string pattern =
      "(a(b|\xC3\xA9"
      "b)){2}[cd]{2}";
  auto walked = make_with(pattern, {.max_new_tokens = 12});
  for (std::size_t n = 0; n <= ids.size(); ++n) {
    const auto begin = ids.begin();
    auto rebuilt =
        make_with(pattern, {.max_new_tokens = 12}, {begin, begin + static_cast<std::ptrdiff_t>(n)});
    EXPECT_EQ(allowed(rebuilt, 64), allowed(walked, 64)) << n;
    EXPECT_FALSE(allowed(rebuilt).empty()) << n;
    if (n < ids.size()) feed(walked, {ids[n]});
  }
  EXPECT_EQ(allowed(walked), (std::vector<TokenId>{letter('c'), letter('d')}));
}

TEST_F(SequenceStateTest, EndTokensAreAllowedWhereTheTextIsWholeAndNowhereElse) {
  using Ids = std::vector<TokenId>;
  // c would be text of the grammar, too.
  const StoppingParams own{.max_new_tokens = 9, .end_ids = {letter('c'), 1}};
  auto state = make_with("b[bc]c", own);
  EXPECT_EQ(allowed(state), Ids{letter('b')});
  feed(state, {letter('b')});
  EXPECT_EQ(allowed(state), Ids{letter('b')});
  EXPECT_EQ(allowed(make_with("b[bc]*", own, {letter('b')})), (Ids{1, letter('b'), letter('c')}));
  // Without end tokens none is allowed, and the sequence ends with its text.
  const StoppingParams endless{.max_new_tokens = 9, .ignore_eos = true};
  auto ending = make_with("ab?", endless);
  EXPECT_FALSE(feed(ending, {letter('a')}));
  EXPECT_EQ(allowed(ending), Ids{letter('b')});
  const auto finish = feed(ending, {letter('b')});
  ASSERT_TRUE(finish);
  EXPECT_EQ(finish->reason, FinishReason::kStopSequence);
  EXPECT_EQ(finish->generated_text, "ab");
  EXPECT_EQ(finish->stop_text_begin, 2U);
  EXPECT_EQ(feed(*std::make_unique<SequenceState>(make_with("ab?", endless, {letter('a')})),
                 {letter('b')}),
            finish);
  // The length comes first, or last, as for stop strings.
  auto at_length = make_with("ab", {.max_new_tokens = 2, .ignore_eos = true});
  EXPECT_EQ(feed(at_length, {letter('a'), letter('b')})->reason, FinishReason::kLength);
  auto stop_first =
      make_with("ab", {.max_new_tokens = 2, .ignore_eos = true, .order = FinishOrder::kStopFirst});
  EXPECT_EQ(feed(stop_first, {letter('a'), letter('b')})->reason, FinishReason::kStopSequence);
  // With end tokens it goes on to one.
  auto going = make_with("ab", {.max_new_tokens = 9});
  EXPECT_FALSE(feed(going, {letter('a'), letter('b')}));
  EXPECT_EQ(allowed(going), Ids{kEos});
}

TEST_F(SequenceStateTest, TokensOutsideTheGrammarAreNamed) {
  grammar::TokenMask mask;
  const auto status_of = [&](std::vector<TokenId> produced) {
    return make_with("ab*", {.max_new_tokens = 9}, std::move(produced)).find_allowed(mask);
  };
  EXPECT_TRUE(status_of({letter('a'), letter('b')}).ok());
  for (const std::vector<TokenId>& produced :
       {std::vector<TokenId>{letter('b')}, {letter('a'), letter('c'), letter('b')}, {1}}) {
    EXPECT_EQ(status_of(produced).code(), Code::kInvalidArgument);
    EXPECT_EQ(status_of(produced).field(), "grammar");
  }
  EXPECT_EQ(status_of({letter('b')}).message(),
            "the tokens produced before do not follow the grammar");
  // An end token is no part of the text.
  EXPECT_TRUE(status_of({letter('a'), kEos, letter('b')}).ok());
}

TEST_F(SequenceStateTest, AlternativesCarryTextAndFlags) {
  auto state = make({.max_new_tokens = 9});
  const auto accepted =
      state.accept({.token = {letter('q'), -0.5F}, .top = {{letter('q'), -0.5F}, {1, -2.0F}}});
  EXPECT_EQ(accepted.token.text, "q");
  EXPECT_FALSE(accepted.token.special);
  ASSERT_EQ(accepted.token.alternatives.size(), 2u);
  EXPECT_EQ(accepted.token.alternatives[1], (TokenAlternative{1, -2.0F, true, "<1>"}));
}

}  // namespace
}  // namespace coxswain::runner
