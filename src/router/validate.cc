#include "router/validate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/fields.h"
#include "api/wording.h"
#include "request/sampling_rules.h"

namespace coxswain::router {
namespace {

// A step that reshapes the distribution, beside those that TGI knows.
bool reshapes(const api::Parameters& p) {
  const SamplingParams& s = p.steps;
  return p.min_p.value_or(0.0F) > 0.0F || s.top_n_sigma > 0.0F || s.epsilon_cutoff > 0.0F ||
         s.eta_cutoff > 0.0F || s.dynatemp_range > 0.0F || s.xtc_probability > 0.0F;
}

bool asks_for_sampling(const api::Parameters& p) {
  return p.do_sample || p.temperature || p.top_k || p.top_p || p.typical_p || reshapes(p);
}

// do_sample, or any parameter that reshapes the distribution.
bool samples(api::ApiStyle style, const api::Parameters& p) {
  const float temperature = p.temperature.value_or(1.0F);
  if (temperature < kGreedyTemperature) return false;
  if (style != api::ApiStyle::kNative) return true;
  return p.do_sample || temperature != 1.0F || p.top_k || p.top_p || p.typical_p || reshapes(p);
}

SamplingParams make_sampling(api::ApiStyle style, const api::Parameters& p) {
  SamplingParams out = p.steps;
  out.do_sample = samples(style, p);
  if (out.do_sample) {
    out.temperature = p.temperature.value_or(1.0F);
    out.top_k = p.top_k.value_or(0);
    out.top_p = p.top_p.value_or(1.0F);
    out.typical_p = p.typical_p.value_or(1.0F);
    out.min_p = p.min_p.value_or(0.0F);
  }
  out.repetition_penalty = p.repetition_penalty.value_or(1.0F);
  if (style == api::ApiStyle::kNative) {
    out.relative_frequency_penalty = p.frequency_penalty.value_or(0.0F);
  } else {
    out.frequency_penalty = p.frequency_penalty.value_or(0.0F);
    out.presence_penalty = p.presence_penalty.value_or(0.0F);
  }
  out.logit_bias = p.logit_bias;
  out.thoughts = p.thoughts;
  out.n_top_tokens = std::max(p.top_n_tokens.value_or(0), p.extras.n_prompt_logprobs.value_or(0));
  return out;
}

// A greedy request's log-probabilities are those of the whole distribution.
void leave_whole(SamplingParams& sampling) {
  sampling.top_n_sigma = 0.0F;
  sampling.epsilon_cutoff = 0.0F;
  sampling.eta_cutoff = 0.0F;
  sampling.dynatemp_range = 0.0F;
  sampling.xtc_probability = 0.0F;
}

// What a route lets through of a field, on top of the rules that hold for everybody: TGI's routes take no probability
// of 1, those below /v1 take a temperature of 0 as greedy.
struct RouteRule {
  std::string_view field;
  std::optional<float> api::Parameters::*value = nullptr;
  request::Range native;
  request::Range openai;
};

constexpr std::uint32_t kTopLogprobsMax = 20;  // OpenAI's limit

constexpr request::Range kInsideUnit{
    .low = 0.0F, .high = 1.0F, .low_included = false, .high_included = false};
constexpr request::Range kNotNegative{.low = 0.0F};
constexpr request::Range kPenalty{.low = -2.0F, .high = 2.0F};

constexpr RouteRule kMinPRule{"min_p", &api::Parameters::min_p, request::kMinP, request::kMinP};
// In the order in which they are checked; top_k and min_p follow.
constexpr std::array<RouteRule, 6> kRouteRules{{
    {"temperature", &api::Parameters::temperature, request::kPositive, kNotNegative},
    {"repetition_penalty",
     &api::Parameters::repetition_penalty,
     request::kPositive,
     request::kPositive},
    {"frequency_penalty", &api::Parameters::frequency_penalty, kPenalty, kPenalty},
    {"presence_penalty", &api::Parameters::presence_penalty, kPenalty, kPenalty},
    {"top_p", &api::Parameters::top_p, kInsideUnit, request::kProbability},
    {"typical_p", &api::Parameters::typical_p, kInsideUnit, request::kProbability},
}};

Status check_rule(const ValidationInput& input,
                  const api::Wording& wording,
                  const RouteRule& rule) {
  const api::Parameters& p = *input.parameters;
  const bool v1 = input.style != api::ApiStyle::kNative;
  const std::optional<float> value = p.*rule.value;
  const request::Range& range = v1 ? rule.openai : rule.native;
  if (!value || range.contains(*value)) return {};
  // TGI takes 0 as greedy before it checks what is left.
  const bool zero_is_taken = input.style == api::ApiStyle::kTgi && range == kNotNegative;
  return wording.refuse(rule.field, zero_is_taken ? request::kPositive : range, *value);
}

api::Wording wording_of(const ValidationInput& input) {
  return {input.style, input.prompt_field, *input.parameters};
}

std::string foreign_id(const std::string& field, std::uint32_t vocab_size, TokenId given) {
  return "`" + field + "` token ids must be < " + std::to_string(vocab_size) +
         ". Given: " + std::to_string(given);
}

Status refuse_minimum(const api::Wording& wording, const std::string& limit, std::uint32_t given) {
  const std::string name(wording.name("min_new_tokens"));
  return invalid_argument("`" + name + "` must be " + limit + ". Given: " + std::to_string(given),
                          name);
}

}  // namespace

batch::GenerationRequest ValidRequest::engine_request(RequestId id) const {
  batch::GenerationRequest out;
  out.id = id;
  out.prompt = prompt_;
  out.sampling = sampling_;
  out.sampling.seed = seeds_.front();
  out.more_seeds.assign(seeds_.begin() + 1, seeds_.end());
  out.stopping = stopping_;
  out.prompt_logprobs = prompt_logprobs_;
  return out;
}

Validator::Validator(ValidationLimits limits,
                     std::shared_ptr<const tokenizer::Tokenizer> tokenizer,
                     SeedSource draw_seed)
    : limits_(std::move(limits)),
      tokenizer_(std::move(tokenizer)),
      draw_seed_(std::move(draw_seed)),
      grammars_(std::make_unique<grammar::Compiler>(
          grammar::kCompilerBytesMax,
          limits_.grammars_are_patterns ? grammar::Form::kPattern : grammar::Form::kProgram)) {}

// Of POST /v1/completions: as many as `n` change nothing.
Status Validator::check_completions_best_of(const api::Parameters& p, bool stream) const {
  const std::uint64_t n = p.n.value_or(1);
  if (p.best_of.value_or(n) == n) return {};
  const std::uint64_t most = stream ? n : std::max<std::uint64_t>(n, limits_.best_of_max);
  if (*p.best_of > n && *p.best_of <= most) return {};
  const std::string limit = ">= `n`, " + std::to_string(n) + ", and <= " + std::to_string(most);
  return invalid_argument("`best_of` must be " + limit + (stream ? " in a stream" : "") +
                              ". Given: " + std::to_string(*p.best_of),
                          "best_of");
}

Status Validator::check_native_best_of(const api::Parameters& p, bool stream) const {
  const std::uint64_t best_of = p.best_of.value_or(1);
  if (best_of == 1) return {};
  if (stream)
    return invalid_argument("`best_of` != 1 is not supported when streaming tokens", "best_of");
  if (limits_.best_of_max == 1)
    return invalid_argument("`best_of` != 1 is not allowed for this endpoint", "best_of");
  if (best_of == 0 || best_of > limits_.best_of_max) {
    return invalid_argument("`best_of` must be > 0 and <= " + std::to_string(limits_.best_of_max) +
                                ". Given: " + std::to_string(best_of),
                            "best_of");
  }
  if (!asks_for_sampling(p))
    return invalid_argument("you must use sampling when `best_of` is > 1", "best_of");
  return {};
}

Status Validator::check_sequences(const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  const bool native = input.style == api::ApiStyle::kNative;
  if (native) COXSWAIN_RETURN_IF_ERROR(check_native_best_of(p, input.stream));
  if (input.stream && p.decoder_input_details) {
    return invalid_argument(
        "`decoder_input_details` == true is not supported when streaming tokens",
        "decoder_input_details");
  }
  if (p.n && (*p.n == 0 || *p.n > limits_.n_max)) {
    return invalid_argument("`n` must be > 0 and <= " + std::to_string(limits_.n_max) +
                                ". Given: " + std::to_string(*p.n),
                            "n");
  }
  return native ? Status() : check_completions_best_of(p, input.stream);
}

Status Validator::check_sampling(const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  const api::Wording wording = wording_of(input);
  for (const RouteRule& rule : kRouteRules)
    COXSWAIN_RETURN_IF_ERROR(check_rule(input, wording, rule));
  if (p.top_k && *p.top_k <= 0) {
    return wording.refuse(
        "top_k", "`top_k` must be strictly positive", ">= 1", std::to_string(*p.top_k));
  }
  return check_rule(input, wording, kMinPRule);
}

Status Validator::check_stopping(const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  const api::Wording wording = wording_of(input);
  if (p.max_new_tokens && *p.max_new_tokens == 0) {
    return wording.refuse(
        "max_new_tokens", "`max_new_tokens` must be strictly positive", ">= 1", "0");
  }
  Status stops = request::check_stop_sequences(p.stop, limits_);
  const std::string name(wording.name("stop"));
  if (!stops.ok() && stops.field() != name) {
    return {stops.code(), stops.kind(), "`" + name + "`: " + stops.message(), name};
  }
  COXSWAIN_RETURN_IF_ERROR(stops);
  if (p.max_new_tokens && p.min_new_tokens > *p.max_new_tokens) {
    const std::string limit = "<= `" + std::string(wording.name("max_new_tokens")) + "`, " +
                              std::to_string(*p.max_new_tokens);
    return refuse_minimum(wording, limit, p.min_new_tokens);
  }
  if (const auto foreign = request::find_foreign_id(p.stop_ids, limits_.vocab_size)) {
    const std::string field = "stop_token_ids";
    return invalid_argument(foreign_id(field, limits_.vocab_size, *foreign), field);
  }
  return {};
}

Status Validator::check_others(const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  const api::Wording wording = wording_of(input);
  if (input.style == api::ApiStyle::kNative && p.seed && p.best_of.value_or(1) > 1) {
    return wording.refuse("seed", "`seed` must not be set when `best_of` > 1");
  }
  const std::size_t asked_max = input.style == api::ApiStyle::kNative
                                    ? limits_.top_n_tokens_max
                                    : std::max(limits_.top_n_tokens_max, kTopLogprobsMax);
  const std::size_t top_n_tokens_max = std::min(asked_max, kTopTokensMax);
  const std::string limit = ">= 0 and <= " + std::to_string(top_n_tokens_max);
  if (p.top_n_tokens.value_or(0) > top_n_tokens_max) {
    const std::string given = std::to_string(*p.top_n_tokens);
    return wording.refuse(
        "top_n_tokens", "`top_n_tokens` must be " + limit + ". Given: " + given, limit, given);
  }
  if (p.extras.n_prompt_logprobs.value_or(0) > top_n_tokens_max) {
    return invalid_argument("`prompt_logprobs` must be " + limit +
                                ". Given: " + std::to_string(*p.extras.n_prompt_logprobs),
                            "prompt_logprobs");
  }
  return {};
}

// TGI reserves at most so many of the tokens that were asked for: an answer may end at the room before them.
constexpr std::uint32_t kReservedTokensMax = 1024;

// What must fit behind the prompt. In OpenAI's dialect a number that the client did not give is not spoken of; to
// Ollama's clients it is an upper bound.
std::optional<std::uint64_t> required_tokens(const ValidationInput& input) {
  if (input.style == api::ApiStyle::kOllama) return std::nullopt;
  const std::optional<std::uint32_t> asked = input.parameters->max_new_tokens;
  if (!wording_of(input).native()) return asked;
  return std::min(asked.value_or(0), kReservedTokensMax);
}

Status Validator::check_length(const ValidationInput& input,
                               std::size_t n_tokens,
                               bool exact) const {
  const api::Wording wording = wording_of(input);
  const auto fault = request::find_length_fault(n_tokens, required_tokens(input), limits_);
  if (fault == request::LengthFault::kNone) return {};
  const std::string count = (exact ? "" : "at least ") + std::to_string(n_tokens);
  const std::string max_new = std::to_string(input.parameters->max_new_tokens.value_or(0));
  const std::string prompt_rule =
      "`inputs` must have less than " + std::to_string(limits_.input_tokens_max) + " tokens";
  const std::string total_rule =
      "`inputs` tokens + `max_new_tokens` must be <= " + std::to_string(limits_.total_tokens_max);
  if (!wording.native()) {
    // In the words that clients look for, OpenAI's and TGI's, to shorten the prompt or to ask a model with more room;
    // some see the message alone, so the code stands there, too.
    std::string text = "This model's maximum context length is " +
                       std::to_string(limits_.total_tokens_max) + " tokens, at most " +
                       std::to_string(limits_.input_tokens_max) +
                       " of them in the prompt. Given: " + count + " tokens in `" +
                       std::string(wording.name("inputs")) + "`";
    if (fault == request::LengthFault::kTotal) {
      text += " and " + max_new + " in `" + std::string(wording.name("max_new_tokens")) + "`";
    }
    text += " (context_length_exceeded: ";
    text += fault == request::LengthFault::kTotal ? total_rule : prompt_rule;
    text += ')';
    return {Code::kInvalidArgument,
            ErrorKind::kContextLength,
            std::move(text),
            std::string(wording.name("inputs"))};
  }
  if (fault == request::LengthFault::kPrompt) {
    return wording.refuse("inputs", prompt_rule + ". Given: " + count);
  }
  return wording.refuse(
      "inputs",
      total_rule + ". Given: " + count + " `inputs` tokens and " + max_new + " `max_new_tokens`");
}

// The last tokens of the prompt, if not all of them, that are to be kept.
Result<std::optional<std::uint64_t>> Validator::prompt_tokens_kept(
    const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  const std::uint64_t most = limits_.input_tokens_max;
  if (p.truncate_to_fit) {
    // One more token has to fit, or those that were asked for; where they do not, the length is refused.
    const std::uint64_t n_new = std::max(p.max_new_tokens.value_or(1), 1U);
    if (n_new >= limits_.total_tokens_max) return std::optional<std::uint64_t>(1);
    return std::optional(std::min(most, limits_.total_tokens_max - n_new));
  }
  if (!p.truncate || (*p.truncate > 0 && *p.truncate <= most)) return p.truncate;
  if (wording_of(input).native()) {
    return invalid_argument("`truncate` must be strictly positive and less than " +
                                std::to_string(most) + ". Given: " + std::to_string(*p.truncate),
                            "truncate");
  }
  return invalid_argument("`truncate_prompt_tokens` must be >= 1 and <= " + std::to_string(most) +
                              ", or -1 for all that fits. Given: " + std::to_string(*p.truncate),
                          "truncate_prompt_tokens");
}

// Steps 12 to 16 of the table: the prompt as ids, cut to `truncate`, inside the limits.
Result<std::vector<TokenId>> Validator::tokenize(const ValidationInput& input) const {
  const api::Wording wording = wording_of(input);
  const std::string cannot_be_empty =
      "`" + std::string(wording.name("inputs")) + "` cannot be empty";
  const bool empty = input.ids != nullptr ? input.ids->empty() : input.text.text.empty();
  if (empty) return wording.refuse("inputs", cannot_be_empty);
  COXSWAIN_ASSIGN_OR_RETURN(const auto n_kept, prompt_tokens_kept(input));
  std::vector<TokenId> ids;
  bool exact = true;
  if (input.ids != nullptr) {
    ids = *input.ids;
  } else {
    tokenizer::EncodeOptions options;
    options.add_special_tokens = input.text.add_special_tokens;
    options.untrusted = input.text.untrusted;
    options.wants_offsets = false;
    if (!n_kept && input.text.text.size() > limits_.exact_count_bytes_max) {
      options.tokens_max = limits_.total_tokens_max;
    }
    auto encoding = tokenizer_->encode(input.text.text, options);
    if (!encoding.ok()) {
      return wording.refuse("inputs", "tokenizer error " + encoding.status().message());
    }
    ids = std::move(encoding.value().ids);
    exact = !encoding.value().truncated;
    if (!exact && ids.size() <= limits_.total_tokens_max) {
      ids.resize(limits_.total_tokens_max + std::size_t{1});  // only its size is looked at
    }
  }
  if (n_kept && ids.size() > *n_kept) {
    ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(*n_kept));
  }
  if (ids.empty()) return wording.refuse("inputs", cannot_be_empty);
  if (const auto foreign = request::find_foreign_id(ids, limits_.vocab_size)) {
    return wording.refuse(
        "inputs", foreign_id(std::string(wording.name("inputs")), limits_.vocab_size, *foreign));
  }
  COXSWAIN_RETURN_IF_ERROR(check_length(input, ids.size(), exact));
  return ids;
}

