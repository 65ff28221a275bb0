// Model::load: from a folder to a Decoder.

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
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

// In the order in which a step needs them. `on_layers` is told what is there.
Result<DecoderWeights> load_weights(const BlockLoad& how,
                                    const Architecture& architecture,
                                    DType dtype,
                                    OnLayers on_layers) {
  const ArchSpec& arch = architecture.arch;
  const TensorMap& map = architecture.tensors;
  DecoderWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored,
                            how.loader.reader().stored_type(map.embedding.table));
  // Widening rows that are only looked up would cost memory and change nothing.
  const DType row_type = tensor::size_of(dtype) < tensor::size_of(stored) ? dtype : stored;
  // A tied head holds the rows too; but those that are quantised here have lost bits that an embedding should keep.
  const bool own_table = !map.head.matrix.empty() || how.format.format->is_quantised();
  const auto load_head = [&]() -> Status {
    how.loader.begin_part("head");
    COXSWAIN_ASSIGN_OR_RETURN(out.head,
                              Head::load(how, arch.head, arch.norm, map.head, map.embedding.table));
    return {};
  };
  for (const char* part : {"embedding", "layers", "head"}) how.loader.begin_part(part);
  how.loader.begin_part("embedding");
  COXSWAIN_ASSIGN_OR_RETURN(
      out.embedding, Embedding::load(how, arch.embedding, map.embedding, row_type, own_table));
  if (!own_table) COXSWAIN_RETURN_IF_ERROR(load_head());
  how.loader.begin_part("layers");
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(Layer layer, Layer::load(how, arch.layers[i], map.layers[i]));
    out.layers.push_back(std::move(layer));
    on_layers(static_cast<std::uint32_t>(i + 1));
  }
  if (own_table) COXSWAIN_RETURN_IF_ERROR(load_head());
  on_layers(static_cast<std::uint32_t>(arch.layers.size() + 1));
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

std::string hash_text(std::string_view bytes) {
  return std::to_string(XXH3_64bits(bytes.data(), bytes.size()));
}

std::string header_hash(const weights::TensorFile& file) {
  std::string header;
  for (const weights::TensorInfo& tensor : file.tensors()) {
    header += tensor.name + " " + std::string(tensor.type_name()) + " " +
              weights::shape_text(tensor.shape) + " " + std::to_string(tensor.begin) + "\n";
  }
  return hash_text(header);
}

// All that decides what is loaded, but for the program and the files.
std::string settings_key(const LoadOptions& options, const ModelFiles& files) {
  return "quantize " + options.quantize + "\ndtype " +
         (options.dtype ? std::string(tensor::name_of(*options.dtype)) : "") + "\nconfig " +
         hash_text(json::write(files.config())) + "\nstored " +
         hash_text(text_of(files.stored_quant())) + "\n";
}

// The same with the files. A file is known by what the system says of it and by its header: whoever writes other
// weights into it changes one of them.
std::string cache_key(const LoadOptions& options,
                      const ModelFiles& files,
                      const weights::Checkpoint& checkpoint) {
  std::string out = settings_key(options, files);
  for (const weights::TensorFile& file : checkpoint.files())
    out += "file " + file.identity() + " " + header_hash(file) + "\n";
  return out;
}

