#include "model/guess_heads.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "base/scalar_math.h"
#include "model/blocks/norm.h"
#include "model/config_reader.h"
#include "model/decoder.h"
#include "model/step_context.h"
#include "model/weight_loader.h"
#include "weights/checkpoint.h"
#include "weights/safetensors.h"

namespace coxswain::model {
namespace {

constexpr std::uint32_t kGuessesMax = 64;  // --speculate takes no more
constexpr std::uint32_t kBlocksMax = 64;
constexpr std::uint32_t kWidthMax = 1U << 20;
constexpr float kEpsilon = 1e-6F;

bool names_eagle(const json::Value& config) {
  const auto has = [](const json::Value* value) {
    if (value == nullptr || !value->is_string()) return false;
    std::string text = value->as_string();
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text.find("eagle") != std::string::npos;
  };
  if (has(config.find("model_type"))) return true;
  const json::Value* names = config.find("architectures");
  return names != nullptr && names->is_array() &&
         std::ranges::any_of(names->as_array(),
                             [&](const json::Value& name) { return has(&name); });
}

MatrixMap matrix(const std::string& name, std::uint64_t n, std::uint64_t k, std::string bias = {}) {
  return {.rows = {{.tensor = name + ".weight",
                    .otherwise = {},
                    .shape = {n, k},
                    .count = n,
                    .bias = std::move(bias)}},
          .k = k};
}

Result<weights::Checkpoint> open_heads(const std::string& folder, bool is_medusa) {
  if (!is_medusa) return weights::Checkpoint::open(folder);
  std::vector<weights::TensorFile> files;
  COXSWAIN_ASSIGN_OR_RETURN(weights::TensorFile file,
                            weights::open_safetensors(folder + "/medusa_lm_head.safetensors"));
  files.push_back(std::move(file));
  return weights::Checkpoint::of(std::move(files));
}

}  // namespace

// Medusa: blocks and a projection, empty for the model's. MLP speculator: the others.
struct GuessHeads::Head {
  std::vector<Linear> blocks;
  Linear projection;  // to the vocabulary
  RowTable embedding;
  Linear in;
  NormWeights norm;
};

GuessHeads::~GuessHeads() = default;

Result<GuessConfig> read_guess_config(const std::string& folder) {
  GuessConfig out;
  if (folder.ends_with(".gguf")) return out;
  const std::string path = folder + "/config.json";
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value config, json::parse_file(path, kConfigFileBytesMax));
  if (!config.is_object()) return out;
  if (names_eagle(config))
    return Status(Code::kUnimplemented, path + ": EAGLE heads are not supported");
  ConfigReader reader(config, path + ": ");
  out.base = reader.text_or("base_model_name_or_path", "");
  if (reader.has("medusa_num_heads")) {
    out.kind = GuessConfig::Kind::kMedusa;
    out.n_heads = reader.count("medusa_num_heads", 1, kGuessesMax);
    out.n_layers = reader.count("medusa_num_layers", 1, kBlocksMax);
  } else if (reader.text_or("model_type", "") == "mlp_speculator") {
    out.kind = GuessConfig::Kind::kMlpSpeculator;
    out.n_heads = reader.count("n_predict", 1, kGuessesMax);
    out.inner_dim = reader.count_or("inner_dim", 0, kWidthMax, 0);
    out.tie_weights = reader.flag_or("tie_weights", false);
    out.scale_input = reader.flag_or("scale_input", false);
  }
  COXSWAIN_RETURN_IF_ERROR(reader.status());
  return out;
}

Status project(Model& model,
               std::span<const float> normed,
               std::span<float> logits,
               kernels::ExecContext& exec) {
  auto* const decoder = dynamic_cast<Decoder*>(&model);
  if (decoder == nullptr)
    return {Code::kUnimplemented, "this model's projection to the vocabulary is not shared"};
  return decoder->project(normed, logits, exec);
}

Result<std::unique_ptr<GuessHeads>> GuessHeads::load(const LoadOptions& options,
                                                     Model& model,
                                                     std::size_t n_rows,
                                                     std::size_t n_threads) {
  std::unique_ptr<GuessHeads> out(new GuessHeads());
  COXSWAIN_ASSIGN_OR_RETURN(out->config_, read_guess_config(options.model_dir));
  if (!out->config_.is_heads()) return internal_error(options.model_dir + " has no heads");
  out->model_ = &model;
  out->kernels_ = options.kernels;
  out->n_rows_max_ = n_rows;
  COXSWAIN_RETURN_IF_ERROR(out->load_weights(options, n_threads));
  return out;
}