// Each as it stands at the begin of a text, and as it stands behind a blank.
Result<std::vector<std::vector<TokenId>>> Validator::tokenize_bad_words(
    const std::vector<std::string>& words) const {
  const auto wrong = [](std::string_view rule, const std::string& given) {
    return invalid_argument("`bad_words` must be " + std::string(rule) + ". Given: " + given,
                            "bad_words");
  };
  if (words.size() > request::kTokenSequencesMax / 2) {
    return wrong("at most " + std::to_string(request::kTokenSequencesMax / 2) + " words",
                 std::to_string(words.size()));
  }
  tokenizer::EncodeOptions options;
  options.add_special_tokens = false;
  options.wants_offsets = false;
  std::vector<std::vector<TokenId>> out;
  for (const std::string& word : words) {
    const std::size_t begin = word.find_first_not_of(' ');
    if (begin == std::string::npos) return wrong("words with more than blanks", "one without");
    const std::string bare = word.substr(begin);
    for (const std::string& text : {bare, " " + bare}) {
      auto encoding = tokenizer_->encode(text, options);
      if (!encoding.ok()) return wrong("text", "tokenizer error " + encoding.status().message());
      out.push_back(std::move(encoding.value().ids));
    }
  }
  return out;
}

Status Validator::check_ids(const std::vector<TokenId>& ids, std::string_view field) const {
  const std::string name(field);
  if (ids.size() > limits_.total_tokens_max) {
    return invalid_argument("`" + name + "` must have at most " +
                                std::to_string(limits_.total_tokens_max) +
                                " token ids. Given: " + std::to_string(ids.size()),
                            name);
  }
  if (const auto foreign = request::find_foreign_id(ids, limits_.vocab_size))
    return invalid_argument(foreign_id(name, limits_.vocab_size, *foreign), name);
  return {};
}

