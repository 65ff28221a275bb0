#include "runner/sequence_state.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace coxswain::runner {
namespace {

// Room taken at once; a longer output grows by doubling.
constexpr std::size_t kOutputReserve = 1024;

// Decoders look back over few tokens (a leading blank, an unfinished character); this many are plenty.
constexpr std::size_t kContextTokens = 8;

void set_bit(grammar::TokenMask& mask, TokenId id) {
  const auto index = static_cast<std::size_t>(id);
  if (index / 64 >= mask.size()) mask.resize(index / 64 + 1, 0);
  mask[index / 64] |= std::uint64_t{1} << (index % 64);
}

}  // namespace

SequenceState::SequenceState(SequenceSpec spec,
                             const TextCodec* codec,
                             std::span<const TokenId> eos,
                             std::size_t n_kv_groups,
                             std::shared_ptr<const grammar::TokenMasks> grammar)
    : block_tables(n_kv_groups),
      spec_(std::move(spec)),
      codec_(codec),
      eos_(eos),
      has_counts_(sampling::needs_token_counts(spec_.sampling)),
      may_forbid_(sampling::may_forbid(spec_.sampling, spec_.stopping)),
      wants_repetitions_(sampling::wants_repetitions(spec_.sampling)),
      grammar_(std::move(grammar)),
      stops_(spec_.stopping.stop_sequences) {
  const std::size_t room = std::min<std::size_t>(spec_.stopping.max_new_tokens, kOutputReserve);
  output_.reserve(std::max(room, spec_.produced.size()));
  if (has_counts_) counts_.reset(spec_.prompt, room);
  if (codec_ != nullptr) {
    const std::span<const TokenId> prompt = spec_.prompt;
    const auto context = prompt.last(std::min(prompt.size(), kContextTokens));
    raw_ = codec_->stream(context, false);
    generated_ = codec_->stream(context, true);
  }
  if (grammar_ != nullptr) place_ = grammar_->begin();
  if (spec_.sampling.thoughts) thoughts_.emplace(*spec_.sampling.thoughts);
  if (!spec_.sampling.allowed_tokens.empty()) {
    for (const TokenId id : spec_.sampling.allowed_tokens) set_bit(allowed_, id);
    for (const TokenId id : end_ids()) set_bit(allowed_, id);
  }
  has_breaks_ =
      wants_repetitions_ && codec_ != nullptr && !spec_.sampling.dry_sequence_breakers.empty();
  if (has_breaks_) {
    breaks_.reserve(spec_.prompt.size() + room);
    for (const TokenId id : spec_.prompt) breaks_.push_back(breaks_repetitions(id) ? 1 : 0);
  }
  append(spec_.produced);
}

void SequenceState::append(std::span<const TokenId> tokens) {
  assert(!finished_);
  for (const TokenId id : tokens) {
    // Whether the sequence ends with one of these was decided elsewhere.
    static_cast<void>(stops_.push(append_text(id)));
  }
}

SequenceSpec SequenceState::spec_with(std::size_t n_output, std::span<const TokenId> append) const {
  assert(n_output <= output_.size());
  SequenceSpec out = spec_;
  out.produced.assign(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(n_output));
  out.produced.insert(out.produced.end(), append.begin(), append.end());
  return out;
}

TokenId SequenceState::token_at(std::size_t position) const {
  assert(position < length());
  return position < spec_.prompt.size() ? spec_.prompt[position]
                                        : output_[position - spec_.prompt.size()];
}

std::uint32_t SequenceState::rope_length() const {
  if (spec_.rope_length != 0) return spec_.rope_length;
  const std::size_t length = spec_.prompt.size() + spec_.stopping.max_new_tokens;
  return static_cast<std::uint32_t>(
      std::min<std::size_t>(length, std::numeric_limits<std::uint32_t>::max()));
}

