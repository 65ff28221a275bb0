#include "rpc/stock/messages.h"

#include <algorithm>
#include <utility>

#include <proto/generate_v3.pb.h>

#include "grammar/pattern.h"

namespace coxswain::rpc {

namespace {

namespace v3 = ::generate::v3;

Status not_carried(const std::string& field) {
  return {Code::kUnimplemented,
          ErrorKind::kValidation,
          "`" + field + "` is not supported by this shard",
          field};
}

bool reads_as(const TextCodec& codec, const PromptText& prompt, std::span<const TokenId> ids) {
  const auto read = codec.encode(prompt.text, prompt.add_special_tokens);
  return read.ok() && std::ranges::equal(*read, ids);
}

Status to_parameters(const SamplingParams& from, v3::NextTokenChooserParameters& to) {
  if (from.min_p != 0.0F) return not_carried("min_p");
  if (from.frequency_penalty != 0.0F) return not_carried("frequency_penalty");
  if (from.presence_penalty != 0.0F) return not_carried("presence_penalty");
  if (!from.logit_bias.empty()) return not_carried("logit_bias");
  if (!from.bad_words.empty()) return not_carried("bad_words");
  if (from.thoughts) return not_carried("thoughts");
  if (!from.logits_processor.empty()) return not_carried("logits_processor");
  if (from.no_repeat_ngram_size != 0) return not_carried("no_repeat_ngram_size");
  const auto pattern = grammar::carried_pattern(from.grammar);
  if (from.grammar && !pattern) return not_carried("grammar");
  if (!from.allowed_tokens.empty()) return not_carried("allowed_token_ids");
  if (from.epsilon_cutoff != 0.0F) return not_carried("epsilon_cutoff");
  if (from.eta_cutoff != 0.0F) return not_carried("eta_cutoff");
  if (from.top_n_sigma != 0.0F) return not_carried("top_n_sigma");
  if (from.dynatemp_range != 0.0F) return not_carried("dynatemp_range");
  if (from.xtc_probability != 0.0F) return not_carried("xtc_probability");
  if (from.dry_multiplier != 0.0F) return not_carried("dry_multiplier");
  if (!from.samplers.empty()) return not_carried("samplers");
  // A shard samples as soon as any of these is on.
  to.set_do_sample(from.do_sample);
  to.set_temperature(from.do_sample ? from.temperature : 1.0F);
  to.set_top_k(from.do_sample ? static_cast<std::uint32_t>(from.top_k) : 0);
  to.set_top_p(from.do_sample ? from.top_p : 1.0F);
  to.set_typical_p(from.do_sample ? from.typical_p : 1.0F);
  to.set_seed(from.seed);
  to.set_repetition_penalty(from.repetition_penalty);
  to.set_frequency_penalty(from.relative_frequency_penalty);
  to.set_watermark(from.watermark);
  if (pattern) {
    to.set_grammar(std::string(*pattern));
    to.set_grammar_type(v3::GRAMMAR_TYPE_REGEX);
  }
  return {};
}

Status to_criteria(const StoppingParams& from, v3::StoppingCriteriaParameters& to) {
  if (from.min_new_tokens != 0) return not_carried("min_new_tokens");
  if (!from.end_ids.empty()) return not_carried("end_ids");
  if (!from.stop_token_sequences.empty()) return not_carried("stop_token_sequences");
  to.set_max_new_tokens(from.max_new_tokens);
  to.set_ignore_eos_token(from.ignore_eos);
  for (const std::string& stop : from.stop_sequences) to.add_stop_sequences(stop);
  return {};
}

OutputToken token_at(const v3::Tokens& from, int i) {
  OutputToken out;
  out.id = static_cast<TokenId>(from.ids(i));
  out.logprob = from.logprobs(i);
  out.text = from.texts(i);
  out.special = i < from.is_special_size() && from.is_special(i);
  return out;
}

bool is_whole(const v3::Tokens& tokens) {
  return tokens.logprobs_size() == tokens.ids_size() && tokens.texts_size() == tokens.ids_size();
}

void add_alternatives(const v3::Tokens& top, OutputToken& token) {
  for (int i = 0; i < top.ids_size(); ++i) {
    OutputToken other = token_at(top, i);
    token.alternatives.push_back({.id = other.id,
                                  .logprob = other.logprob,
                                  .special = other.special,
                                  .text = std::move(other.text)});
  }
}

// Where the stop string begins that the text ends with.
std::size_t stop_begin(const std::string& text, const std::vector<std::string>& stops) {
  std::size_t begin = text.size();
  for (const std::string& stop : stops) {
    if (text.ends_with(stop)) begin = std::min(begin, text.size() - stop.size());
  }
  return begin;
}

Result<SequenceFinish> finish_of(const v3::GeneratedText& from, const SequenceSpec& spec) {
  SequenceFinish out;
  switch (from.finish_reason()) {
    case v3::FINISH_REASON_LENGTH:
      out.reason = FinishReason::kLength;
      break;
    case v3::FINISH_REASON_EOS_TOKEN:
      out.reason = FinishReason::kEosToken;
      break;
    case v3::FINISH_REASON_STOP_SEQUENCE:
      out.reason = FinishReason::kStopSequence;
      break;
    default:
      return internal_error("the shard gave an unknown reason for the end");
  }
  out.generated_text = from.text();
  out.stop_text_begin = out.generated_text.size();
  const std::size_t begin = stop_begin(out.generated_text, spec.stopping.stop_sequences);
  if (spec.stopping.order == FinishOrder::kStopFirst && begin < out.generated_text.size()) {
    out.reason = FinishReason::kStopSequence;  // a stock shard looks at the length first
  }
  if (out.reason == FinishReason::kStopSequence) out.stop_text_begin = begin;
  return out;
}

}  // namespace

Result<PromptText> text_of_prompt(std::span<const TokenId> ids, const TextCodec& codec) {
  PromptText whole{.text = codec.decode(ids, false)};
  if (reads_as(codec, whole, ids)) return whole;
  // Tokenizers that mark the begin of a text write it differently behind a special token.
  std::span<const TokenId> inner = ids;
  while (!inner.empty() && codec.is_special(inner.front())) inner = inner.subspan(1);
  while (!inner.empty() && codec.is_special(inner.back())) inner = inner.first(inner.size() - 1);
  PromptText framed{.text = codec.decode(inner, false), .add_special_tokens = true};
  if (reads_as(codec, framed, ids)) return framed;
  return Status(Code::kUnimplemented,
                ErrorKind::kValidation,
                "this shard takes text, and no text stands for the tokens of the prompt",
                "inputs");
}

Status to_stock_request(const SequenceSpec& spec,
                        std::span<const BlockId> blocks,
                        const RunnerInfo& shard,
                        const TextCodec& codec,
                        v3::Request& to) {
  if (!spec.produced.empty()) return internal_error("a stock shard cannot resume a sequence");
  if (!spec.adapter_digest.empty()) {
    return invalid_argument("a stock shard knows adapters by name, not by content", "adapter_id");
  }
  if (spec.outputs.any()) return not_carried("outputs");
  COXSWAIN_ASSIGN_OR_RETURN(PromptText prompt, text_of_prompt(spec.prompt, codec));
  COXSWAIN_RETURN_IF_ERROR(to_parameters(spec.sampling, *to.mutable_parameters()));
  to.set_id(static_cast<std::uint64_t>(spec.id));
  to.set_inputs(prompt.text);
  to.mutable_input_chunks()->add_chunks()->set_text(std::move(prompt.text));
  to.set_add_special_tokens(prompt.add_special_tokens);
  to.set_truncate(static_cast<std::uint32_t>(spec.prompt.size()));
  to.set_prefill_logprobs(spec.prompt_logprobs);
  to.set_top_n_tokens(spec.sampling.n_top_tokens);
  COXSWAIN_RETURN_IF_ERROR(to_criteria(spec.stopping, *to.mutable_stopping_parameters()));
  const std::uint32_t block_tokens = shard.block_tokens;
  const std::size_t n_positions =
      spec.prompt.size() + spec.stopping.max_new_tokens + shard.capabilities.draft_tokens_max - 1;
  if (blocks.size() * block_tokens < n_positions)
    return internal_error("the block table of a stock sequence is too short");
  for (const BlockId block : blocks) to.add_blocks(block);
  for (std::size_t i = 0; i < n_positions; ++i) {
    to.add_slots(blocks[i / block_tokens] * block_tokens +
                 static_cast<std::uint32_t>(i % block_tokens));
  }
  return {};
}

Result<SequenceResult> from_stock(const v3::Generation& from, const SequenceSpec& spec) {
  const int n_tokens = from.tokens().ids_size();
  if (n_tokens < 1 || !is_whole(from.tokens()) || !is_whole(from.prefill_tokens()))
    return internal_error("the shard gave no whole token");
  SequenceResult out;
  out.sequence = spec.id;
  for (int t = 0; t < n_tokens; ++t) {
    OutputToken token = token_at(from.tokens(), t);
    if (t < from.top_tokens_size()) {
      const v3::Tokens& top = from.top_tokens(t);
      if (!is_whole(top)) return internal_error("the shard gave alternatives without their values");
      add_alternatives(top, token);
    }
    out.tokens.push_back(std::move(token));
  }
  const v3::Tokens& prompt = from.prefill_tokens();
  for (int i = 0; i < prompt.ids_size(); ++i) {
    out.prompt.push_back({.id = static_cast<TokenId>(prompt.ids(i)),
                          .logprob = prompt.logprobs(i),
                          .text = prompt.texts(i)});
  }
  if (from.has_generated_text()) {
    COXSWAIN_ASSIGN_OR_RETURN(out.finish, finish_of(from.generated_text(), spec));
  }
  return out;
}

void to_warmup_request(const WarmupLimits& limits, v3::WarmupRequest& to) {
  std::uint32_t left = limits.prefill_tokens_max;
  std::uint32_t n_requests = 0;
  v3::Batch& batch = *to.mutable_batch();
  while (left > 0 && (limits.batch_size_max == 0 || n_requests < limits.batch_size_max)) {
    const std::uint32_t length =
        limits.input_tokens_max == 0 ? left : std::min(left, limits.input_tokens_max);
    v3::Request& request = *batch.add_requests();
    std::string text;
    for (std::uint32_t i = 0; i < length; ++i) text += "_test ";
    request.set_inputs(text);
    request.mutable_input_chunks()->add_chunks()->set_text(std::move(text));
    request.set_truncate(length);
    request.set_add_special_tokens(true);
    request.set_prefill_logprobs(true);
    request.set_top_n_tokens(20);
    v3::NextTokenChooserParameters& p = *request.mutable_parameters();
    p.set_temperature(0.9F);
    p.set_top_k(10);
    p.set_top_p(0.9F);
    p.set_typical_p(0.9F);
    p.set_repetition_penalty(1.2F);
    p.set_frequency_penalty(0.1F);
    p.set_watermark(true);
    v3::StoppingCriteriaParameters& stopping = *request.mutable_stopping_parameters();
    stopping.set_max_new_tokens(limits.total_tokens_max > length ? limits.total_tokens_max - length
                                                                 : 1);
    stopping.set_ignore_eos_token(true);
    left -= length;
    ++n_requests;
  }
  batch.set_size(n_requests);
  to.set_max_prefill_tokens(limits.prefill_tokens_max);
  if (limits.input_tokens_max != 0) to.set_max_input_tokens(limits.input_tokens_max);
  if (limits.total_tokens_max != 0) to.set_max_total_tokens(limits.total_tokens_max);
}

}  // namespace coxswain::rpc
