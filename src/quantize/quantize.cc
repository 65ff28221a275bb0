#include "quantize/quantize.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "base/float_mode.h"
#include "base/keyed_hash.h"
#include "model/model_files.h"
#include "model/stored_quant_config.h"
#include "quantize/awq.h"
#include "quantize/gguf_output.h"
#include "quantize/gptq.h"
#include "quantize/layer_plan.h"
#include "quantize/layer_walk.h"
#include "quantize/output_folder.h"
#include "quantize/perplexity.h"
#include "weights/safetensors.h"

namespace coxswain::quantize {
namespace {

constexpr std::size_t kTextBytesMax = std::size_t{1} << 30;
constexpr std::size_t kEvaluationSamplesMax = 64;

Result<std::string> text_of(const std::string& path, std::string_view otherwise) {
  if (path.empty()) return std::string(otherwise);
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(Code::kNotFound, path + ": cannot be opened");
  std::string out(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return Status(Code::kNotFound, path + ": cannot be read");
  if (out.size() > kTextBytesMax)
    return invalid_argument(path + " must be at most " + std::to_string(kTextBytesMax) + " bytes");
  return out;
}

std::string number_text(double value) {
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), "%.4f", value);
  return out.data();
}

std::string after_text(double before, double after) {
  std::array<char, 64> change{};
  std::snprintf(change.data(), change.size(), " (%+.2f %%)", (after / before - 1) * 100);
  return "perplexity after: " + number_text(after) + change.data();
}

Result<Samples> evaluation_of(const QuantizeOptions& options,
                              const tokenizer::Tokenizer& tokenizer,
                              std::size_t tokens_max) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text,
                            text_of(options.evaluation_path, default_evaluation_text()));
  return samples_of(tokenizer, text, "the evaluation text", tokens_max, kEvaluationSamplesMax);
}

bool is_gguf_file(const QuantizeOptions& options) {
  return options.model_dir.ends_with(".gguf");
}

// "model-F16.gguf" becomes "model-Q4_K_M.gguf", and so does the folder "model".
std::string gguf_path(const QuantizeOptions& options) {
  const std::filesystem::path from =
      std::filesystem::path(options.model_dir + "/.").lexically_normal().parent_path();
  std::string stem = is_gguf_file(options) ? from.stem() : from.filename();
  for (const char* const type : {"f32", "f16", "bf16", "F32", "F16", "BF16"}) {
    const std::string ending = std::string("-") + type;
    if (!stem.ends_with(ending)) continue;
    stem.resize(stem.size() - ending.size());
    break;
  }
  return options.output_dir + "/" + stem + "-" + options.gguf_mix + ".gguf";
}

Status quantize_gguf(const QuantizeOptions& options,
                     const Report& report,
                     const kernels::KernelTable& table) {
  kernels::ExecContext exec(options.n_threads);
  COXSWAIN_ASSIGN_OR_RETURN(const model::ModelInfo info, model::describe_folder(options.model_dir));
  COXSWAIN_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::load(options.model_dir));
  COXSWAIN_ASSIGN_OR_RETURN(const Samples evaluation,
                            evaluation_of(options,
                                          *tokenizer,
                                          std::min<std::uint64_t>(options.sample_tokens_max,
                                                                  info.max_position_embeddings)));
  COXSWAIN_ASSIGN_OR_RETURN(
      const GgufSource source,
      is_gguf_file(options) ? open_gguf_source(options.model_dir)
                            : open_folder_source(options.model_dir, default_calibration_text()));
  if (!source.note.empty()) report(source.note);
  const std::string to = gguf_path(options);
  std::error_code error;
  std::filesystem::create_directories(options.output_dir, error);
  if (error || std::filesystem::exists(to, error))
    return {Code::kFailedPrecondition,
            to + (error ? ": " + error.message() : " is there already; name a new folder")};
  COXSWAIN_ASSIGN_OR_RETURN(const double before,
                            perplexity(options.model_dir, evaluation, table, exec));
  report("perplexity before: " + number_text(before));
  COXSWAIN_RETURN_IF_ERROR(write_gguf(source, to, options.gguf_mix, exec.pool()));
  report("written: " + to);
  COXSWAIN_ASSIGN_OR_RETURN(const double after, perplexity(to, evaluation, table, exec));
  report(after_text(before, after));
  return {};
}

