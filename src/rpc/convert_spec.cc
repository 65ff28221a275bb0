#include <limits>
#include <memory>
#include <string>

#include <proto/engine_v1.pb.h>

#include "request/sampling_rules.h"
#include "rpc/convert.h"
#include "rpc/convert_detail.h"

namespace coxswain::rpc::detail {

namespace {

using TokenLists = google::protobuf::RepeatedPtrField<pb::TokenList>;

void lists_to_wire(const std::vector<std::vector<TokenId>>& from, TokenLists& to) {
  for (const std::vector<TokenId>& ids : from) tokens_to_wire(ids, *to.Add()->mutable_ids());
}

Result<std::vector<std::vector<TokenId>>> lists_from_wire(const TokenLists& from,
                                                          std::string_view field) {
  std::vector<std::vector<TokenId>> to;
  to.reserve(static_cast<std::size_t>(from.size()));
  for (const pb::TokenList& list : from) {
    COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokens_from_wire(list.ids(), field));
    to.push_back(std::move(ids));
  }
  return to;
}

Result<std::vector<SamplerStep>> samplers_from_wire(const U32List& from) {
  std::vector<SamplerStep> to;
  for (const std::uint32_t step : from) {
    if (step >= request::kSamplerNames.size()) {
      return invalid_argument("`sampling.samplers` must be below " +
                                  std::to_string(request::kSamplerNames.size()) +
                                  ". Given: " + std::to_string(step),
                              "sampling.samplers");
    }
    to.push_back(static_cast<SamplerStep>(step));
  }
  return to;
}

void sampling_to_proto(const SamplingParams& from, pb::SamplingParams& to) {
  to.set_do_sample(from.do_sample);
  to.set_temperature(from.temperature);
  to.set_top_k(static_cast<std::uint32_t>(from.top_k));
  to.set_top_p(from.top_p);
  to.set_typical_p(from.typical_p);
  to.set_min_p(from.min_p);
  to.set_repetition_penalty(from.repetition_penalty);
  to.set_relative_frequency_penalty(from.relative_frequency_penalty);
  to.set_frequency_penalty(from.frequency_penalty);
  to.set_presence_penalty(from.presence_penalty);
  for (const auto& [id, bias] : from.logit_bias) {
    pb::LogitBias& entry = *to.add_logit_bias();
    entry.set_id(static_cast<std::uint32_t>(id));
    entry.set_bias(bias);
  }
  to.set_seed(from.seed);
  to.set_n_top_tokens(from.n_top_tokens);
  to.set_penalties_count_prompt(from.penalties_count_prompt);
  to.set_no_repeat_ngram_size(from.no_repeat_ngram_size);
  lists_to_wire(from.bad_words, *to.mutable_bad_words());
  to.set_logits_processor(from.logits_processor);
  to.set_logits_processor_tag(from.logits_processor_tag);
  if (from.grammar) to.set_grammar(*from.grammar.bytes);
  tokens_to_wire(from.allowed_tokens, *to.mutable_allowed_tokens());
  to.set_epsilon_cutoff(from.epsilon_cutoff);
  to.set_eta_cutoff(from.eta_cutoff);
  to.set_top_n_sigma(from.top_n_sigma);
  to.set_dynatemp_range(from.dynatemp_range);
  to.set_dynatemp_exponent(from.dynatemp_exponent);
  to.set_xtc_probability(from.xtc_probability);
  to.set_xtc_threshold(from.xtc_threshold);
  to.set_dry_multiplier(from.dry_multiplier);
  to.set_dry_base(from.dry_base);
  to.set_dry_allowed_length(from.dry_allowed_length);
  to.set_dry_penalty_last_n(from.dry_penalty_last_n);
  for (const std::string& text : from.dry_sequence_breakers) to.add_dry_sequence_breakers(text);
  to.set_watermark(from.watermark);
  for (const SamplerStep step : from.samplers) to.add_samplers(static_cast<std::uint32_t>(step));
  if (!from.thoughts) return;
  pb::ThoughtBudget& thoughts = *to.mutable_thoughts();
  thoughts.set_tokens_max(from.thoughts->tokens_max);
  tokens_to_wire(from.thoughts->open, *thoughts.mutable_open());
  tokens_to_wire(from.thoughts->close, *thoughts.mutable_close());
}

Result<SamplingParams> sampling_from_proto(const pb::SamplingParams& from) {
  SamplingParams to;
  to.do_sample = from.do_sample();
  to.temperature = from.temperature();
  COXSWAIN_ASSIGN_OR_RETURN(to.top_k, token_from_wire(from.top_k(), "sampling.top_k"));
  to.top_p = from.top_p();
  to.typical_p = from.typical_p();
  to.min_p = from.min_p();
  to.repetition_penalty = from.repetition_penalty();
  to.relative_frequency_penalty = from.relative_frequency_penalty();
  to.frequency_penalty = from.frequency_penalty();
  to.presence_penalty = from.presence_penalty();
  to.logit_bias.reserve(static_cast<std::size_t>(from.logit_bias_size()));
  for (const pb::LogitBias& entry : from.logit_bias()) {
    COXSWAIN_ASSIGN_OR_RETURN(const TokenId id, token_from_wire(entry.id(), "sampling.logit_bias"));
    to.logit_bias.emplace_back(id, entry.bias());
  }
  to.seed = from.seed();
  to.n_top_tokens = from.n_top_tokens();
  to.penalties_count_prompt = from.penalties_count_prompt();
  to.no_repeat_ngram_size = from.no_repeat_ngram_size();
  COXSWAIN_ASSIGN_OR_RETURN(to.bad_words, lists_from_wire(from.bad_words(), "sampling.bad_words"));
  to.logits_processor = from.logits_processor();
  to.logits_processor_tag = from.logits_processor_tag();
  COXSWAIN_RETURN_IF_ERROR(request::check_grammar_size(from.grammar().size()));
  if (!from.grammar().empty())
    to.grammar.bytes = std::make_shared<const std::string>(from.grammar());
  COXSWAIN_ASSIGN_OR_RETURN(to.allowed_tokens,
                            tokens_from_wire(from.allowed_tokens(), "sampling.allowed_tokens"));
  to.epsilon_cutoff = from.epsilon_cutoff();
  to.eta_cutoff = from.eta_cutoff();
  to.top_n_sigma = from.top_n_sigma();
  to.dynatemp_range = from.dynatemp_range();
  to.dynatemp_exponent = from.dynatemp_exponent();
  to.xtc_probability = from.xtc_probability();
  to.xtc_threshold = from.xtc_threshold();
  to.dry_multiplier = from.dry_multiplier();
  to.dry_base = from.dry_base();
  to.dry_allowed_length = from.dry_allowed_length();
  to.dry_penalty_last_n = from.dry_penalty_last_n();
  to.dry_sequence_breakers.assign(from.dry_sequence_breakers().begin(),
                                  from.dry_sequence_breakers().end());
  to.watermark = from.watermark();
  COXSWAIN_ASSIGN_OR_RETURN(to.samplers, samplers_from_wire(from.samplers()));
  if (!from.has_thoughts()) return to;
  ThoughtBudget& thoughts = to.thoughts.emplace();
  thoughts.tokens_max = from.thoughts().tokens_max();
  COXSWAIN_ASSIGN_OR_RETURN(thoughts.open,
                            tokens_from_wire(from.thoughts().open(), "sampling.thoughts.open"));
  COXSWAIN_ASSIGN_OR_RETURN(thoughts.close,
                            tokens_from_wire(from.thoughts().close(), "sampling.thoughts.close"));
  // Which ids there are is for the runner to say.
  COXSWAIN_RETURN_IF_ERROR(
      request::check_thoughts(thoughts, std::numeric_limits<std::uint32_t>::max()));
  return to;
}

void stopping_to_proto(const StoppingParams& from, pb::StoppingParams& to) {
  to.set_max_new_tokens(from.max_new_tokens);
  for (const std::string& stop : from.stop_sequences) to.add_stop_sequences(stop);
  to.set_ignore_eos(from.ignore_eos);
  to.set_stop_first(from.order == FinishOrder::kStopFirst);
  to.set_min_new_tokens(from.min_new_tokens);
  tokens_to_wire(from.end_ids, *to.mutable_end_ids());
  lists_to_wire(from.stop_token_sequences, *to.mutable_stop_token_sequences());
}

Result<StoppingParams> stopping_from_proto(const pb::StoppingParams& from) {
  StoppingParams to;
  to.max_new_tokens = from.max_new_tokens();
  to.stop_sequences.assign(from.stop_sequences().begin(), from.stop_sequences().end());
  to.ignore_eos = from.ignore_eos();
  if (from.stop_first()) to.order = FinishOrder::kStopFirst;
  to.min_new_tokens = from.min_new_tokens();
  COXSWAIN_ASSIGN_OR_RETURN(to.end_ids, tokens_from_wire(from.end_ids(), "stopping.end_ids"));
  COXSWAIN_ASSIGN_OR_RETURN(
      to.stop_token_sequences,
      lists_from_wire(from.stop_token_sequences(), "stopping.stop_token_sequences"));
  return to;
}

void outputs_to_proto(const OutputParams& from, pb::OutputParams& to) {
  to.set_context_logits(from.context_logits);
  to.set_generation_logits(from.generation_logits);
  to.set_context_hidden(from.context_hidden);
  to.set_generation_hidden(from.generation_hidden);
}

// Elements of lists that take more memory than their bytes on the wire.
std::size_t n_items_of(const pb::SequenceSpec& spec) {
  const int n = spec.sampling().logit_bias_size() + spec.sampling().bad_words_size() +
                spec.sampling().dry_sequence_breakers_size() +
                spec.stopping().stop_sequences_size() +
                spec.stopping().stop_token_sequences_size() + spec.stopping().end_ids_size();
  return static_cast<std::size_t>(n);
}

}  // namespace