// The same for other machines, whose systems say other things of equal files: a file is known by its size, its header
// and the first and last bytes of each tensor.
Result<std::string> copies_key(const LoadOptions& options,
                               const ModelFiles& files,
                               const weights::Checkpoint& checkpoint) {
  constexpr std::uint64_t kSampleBytes = 4096;
  std::string out = "maker " + options.cache.maker + "\n" + settings_key(options, files);
  for (const weights::TensorFile& file : checkpoint.files()) {
    std::string sample;
    for (const weights::TensorInfo& tensor : file.tensors()) {
      const std::uint64_t n = std::min(kSampleBytes, tensor.n_bytes());
      const std::size_t at = sample.size();
      sample.resize(at + 2 * n);
      const auto bytes = std::as_writable_bytes(std::span(sample)).subspan(at);
      if (!file.read_at(tensor.begin, bytes.first(n)) ||
          !file.read_at(tensor.end - n, bytes.last(n)))
        return Status(Code::kDataLoss, file.path() + ": cannot be read");
    }
    out += "file " + std::to_string(file.n_bytes()) + " " + header_hash(file) + " " +
           hash_text(sample) + "\n";
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

// Keys in a cache are turned: those of one scaling are of no use to another.
std::string identity_of(const RopeOverride& rope) {
  const std::string_view name = rope.scaling == RopeScaling::kDynamic ? "dynamic" : "linear";
  return " rope " + std::string(name) + ' ' +
         std::to_string(std::bit_cast<std::uint64_t>(rope.factor));
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

namespace {

// A load: prepare(), then load_all() or, in two passes, outline() and load().
class ModelLoad final : public ArrivingWeights {
 public:
  explicit ModelLoad(const LoadOptions& options) : options_(options) {}

  Status prepare();
  Result<std::unique_ptr<Model>> load_all(const ImageRoute& route);
  // Whether the source has the weights, and they are not here yet.
  bool can_arrive();
  Result<std::unique_ptr<Model>> outline();
  Result<LoadReport> load(kernels::ExecContext* exec, OnLayers on_layers) override;

 private:
  WeightLoader make_loader(kernels::ExecContext* exec, const ImageRoute& route);
  Status choose_types(WeightLoader& loader);
  Result<DecoderWeights> load_weights_with(WeightLoader& loader, OnLayers on_layers);
  // What ModelInfo says once the weights have their memory.
  Status describe_weights(const WeightLoader& loader, std::uint64_t fingerprint);
  Result<LoadReport> end(const WeightLoader& loader, std::uint64_t fingerprint);
  std::unique_ptr<Model> make_model(DecoderWeights weights);

  const LoadOptions options_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  const WeightFormat* made_format_ = nullptr;  // that quantize names, if it is made at load
  std::optional<ModelFiles> files_;
  std::optional<Architecture> architecture_;
  std::optional<weights::Checkpoint> checkpoint_;
  ModelInfo info_;
  std::string copies_key_;  // empty: nobody asks for it
  std::shared_ptr<weights::SharedImage> shared_;
  std::optional<WeightCache> cache_;
  std::optional<std::uint64_t> source_fingerprint_;
  DType dtype_ = DType::kF32;
  bool keeps_codes_ = false;
  std::vector<std::span<std::byte>> places_;
};

Status ModelLoad::prepare() {
  const WeightFormat* const named =
      options_.quantize.empty() ? nullptr : kernels::find_format(options_.quantize);
  const bool is_made = named != nullptr && named->is_quantised() && named->is_option;
  if (is_made) made_format_ = named;
  COXSWAIN_RETURN_IF_ERROR(check_options(options_, is_made));
  COXSWAIN_ASSIGN_OR_RETURN(files_, ModelFiles::open(options_.model_dir));
  if (!options_.quantize.empty() && !is_made)
    COXSWAIN_RETURN_IF_ERROR(check_stored_form(options_, files_->stored_quant()));
  COXSWAIN_ASSIGN_OR_RETURN(const GuessConfig guesses, read_guess_config(options_.model_dir));
  if (guesses.is_heads()) {
    return invalid_argument(files_->config_path() + ": heads that guess tokens are no model: " +
                            "base_model_name_or_path is " + guesses.base);
  }
  COXSWAIN_ASSIGN_OR_RETURN(architecture_, files_->architecture());
  ArchSpec& arch = architecture_->arch;
  if (options_.rope) COXSWAIN_RETURN_IF_ERROR(apply(*options_.rope, arch));
  COXSWAIN_RETURN_IF_ERROR(apply(options_.windows, arch));
  if (options_.n_token_ids > arch.vocab_size) {
    return invalid_argument(files_->config_path() + ": vocab_size is " +
                            std::to_string(arch.vocab_size) + ", but the tokenizer has ids up to " +
                            std::to_string(options_.n_token_ids - 1));
  }
  COXSWAIN_ASSIGN_OR_RETURN(checkpoint_, files_->open_weights());
  info_ = describe(arch);
  const std::string key = cache_key(options_, *files_, *checkpoint_);
  if (options_.source != nullptr || options_.store != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(copies_key_, copies_key(options_, *files_, *checkpoint_));
  }
  shared_ = open_shared(options_, key, checkpoint_->n_bytes(), info_.warnings);
  const bool is_filled = shared_ != nullptr && shared_->filled();
  if (!options_.cache.folder.empty() && !is_filled)
    cache_.emplace(options_.cache, key, options_.exec);
  if (options_.source == nullptr || is_filled) return {};
  const auto opened = options_.source->open(copies_key_);
  if (opened.ok())
    source_fingerprint_ = *opened;
  else
    info_.warnings.push_back("weights are loaded here: " + opened.status().message());
  return {};
}

bool ModelLoad::can_arrive() {
  return source_fingerprint_.has_value();
}

WeightLoader ModelLoad::make_loader(kernels::ExecContext* exec, const ImageRoute& route) {
  const bool is_outline = route.places != nullptr && !route.is_filling;
  return {*checkpoint_,
          architecture_->tensors.prefixes,
          *options_.kernels,
          is_outline ? WeightReader::Progress() : options_.progress,
          exec,
          is_outline || !cache_ ? nullptr : &*cache_,
          shared_,
          route};
}

Status ModelLoad::choose_types(WeightLoader& loader) {
  TensorMap& tensors = architecture_->tensors;
  COXSWAIN_RETURN_IF_ERROR(split_untied_head(loader, tensors));
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored,
                            loader.reader().stored_type(last_matrix(tensors.layers.front().mixer)));
  dtype_ = options_.dtype.value_or(stored);
  keeps_codes_ = !options_.dtype && made_format_ == nullptr && checkpoint_->has_quantised();
  return {};
}

Result<DecoderWeights> ModelLoad::load_weights_with(WeightLoader& loader, OnLayers on_layers) {
  // Codes that no format takes become bfloat16: what that rounds away is far less than what quantising did.
  const DType plain = keeps_codes_ ? DType::kBf16 : dtype_;
  const WeightFormat& format =
      made_format_ != nullptr ? *made_format_ : kernels::plain_format(plain);
  COXSWAIN_ASSIGN_OR_RETURN(
      DecoderWeights out,
      load_weights({loader, Holding(format, keeps_codes_)}, *architecture_, dtype_, on_layers));
  info_.dtype = std::string(keeps_codes_ ? loader.main_format().name : format.name);
  return out;
}

Status ModelLoad::describe_weights(const WeightLoader& loader, std::uint64_t fingerprint) {
  COXSWAIN_RETURN_IF_ERROR(
      read_end_tokens(options_, files_->config(), files_->config_path(), info_));
  warn_of_unread(loader, options_.model_dir, info_);
  info_.kv_dtype = kv_dtype_of(*files_);
  info_.weight_bytes = loader.bytes();
  info_.weight_shares = loader.shares();
  std::string identity =
      json::write(files_->config()) + info_.dtype + (keeps_codes_ ? " as stored" : "");
  if (options_.rope) identity += identity_of(*options_.rope);
  info_.fingerprint = XXH3_64bits_withSeed(identity.data(), identity.size(), fingerprint);
  if (options_.store != nullptr)
    options_.store->describe({.key = copies_key_, .fingerprint = fingerprint});
  return {};
}

Result<LoadReport> ModelLoad::end(const WeightLoader& loader, std::uint64_t fingerprint) {
  LoadReport out;
  if (shared_ != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(out.shared, finish_shared(*shared_, fingerprint, began_));
  }
  out.warnings = loader.warnings();
  if (cache_) {
    cache_->save(fingerprint);
    out.weight_cache = cache_->use();
    std::ranges::copy(cache_->warnings(), std::back_inserter(out.warnings));
  }
  if (options_.store != nullptr) options_.store->complete();
  return out;
}

std::unique_ptr<Model> ModelLoad::make_model(DecoderWeights weights) {
  return std::make_unique<Decoder>(
      architecture_->arch, std::move(weights), info_, *options_.kernels);
}

Result<std::unique_ptr<Model>> ModelLoad::load_all(const ImageRoute& route) {
  WeightLoader loader = make_loader(options_.exec, route);
  COXSWAIN_RETURN_IF_ERROR(choose_types(loader));
  COXSWAIN_ASSIGN_OR_RETURN(DecoderWeights weights,
                            load_weights_with(loader, [](std::uint32_t) {}));
  std::uint64_t fingerprint = loader.reader().fingerprint();
  if (cache_) fingerprint = cache_->fingerprint().value_or(fingerprint);
  fingerprint = source_fingerprint_.value_or(fingerprint);
  if (shared_ != nullptr && shared_->filled()) fingerprint = shared_->fingerprint();
  COXSWAIN_RETURN_IF_ERROR(describe_weights(loader, fingerprint));
  COXSWAIN_ASSIGN_OR_RETURN(LoadReport report, end(loader, fingerprint));
  info_.shared = report.shared;
  info_.weight_cache = std::move(report.weight_cache);
  std::ranges::move(report.warnings, std::back_inserter(info_.warnings));
  return make_model(std::move(weights));
}

Result<std::unique_ptr<Model>> ModelLoad::outline() {
  WeightLoader loader =
      make_loader(options_.exec, {.store = options_.store.get(), .places = &places_});
  COXSWAIN_RETURN_IF_ERROR(choose_types(loader));
  COXSWAIN_ASSIGN_OR_RETURN(DecoderWeights weights,
                            load_weights_with(loader, [](std::uint32_t) {}));
  if (shared_ != nullptr) info_.shared.bytes = shared_->bytes();
  COXSWAIN_RETURN_IF_ERROR(describe_weights(loader, *source_fingerprint_));
  return make_model(std::move(weights));
}

Result<LoadReport> ModelLoad::load(kernels::ExecContext* exec, OnLayers on_layers) {
  const base::FloatMode mode;
  if (cache_) cache_->use_threads_of(exec);
  WeightLoader loader = make_loader(exec,
                                    {.source = options_.source.get(),
                                     .store = options_.store.get(),
                                     .places = &places_,
                                     .is_filling = true});
  const auto weights = load_weights_with(loader, on_layers);
  const auto fail = [&](const Status& why) {
    if (options_.store != nullptr) options_.store->fail(why);
    return why;
  };
  if (!weights.ok()) return fail(weights.status());
  auto out = end(loader, *source_fingerprint_);
  return out.ok() ? std::move(out) : fail(out.status());
}

}  // namespace

Result<std::unique_ptr<Model>> Model::load(const LoadOptions& options) {
  const base::FloatMode mode;
  ModelLoad load(options);
  COXSWAIN_RETURN_IF_ERROR(load.prepare());
  return load.load_all(
      {.source = load.can_arrive() ? options.source.get() : nullptr, .store = options.store.get()});
}

Result<Model::Outline> Model::outline(const LoadOptions& options) {
  const base::FloatMode mode;
  auto load = std::make_unique<ModelLoad>(options);
  COXSWAIN_RETURN_IF_ERROR(load->prepare());
  Outline out;
  if (load->can_arrive()) {
    COXSWAIN_ASSIGN_OR_RETURN(out.model, load->outline());
    out.weights = std::move(load);
  } else {
    COXSWAIN_ASSIGN_OR_RETURN(out.model, load->load_all({.store = options.store.get()}));
  }
  return out;
}

}  // namespace coxswain::model