class Run {
 public:
  Run(const QuantizeOptions& options, const Report& report, const kernels::KernelTable& table)
      : options_(options), report_(report), table_(table), exec_(options.n_threads) {}

  Status go();

 private:
  Status open();
  Status open_texts();
  std::string identity() const;
  Status quantize_layer(std::size_t index, const OutputFolder& folder);
  Result<QuantisedMatrix> quantised(const Target& target, const AwqFolding& folding);
  // Adds the tensor as it is stored.
  Status copy(const std::string& name, std::vector<OutputTensor>& out) const;
  Status write_outside(const OutputFolder& folder) const;
  // The layer as the file of the output has it, so that what comes behind sees what readers will see.
  Status walk_through(std::size_t index, const OutputFolder& folder);
  Status look_at(std::size_t index);
  std::vector<std::string> ignored() const;
  bool calibrates() const { return options_.method != Method::kRoundToNearest; }

  const QuantizeOptions& options_;
  const Report& report_;
  const kernels::KernelTable& table_;
  kernels::ExecContext exec_;
  std::unique_ptr<model::ModelFiles> files_;
  std::unique_ptr<model::Architecture> architecture_;
  std::unique_ptr<weights::Checkpoint> source_;
  ModelPlan plan_;
  std::string calibration_text_;
  Samples calibration_;
  Samples evaluation_;
  std::unique_ptr<LayerWalk> walk_;
  std::map<std::string, InputMoments> moments_;  // of the layer at hand, by Target::seen_as
};

Status Run::open() {
  if (is_gguf_file(options_))
    return {Code::kUnimplemented,
            options_.model_dir +
                ": a folder of safetensors is needed for this format; a GGUF file becomes another "
                "with --format gguf"};
  COXSWAIN_ASSIGN_OR_RETURN(model::ModelFiles files, model::ModelFiles::open(options_.model_dir));
  files_ = std::make_unique<model::ModelFiles>(std::move(files));
  if (files_->stored_quant().method != weights::StoredMethod::kNone)
    return invalid_argument(options_.model_dir + " is stored as " +
                            model::quantize_name(files_->stored_quant()) +
                            " already; quantise the model that it was made from");
  COXSWAIN_ASSIGN_OR_RETURN(model::Architecture architecture, files_->architecture());
  architecture_ = std::make_unique<model::Architecture>(std::move(architecture));
  if (options_.method == Method::kAwq && !AwqLayer::folds(architecture_->arch))
    return {Code::kUnimplemented,
            options_.model_dir +
                ": --method awq folds into norms that stand before one block each, " +
                architecture_->arch.model_type + " has none"};
  COXSWAIN_ASSIGN_OR_RETURN(weights::Checkpoint source, files_->open_weights());
  source_ = std::make_unique<weights::Checkpoint>(std::move(source));
  COXSWAIN_ASSIGN_OR_RETURN(plan_, plan_of(*architecture_, *source_));
  for (const LayerPlan& layer : plan_.layers) {
    for (const Target& target : layer.targets) {
      COXSWAIN_RETURN_IF_ERROR(
          check_shape(options_.stored, target.module(), target.map.n(), target.map.k));
      if (target.is_transposed && options_.stored.form == StoredForm::kCompressedTensors)
        return {Code::kUnimplemented,
                "\"" + target.stored + "\" is stored inputs first; take --format gptq"};
      if (target.seen_as.empty() && calibrates())
        return {Code::kUnimplemented,
                "\"" + target.stored +
                    "\" belongs to an expert, whose inputs are not looked at; take --method rtn"};
    }
  }
  return {};
}

