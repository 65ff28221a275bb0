#include "manager/request_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/grammar.h>

#include "manager/nearest_name.h"
#include "manager/retention_tensors.h"
#include "manager/tensor_form.h"

namespace coxswain::manager {
namespace {

// What the tensors say, before they are put together.
struct Fields {
  TensorRules rules;
  ParsedRequest out;
  std::span<const TokenId> input_ids;
  std::optional<std::int32_t> input_length;
  std::span<const std::int32_t> position_ids;
  float temperature = 1.0F;
  float top_p = 0.0F;
  std::int32_t end_id = -1;
  std::int32_t pad_id = -1;
  RetentionTensors retention;
  std::optional<GuideType> guide_type;
  std::optional<std::string> guide;
  std::optional<std::uint32_t> n_sequences;
};

struct Row {
  std::string_view name;
  ElementType type;
  Shape shape;
  // The shape, the type and the number of values have been looked at.
  Status (*take)(const NamedTensor& tensor, Fields& fields);
};

bool is_of_vocabulary(TokenId id, const Fields& fields) {
  return id >= 0 && static_cast<std::uint32_t>(id) < fields.rules.vocab_size;
}

std::string legal_id(const Fields& fields) {
  return "-1, or >= 0 and < " + std::to_string(fields.rules.vocab_size);
}

template <typename T>
T value_of(const NamedTensor& tensor) {
  return tensor.as<T>().front();
}

Status take_count(const NamedTensor& tensor, std::int32_t least, std::uint32_t& target) {
  const auto value = value_of<std::int32_t>(tensor);
  if (value < least)
    return refuse(tensor.name, ">= " + std::to_string(least), std::to_string(value));
  target = static_cast<std::uint32_t>(value);
  return {};
}

// For what changes nothing at one value and is not honoured at any other.
template <typename T>
Status take_only(const NamedTensor& tensor, T only, std::string_view why) {
  return value_of<T>(tensor) == only ? Status() : not_honoured(tensor.name, why);
}

template <float SamplingParams::*kMember>
Status take_float(const NamedTensor& tensor, Fields& f) {
  f.out.request.sampling.*kMember = value_of<float>(tensor);
  return {};
}

template <bool OutputWishes::*kMember>
Status take_wish(const NamedTensor& tensor, Fields& f) {
  f.out.outputs.*kMember = value_of<bool>(tensor);
  return {};
}

Status take_input_ids(const NamedTensor& tensor, Fields& f) {
  f.input_ids = tensor.as<std::int32_t>();
  return {};
}

Status take_output_len(const NamedTensor& tensor, Fields& f) {
  return take_count(tensor, 1, f.out.request.stopping.max_new_tokens);
}

Status take_input_lengths(const NamedTensor& tensor, Fields& f) {
  f.input_length = value_of<std::int32_t>(tensor);
  return {};
}

Status take_position_ids(const NamedTensor& tensor, Fields& f) {
  f.position_ids = tensor.as<std::int32_t>();
  return {};
}

Status take_streaming(const NamedTensor& tensor, Fields& f) {
  f.out.outputs.streaming = value_of<bool>(tensor);
  if (!f.out.outputs.streaming || f.rules.streaming_allowed) return {};
  return refuse(tensor.name, "false, `decoupled` is off", "true");
}

Status take_beam_width(const NamedTensor& tensor, Fields& f) {
  const auto value = value_of<std::int32_t>(tensor);
  if (value < 1 || value > f.rules.max_beam_width) {
    return refuse(tensor.name,
                  ">= 1 and <= `max_beam_width`, " + std::to_string(f.rules.max_beam_width),
                  std::to_string(value));
  }
  f.out.request.beams.width = static_cast<std::uint32_t>(value);
  return {};
}

Status take_temperature(const NamedTensor& tensor, Fields& f) {
  f.temperature = value_of<float>(tensor);
  return {};
}

Status take_top_k(const NamedTensor& tensor, Fields& f) {
  f.out.request.sampling.top_k = value_of<std::int32_t>(tensor);
  return {};
}

Status take_top_p(const NamedTensor& tensor, Fields& f) {
  f.top_p = value_of<float>(tensor);
  if (f.top_p >= 0.0F && f.top_p <= 1.0F) return {};
  return refuse(tensor.name, ">= 0 and <= 1", std::to_string(f.top_p));
}

Status take_top_p_decay(const NamedTensor& tensor, Fields&) {
  return take_only(tensor, 1.0F, "top-p does not change from token to token; only 1 is taken");
}

Status take_top_p_min(const NamedTensor& tensor, Fields&) {
  return take_only(tensor, 1e-6F, "top-p does not change from token to token; only 1e-6 is taken");
}

Status take_top_p_reset(const NamedTensor& tensor, Fields&) {
  return take_only(tensor, -1, "top-p does not change from token to token; only -1 is taken");
}

// Of a beam search; one beam alone is the same whatever they say.
template <float BeamParams::*kMember>
Status take_beam_float(const NamedTensor& tensor, Fields& f) {
  const auto value = value_of<float>(tensor);
  f.out.request.beams.*kMember = value;
  const bool may_be_below_0 = kMember == &BeamParams::length_penalty;
  if (std::isfinite(value) && (value >= 0.0F || may_be_below_0)) return {};
  return refuse(tensor.name, may_be_below_0 ? "finite" : ">= 0 and finite", std::to_string(value));
}

Status take_early_stopping(const NamedTensor& tensor, Fields& f) {
  f.out.request.beams.early_stopping = value_of<std::int32_t>(tensor);
  return {};
}

Status take_seed(const NamedTensor& tensor, Fields& f) {
  f.out.request.sampling.seed = value_of<std::uint64_t>(tensor);
  return {};
}

Status take_draft(const NamedTensor& tensor, Fields& f) {
  const std::span<const TokenId> ids = tensor.as<std::int32_t>();
  f.out.request.draft.assign(ids.begin(), ids.end());
  return {};
}

Status take_end_id(const NamedTensor& tensor, Fields& f) {
  f.end_id = value_of<std::int32_t>(tensor);
  if (f.end_id == -1 || is_of_vocabulary(f.end_id, f)) return {};
  return refuse(tensor.name, legal_id(f), std::to_string(f.end_id));
}

Status take_min_length(const NamedTensor& tensor, Fields& f) {
  return take_count(tensor, 0, f.out.request.stopping.min_new_tokens);
}

Status take_ngram_size(const NamedTensor& tensor, Fields& f) {
  return take_count(tensor, 0, f.out.request.sampling.no_repeat_ngram_size);
}

Status take_bad_words(const NamedTensor& tensor, Fields& f) {
  COXSWAIN_ASSIGN_OR_RETURN(f.out.request.sampling.bad_words, unpack_words(tensor));
  return {};
}

Status take_stop_words(const NamedTensor& tensor, Fields& f) {
  COXSWAIN_ASSIGN_OR_RETURN(f.out.request.stopping.stop_token_sequences, unpack_words(tensor));
  return {};
}

Status take_pad_id(const NamedTensor& tensor, Fields& f) {
  f.pad_id = value_of<std::int32_t>(tensor);
  if (f.pad_id == -1 || is_of_vocabulary(f.pad_id, f)) return {};
  return refuse(tensor.name, legal_id(f), std::to_string(f.pad_id));
}

Status take_embedding_bias(const NamedTensor& tensor, Fields& f) {
  const auto bias = tensor.as<float>();
  for (std::size_t i = 0; i < bias.size(); ++i) {
    if (bias[i] != 0.0F)
      f.out.request.sampling.logit_bias.emplace_back(static_cast<TokenId>(i), bias[i]);
  }
  return {};
}

template <bool OutputParams::*kMember>
Status take_output(const NamedTensor& tensor, Fields& f) {
  f.out.request.outputs.*kMember = value_of<bool>(tensor);
  return {};
}

template <std::span<const std::int32_t> RetentionTensors::*kMember>
Status take_retention(const NamedTensor& tensor, Fields& f) {
  f.retention.*kMember = tensor.as<std::int32_t>();
  return {};
}

template <std::optional<std::int32_t> RetentionTensors::*kMember>
Status take_decode_retention(const NamedTensor& tensor, Fields& f) {
  f.retention.*kMember = value_of<std::int32_t>(tensor);
  return {};
}

Status take_return_sequences(const NamedTensor& tensor, Fields& f) {
  return take_count(tensor, 1, f.n_sequences.emplace());
}

Status take_perf_metrics(const NamedTensor& tensor, Fields&) {
  return take_only(tensor, false, "times are in no response; only false is taken");
}

std::string text_of(const NamedTensor& tensor) {
  const auto bytes = tensor.as<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

Status take_guide_type(const NamedTensor& tensor, Fields& f) {
  const std::string name = text_of(tensor);
  if (name == "json") {
    f.guide_type = GuideType::kJson;
  } else if (name == "json_schema") {
    f.guide_type = GuideType::kJsonSchema;
  } else if (name == "regex") {
    f.guide_type = GuideType::kRegex;
  } else if (name == "ebnf_grammar") {
    f.guide_type = GuideType::kEbnfGrammar;
  } else {
    return refuse(tensor.name, "json, json_schema, regex or ebnf_grammar", name);
  }
  return {};
}

Status take_guide(const NamedTensor& tensor, Fields& f) {
  f.guide = text_of(tensor);
  return {};
}

Status take_stop(const NamedTensor&, Fields&) {  // true: is_stop_message()
  return {};
}

// Higher goes first. Distances that a float of [0, 1] can tell survive.
Status take_priority(const NamedTensor& tensor, Fields& f) {
  const auto value = value_of<float>(tensor);
  if (!(value >= 0.0F && value <= 1.0F))
    return refuse(tensor.name, ">= 0 and <= 1", std::to_string(value));
  f.out.request.priority = static_cast<std::int32_t>(std::lround((value - 0.5F) * 0x1p24F));
  return {};
}

// A row for each tensor that a request may have.
constexpr std::array kRows{
    Row{"input_ids", ElementType::kInt32, Shape::kRow, take_input_ids},
    Row{"request_output_len", ElementType::kInt32, Shape::kScalar, take_output_len},
    Row{"input_lengths", ElementType::kInt32, Shape::kScalar, take_input_lengths},
    Row{"position_ids", ElementType::kInt32, Shape::kRow, take_position_ids},
    Row{"streaming", ElementType::kBool, Shape::kScalar, take_streaming},
    Row{"stop", ElementType::kBool, Shape::kScalar, take_stop},
    Row{"priority", ElementType::kFloat32, Shape::kScalar, take_priority},
    Row{"beam_width", ElementType::kInt32, Shape::kScalar, take_beam_width},
    Row{"len_penalty",
        ElementType::kFloat32,
        Shape::kScalar,
        take_beam_float<&BeamParams::length_penalty>},
    Row{"early_stopping", ElementType::kInt32, Shape::kScalar, take_early_stopping},
    Row{"beam_search_diversity_rate",
        ElementType::kFloat32,
        Shape::kScalar,
        take_beam_float<&BeamParams::diversity_rate>},
    Row{"temperature", ElementType::kFloat32, Shape::kScalar, take_temperature},
    Row{"runtime_top_k", ElementType::kInt32, Shape::kScalar, take_top_k},
    Row{"runtime_top_p", ElementType::kFloat32, Shape::kScalar, take_top_p},
    Row{"runtime_top_p_min", ElementType::kFloat32, Shape::kScalar, take_top_p_min},
    Row{"runtime_top_p_decay", ElementType::kFloat32, Shape::kScalar, take_top_p_decay},
    Row{"runtime_top_p_reset_ids", ElementType::kInt32, Shape::kScalar, take_top_p_reset},
    Row{"runtime_min_p", ElementType::kFloat32, Shape::kScalar, take_float<&SamplingParams::min_p>},
    Row{"repetition_penalty",
        ElementType::kFloat32,
        Shape::kScalar,
        take_float<&SamplingParams::repetition_penalty>},
    Row{"presence_penalty",
        ElementType::kFloat32,
        Shape::kScalar,
        take_float<&SamplingParams::presence_penalty>},
    Row{"frequency_penalty",
        ElementType::kFloat32,
        Shape::kScalar,
        take_float<&SamplingParams::frequency_penalty>},
    Row{"min_length", ElementType::kInt32, Shape::kScalar, take_min_length},
    Row{"no_repeat_ngram_size", ElementType::kInt32, Shape::kScalar, take_ngram_size},
    Row{"noRepeatNgramSize", ElementType::kInt32, Shape::kScalar, take_ngram_size},
    Row{"random_seed", ElementType::kUint64, Shape::kScalar, take_seed},
    Row{"draft_input_ids", ElementType::kInt32, Shape::kRow, take_draft},
    Row{"end_id", ElementType::kInt32, Shape::kScalar, take_end_id},
    Row{"pad_id", ElementType::kInt32, Shape::kScalar, take_pad_id},
    Row{"bad_words_list", ElementType::kInt32, Shape::kWords, take_bad_words},
    Row{"stop_words_list", ElementType::kInt32, Shape::kWords, take_stop_words},
    Row{"embedding_bias", ElementType::kFloat32, Shape::kVocab, take_embedding_bias},
    Row{"return_log_probs",
        ElementType::kBool,
        Shape::kScalar,
        take_wish<&OutputWishes::log_probs>},
    Row{"return_context_logits",
        ElementType::kBool,
        Shape::kScalar,
        take_output<&OutputParams::context_logits>},
    Row{"return_generation_logits",
        ElementType::kBool,
        Shape::kScalar,
        take_output<&OutputParams::generation_logits>},
    Row{"retention_token_range_starts",
        ElementType::kInt32,
        Shape::kRow,
        take_retention<&RetentionTensors::starts>},
    Row{"retention_token_range_ends",
        ElementType::kInt32,
        Shape::kRow,
        take_retention<&RetentionTensors::ends>},
    Row{"retention_token_range_priorities",
        ElementType::kInt32,
        Shape::kRow,
        take_retention<&RetentionTensors::priorities>},
    Row{"retention_token_range_durations_ms",
        ElementType::kInt32,
        Shape::kRow,
        take_retention<&RetentionTensors::durations_ms>},
    Row{"retention_decode_priority",
        ElementType::kInt32,
        Shape::kScalar,
        take_decode_retention<&RetentionTensors::decode_priority>},
    Row{"retention_decode_duration_ms",
        ElementType::kInt32,
        Shape::kScalar,
        take_decode_retention<&RetentionTensors::decode_duration_ms>},
    Row{"num_return_sequences", ElementType::kInt32, Shape::kScalar, take_return_sequences},
    Row{"return_perf_metrics", ElementType::kBool, Shape::kScalar, take_perf_metrics},
    Row{"guided_decoding_guide_type", ElementType::kUint8, Shape::kRow, take_guide_type},
    Row{"guided_decoding_guide", ElementType::kUint8, Shape::kRow, take_guide},
};

struct Refused {
  std::string_view name;
  std::string_view why;
};

constexpr std::string_view kNoAdapters = "the engine has no LoRA adapters";
constexpr std::string_view kNoDrafts = "a draft token counts if it is the one chosen";
constexpr std::string_view kNoTables = "the engine has no prompt tables";

constexpr std::array kRefused{
    Refused{"lora_task_id", kNoAdapters},
    Refused{"lora_weights", kNoAdapters},
    Refused{"lora_config", kNoAdapters},
    Refused{"draft_logits", kNoDrafts},
    Refused{"draft_acceptance_threshold", kNoDrafts},
    Refused{"prompt_embedding_table", kNoTables},
    Refused{"prompt_vocab_size", kNoTables},
    Refused{"decoder_input_ids", "the engine has no encoder-decoder models"},
};

Status take_tensor(const NamedTensor& tensor, Fields& fields) {
  const auto row = std::ranges::find(kRows, tensor.name, &Row::name);
  if (row != kRows.end()) {
    COXSWAIN_RETURN_IF_ERROR(
        check_form({row->name, row->type, row->shape}, tensor, fields.rules.vocab_size));
    return row->take(tensor, fields);
  }
  const auto refused = std::ranges::find(kRefused, tensor.name, &Refused::name);
  if (refused != kRefused.end()) return not_honoured(refused->name, refused->why);
  return invalid_argument(
      unknown_name(tensor.name, "tensor of a request", kRows | std::views::transform(&Row::name)),
      tensor.name);
}

Status check_mandatory(const InferenceRequest& request) {
  for (const std::string_view name : {"input_ids", "request_output_len"}) {
    if (request.get(name) == nullptr)
      return refuse(name, "there, every request has it", "no tensor of this name");
  }
  return {};
}

// Of a beam search its best beams; else siblings.
Status put_sequences_together(Fields& f) {
  batch::GenerationRequest& request = f.out.request;
  const std::uint32_t width = request.beams.width;
  const std::uint32_t n = f.n_sequences.value_or(width);
  const std::uint32_t n_max = width > 1 ? width : f.rules.sequences_max;
  if (n > n_max) {
    return refuse(
        "num_return_sequences",
        ">= 1 and <= " + (width > 1 ? "`beam_width`, " : std::string()) + std::to_string(n_max),
        std::to_string(n));
  }
  if (width > 1) {
    request.n_beam_answers = f.out.outputs.n_beams = n;
    return {};
  }
  for (std::uint32_t i = 1; i < n; ++i) request.more_seeds.push_back(request.sampling.seed + i);
  return {};
}

// All that are asked for are in the response.
Status put_beams_together(Fields& f) {
  batch::GenerationRequest& request = f.out.request;
  OutputWishes& wishes = f.out.outputs;
  if (f.pad_id != -1 || f.end_id != -1) wishes.pad_id = f.pad_id != -1 ? f.pad_id : f.end_id;
  if (request.beams.width == 1) return {};
  request.stream_beams = wishes.streaming;
  const std::string width = std::to_string(request.beams.width);
  if (request.sampling.do_sample)
    return refuse("beam_width", "1 beside `runtime_top_k` and `runtime_top_p`", width);
  if (!request.stopping.stop_token_sequences.empty())
    return refuse("beam_width", "1 beside `stop_words_list`", width);
  if (request.outputs.any_generation())
    return refuse("beam_width", "1 beside `return_generation_logits`", width);
  return {};
}

Status put_guide_together(Fields& f) {
  if (!f.guide_type) {
    if (!f.guide) return {};
    return refuse(
        "guided_decoding_guide_type", "there beside `guided_decoding_guide`", "no tensor");
  }
  if (!f.guide && f.guide_type != GuideType::kJson)
    return refuse("guided_decoding_guide", "there for a guide of this type", "no tensor");
  auto compiled = compile_grammar(*f.guide_type, f.guide.value_or(""));
  if (!compiled.ok()) {
    return invalid_argument("`guided_decoding_guide` is not valid: " + compiled.status().message(),
                            "guided_decoding_guide");
  }
  f.out.request.sampling.grammar = std::move(compiled).value();
  if (f.out.request.beams.width == 1) return {};
  return refuse("beam_width",
                "1 beside `guided_decoding_guide_type`",
                std::to_string(f.out.request.beams.width));
}

// What depends on several tensors.
Status put_together(Fields& f) {
  COXSWAIN_RETURN_IF_ERROR(put_guide_together(f));
  batch::GenerationRequest& request = f.out.request;
  request.prompt.assign(f.input_ids.begin(), f.input_ids.end());
  const std::uint32_t n_max = f.rules.input_tokens_max;
  if (n_max > 0 && request.prompt.size() > n_max) {
    return refuse("input_ids",
                  "at most `max_num_tokens`, " + std::to_string(n_max) +
                      ", tokens: `enable_chunked_context` is off",
                  std::to_string(request.prompt.size()));
  }
  if (f.input_length && static_cast<std::size_t>(*f.input_length) != request.prompt.size()) {
    return refuse("input_lengths",
                  "the number of `input_ids`, " + std::to_string(request.prompt.size()),
                  std::to_string(*f.input_length));
  }
  for (std::size_t i = 0; i < f.position_ids.size(); ++i) {
    if (f.position_ids.size() == request.prompt.size() &&
        static_cast<std::size_t>(f.position_ids[i]) == i) {
      continue;
    }
    return not_honoured("position_ids", "positions are 0, 1, 2 ... of the whole prompt");
  }
  SamplingParams& sampling = request.sampling;
  sampling.do_sample = (sampling.top_k != 0 || f.top_p != 0.0F) && f.temperature != 0.0F;
  if (f.temperature != 0.0F) sampling.temperature = f.temperature;
  if (f.top_p != 0.0F) sampling.top_p = f.top_p;
  sampling.penalties_count_prompt = true;
  request.stopping.ignore_eos = f.end_id == -1;
  if (f.end_id != -1) request.stopping.end_ids = {f.end_id};
  COXSWAIN_ASSIGN_OR_RETURN(request.retention, f.retention.retention());
  COXSWAIN_RETURN_IF_ERROR(put_sequences_together(f));
  return put_beams_together(f);
}

}  // namespace

Result<ParsedRequest> parse_request(const InferenceRequest& request, const TensorRules& rules) {
  Fields fields;
  fields.rules = rules;
  fields.out.request.id = RequestId{request.id()};
  if (!request.logits_post_processor().empty()) {
    fields.out.request.sampling.logits_processor = request.logits_post_processor();
    fields.out.request.sampling.logits_processor_tag = request.id();
  }
  for (const auto& [name, tensor] : request.tensors())
    COXSWAIN_RETURN_IF_ERROR(take_tensor(tensor, fields));
  COXSWAIN_RETURN_IF_ERROR(check_mandatory(request));
  COXSWAIN_RETURN_IF_ERROR(put_together(fields));
  return std::move(fields.out);
}

bool is_stop_message(const InferenceRequest& request) {
  const NamedTensor* stop = request.get("stop");
  if (stop == nullptr) return false;
  const auto values = stop->as<bool>();
  return values.size() == 1 && values.front();
}

Status in_tensor_words(const Status& status) {
  struct Word {
    std::string_view field;
    std::string_view tensor;
  };
  constexpr std::array kWords{
      Word{batch::kPromptField, "input_ids"},
      Word{batch::kMaxNewTokensField, "request_output_len"},
      Word{batch::kBeamsField, "beam_width"},
      Word{batch::kDraftField, "draft_input_ids"},
      Word{"top_k", "runtime_top_k"},
      Word{"top_p", "runtime_top_p"},
      Word{"min_p", "runtime_min_p"},
      Word{"logit_bias", "embedding_bias"},
      Word{"min_new_tokens", "min_length"},
      Word{"end_ids", "end_id"},
      Word{"bad_words", "bad_words_list"},
      Word{"stop_token_sequences", "stop_words_list"},
      Word{"retention", "retention_token_range_starts"},
  };
  const auto word = std::ranges::find(kWords, status.field(), &Word::field);
  if (word == kWords.end()) return status;
  const std::string tensor(word->tensor);
  return {status.code(), status.kind(), "`" + tensor + "`: " + status.message(), tensor};
}

}  // namespace coxswain::manager