std::string SequenceState::append_text(TokenId id) {
  output_.push_back(id);
  if (has_counts_) counts_.add(id);
  if (thoughts_) thoughts_->add(id);
  if (has_breaks_) breaks_.push_back(breaks_repetitions(id) ? 1 : 0);
  if (grammar_ != nullptr && !is_end(id) && !grammar_->advance(place_, id))
    has_left_grammar_ = true;
  if (codec_ == nullptr) return {};
  if (!stops_.empty() || !spec_.stopping.stop_token_sequences.empty())
    marks_.push_back({.raw = raw_length_, .generated = generated_text_.size()});
  std::string piece = raw_->push(id);
  raw_length_ += piece.size();
  generated_text_ += generated_->push(id);
  return piece;
}

bool SequenceState::breaks_repetitions(TokenId id) {
  const auto [known, is_new] = is_break_.try_emplace(id, false);
  if (is_new) {
    // Special tokens as they are spelled, so that the end of a turn may be one.
    const std::string text =
        codec_->is_special(id) ? codec_->token_text(id) : codec_->token_bytes(id);
    known->second = std::any_of(
        spec_.sampling.dry_sequence_breakers.begin(),
        spec_.sampling.dry_sequence_breakers.end(),
        [&](const std::string& breaker) { return text.find(breaker) != std::string::npos; });
  }
  return known->second;
}

std::span<const TokenId> SequenceState::end_ids() const {
  if (spec_.stopping.ignore_eos) return {};
  return spec_.stopping.end_ids.empty() ? eos_ : std::span(spec_.stopping.end_ids);
}

bool SequenceState::is_end(TokenId id) const {
  const std::span<const TokenId> ends = end_ids();
  return std::find(ends.begin(), ends.end(), id) != ends.end();
}

Status SequenceState::find_allowed(grammar::TokenMask& mask) const {
  if (grammar_ == nullptr) {
    mask = allowed_;
    return {};
  }
  mask.clear();
  if (has_left_grammar_)
    return invalid_argument("the tokens produced before do not follow the grammar", "grammar");
  const auto found = grammar_->mask(place_);
  if (!found.ok()) return found.status();
  mask = **found;
  const bool is_whole = grammar_->is_whole(place_);
  for (const TokenId id : end_ids()) {
    const auto index = static_cast<std::size_t>(id);
    if (index / 64 >= mask.size()) continue;
    const std::uint64_t bit = std::uint64_t{1} << (index % 64);
    mask[index / 64] = is_whole ? mask[index / 64] | bit : mask[index / 64] & ~bit;
  }
  if (allowed_.empty()) return {};
  mask.resize(std::min(mask.size(), allowed_.size()));
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] &= allowed_[i];
  return {};
}

std::optional<MasksAhead::Wanted> SequenceState::wanted_mask() const {
  if (grammar_ == nullptr || has_left_grammar_ || grammar_->has_mask(place_)) return std::nullopt;
  return MasksAhead::Wanted{grammar_, place_};
}

std::optional<TokenId> SequenceState::find_forced(const grammar::TokenMask& allowed) const {
  const std::optional<TokenId> forced = thoughts_ ? thoughts_->forced() : std::nullopt;
  if (!forced || allowed.empty()) return forced;
  const auto id = static_cast<std::size_t>(*forced);
  const bool may_follow = id / 64 < allowed.size() && (allowed[id / 64] >> (id % 64) & 1) != 0;
  return may_follow ? forced : std::nullopt;
}

Guess SequenceState::guess_forced(std::size_t n_max, double& chance) {
  if (grammar_ == nullptr || has_left_grammar_) return {};
  return forced_.guess(*grammar_, place_, output_, n_max, chance);
}

void SequenceState::find_repetitions(sampling::RepetitionScratch& scratch,
                                     std::vector<sampling::Repetition>& found) const {
  found.clear();
  if (!wants_repetitions_) return;
  sampling::find_repetitions(
      {.prompt = spec_.prompt, .output = output_}, breaks_, spec_.sampling, scratch, found);
}

