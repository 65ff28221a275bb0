#include "runner/sequence_state.h"

#include <gtest/gtest.h>

#include "runner/fake_model.h"

namespace coxswain::runner {
namespace {

constexpr TokenId kEos = 2;
constexpr TokenId kHalf = 3;
constexpr TokenId kOtherHalf = 4;
TokenId letter(char c) {
  return 5 + (c - 'a');
}

class SequenceStateTest : public testing::Test {
 protected:
  SequenceState make(StoppingParams stopping, std::vector<TokenId> produced = {}) {
    SequenceSpec spec{
        .prompt = {letter('x')}, .produced = std::move(produced), .stopping = std::move(stopping)};
    return SequenceState(std::move(spec), codec_.get(), eos_, 1);
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
  std::vector<TokenId> eos_ = {kEos};
  std::string text_;
};

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
