#include "api/document_parts.h"

#include <array>
#include <charconv>
#include <limits>
#include <string_view>

#include "api/errors.h"
#include "api/grammar_document.h"
#include "base/utf8.h"

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
  out.min_p = fields.read_float("min_p");
  out.seed = fields.read_seed("seed");
  out.n = fields.read_u32("n");
  out.max_new_tokens = fields.read_u32("max_tokens");
  out.stop = fields.read_strings("stop", FieldReader::BareString::kAllowed);
  out.ignore_eos = fields.read_bool("ignore_eos").value_or(false);
  read_scheduling(fields, out);
  read_v1_grammar(fields, out);
  out.do_sample = true;
  read_logit_bias(fields, limits, out);
  fields.require_neutral("do_sample", "true");
  for (std::string_view label : kLabels) fields.read_string(label, limits.user_bytes_max);
  fields.note_without_effect(kWithoutEffect);
  return out;
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