// Step 17 of the table: what the text of the answer has to look like.
Result<CompiledGrammar> Validator::compile_grammar(const ValidationInput& input) const {
  const std::optional<api::AskedGrammar>& asked = input.parameters->grammar;
  if (!asked) return CompiledGrammar{};
  const bool native = wording_of(input).native();
  const std::string name = "`" + asked->field + "`";
  if (!limits_.allows_grammars) {
    return api::unsupported(native ? "grammar is not supported"
                                   : name + " is not supported: --disable-grammar-support is set",
                            asked->field);
  }
  Result<CompiledGrammar> compiled = grammars_->compile(asked->source);
  if (compiled.ok()) return compiled;
  const Status why = compiled.status();
  if (why.code() == Code::kUnimplemented) {
    return api::unsupported((native ? "grammar" : name) +
                                " is not supported by this shard, which takes regular "
                                "expressions: " +
                                why.message(),
                            asked->field);
  }
  // That a limit is reached does not pass with time: it is the request's.
  if (why.code() != Code::kInvalidArgument && why.code() != Code::kResourceExhausted) return why;
  return invalid_argument((native ? "grammar" : name) + " is not valid: " + why.message(),
                          asked->field);
}

Result<SamplingParams> Validator::sampling_of(const ValidationInput& input) const {
  COXSWAIN_RETURN_IF_ERROR(check_sequences(input));
  COXSWAIN_RETURN_IF_ERROR(check_sampling(input));
  COXSWAIN_RETURN_IF_ERROR(check_stopping(input));
  COXSWAIN_RETURN_IF_ERROR(check_others(input));
  SamplingParams out = make_sampling(input.style, *input.parameters);
  COXSWAIN_ASSIGN_OR_RETURN(out.bad_words, tokenize_bad_words(input.parameters->bad_words));
  COXSWAIN_RETURN_IF_ERROR(request::check_sampling(out, limits_.vocab_size));
  if (!out.do_sample) leave_whole(out);
  return out;
}

