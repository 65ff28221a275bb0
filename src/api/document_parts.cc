#include "api/document_parts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "api/errors.h"
#include "api/grammar_document.h"
#include "base/utf8.h"
#include "request/sampling_rules.h"

namespace coxswain::api {
namespace {

// They only label a request.
constexpr std::array<std::string_view, 4> kWithoutEffect{
    "user", "metadata", "safety_identifier", "prompt_cache_key"};
constexpr std::array<std::string_view, 3> kLabels{"user", "safety_identifier", "prompt_cache_key"};

constexpr std::int64_t kPriorityMax = 100;          // in both directions
constexpr std::int64_t kTimeoutMsMax = 86'400'000;  // a day
constexpr std::size_t kCacheSaltBytesMax = 256;

constexpr float kLogitBiasMax = 100.0F;
constexpr std::size_t kStopIdsMax = 128;
// Longer ones would make a step of a long prompt slow for everybody in it.
constexpr std::uint32_t kNgramMax = 64;

void read_logit_bias(FieldReader& fields, const DocumentLimits& limits, Parameters& out) {
  const json::Value* value = fields.find("logit_bias");
  if (value == nullptr) return;
  if (!value->is_object()) {
    if (value->is_array() && value->as_array().empty()) return;
    fields.fail("`logit_bias` must be an object of token ids and numbers. Given: " +
                    std::string(type_name(*value)),
                "logit_bias");
    return;
  }
  const json::Object& entries = value->as_object();
  if (entries.size() > limits.logit_bias_entries_max) {
    fields.fail("`logit_bias` must have at most " + std::to_string(limits.logit_bias_entries_max) +
                    " entries. Given: " + std::to_string(entries.size()),
                "logit_bias");
    return;
  }
  for (const auto& [key, bias] : entries) {
    TokenId id = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool is_plain = !key.starts_with('-') && (key == "0" || !key.starts_with('0'));
    if (read.ec != std::errc() || read.ptr != key.data() + key.size() || !is_plain) {
      fields.fail(
          "`logit_bias` must have token ids, as plain decimals, as keys. Given: " + echo(key),
          "logit_bias");
      return;
    }
    const std::optional<double> number = bias.to_double();
    if (!number || *number < -static_cast<double>(kLogitBiasMax) ||
        *number > static_cast<double>(kLogitBiasMax)) {
      fields.fail("`logit_bias` must have numbers from -100 to 100 as values. Given: " +
                      given_text(bias) + " for " + key,
                  "logit_bias");
      return;
    }
    out.logit_bias.emplace_back(id, static_cast<float>(*number));
  }
}

void read_allowed_tokens(FieldReader& fields, SamplingParams& out) {
  constexpr std::string_view kField = "allowed_token_ids";
  const json::Value* value = fields.find(kField);
  if (value == nullptr) return;
  if (!value->is_array() || value->as_array().empty()) {
    fields.fail("`allowed_token_ids` must be an array of at least one token id. Given: " +
                    std::string(value->is_array() ? "an empty one" : type_name(*value)),
                kField);
    return;
  }
  auto ids = read_token_ids(value->as_array(), kField);
  if (!ids.ok()) return fields.fail(ids.status());
  out.allowed_tokens = std::move(ids).value();
}

void read_stop_ids(FieldReader& fields, Parameters& out) {
  constexpr std::string_view kField = "stop_token_ids";
  const json::Value* value = fields.find(kField);
  if (value == nullptr) return;
  if (!value->is_array()) {
    fields.fail(
        "`stop_token_ids` must be an array of token ids. Given: " + std::string(type_name(*value)),
        kField);
    return;
  }
  const json::Array& array = value->as_array();
  if (array.size() > kStopIdsMax) {
    fields.fail("`stop_token_ids` must have at most " + std::to_string(kStopIdsMax) +
                    " token ids. Given: " + std::to_string(array.size()),
                kField);
    return;
  }
  auto ids = read_token_ids(array, kField);
  if (!ids.ok()) return fields.fail(ids.status());
  out.stop_ids = std::move(ids).value();
}

// -1: as many as there is room for.
void read_truncation(FieldReader& fields, Parameters& out) {
  const auto asked = fields.read_i32("truncate_prompt_tokens");
  if (!asked) return;
  out.truncate_to_fit = *asked == -1;
  if (out.truncate_to_fit) return;
  if (*asked < 1) {
    fields.fail("`truncate_prompt_tokens` must be >= 1, or -1 for all that fits. Given: " +
                    std::to_string(*asked),
                "truncate_prompt_tokens");
    return;
  }
  out.truncate = static_cast<std::uint64_t>(*asked);
}

// llama-server's name of max_tokens; -1: all that fits.
void read_n_predict(FieldReader& fields, Parameters& out) {
  const auto asked = fields.read_i32("n_predict");
  if (!asked || *asked == -1) return;
  if (*asked < -1) {
    fields.fail(
        "`n_predict` must be >= 1, or -1 for all that fits. Given: " + std::to_string(*asked),
        "n_predict");
    return;
  }
  set_new_tokens(fields, "n_predict", static_cast<std::uint32_t>(*asked), out);
}

// llama-server's defaults: a new line, and what sets off a name, a speech or an action.
constexpr std::array<const char*, 4> kDryBreakers{"\n", ":", "\"", "*"};

void read_dry(FieldReader& fields, SamplingParams& out) {
  out.dry_multiplier = fields.read_float("dry_multiplier").value_or(out.dry_multiplier);
  out.dry_base = fields.read_float("dry_base").value_or(out.dry_base);
  out.dry_allowed_length = fields.read_u32("dry_allowed_length").value_or(out.dry_allowed_length);
  const std::int32_t last_n = fields.read_i32("dry_penalty_last_n").value_or(-1);
  const bool has_breakers = fields.find("dry_sequence_breakers") != nullptr;
  out.dry_sequence_breakers =
      fields.read_strings("dry_sequence_breakers", FieldReader::BareString::kRefused);
  if (last_n < -1) {
    fields.fail("`dry_penalty_last_n` must be >= -1. Given: " + std::to_string(last_n),
                "dry_penalty_last_n");
  }
  if (last_n == 0 && out.dry_multiplier > 0.0F) out.dry_multiplier = 0.0F;  // no token: no penalty
  out.dry_penalty_last_n = last_n < 0 ? 0 : static_cast<std::uint32_t>(last_n);
  if (!has_breakers && out.dry_multiplier > 0.0F)
    out.dry_sequence_breakers.assign(kDryBreakers.begin(), kDryBreakers.end());
}

void read_samplers(FieldReader& fields, SamplingParams& out) {
  constexpr std::string_view kField = "samplers";
  const json::Value* value = fields.find(kField);
  if (value == nullptr) return;
  for (const std::string& name : fields.read_strings(kField, FieldReader::BareString::kRefused)) {
    const std::string_view ours = name == "typ_p" ? "typical_p" : std::string_view(name);
    const auto found = std::ranges::find(request::kSamplerNames, ours);
    if (found == request::kSamplerNames.end()) {
      std::string names;
      for (const std::string_view known : request::kSamplerNames)
        names.append(names.empty() ? "" : ", ").append(known);
      return fields.fail("`samplers` must have names of these: " + names + ". Given: " + echo(name),
                         kField);
    }
    out.samplers.push_back(static_cast<SamplerStep>(found - request::kSamplerNames.begin()));
  }
  if (out.samplers.empty())
    fields.fail("`samplers` must have at least one name. Given: none", kField);
}

}  // namespace

Result<const json::Object*> require_object(const json::Value& body) {
  if (body.is_object()) return &body.as_object();
  return invalid_argument("the body must be an object. Given: " + std::string(type_name(body)));
}

Parameters read_openai_parameters(FieldReader& fields, const DocumentLimits& limits) {
  Parameters out;
  out.temperature = fields.read_float("temperature");
  out.top_p = fields.read_float("top_p");
  out.frequency_penalty = fields.read_float("frequency_penalty");
  out.presence_penalty = fields.read_float("presence_penalty");
  out.repetition_penalty = fields.read_float("repetition_penalty");
  out.top_k = fields.read_i32("top_k");
  if (out.top_k == 0 || out.top_k == -1) out.top_k.reset();  // off
  out.typical_p = fields.read_float("typical_p");
  read_sampling_steps(fields, out);
  out.seed = fields.read_seed("seed");
  out.n = fields.read_u32("n");
  read_repeat_penalty(fields, out);
  out.max_new_tokens = fields.read_u32("max_tokens");
  read_n_predict(fields, out);
  out.min_new_tokens = fields.read_u32("min_tokens").value_or(0);
  out.stop = fields.read_strings("stop", FieldReader::BareString::kAllowed);
  read_stop_ids(fields, out);
  out.ignore_eos = fields.read_bool("ignore_eos").value_or(false);
  if (fields.read_bool("include_stop_str_in_output").value_or(false))
    out.text.stop_text = request::StopText::kKept;
  out.text.shows_special = !fields.read_bool("skip_special_tokens").value_or(true);
  out.extras = {.token_ids = fields.read_bool("return_token_ids").value_or(false),
                .n_prompt_logprobs = fields.read_u32("prompt_logprobs"),
                .timings = fields.read_bool("timings_per_token").value_or(false)};
  read_truncation(fields, out);
  out.cache_prompt = fields.read_bool("cache_prompt").value_or(true);
  read_scheduling(fields, out);
  read_v1_grammar(fields, out);
  out.do_sample = true;
  read_logit_bias(fields, limits, out);
  fields.require_neutral("do_sample", "true");
  for (std::string_view label : kLabels) fields.read_string(label, limits.user_bytes_max);
  fields.note_without_effect(kWithoutEffect);
  return out;
}

void read_sampling_steps(FieldReader& fields, Parameters& out) {
  out.min_p = fields.read_float("min_p");
  SamplingParams& steps = out.steps;
  const auto read = [&](float& value, std::string_view name) {
    value = fields.read_float(name).value_or(value);
  };
  read(steps.epsilon_cutoff, "epsilon_cutoff");
  read(steps.eta_cutoff, "eta_cutoff");
  read(steps.top_n_sigma, "top_n_sigma");
  if (steps.top_n_sigma == -1.0F) steps.top_n_sigma = 0.0F;  // off
  read(steps.dynatemp_range, "dynatemp_range");
  read(steps.dynatemp_exponent, "dynatemp_exponent");
  read(steps.xtc_probability, "xtc_probability");
  read(steps.xtc_threshold, "xtc_threshold");
  read_dry(fields, steps);
  steps.watermark = fields.read_bool("watermark").value_or(false);
  steps.no_repeat_ngram_size = fields.read_u32("no_repeat_ngram_size").value_or(0);
  if (steps.no_repeat_ngram_size > kNgramMax) {
    fields.fail("`no_repeat_ngram_size` must be >= 0 and <= " + std::to_string(kNgramMax) +
                    ". Given: " + std::to_string(steps.no_repeat_ngram_size),
                "no_repeat_ngram_size");
  }
  out.bad_words = fields.read_strings("bad_words", FieldReader::BareString::kRefused);
  read_allowed_tokens(fields, steps);
  read_samplers(fields, steps);
}

void set_new_tokens(FieldReader& fields,
                    std::string_view name,
                    std::uint32_t value,
                    Parameters& out) {
  if (out.max_new_tokens && *out.max_new_tokens != value) {
    const std::string other(out.new_tokens_field.empty() ? "max_tokens" : out.new_tokens_field);
    fields.fail("`" + other + "` and `" + std::string(name) +
                    "` must be equal if both are set. Given: " +
                    std::to_string(*out.max_new_tokens) + " and " + std::to_string(value),
                name);
  }
  out.new_tokens_field = name;
  out.max_new_tokens = value;
}

// The penalty looks at all tokens, so a window is refused where there is a penalty.
void read_repeat_penalty(FieldReader& fields, Parameters& out) {
  const auto asked = fields.read_float("repeat_penalty");
  const auto window = fields.read_i32("repeat_last_n");
  if (!asked) return;
  if (out.repetition_penalty && *out.repetition_penalty != *asked) {
    fields.fail("`repetition_penalty` and `repeat_penalty` must be equal if both are set. Given: " +
                    request::number_text(*out.repetition_penalty) + " and " +
                    request::number_text(*asked),
                "repeat_penalty");
  }
  out.repetition_penalty_field = "repeat_penalty";
  out.repetition_penalty = asked;
  if (!window || *window == -1 || *asked == 1.0F) return;
  if (*window == 0) {
    out.repetition_penalty.reset();
    return;
  }
  fields.fail(
      unsupported("`repeat_last_n` is not supported beside `repeat_penalty`, except as -1 or 0. "
                  "Given: " +
                      std::to_string(*window),
                  "repeat_last_n"));
}

void read_scheduling(FieldReader& fields, Parameters& out) {
  const auto check =
      [&](std::string_view field, std::int64_t low, std::int64_t high, std::int64_t given) {
        if (given >= low && given <= high) return;
        fields.fail("`" + std::string(field) + "` must be >= " + std::to_string(low) +
                        " and <= " + std::to_string(high) + ". Given: " + std::to_string(given),
                    field);
      };
  out.priority = fields.read_i32("priority").value_or(0);
  check("priority", -kPriorityMax, kPriorityMax, out.priority);
  out.timeout_ms = fields.read_u32("timeout_ms");
  check("timeout_ms", 1, kTimeoutMsMax, out.timeout_ms.value_or(1));
  const auto salt = fields.read_string("cache_salt", kCacheSaltBytesMax);
  if (salt && salt->empty())
    fields.fail("`cache_salt` must have at least 1 byte. Given: 0", "cache_salt");
  out.cache_salt = salt.value_or(std::string());
}

bool read_include_usage(FieldReader& fields) {
  const json::Value* value = fields.find("stream_options");
  if (value == nullptr) return false;
  if (!value->is_object()) {
    fields.fail("`stream_options` must be an object. Given: " + std::string(type_name(*value)),
                "stream_options");
    return false;
  }
  FieldReader options(value->as_object());
  const bool include = options.read_bool("include_usage").value_or(false);
  options.require_neutral("include_obfuscation", "false");
  options.require_neutral("continuous_usage_stats", "false");
  for (const auto& member : value->as_object()) {
    if (!options.has_read(member.first)) options.require_neutral(member.first, "");
  }
  if (!options.ok()) {
    fields.fail(
        within(options.status(), "`stream_options`", "stream_options." + options.status().field()));
  }
  return include;
}

bool read_logprobs(FieldReader& fields, Parameters& out) {
  const bool wanted = fields.read_bool("logprobs").value_or(false);
  out.top_n_tokens = fields.read_u32("top_logprobs");
  if (!wanted && out.top_n_tokens.value_or(0) > 0) {
    fields.fail(
        "`top_logprobs` needs `logprobs` to be true. Given: " + std::to_string(*out.top_n_tokens),
        "top_logprobs");
  }
  return wanted;
}

IgnoredFields finish_fields(FieldReader& fields, const DocumentLimits& limits) {
  IgnoredFields out = fields.unknown();
  if (limits.strict_fields && !out.empty()) {
    fields.fail("unknown field `" + echo(out.front()) + "`",
                base::cut_utf8(out.front(), kEchoBytesMax));
  }
  const auto& labels = fields.without_effect();
  out.insert(out.end(), labels.begin(), labels.end());
  return out;
}

Result<std::vector<TokenId>> read_token_ids(const json::Array& array, std::string_view field) {
  std::vector<TokenId> out;
  out.reserve(array.size());
  for (const json::Value& entry : array) {
    const auto id = entry.to_int64();
    if (!id || *id < 0 || *id > std::numeric_limits<TokenId>::max()) {
      return invalid_argument(
          "`" + std::string(field) + "` must have token ids that are integers from 0 to " +
              std::to_string(std::numeric_limits<TokenId>::max()) + ". Given: " + given_text(entry),
          std::string(field));
    }
    out.push_back(static_cast<TokenId>(*id));
  }
  return out;
}

}  // namespace coxswain::api