Status Run::open_texts() {
  COXSWAIN_ASSIGN_OR_RETURN(const auto tokenizer, tokenizer::Tokenizer::load(options_.model_dir));
  const std::size_t tokens_max =
      std::min<std::uint64_t>(options_.sample_tokens_max, architecture_->arch.max_positions);
  COXSWAIN_ASSIGN_OR_RETURN(evaluation_, evaluation_of(options_, *tokenizer, tokens_max));
  if (!calibrates()) return {};
  COXSWAIN_ASSIGN_OR_RETURN(calibration_text_,
                            text_of(options_.calibration_path, default_calibration_text()));
  COXSWAIN_ASSIGN_OR_RETURN(
      calibration_,
      samples_of(
          *tokenizer, calibration_text_, "the calibration text", tokens_max, options_.samples_max));
  std::size_t n_tokens = 0;
  for (const auto& sample : calibration_) n_tokens += sample.size();
  report_("calibration: " + std::to_string(calibration_.size()) + " samples, " +
          std::to_string(n_tokens) + " tokens");
  return {};
}

std::string Run::identity() const {
  constexpr base::HashKey kKey{1, 2};
  const auto hash = [&](std::string_view text) {
    return std::to_string(base::sip_hash(std::as_bytes(std::span(text)), kKey, base::kSip13));
  };
  std::string out = "method " + std::to_string(static_cast<int>(options_.method)) + ", " +
                    json::write(quantization_config(options_.stored, {})) + ", samples " +
                    std::to_string(options_.samples_max) + " of " +
                    std::to_string(options_.sample_tokens_max) + ", text " +
                    hash(calibration_text_) + ", config " + hash(json::write(files_->config()));
  for (const weights::TensorFile& file : source_->files()) out += ", " + file.identity();
  return out;
}

Status Run::copy(const std::string& name, std::vector<OutputTensor>& out) const {
  const auto at = source_->find(name);
  OutputTensor tensor{{name, at.tensor->type, at.tensor->shape}, {}};
  tensor.bytes.resize(at.tensor->n_bytes());
  COXSWAIN_RETURN_IF_ERROR(at.read(0, tensor.bytes));
  out.push_back(std::move(tensor));
  return {};
}

Result<QuantisedMatrix> Run::quantised(const Target& target, const AwqFolding& folding) {
  COXSWAIN_ASSIGN_OR_RETURN(Weights weights,
                            read_weights(*source_, architecture_->tensors.prefixes, target.map));
  const StoredOptions& stored = options_.stored;
  if (options_.method == Method::kGptq) {
    auto out = gptq(std::move(weights),
                    moments_.at(target.seen_as),
                    {stored.kind,
                     stored.group_size,
                     stored.percdamp,
                     stored.act_order,
                     stored.groups_in_order()},
                    exec_);
    return out.ok() ? out : out.status().with_context("\"" + target.stored + "\"");
  }
  folding.apply(target.stored, weights);
  QuantisedMatrix out = QuantisedMatrix::of(stored.kind, weights.n, weights.k, stored.group_size);
  exec_.pool().run(weights.n,
                   [&](std::size_t row, std::size_t) { round_row(weights.row(row), row, out); });
  return out;
}

Status Run::look_at(std::size_t index) {
  moments_.clear();
  Status status;
  COXSWAIN_RETURN_IF_ERROR(
      walk_->look(index, *source_, [&](const model::Linear& w, model::ConstRows x, std::size_t m) {
        InputMoments& moments = moments_.try_emplace(w.tensor, w.k()).first->second;
        if (status.ok())
          status = moments.add(x.data, x.stride == 0 ? w.k() : x.stride, m, table_, exec_);
      }));
  return status;
}

Status Run::quantize_layer(std::size_t index, const OutputFolder& folder) {
  const LayerPlan& layer = plan_.layers[index];
  if (calibrates()) COXSWAIN_RETURN_IF_ERROR(look_at(index));
  AwqFolding folding;
  if (options_.method == Method::kAwq) {
    const AwqLayer awq(
        *architecture_, *source_, {options_.stored.kind, options_.stored.group_size}, exec_.pool());
    COXSWAIN_ASSIGN_OR_RETURN(folding, awq.search(index, layer, moments_));
  }
  std::vector<OutputTensor> tensors;
  for (const Target& target : layer.targets) {
    COXSWAIN_ASSIGN_OR_RETURN(const QuantisedMatrix matrix, quantised(target, folding));
    for (OutputTensor& tensor : stored_tensors(options_.stored, target.module(), matrix))
      tensors.push_back(std::move(tensor));
  }
  for (const std::string& name : layer.plain) {
    COXSWAIN_RETURN_IF_ERROR(copy(name, tensors));
    const auto folded = folding.plain.find(name);
    if (folded == folding.plain.end()) continue;
    OutputTensor& tensor = tensors.back();
    tensor.bytes = bytes_of(tensor.declaration.type, folded->second);
  }
  return folder.write(index, tensors);
}

