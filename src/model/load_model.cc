// Model::load: from a folder to a Decoder.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <xxhash.h>

#include "base/float_mode.h"
#include "json/json.h"
#include "model/decoder.h"
#include "model/describe.h"
#include "model/end_tokens.h"
#include "model/guess_heads.h"
#include "model/model_files.h"
#include "model/stored_quant_config.h"
#include "model/weight_loader.h"
#include "tensor/page_arena.h"
#include "weights/checkpoint.h"
#include "weights/shared_image.h"

namespace coxswain::model {
namespace {

using kernels::WeightFormat;
using tensor::DType;

// The last matrix of a mixer: its type is that of the checkpoint's linear layers.
MatrixMap last_matrix(const MixerMap& mixer) {
  struct {
    MatrixMap last;
    void operator()(const MatrixMap& matrix) { last = matrix.empty() ? last : matrix; }
    void operator()(const NormMap&) {}
    void operator()(const VectorMap&) {}
  } visitor;
  std::visit([&](const auto& map) { map.visit(visitor); }, mixer);
  return visitor.last;
}

// A file that holds a head of its own beside the embedding wins over a config that ties the two, as in the reference
// implementation: models trained further often keep the field of their parent.
Status split_untied_head(WeightLoader& loader, TensorMap& map) {
  if (!map.head.matrix.empty()) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const bool differs,
                            loader.reader().other_name_differs(map.embedding.table.rows.front()));
  if (!differs) return {};
  map.head.matrix = map.embedding.table;
  map.head.matrix.rows.front().tensor = map.embedding.table.rows.front().otherwise;
  map.embedding.table.rows.front().bias.clear();
  return {};
}

Result<DecoderWeights> load_weights(const BlockLoad& how,
                                    const Architecture& architecture,
                                    DType dtype) {
  const ArchSpec& arch = architecture.arch;
  const TensorMap& map = architecture.tensors;
  DecoderWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored,
                            how.loader.reader().stored_type(map.embedding.table));
  // Widening rows that are only looked up would cost memory and change nothing.
  const DType row_type = tensor::size_of(dtype) < tensor::size_of(stored) ? dtype : stored;
  // A tied head holds the rows too; but those that are quantised here have lost bits that an embedding should keep.
  const bool own_table = !map.head.matrix.empty() || how.format.format->is_quantised();
  how.loader.begin_part("embedding");
  COXSWAIN_ASSIGN_OR_RETURN(
      out.embedding, Embedding::load(how, arch.embedding, map.embedding, row_type, own_table));
  how.loader.begin_part("layers");
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(Layer layer, Layer::load(how, arch.layers[i], map.layers[i]));
    out.layers.push_back(std::move(layer));
  }
  how.loader.begin_part("head");
  COXSWAIN_ASSIGN_OR_RETURN(out.head,
                            Head::load(how, arch.head, arch.norm, map.head, map.embedding.table));
  out.linear = how.loader.limits();
  return out;
}

// --quantize may name the form in which weights are stored: then nothing is made at load.
Status check_stored_form(const LoadOptions& options, const weights::StoredQuant& stored) {
  const std::string name = quantize_name(stored);
  if (name == options.quantize) return {};
  return invalid_argument(
      "quantize is " + options.quantize + ", but the weights of " + options.model_dir +
          " are stored " + (name.empty() ? "plainly" : "as " + name) +
          (name.empty()
               ? ", and only " + std::string(kernels::quantised_names()) + " can be made of them"
               : ""),
      "quantize");
}

// A tensor that nothing reads may mean that config.json leaves a field out.
void warn_of_unread(const WeightLoader& loader, const std::string& model_dir, ModelInfo& info) {
  constexpr std::size_t kNamed = 3;
  const std::vector<std::string> names = loader.reader().unread();
  if (names.empty()) return;
  std::string text = model_dir + ": " + std::to_string(names.size()) +
                     (names.size() == 1 ? " tensor is" : " tensors are") +
                     " not used by this architecture: ";
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  info.warnings.push_back(text + (names.size() > kNamed ? ", ..." : ""));
}