Status GuessHeads::load_weights(const LoadOptions& options, std::size_t n_threads) {
  const std::uint64_t hidden = model_->info().hidden_size;
  const std::uint64_t vocab = model_->info().vocab_size;
  const bool is_medusa = config_.kind == GuessConfig::Kind::kMedusa;
  inner_ = is_medusa || config_.inner_dim == 0 ? hidden : config_.inner_dim;
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint,
                            open_heads(options.model_dir, is_medusa));
  const std::vector<std::string> prefixes{""};
  WeightLoader loader(checkpoint, prefixes, *options.kernels, options.progress, options.exec);
  const std::string first = is_medusa ? "0.0.linear" : "speculator.proj.0";
  COXSWAIN_ASSIGN_OR_RETURN(const tensor::DType stored,
                            loader.reader().stored_type(matrix(first, inner_, hidden)));
  const Holding format(kernels::plain_format(options.dtype.value_or(stored)));
  // The first version has a projection for each head.
  const std::string own = "0." + std::to_string(config_.n_layers) + ".weight";
  const bool shares = is_medusa && checkpoint.find(own).tensor == nullptr;
  if (shares && config_.n_layers != 1) {
    return invalid_argument(options.model_dir + ": heads without a projection of their own (\"" +
                                own + "\") have one layer. Given: medusa_num_layers " +
                                std::to_string(config_.n_layers),
                            "medusa_num_layers");
  }
  const std::size_t n_stored = !is_medusa && config_.tie_weights ? 1 : config_.n_heads;
  for (std::size_t i = 0; i < config_.n_heads; ++i) {
    Head& head = heads_.emplace_back();
    const std::string number = std::to_string(i);
    if (is_medusa) {
      for (std::size_t layer = 0; layer < config_.n_layers; ++layer) {
        const std::string name = number + "." + std::to_string(layer) + ".linear";
        COXSWAIN_ASSIGN_OR_RETURN(
            Linear block, loader.linear(matrix(name, hidden, hidden, name + ".bias"), format));
        head.blocks.push_back(std::move(block));
      }
      if (shares) continue;
      COXSWAIN_ASSIGN_OR_RETURN(
          head.projection,
          loader.linear(matrix(number + "." + std::to_string(config_.n_layers), vocab, hidden),
                        format));
      continue;
    }
    const auto name = [&](const char* part) {
      return "speculator." + std::string(part) + "." + number;
    };
    // Tied: the first head's but for what takes in the state, of which there are two.
    if (i < n_stored || i == 1) {
      COXSWAIN_ASSIGN_OR_RETURN(
          head.in, loader.linear(matrix(name("proj"), inner_, i == 0 ? hidden : inner_), format));
    }
    if (i >= n_stored) continue;
    COXSWAIN_ASSIGN_OR_RETURN(head.projection,
                              loader.linear(matrix(name("head"), vocab, inner_), format));
    COXSWAIN_ASSIGN_OR_RETURN(head.embedding,
                              loader.rows(matrix(name("emb"), vocab, inner_), stored));
    COXSWAIN_ASSIGN_OR_RETURN(head.norm,
                              loader.norm({.weight = {{name("ln") + ".weight"}, inner_},
                                           .bias = {{name("ln") + ".bias"}, inner_}}));
  }
  weight_bytes_ = loader.bytes();
  const BlockSizes sizes{
      std::max<std::size_t>(hidden, inner_), n_rows_max_, n_threads, loader.limits()};
  COXSWAIN_ASSIGN_OR_RETURN(scratch_,
                            tensor::AlignedBuffer::allocate(sizes.linear_scratch(sizes.hidden)));
  hidden_.resize(n_rows_max_ * hidden);
  state_.resize(n_rows_max_ * sizes.hidden);
  beside_.resize(n_rows_max_ * sizes.hidden);
  return {};
}

std::uint64_t GuessHeads::bytes() const {
  return weight_bytes_ + scratch_.bytes().size() +
         (hidden_.size() + state_.size() + beside_.size()) * sizeof(float);
}

void GuessHeads::begin(std::span<const float> hidden) {
  n_rows_ = hidden.size() / model_->info().hidden_size;
  round_ = 0;
  std::ranges::copy(hidden, hidden_.begin());
}