Status Run::walk_through(std::size_t index, const OutputFolder& folder) {
  std::vector<weights::TensorFile> files;
  COXSWAIN_ASSIGN_OR_RETURN(weights::TensorFile file,
                            weights::open_safetensors(folder.file_path(index)));
  files.push_back(std::move(file));
  COXSWAIN_ASSIGN_OR_RETURN(weights::Checkpoint checkpoint,
                            weights::Checkpoint::of(std::move(files)));
  COXSWAIN_ASSIGN_OR_RETURN(const weights::StoredQuant quant,
                            model::parse_stored_quant(quantization_config(options_.stored, {}),
                                                      "the config of the output"));
  COXSWAIN_RETURN_IF_ERROR(weights::derive_tensors(quant, checkpoint));
  return walk_->pass(index, checkpoint);
}

Status Run::write_outside(const OutputFolder& folder) const {
  std::vector<OutputTensor> tensors;
  for (const std::string& name : plan_.outside) COXSWAIN_RETURN_IF_ERROR(copy(name, tensors));
  return folder.write(plan_.layers.size(), tensors);
}

// Matrices that other programs would take for linear layers.
std::vector<std::string> Run::ignored() const {
  constexpr std::string_view kWeight = ".weight";
  std::vector<std::string> out{"lm_head"};
  const auto add = [&](const std::string& name) {
    const auto at = source_->find(name);
    if (at.tensor->shape.size() != 2 || !name.ends_with(kWeight)) return;
    std::string module = name.substr(0, name.size() - kWeight.size());
    if (std::ranges::find(out, module) == out.end()) out.push_back(std::move(module));
  };
  for (const LayerPlan& layer : plan_.layers) std::ranges::for_each(layer.plain, add);
  std::ranges::for_each(plan_.outside, add);
  return out;
}

Status Run::go() {
  COXSWAIN_RETURN_IF_ERROR(open());
  COXSWAIN_RETURN_IF_ERROR(open_texts());
  const std::size_t n_layers = plan_.layers.size();
  COXSWAIN_ASSIGN_OR_RETURN(const OutputFolder folder,
                            OutputFolder::open(options_.output_dir, identity(), n_layers + 1));
  COXSWAIN_ASSIGN_OR_RETURN(const double before,
                            perplexity(options_.model_dir, evaluation_, table_, exec_));
  report_("perplexity before: " + number_text(before));
  if (calibrates()) {
    COXSWAIN_ASSIGN_OR_RETURN(
        walk_, LayerWalk::begin(*architecture_, *source_, calibration_, table_, exec_));
  }
  for (std::size_t i = 0; i < n_layers; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const bool is_kept = folder.is_finished(i);
    if (!is_kept) COXSWAIN_RETURN_IF_ERROR(quantize_layer(i, folder));
    if (calibrates() && i + 1 < n_layers) COXSWAIN_RETURN_IF_ERROR(walk_through(i, folder));
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    report_("layer " + std::to_string(i + 1) + " of " + std::to_string(n_layers) +
            (is_kept ? ": kept" : ": " + number_text(took.count()) + " s"));
  }
  walk_.reset();
  COXSWAIN_RETURN_IF_ERROR(write_outside(folder));
  COXSWAIN_RETURN_IF_ERROR(folder.finish(
      options_.model_dir, files_->config(), quantization_config(options_.stored, ignored())));
  COXSWAIN_ASSIGN_OR_RETURN(const double after,
                            perplexity(options_.output_dir, evaluation_, table_, exec_));
  report_(after_text(before, after));
  return {};
}

}  // namespace

Status quantize(const QuantizeOptions& options, const Report& report) {
  const base::FloatMode mode;
  COXSWAIN_ASSIGN_OR_RETURN(const kernels::KernelTable* const table, kernels::select_kernels(""));
  if (!options.gguf_mix.empty()) return quantize_gguf(options, report, *table);
  return Run(options, report, *table).go();
}

}  // namespace coxswain::quantize
