#include "coxswain/local_model.h"

#include <array>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "library/model_state.h"
#include "tensor/dtype.h"

namespace coxswain {
namespace {

using library::ModelState;

constexpr std::array kComputeTypes{tensor::DType::kF32, tensor::DType::kBf16, tensor::DType::kF16};

// Empty for an empty name. Errors: kInvalidArgument.
Result<std::optional<tensor::DType>> dtype_of(const std::string& field,
                                              const std::string& name,
                                              std::span<const tensor::DType> types) {
  if (name.empty()) return std::optional<tensor::DType>();
  std::string names;
  for (const tensor::DType type : types) {
    if (name == tensor::name_of(type)) return std::optional(type);
    names += names.empty() ? "" : ", ";
    names += tensor::name_of(type);
  }
  return invalid_argument("`" + field + "` must be one of " + names + ". Given: " + name, field);
}

Result<runner::RunnerOptions> runner_options(const std::string& path,
                                             const LocalModelOptions& options) {
  runner::RunnerOptions out;
  out.model_dir = path;
  COXSWAIN_ASSIGN_OR_RETURN(out.dtype, dtype_of("dtype", options.dtype, kComputeTypes));
  COXSWAIN_ASSIGN_OR_RETURN(out.kv_dtype,
                            dtype_of("kv_dtype", options.kv_dtype, tensor::kCacheTypes));
  out.quantize = options.quantize;
  out.weights_cache_dir = options.weights_cache_dir;
  out.weights_cache_bytes_max = options.weights_cache_bytes_max;
  out.block_tokens = options.block_tokens;
  out.n_threads = options.n_threads;
  out.pin_threads = options.pin_threads;
  out.isa = options.isa;
  out.windows = {.max_attention_window = options.max_attention_window,
                 .sink_token_length = options.sink_token_length};
  out.kv_bytes = options.kv_bytes;
  out.kv_fraction = options.kv_fraction;
  out.attachment_bytes_max = options.attachment_bytes_max;
  out.memory_budget_bytes = options.memory_budget_bytes;
  out.max_total_tokens = options.total_tokens_max;
  out.max_batch_prefill_tokens = options.prefill_tokens_max;
  out.max_batch_size = options.batch_size_max;
  out.draft_tokens_max = options.draft_tokens_max;
  out.output_bytes_max = options.output_bytes_max;
  out.top_tokens_max = options.top_tokens_max;
  out.logits_processors = options.logits_processors;
  out.tokenizer_config_path = options.tokenizer_config_path;
  out.progress = options.progress;
  return out;
}

Result<LocalModel> open(const std::string& path, const LocalModelOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(runner::RunnerOptions wanted, runner_options(path, options));
  if (options.batch_size_max == 0) {
    return invalid_argument("`batch_size_max` must be > 0. Given: 0", "batch_size_max");
  }
  auto state = std::make_shared<ModelState>();
  COXSWAIN_ASSIGN_OR_RETURN(
      state->tokenizer,
      tokenizer::Tokenizer::load(path, {.tokenizer_config_path = options.tokenizer_config_path}));
  COXSWAIN_ASSIGN_OR_RETURN(state->templates,
                            chat::TemplateSet::load(path, options.tokenizer_config_path));
  COXSWAIN_ASSIGN_OR_RETURN(state->manner,
                            speech::manner_of(state->templates,
                                              *state->tokenizer,
                                              {options.tool_call_parser, "`tool_call_parser`"},
                                              {options.reasoning_parser, "`reasoning_parser`"}));
  wanted.tokenizer = state->tokenizer;
  COXSWAIN_ASSIGN_OR_RETURN(state->runner, runner::LocalRunner::create(wanted));
  state->prefill_tokens_max = options.prefill_tokens_max;
  state->batch_size_max = options.batch_size_max;
  return LocalModel(std::move(state));
}

Result<Prompt> encode(const ModelState& model,
                      std::string text,
                      bool add_special_tokens,
                      std::span<const TextSpan> untrusted) {
  COXSWAIN_ASSIGN_OR_RETURN(
      tokenizer::Encoding encoding,
      model.tokenizer->encode(text,
                              {.add_special_tokens = add_special_tokens, .untrusted = untrusted}));
  return Prompt{.ids = std::move(encoding.ids),
                .text = std::move(text),
                .spans = std::move(encoding.offsets)};
}

}  // namespace

Result<LocalModel> open_model(const std::string& path, const LocalModelOptions& options) {
  try {
    return open(path, options);
  } catch (const std::exception& e) {  // memory or threads that the system does not give
    return Status(Code::kResourceExhausted, "cannot open " + path + ": " + e.what());
  }
}

LocalModel::LocalModel(std::shared_ptr<ModelState> state) : state_(std::move(state)) {}

Result<Prompt> LocalModel::tokenize(std::string_view text, const TokenizeOptions& options) const {
  std::size_t end = 0;
  for (const TextSpan& span : options.untrusted) {
    if (span.begin < end || span.end < span.begin || span.end > text.size()) {
      return invalid_argument("`untrusted` must hold sorted, disjoint spans of the text's " +
                                  std::to_string(text.size()) + " bytes. Given: [" +
                                  std::to_string(span.begin) + ", " + std::to_string(span.end) +
                                  ")",
                              "untrusted");
    }
    end = span.end;
  }
  return encode(*state_, std::string(text), options.add_special_tokens, options.untrusted);
}

std::shared_ptr<const TextCodec> LocalModel::codec() const {
  return state_->runner->codec();
}

RunnerInfo LocalModel::info() const {
  return state_->runner->info();
}

std::shared_ptr<StepRunner> LocalModel::runner() const {
  return state_->runner;
}

std::string LocalModel::memory_plan() const {
  std::string out;
  for (const std::string& line : state_->runner->memory_plan().to_lines()) out += line + '\n';
  return out;
}

std::vector<std::string> LocalModel::warnings() const {
  return state_->runner->warnings();
}

}  // namespace coxswain