Status GuessHeads::run(std::span<const TokenId> tokens,
                       std::span<float> logits,
                       kernels::ExecContext& exec) {
  if (round_ >= config_.n_heads || tokens.size() != n_rows_ || n_rows_ > n_rows_max_ ||
      logits.size() != n_rows_ * model_->info().vocab_size) {
    return internal_error("a round of guesses that does not fit");
  }
  Status status = config_.kind == GuessConfig::Kind::kMedusa
                      ? run_medusa(heads_[round_], logits, exec)
                      : run_mlp(heads_[round_], tokens, logits, exec);
  ++round_;
  return status;
}

Status GuessHeads::run_medusa(const Head& head,
                              std::span<float> logits,
                              kernels::ExecContext& exec) {
  Workspace work;
  work.linear_scratch = scratch_.bytes();
  const std::size_t width = model_->info().hidden_size;
  const StepContext step{*kernels_, exec, work, width, n_rows_, {}};
  step.copy(hidden_.data(), state_.data());
  for (const Linear& block : head.blocks) {
    step.linear(block, state_.data(), beside_.data(), n_rows_);
    kernels::ActivationArgs silu{.gate = beside_.data(),
                                 .gate_stride = width,
                                 .y = beside_.data(),
                                 .y_stride = width,
                                 .m = n_rows_,
                                 .n = width};
    kernels_->activation(exec, silu);
    step.add(beside_.data(), state_.data(), 1.0F);
  }
  if (head.projection.empty())
    return project(*model_, std::span(state_).first(n_rows_ * width), logits, exec);
  step.linear(head.projection, state_.data(), logits.data(), n_rows_);
  return {};
}

Status GuessHeads::run_mlp(const Head& head,
                           std::span<const TokenId> tokens,
                           std::span<float> logits,
                           kernels::ExecContext& exec) {
  const Head& parts = config_.tie_weights ? heads_.front() : head;
  const Head& in = config_.tie_weights ? heads_[std::min<std::size_t>(round_, 1)] : head;
  const auto vocab = static_cast<TokenId>(parts.embedding.n_rows);
  if (std::ranges::any_of(tokens, [&](TokenId token) { return token < 0 || token >= vocab; }))
    return internal_error("a token outside the vocabulary");
  Workspace work;
  work.linear_scratch = scratch_.bytes();
  const std::size_t width = round_ == 0 ? model_->info().hidden_size : inner_;
  const StepContext from{*kernels_, exec, work, width, n_rows_, {}};
  const StepContext step{*kernels_, exec, work, inner_, n_rows_, {}};
  const NormSpec norm{.epsilon = kEpsilon};
  const auto scale = [&](const StepContext& rows, float* x, float by) {
    kernels_->add(exec,
                  {.a = x,
                   .a_stride = rows.hidden,
                   .y = x,
                   .y_stride = rows.hidden,
                   .m = n_rows_,
                   .n = rows.hidden,
                   .alpha = by,
                   .beta = 0.0F});
  };
  if (round_ == 0) {
    from.copy(hidden_.data(), beside_.data());
    if (config_.scale_input) {
      run_norm(from, norm, {}, beside_.data(), beside_.data(), n_rows_);
      scale(from, beside_.data(), static_cast<float>(1 / std::sqrt(2.0)));
    }
  } else {
    from.copy(state_.data(), beside_.data());
  }
  const double share = base::pow(0.5, 0.5 / static_cast<double>(config_.n_heads));
  const double of_token = std::sqrt(1 - share * share) * std::sqrt(static_cast<double>(inner_) / 2);
  step.linear(in.in, beside_.data(), state_.data(), n_rows_);
  scale(step, state_.data(), static_cast<float>(share));
  kernels_->look_up(exec,
                    {.table = parts.embedding.data.data(),
                     .type = parts.embedding.type,
                     .ids = tokens,
                     .y = state_.data(),
                     .y_stride = inner_,
                     .n = inner_,
                     .scale = static_cast<float>(of_token),
                     .accumulate = true});
  run_norm(step, norm, parts.norm, state_.data(), state_.data(), n_rows_);
  kernels_->activation(exec,
                       {.gate = state_.data(),
                        .gate_stride = inner_,
                        .y = state_.data(),
                        .y_stride = inner_,
                        .m = n_rows_,
                        .n = inner_,
                        .activation = kernels::Activation::kGeluErf});
  step.linear(parts.projection, state_.data(), logits.data(), n_rows_);
  return {};
}

}  // namespace coxswain::model