std::string text_of(const weights::StoredQuant& quant) {
  std::string out = quantize_name(quant);
  const auto add = [&](std::uint64_t value) { out += " " + std::to_string(value); };
  for (const std::uint64_t value : {std::uint64_t{quant.bits},
                                    quant.group_size,
                                    std::uint64_t{quant.zeros_less_one},
                                    quant.block_rows,
                                    quant.block_inputs})
    add(value);
  for (const weights::StoredGroup& group : quant.groups) {
    for (const std::uint64_t value : {std::uint64_t{group.is_packed},
                                      std::uint64_t{group.is_float},
                                      std::uint64_t{group.symmetric},
                                      std::uint64_t{group.bits},
                                      group.group_size,
                                      group.block_rows,
                                      group.block_inputs})
      add(value);
  }
  for (const std::string& module : quant.plain_modules) out += " " + module;
  return out;
}

// All that decides what is loaded, but for the program. A file is known by what the system says of it and by its
// header: whoever writes other weights into it changes one of them.
std::string cache_key(const LoadOptions& options,
                      const ModelFiles& files,
                      const weights::Checkpoint& checkpoint) {
  const auto hash = [](const std::string& text) {
    return std::to_string(XXH3_64bits(text.data(), text.size()));
  };
  std::string out = "quantize " + options.quantize + "\ndtype " +
                    (options.dtype ? std::string(tensor::name_of(*options.dtype)) : "") +
                    "\nconfig " + hash(json::write(files.config())) + "\nstored " +
                    hash(text_of(files.stored_quant())) + "\n";
  for (const weights::TensorFile& file : checkpoint.files()) {
    std::string header;
    for (const weights::TensorInfo& tensor : file.tensors()) {
      header += tensor.name + " " + std::string(tensor.type_name()) + " " +
                weights::shape_text(tensor.shape) + " " + std::to_string(tensor.begin) + "\n";
    }
    out += "file " + file.identity() + " " + hash(header) + "\n";
  }
  return out;
}

// Null where weights are not shared, or cannot be.
std::shared_ptr<weights::SharedImage> open_shared(const LoadOptions& options,
                                                  const std::string& key,
                                                  std::uint64_t stored_bytes,
                                                  std::vector<std::string>& warnings) {
  // A weight that is stored in a bit becomes a float32 at most.
  constexpr std::uint64_t kGrowthMax = 32;
  constexpr std::uint64_t kPaddingMax = std::uint64_t{64} << 20;
  if (options.shared_fd < 0) return nullptr;
  auto out = weights::SharedImage::open(options.shared_fd,
                                        "maker " + options.cache.maker + "\n" + key,
                                        stored_bytes * kGrowthMax + kPaddingMax,
                                        options.exec == nullptr ? nullptr : &options.exec->pool());
  if (out.ok()) return std::move(out).value();
  warnings.push_back("weights are not shared: " + out.status().message());
  return nullptr;
}

// `is_made`: quantize names a format that is made at load.
Status check_options(const LoadOptions& options, bool is_made) {
  if (options.kernels == nullptr) return internal_error("Model::load needs a kernel table");
  if (options.dtype == DType::kI8) return invalid_argument("dtype int8 is asked for with quantize");
  if (!options.quantize.empty() && !is_made && !is_stored_quantize_name(options.quantize)) {
    return invalid_argument("quantize takes one of " + std::string(kernels::quantised_names()) +
                            ", or the form in which weights are stored, not " + options.quantize);
  }
  return {};
}

// The others wait for it. `fingerprint`: of the weights, where they were made here.
Result<SharedWeights> finish_shared(weights::SharedImage& shared,
                                    std::uint64_t fingerprint,
                                    std::chrono::steady_clock::time_point began) {
  SharedWeights out{.was_filled = shared.filled()};
  COXSWAIN_RETURN_IF_ERROR(shared.finish(fingerprint));
  out.bytes = shared.bytes();
  out.huge_bytes = std::min<std::uint64_t>(tensor::shared_huge_page_bytes(), out.bytes);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return out;
}

std::optional<DType> kv_dtype_of(const ModelFiles& files) {
  if (files.stored_quant().float8_cache) return DType::kF8E4M3;
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> stored_weight_bytes(const std::string& model_dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::open(model_dir));
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint, files.open_weights());
  return checkpoint.n_bytes();
}

Result<ModelInfo> describe_folder(const std::string& model_dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::open(model_dir));
  COXSWAIN_ASSIGN_OR_RETURN(const Architecture architecture, files.architecture());
  ModelInfo info = describe(architecture.arch);
  info.kv_dtype = kv_dtype_of(files);
  return info;
}

