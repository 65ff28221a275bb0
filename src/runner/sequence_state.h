#pragma once
// SequenceState: what the runner remembers of one sequence beside its keys and values.
//
// All of it but the block tables and what guesses are made from is a pure function of (spec, output ids): penalty
// counts, partial characters, the stop matcher, the places in the grammar and in the thoughts, and the text so far. So
// it survives pauses as it is and is rebuilt from SequenceSpec::produced after a restart.
//
// Thread rule: belongs to the compute thread.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "grammar/token_masks.h"
#include "runner/drafts.h"
#include "runner/forced_text.h"
#include "runner/guess_source.h"
#include "runner/masks_ahead.h"
#include "sampling/dry.h"
#include "sampling/forbidden_tokens.h"
#include "sampling/sampler.h"
#include "sampling/stop_matcher.h"
#include "sampling/thought_budget.h"
#include "sampling/token_counts.h"

namespace coxswain::runner {

// What a step decided for a row: the token and its alternatives, before they have a text.
struct Choice {
  sampling::ScoredToken token;
  std::vector<sampling::ScoredToken> top;
};

class SequenceState {
 public:
  // `codec` may be null: then tokens have no text. `eos`, the model's end tokens, and `codec` outlive the state.
  // `grammar`: of the spec's grammar; null if it has none.
  SequenceState(SequenceSpec spec,
                const TextCodec* codec,
                std::span<const TokenId> eos,
                std::size_t n_kv_groups,
                std::shared_ptr<const grammar::TokenMasks> grammar = nullptr);

  const SequenceSpec& spec() const { return spec_; }
  std::size_t prompt_length() const { return spec_.prompt.size(); }
  std::size_t length() const { return spec_.prompt.size() + output_.size(); }
  // REQUIRES: position < length().
  TokenId token_at(std::size_t position) const;
  std::span<const TokenId> output() const { return output_; }
  bool finished() const { return finished_; }
  // Positions [0, computed) have their keys. Whoever runs the rows keeps it.
  std::size_t computed = 0;
  // Null if no parameter of the request needs it.
  const sampling::TokenCounts* counts() const { return has_counts_ ? &counts_ : nullptr; }
  // The ids that may not come next, ascending; none of a request that forbids none.
  void find_forbidden(std::vector<TokenId>& ids) const;
  // The ids that grammar and allowed tokens let come next, a bit for each: end tokens where the text is whole. Empty of
  // a request with neither. Errors: kInvalidArgument if the output has left the grammar, which only what others
  // produced can; kResourceExhausted where the grammar is in too many states.
  Status find_allowed(grammar::TokenMask& mask) const;
  // What find_allowed() will have to make; none where it is made already.
  std::optional<MasksAhead::Wanted> wanted_mask() const;
  // The id that comes next whatever the model would choose; none where `allowed`, of find_allowed(), does not have it.
  std::optional<TokenId> find_forced(const grammar::TokenMask& allowed) const;
  // Of what the grammar forces behind the output, as ForcedText::guess(); empty of a sequence without one.
  Guess guess_forced(std::size_t n_max, double& chance);
  // What DRY looks at; none of a request without it.
  void find_repetitions(sampling::RepetitionScratch& scratch,
                        std::vector<sampling::Repetition>& found) const;
  // What a state of the same spec is made with.
  const std::shared_ptr<const grammar::TokenMasks>& grammar() const { return grammar_; }
  std::uint32_t rope_length() const;
  std::vector<TokenAlternative> with_text(std::span<const sampling::ScoredToken> tokens) const;

  // Whether it is an end token of the sequence.
  bool is_end(TokenId id) const;
  // Takes tokens that were chosen elsewhere: the state is as if SequenceSpec::produced had ended with them.
  // REQUIRES: !finished().
  void append(std::span<const TokenId> tokens);
  // The spec of a sequence whose history is the prompt, the first n_output outputs of this one, then `append`.
  // REQUIRES: n_output <= output().size().
  SequenceSpec spec_with(std::size_t n_output, std::span<const TokenId> append) const;

  // Takes the chosen token: text piece, special flag, and whether the sequence ends with it.
  // REQUIRES: !finished().
  struct Accepted {
    OutputToken token;
    std::optional<SequenceFinish> finish;
  };
  Accepted accept(const Choice& choice);

  std::vector<std::vector<BlockId>> block_tables;  // per KV group
  // What was computed about the prompt token at `position` with the chunk before it.
  struct PromptCarry {
    std::size_t position = std::numeric_limits<std::size_t>::max();
    float logprob = 0.0F;
    std::vector<TokenAlternative> alternatives = {};
  };
  PromptCarry carry;
  std::uint64_t last_step_serial = 0;  // of the row that named it last (StepExecutor)
  std::unique_ptr<Drafter> drafter;    // from its first row that may have drafts on (StepExecutor)
  std::unique_ptr<StepSource::Kept> kept;  // of the runner's StepSource, as the drafter

 private:
  // The decoded text of one more token, with and without special tokens.
  std::string append_text(TokenId id);
  // Whether the text of a token holds one of DRY's sequence breakers.
  bool breaks_repetitions(TokenId id);
  // The end tokens of the sequence; none if they are ignored.
  std::span<const TokenId> end_ids() const;
  std::optional<FinishReason> reason_to_end(TokenId id, std::string_view piece);
  // The grammar lets nothing follow, and no end token says so.
  bool is_whole_without_end() const;
  // How many tokens the longest stop sequence of ids has that the output ends with; 0: none.
  std::size_t stop_tokens_at_end() const;
  std::size_t to_generated_offset(std::size_t raw_offset) const;

  // Where the texts of a token begin: with special tokens, and without.
  struct Mark {
    std::size_t raw = 0;
    std::size_t generated = 0;
  };

  SequenceSpec spec_;
  const TextCodec* codec_;
  std::span<const TokenId> eos_;
  std::vector<TokenId> output_;
  bool has_counts_ = false;
  bool may_forbid_ = false;
  bool wants_repetitions_ = false;
  bool has_breaks_ = false;
  bool finished_ = false;
  bool has_left_grammar_ = false;
  std::shared_ptr<const grammar::TokenMasks> grammar_;
  grammar::TokenMasks::Position place_;  // of the output in it
  ForcedText forced_;
  std::optional<sampling::ThoughtState> thoughts_;
  grammar::TokenMask allowed_;  // of allowed_tokens, with the end tokens; empty without any
  // For each token of prompt and output, if there are sequence breakers; and what is known of ids by now.
  std::vector<std::uint8_t> breaks_;
  std::unordered_map<TokenId, bool> is_break_;
  sampling::TokenCounts counts_;
  sampling::StopMatcher stops_;
  std::unique_ptr<TextCodec::Stream> raw_;        // special tokens spelled out
  std::unique_ptr<TextCodec::Stream> generated_;  // special tokens left out
  std::size_t raw_length_ = 0;                    // bytes
  std::string generated_text_;
  std::vector<Mark> marks_;  // per token, kept only where a stop sequence may end the sequence
  std::optional<std::size_t> stop_begin_;  // bytes of the text with special tokens
};

}  // namespace coxswain::runner
