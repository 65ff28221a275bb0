#pragma once
// FakeRunner: a StepRunner without a model, for tests of everything that drives one.
//
// The KV cache of group 0 is an array of token ids. A row writes its tokens through its block
// table; the next token is a hash of all tokens read back through the table, so a wrong block,
// position or order changes the output. expected_token() gives the same from the bare history.
// Rules of step_runner.h are checked; a broken one fails the step with kInternal. FakeCodec's text
// of a token is one letter.
//
// Thread rule: as StepRunner; the counters and hold() may be used by any thread.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

namespace coxswain::rpc::testing {

inline constexpr TokenId kBeginToken = 1;              // special, no text
inline constexpr TokenId kEndToken = 2;                // special, the EOS
inline constexpr std::uint32_t kFakeVocabulary = 300;  // id 10 + b is the byte b

// The token that follows `history`; never special.
TokenId expected_token(std::span<const TokenId> history);
// The first `n` tokens that follow the prompt.
std::vector<TokenId> expected_tokens(std::span<const TokenId> prompt, std::size_t n);

// Log-probability that the fake reports for `token` at `position`.
float expected_logprob(TokenId token, std::size_t position);

class FakeRunner : public StepRunner {
 public:
  explicit FakeRunner(RunnerInfo info) : info_(std::move(info)) {}

  // 64 blocks of 4 positions in one group, every capability, epoch 77.
  static RunnerInfo default_info();

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket) override;
  Status healthy() override;

  // While held, wait() does not return.
  void hold();
  void release();
  void set_health(Status status);
  // Fails the next wait() as a whole.
  void fail_next(Status status);
  // Fails the next row of this prompt's first token.
  void fail_sequences_starting_with(TokenId token);

  std::set<SequenceId> live() const;
  std::uint64_t n_steps() const;
  std::uint64_t n_submitted() const;
  // Blocks until submit() has been called `n` times in all.
  void wait_for_submitted(std::uint64_t n) const;
  void wait_for_live(std::size_t n) const;

 private:
  struct Sequence {
    SequenceSpec spec;
    std::vector<std::vector<BlockId>> tables;  // one per KV group
    std::vector<TokenId> output;
    std::optional<TokenId> previous;
  };

  Result<StepResult> run_locked(const StepPlan& plan);
  SequenceResult run_row(const Row& row);
  Status apply_changes(const Row& row, Sequence& sequence);
  Status write_row(const Row& row, Sequence& sequence, std::vector<TokenId>& history);
  std::optional<SequenceFinish> finish_of(const Sequence& sequence) const;
  std::uint32_t* slot(const Sequence& sequence, std::uint32_t position);

  const RunnerInfo info_;
  mutable std::mutex mu_;
  mutable std::condition_variable changed_;
  bool held_ = false;
  Status health_;
  Status next_failure_;
  std::optional<TokenId> failing_start_;
  std::deque<StepPlan> in_flight_;
  std::map<SequenceId, Sequence> sequences_;
  std::map<BlockId, std::vector<std::uint32_t>> kv_;  // of group 0
  std::uint64_t n_steps_ = 0;
  std::uint64_t n_submitted_ = 0;
};

class FakeCodec : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text,
                                      bool add_special_tokens) const override;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override;
  std::unique_ptr<Stream> stream(std::span<const TokenId> context,
                                 bool skip_special) const override;
  std::string token_text(TokenId id) const override;
  bool is_special(TokenId id) const override { return id == kBeginToken || id == kEndToken; }
};

}  // namespace coxswain::rpc::testing
