#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <limits>
#include <optional>
#include <ranges>
#include <utility>
#include <vector>

#include <coxswain/triton_parameters.h>

#include "json/json.h"
#include "manager/nearest_name.h"

namespace coxswain {
namespace {

struct Given {
  std::string name;
  std::string value;
};

Status refuse(const Given& given, std::string_view legal) {
  std::string text = "`" + given.name + "` must be ";
  text.append(legal).append(". Given: ").append(given.value);
  return invalid_argument(std::move(text), given.name);
}

template <typename T>
std::optional<T> number_of(std::string_view text) {
  T out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::optional<bool> bool_of(std::string_view text) {
  if (text == "true" || text == "True" || text == "1") return true;
  if (text == "false" || text == "False" || text == "0") return false;
  return std::nullopt;
}

Status take_bool(const Given& given, bool& target) {
  const auto value = bool_of(given.value);
  if (!value) return refuse(given, "true or false");
  target = *value;
  return {};
}

template <typename T>
Status take_count(const Given& given, T least, T& target) {
  const auto value = number_of<T>(given.value);
  if (!value || *value < least) {
    return refuse(given,
                  "a whole number from " + std::to_string(least) + " to " +
                      std::to_string(std::numeric_limits<T>::max()));
  }
  target = *value;
  return {};
}

// Milliseconds; 0 is as often as possible.
template <typename Duration>
Status take_period(const Given& given, Duration& target) {
  std::uint32_t n = 0;
  COXSWAIN_RETURN_IF_ERROR(take_count<std::uint32_t>(given, 0, n));
  target = std::chrono::milliseconds(n);
  return {};
}

Status take_type(const Given& given, TritonParameters& out) {
  if (given.value == "V1" || given.value == "v1") {
    out.type = BatchingType::kV1;
  } else if (given.value == "inflight_batching") {
    out.type = BatchingType::kInflight;
  } else if (given.value == "inflight_fused_batching") {
    out.type = BatchingType::kInflightFused;
  } else {
    return refuse(given, "V1, inflight_batching or inflight_fused_batching");
  }
  return {};
}

Status take_policy(const Given& given, TritonParameters& out) {
  if (given.value == "max_utilization") {
    out.policy = CapacityPolicy::kMaxUtilization;
  } else if (given.value == "guaranteed_no_evict") {
    out.policy = CapacityPolicy::kGuaranteedNoEvict;
  } else if (given.value == "static_batch") {
    out.policy = CapacityPolicy::kStaticBatch;
  } else {
    return refuse(given, "max_utilization, guaranteed_no_evict or static_batch");
  }
  return {};
}

Status take_path(const Given& given, TritonParameters& out) {
  out.gpt_model_path = given.value;
  return {};
}

Status take_fraction(const Given& given, TritonParameters& out) {
  const auto value = number_of<double>(given.value);
  if (!value || !(*value > 0.0 && *value <= 1.0)) return refuse(given, "> 0 and <= 1");
  out.options.kv_cache_free_gpu_mem_fraction = *value;
  return {};
}

// One window, or several, separated by commas.
Status take_windows(const Given& given, TritonParameters& out) {
  std::vector<std::uint32_t> windows;
  for (const auto part : std::views::split(std::string_view(given.value), ',')) {
    const auto value = number_of<std::uint32_t>(std::string_view(part.begin(), part.end()));
    if (!value) return refuse(given, "a whole number, or several with commas between them");
    windows.push_back(*value);
  }
  out.options.max_attention_window = std::move(windows);
  return {};
}

Status take_idle_poll(const Given& given, TritonParameters& out) {
  std::chrono::microseconds period{};
  COXSWAIN_RETURN_IF_ERROR(take_period(given, period));
  if (period.count() > 0) out.options.idle_poll = period;  // else the default
  return {};
}

Status take_stop_period(const Given& given, TritonParameters& out) {
  return take_period(given, out.options.stop_signal_period);
}

Status take_stats_period(const Given& given, TritonParameters& out) {
  return take_period(given, out.options.stats_period);
}

Status take_host_memory(const Given& given, TritonParameters& out) {
  return take_count<std::uint64_t>(given, 0, out.options.kv_cache_host_memory_bytes);
}

Status take_beam_width(const Given& given, TritonParameters& out) {
  return take_count<std::int32_t>(given, 1, out.max_beam_width);
}

template <bool BatchManagerOptions::*kMember>
Status take_flag(const Given& given, TritonParameters& out) {
  return take_bool(given, out.options.*kMember);
}

template <std::uint32_t BatchManagerOptions::*kMember>
Status take_limit(const Given& given, TritonParameters& out) {
  return take_count<std::uint32_t>(given, 0, out.options.*kMember);
}

// What changes no answer, whatever it says.
Status take_any_bool(const Given& given, TritonParameters&) {
  bool ignored = false;
  return take_bool(given, ignored);
}

struct Row {
  std::string_view name;
  Status (*take)(const Given& given, TritonParameters& out);
};

constexpr std::array kRows{
    Row{"gpt_model_path", take_path},
    Row{"gpt_model_type", take_type},
    Row{"batch_scheduler_policy", take_policy},
    Row{"decoupled", take_flag<&BatchManagerOptions::decoupled>},
    Row{"max_beam_width", take_beam_width},
    Row{"max_num_requests", take_limit<&BatchManagerOptions::max_num_requests>},
    Row{"max_queue_size", take_limit<&BatchManagerOptions::max_queue_size>},
    Row{"max_tokens_in_paged_kv_cache",
        take_limit<&BatchManagerOptions::max_tokens_in_paged_kv_cache>},
    Row{"kv_cache_free_gpu_mem_fraction", take_fraction},
    Row{"max_attention_window_size", take_windows},
    Row{"sink_token_length", take_limit<&BatchManagerOptions::sink_token_length>},
    Row{"kv_cache_host_memory_bytes", take_host_memory},
    Row{"enable_kv_cache_reuse", take_flag<&BatchManagerOptions::enable_kv_cache_reuse>},
    Row{"enable_trt_overlap", take_flag<&BatchManagerOptions::enable_trt_overlap>},
    Row{"enable_chunked_context", take_flag<&BatchManagerOptions::enable_chunked_context>},
    Row{"multi_block_mode", take_any_bool},
    Row{"exclude_input_in_output", take_flag<&BatchManagerOptions::exclude_input_in_output>},
    Row{"cancellation_check_period_ms", take_stop_period},
    Row{"stats_check_period_ms", take_stats_period},
    Row{"recv_poll_period_ms", take_idle_poll},
};

// What we do not have: taken at the values that ask for nothing.
struct Fixed {
  std::string_view name;
  std::string_view taken;  // values, separated by blanks; none: only an empty one
  std::string_view why;
};

constexpr std::string_view kOfExecutor = "an Executor keeps a history";
constexpr std::string_view kNoAdapters = "the engine has no LoRA adapters";

constexpr std::array kFixed{
    Fixed{"kv_cache_onboard_blocks",
          "true True 1",
          "a block is brought into the cache before it is used"},
    Fixed{"normalize_log_probs", "true True 1", "log-probabilities are always normalised"},
    Fixed{"iter_stats_max_iterations", "1000", kOfExecutor},
    Fixed{"request_stats_max_iterations", "0", kOfExecutor},
    Fixed{"decoding_mode", "auto top_k top_p top_k_top_p", "each request says how it samples"},
    Fixed{"medusa_choices", "", "the engine has no Medusa heads"},
    Fixed{"lora_cache_optimal_adapter_size", "8", kNoAdapters},
    Fixed{"lora_cache_max_adapter_size", "64", kNoAdapters},
    Fixed{"lora_cache_gpu_memory_fraction", "0.05", kNoAdapters},
    Fixed{"lora_cache_host_memory_bytes", "1073741824 1G", kNoAdapters},
    Fixed{"lora_prefetch_dir", "", kNoAdapters},
    Fixed{"gpu_weights_percent", "1 1.0", "weights are held whole"},
    Fixed{"participant_ids", "", "a manager is one process"},
    Fixed{"guided_decoding_backend", "xgrammar llguidance", "grammars are the engine's own"},
};

Status take_fixed(const Fixed& row, const Given& given) {
  for (const auto part : std::views::split(row.taken, ' ')) {
    if (std::ranges::equal(part, given.value)) return {};
  }
  std::string text = "`" + given.name + "` is not supported: " + std::string(row.why);
  const std::string_view first = row.taken.substr(0, row.taken.find(' '));
  text += first.empty() ? "; only an empty value is taken"
                        : "; only " + std::string(first) + " is taken";
  return invalid_argument(text + ". Given: " + given.value, given.name);
}

bool was_given(std::string_view value) {
  return !value.empty() && !(value.starts_with("${") && value.ends_with("}"));
}

Status take(const Given& given, TritonParameters& out) {
  const auto row = std::ranges::find(kRows, given.name, &Row::name);
  if (row != kRows.end()) return was_given(given.value) ? row->take(given, out) : Status();
  const auto fixed = std::ranges::find(kFixed, given.name, &Fixed::name);
  if (fixed != kFixed.end()) return was_given(given.value) ? take_fixed(*fixed, given) : Status();
  std::vector<std::string_view> names;
  names.reserve(kRows.size() + kFixed.size());
  for (const Row& known : kRows) names.push_back(known.name);
  for (const Fixed& known : kFixed) names.push_back(known.name);
  return invalid_argument(manager::unknown_name(given.name, "parameter", names), given.name);
}

// The text of a scalar, or of the string_value of an object.
Result<std::string> value_text(const std::string& name, const json::Value& value) {
  const json::Value* inner = value.is_object() ? value.find("string_value") : &value;
  if (inner != nullptr) {
    if (inner->is_string()) return inner->as_string();
    if (inner->is_number()) return inner->number_text();
    if (inner->is_bool()) return std::string(inner->as_bool() ? "true" : "false");
  }
  return invalid_argument("`" + name + "` must be a string, a number, true or false. Given: " +
                              json::write(value).substr(0, 64),
                          name);
}

Result<std::vector<Given>> read_json(std::string_view text) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value document, json::parse(text));
  std::vector<Given> out;
  for (const auto& [name, value] : document.as_object()) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string given, value_text(name, value));
    out.push_back({name, std::move(given)});
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

Result<std::vector<Given>> read_lines(std::string_view text) {
  std::vector<Given> out;
  std::size_t n = 0;
  while (!text.empty()) {
    ++n;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end).substr(0, text.find('#')));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    const std::size_t mark = line.find_first_of("=:");
    if (mark == std::string_view::npos) {
      return invalid_argument(
          "line " + std::to_string(n) +
          " must be `name=value` or `name: value`. Given: " + std::string(line.substr(0, 64)));
    }
    Given given{std::string(trimmed(line.substr(0, mark))),
                std::string(trimmed(line.substr(mark + 1)))};
    if (std::ranges::find(out, given.name, &Given::name) != out.end())
      return invalid_argument("`" + given.name + "` is given twice", given.name);
    out.push_back(std::move(given));
  }
  return out;
}

}  // namespace

Result<TritonParameters> parse_triton_parameters(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && text[first] == '{';
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<Given> all,
                            is_json ? read_json(text) : read_lines(text));
  TritonParameters out;
  for (const Given& given : all) COXSWAIN_RETURN_IF_ERROR(take(given, out));
  return out;
}

}  // namespace coxswain
