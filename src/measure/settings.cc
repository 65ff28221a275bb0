#include "measure/settings.h"

#include <algorithm>
#include <limits>
#include <set>

#include "request/sampling_rules.h"

namespace coxswain::measure {
namespace {

std::optional<float> real(const std::optional<double>& value) {
  return value ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

Status check(const Settings& settings) {
  if (settings.tokenizer_name.empty()) return invalid_argument("`--tokenizer-name` is missing");
  std::set<std::uint32_t> sizes;
  for (const std::uint32_t size : settings.batch_sizes) {
    if (!sizes.insert(size).second)
      return invalid_argument("`--batch-size` has " + std::to_string(size) + " twice");
  }
  // Of an unknown vocabulary: no parameter here has ids.
  const Status status =
      request::check_sampling(settings.sampling(), std::numeric_limits<std::uint32_t>::max());
  if (status.ok()) return {};
  std::string option = "--" + status.field();
  std::ranges::replace(option, '_', '-');
  return status.with_context(option);
}

}  // namespace

SamplingParams Settings::sampling() const {
  SamplingParams out;
  out.temperature = temperature.value_or(out.temperature);
  out.top_k = static_cast<std::int32_t>(top_k.value_or(0));
  out.top_p = top_p.value_or(out.top_p);
  out.typical_p = typical_p.value_or(out.typical_p);
  out.repetition_penalty = repetition_penalty.value_or(out.repetition_penalty);
  out.relative_frequency_penalty = frequency_penalty.value_or(out.relative_frequency_penalty);
  out.n_top_tokens = top_n_tokens.value_or(0);
  out.watermark = watermark;
  out.do_sample = do_sample || out.temperature != 1.0F || out.top_k != 0 || out.top_p < 1.0F ||
                  out.typical_p < 1.0F;
  return out;
}

Result<Settings> settings_of(const options::OptionValues& values) {
  Settings out;
  out.tokenizer_name = values.get<"tokenizer-name">().value_or("");
  out.revision = values.get<"revision">().value_or("main");
  out.batch_sizes.clear();
  for (const std::uint64_t size : values.get<"batch-size">())
    out.batch_sizes.push_back(static_cast<std::uint32_t>(size));
  out.sequence_length = values.get<"sequence-length">();
  out.decode_length = values.get<"decode-length">();
  out.runs = values.get<"runs">();
  out.warmups = values.get<"warmups">();
  out.master_shard_uds_path = values.get<"master-shard-uds-path">();
  out.shard_protocol = values.get<"shard-protocol">();
  out.temperature = real(values.get<"temperature">());
  out.top_k = values.get<"top-k">();
  out.top_p = real(values.get<"top-p">());
  out.typical_p = real(values.get<"typical-p">());
  out.repetition_penalty = real(values.get<"repetition-penalty">());
  out.frequency_penalty = real(values.get<"frequency-penalty">());
  out.top_n_tokens = values.get<"top-n-tokens">();
  out.watermark = values.get<"watermark">();
  out.do_sample = values.get<"do-sample">();
  COXSWAIN_RETURN_IF_ERROR(check(out));
  return out;
}

}  // namespace coxswain::measure