bool SequenceState::is_whole_without_end() const {
  return grammar_ != nullptr && end_ids().empty() && grammar_->is_at_end(place_);
}

void SequenceState::find_forbidden(std::vector<TokenId>& ids) const {
  ids.clear();
  if (!may_forbid_) return;
  sampling::find_forbidden(
      {.prompt = spec_.prompt, .output = output_}, spec_.sampling, spec_.stopping, end_ids(), ids);
}

std::size_t SequenceState::stop_tokens_at_end() const {
  const sampling::TokenHistory history{.prompt = {}, .output = output_};
  std::size_t longest = 0;
  for (const std::vector<TokenId>& ids : spec_.stopping.stop_token_sequences) {
    if (ids.size() > longest && history.ends_with(ids)) longest = ids.size();
  }
  return longest;
}

std::optional<FinishReason> SequenceState::reason_to_end(TokenId id, std::string_view piece) {
  const bool at_length = output_.size() >= spec_.stopping.max_new_tokens;
  const bool at_eos = is_end(id);
  const bool stop_first = spec_.stopping.order == FinishOrder::kStopFirst;
  if (stop_first || (!at_length && !at_eos)) {
    if (const auto match = stops_.push(piece)) {
      stop_begin_ = match->begin;
      return FinishReason::kStopSequence;
    }
    if (const std::size_t n = stop_tokens_at_end()) {
      if (!marks_.empty()) stop_begin_ = marks_[output_.size() - n].raw;
      return FinishReason::kStopSequence;
    }
    if (is_whole_without_end()) return FinishReason::kStopSequence;
  }
  if (at_eos && (stop_first || !at_length)) return FinishReason::kEosToken;
  return at_length ? std::optional(FinishReason::kLength) : std::nullopt;
}

std::size_t SequenceState::to_generated_offset(std::size_t raw_offset) const {
  // The last token that begins at or before the offset and has text; tokens without text begin
  // where the next one does.
  const auto after = std::upper_bound(
      marks_.begin(), marks_.end(), raw_offset, [](std::size_t value, const Mark& mark) {
        return value < mark.raw;
      });
  assert(after != marks_.begin());
  const Mark& mark = *(after - 1);
  const std::size_t generated_end =
      after == marks_.end() ? generated_text_.size() : after->generated;
  return std::min(mark.generated + (raw_offset - mark.raw), generated_end);
}

std::vector<TokenAlternative> SequenceState::with_text(
    std::span<const sampling::ScoredToken> tokens) const {
  std::vector<TokenAlternative> out;
  out.reserve(tokens.size());
  for (const sampling::ScoredToken& token : tokens) {
    out.push_back({.id = token.id,
                   .logprob = token.logprob,
                   .special = codec_ != nullptr && codec_->is_special(token.id),
                   .text = codec_ != nullptr ? codec_->token_text(token.id) : std::string()});
  }
  return out;
}

SequenceState::Accepted SequenceState::accept(const Choice& choice) {
  assert(!finished_);
  Accepted out;
  OutputToken& token = out.token;
  token.id = choice.token.id;
  token.logprob = choice.token.logprob;
  token.text = append_text(token.id);
  token.special = codec_ != nullptr && codec_->is_special(token.id);
  token.alternatives = with_text(choice.top);
  const std::optional<FinishReason> reason = reason_to_end(token.id, token.text);
  if (!reason) return out;
  finished_ = true;
  if (codec_ != nullptr) {
    token.text += raw_->finish();
    generated_text_ += generated_->finish();
  }
  const std::size_t begin =
      stop_begin_ ? to_generated_offset(*stop_begin_) : generated_text_.size();
  out.finish = SequenceFinish{
      .reason = *reason, .generated_text = std::move(generated_text_), .stop_text_begin = begin};
  return out;
}

}  // namespace coxswain::runner