Result<TokenId> token_from_wire(std::uint32_t id, std::string_view field) {
  if (id > static_cast<std::uint32_t>(std::numeric_limits<TokenId>::max())) {
    return invalid_argument(
        "`" + std::string(field) + "` must be below 2^31. Given: " + std::to_string(id),
        std::string(field));
  }
  return static_cast<TokenId>(id);
}

Result<std::vector<TokenId>> tokens_from_wire(const U32List& ids, std::string_view field) {
  // One pass without a branch: prompts are long. Whether an id is in the vocabulary is the runner's to say.
  std::vector<TokenId> to(static_cast<std::size_t>(ids.size()));
  std::uint32_t seen = 0;
  for (int i = 0; i < ids.size(); ++i) {
    const std::uint32_t id = ids.Get(i);
    seen |= id;
    to[static_cast<std::size_t>(i)] = static_cast<TokenId>(id);
  }
  if ((seen >> 31U) == 0) return to;
  for (const std::uint32_t id : ids) COXSWAIN_RETURN_IF_ERROR(token_from_wire(id, field).status());
  return to;
}

void tokens_to_wire(const std::vector<TokenId>& ids, U32List& to) {
  to.Reserve(static_cast<int>(ids.size()));
  for (const TokenId id : ids) to.Add(static_cast<std::uint32_t>(id));
}