Status Validator::check_parameters(api::ApiStyle style, const api::Parameters& parameters) const {
  ValidationInput input;
  input.style = style;
  input.parameters = &parameters;
  COXSWAIN_RETURN_IF_ERROR(sampling_of(input).status());
  return prompt_tokens_kept(input).status();
}

// Where the answer of the prompt in `out` ends. An id that stops it is a stop sequence of its own, so that its text is
// cut off; as the model's end tokens it may not come too early.
Status Validator::set_stopping(const ValidationInput& input, ValidRequest& out) const {
  const api::Parameters& p = *input.parameters;
  StoppingParams& to = out.stopping_;
  to.max_new_tokens =
      request::resolve_max_new_tokens(p.max_new_tokens, out.prompt_.size(), limits_);
  if (p.min_new_tokens > to.max_new_tokens) {
    const std::string limit = std::to_string(to.max_new_tokens);
    return refuse_minimum(
        wording_of(input), "<= " + limit + ", the room behind the prompt", p.min_new_tokens);
  }
  to.min_new_tokens = p.min_new_tokens;
  to.stop_sequences = p.stop;
  for (const TokenId id : p.stop_ids) to.stop_token_sequences.push_back({id});
  to.ignore_eos = p.ignore_eos;
  if (p.min_new_tokens > 0 && !p.stop_ids.empty()) {
    if (!p.ignore_eos) to.end_ids = limits_.eos_token_ids;
    to.end_ids.insert(to.end_ids.end(), p.stop_ids.begin(), p.stop_ids.end());
    to.ignore_eos = false;
  }
  if (input.style != api::ApiStyle::kNative) to.order = FinishOrder::kStopFirst;
  return {};
}

Result<ValidRequest> Validator::validate(const ValidationInput& input) const {
  const api::Parameters& p = *input.parameters;
  COXSWAIN_ASSIGN_OR_RETURN(SamplingParams sampling, sampling_of(input));
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, tokenize(input));
  COXSWAIN_ASSIGN_OR_RETURN(sampling.grammar, compile_grammar(input));

  ValidRequest out;
  out.prompt_ = std::move(ids);
  out.sampling_ = std::move(sampling);
  COXSWAIN_RETURN_IF_ERROR(set_stopping(input, out));
  out.prompt_logprobs_ =
      p.decoder_input_details || p.extras.n_prompt_logprobs || input.prompt_logprobs;
  const std::uint64_t n = std::max<std::uint64_t>(p.best_of.value_or(1), p.n.value_or(1));
  out.seeds_ = request::resolve_seeds(p.seed, n, draw_seed_);
  return out;
}

}  // namespace coxswain::router