Result<std::unique_ptr<Model>> Model::load(const LoadOptions& options) {
  const base::FloatMode mode;
  const WeightFormat* const quantised =
      options.quantize.empty() ? nullptr : kernels::find_format(options.quantize);
  const bool is_made = quantised != nullptr && quantised->is_quantised() && quantised->is_option;
  COXSWAIN_RETURN_IF_ERROR(check_options(options, is_made));
  COXSWAIN_ASSIGN_OR_RETURN(const ModelFiles files, ModelFiles::open(options.model_dir));
  if (!options.quantize.empty() && !is_made)
    COXSWAIN_RETURN_IF_ERROR(check_stored_form(options, files.stored_quant()));
  COXSWAIN_ASSIGN_OR_RETURN(const GuessConfig guesses, read_guess_config(options.model_dir));
  if (guesses.is_heads()) {
    return invalid_argument(files.config_path() + ": heads that guess tokens are no model: " +
                            "base_model_name_or_path is " + guesses.base);
  }
  COXSWAIN_ASSIGN_OR_RETURN(Architecture architecture, files.architecture());
  COXSWAIN_RETURN_IF_ERROR(apply(options.windows, architecture.arch));
  if (options.n_token_ids > architecture.arch.vocab_size) {
    return invalid_argument(
        files.config_path() + ": vocab_size is " + std::to_string(architecture.arch.vocab_size) +
        ", but the tokenizer has ids up to " + std::to_string(options.n_token_ids - 1));
  }
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint, files.open_weights());
  TensorMap& tensors = architecture.tensors;
  ModelInfo info = describe(architecture.arch);
  const auto began = std::chrono::steady_clock::now();
  const std::string key = cache_key(options, files, checkpoint);
  const auto shared = open_shared(options, key, checkpoint.n_bytes(), info.warnings);
  std::optional<WeightCache> cache;
  if (!options.cache.folder.empty() && (shared == nullptr || !shared->filled()))
    cache.emplace(options.cache, key, options.exec);
  WeightLoader loader(checkpoint,
                      tensors.prefixes,
                      *options.kernels,
                      options.progress,
                      options.exec,
                      cache ? &*cache : nullptr,
                      shared);
  COXSWAIN_RETURN_IF_ERROR(split_untied_head(loader, tensors));
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored,
                            loader.reader().stored_type(last_matrix(tensors.layers.front().mixer)));
  const DType dtype = options.dtype.value_or(stored);
  // Codes that no format takes become bfloat16: what that rounds away is far less than what quantising did.
  const bool keeps_codes = !options.dtype && !is_made && checkpoint.has_quantised();
  const DType plain = keeps_codes ? DType::kBf16 : dtype;
  const Holding format(is_made ? *quantised : kernels::plain_format(plain), keeps_codes);
  COXSWAIN_ASSIGN_OR_RETURN(DecoderWeights weights,
                            load_weights({loader, format}, architecture, dtype));

  COXSWAIN_RETURN_IF_ERROR(read_end_tokens(options, files.config(), files.config_path(), info));
  warn_of_unread(loader, options.model_dir, info);
  info.dtype = std::string(keeps_codes ? loader.main_format().name : format.format->name);
  info.kv_dtype = kv_dtype_of(files);
  info.weight_bytes = loader.bytes();
  info.weight_shares = loader.shares();
  std::uint64_t of_weights = loader.reader().fingerprint();
  if (cache) of_weights = cache->fingerprint().value_or(of_weights);
  if (shared != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(info.shared, finish_shared(*shared, of_weights, began));
    of_weights = shared->fingerprint();
  }
  if (cache) {
    cache->save(of_weights);
    info.weight_cache = cache->use();
    std::ranges::copy(cache->warnings(), std::back_inserter(info.warnings));
  }
  const std::string identity =
      json::write(files.config()) + info.dtype + (keeps_codes ? " as stored" : "");
  info.fingerprint = XXH3_64bits_withSeed(identity.data(), identity.size(), of_weights);
  return std::unique_ptr<Model>(std::make_unique<Decoder>(
      std::move(architecture.arch), std::move(weights), std::move(info), *options.kernels));
}

}  // namespace coxswain::model