void spec_to_proto(const SequenceSpec& from, engine::v1::SequenceSpec& to) {
  to.set_id(static_cast<std::uint64_t>(from.id));
  tokens_to_wire(from.prompt, *to.mutable_prompt());
  tokens_to_wire(from.produced, *to.mutable_produced());
  sampling_to_proto(from.sampling, *to.mutable_sampling());
  stopping_to_proto(from.stopping, *to.mutable_stopping());
  to.set_prompt_logprobs(from.prompt_logprobs);
  to.set_rope_length(from.rope_length);
  to.set_adapter_digest(from.adapter_digest);
  to.set_cache_salt(from.cache_salt);
  if (from.outputs.any()) outputs_to_proto(from.outputs, *to.mutable_outputs());
  tokens_to_wire(from.draft, *to.mutable_draft());
}

Result<SequenceSpec> spec_from_proto(const engine::v1::SequenceSpec& from, std::size_t& n_items) {
  const std::size_t n = n_items_of(from);
  COXSWAIN_RETURN_IF_ERROR(
      count_up(n_items, n, kPlanSequenceItemsMax, "new_sequences.stop_sequences"));
  SequenceSpec to;
  to.id = SequenceId{from.id()};
  COXSWAIN_ASSIGN_OR_RETURN(to.prompt, tokens_from_wire(from.prompt(), "new_sequences.prompt"));
  COXSWAIN_ASSIGN_OR_RETURN(to.produced,
                            tokens_from_wire(from.produced(), "new_sequences.produced"));
  COXSWAIN_ASSIGN_OR_RETURN(to.draft, tokens_from_wire(from.draft(), "new_sequences.draft"));
  COXSWAIN_ASSIGN_OR_RETURN(to.sampling, sampling_from_proto(from.sampling()));
  COXSWAIN_ASSIGN_OR_RETURN(to.stopping, stopping_from_proto(from.stopping()));
  to.prompt_logprobs = from.prompt_logprobs();
  to.rope_length = from.rope_length();
  to.adapter_digest = from.adapter_digest();
  to.cache_salt = from.cache_salt();
  to.outputs = {.context_logits = from.outputs().context_logits(),
                .generation_logits = from.outputs().generation_logits(),
                .context_hidden = from.outputs().context_hidden(),
                .generation_hidden = from.outputs().generation_hidden()};
  return to;
}

}  // namespace coxswain::rpc::detail
