#include "model/model.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <xxhash.h>

#include "json/json.h"
#include "model/decoder.h"
#include "model/families/family.h"
#include "model/rope.h"
#include "model/weight_loader.h"
#include "weights/checkpoint.h"

namespace coxswain::model {
namespace {

using kernels::WeightType;
using tensor::DType;

constexpr std::size_t kConfigBytesMax = std::size_t{16} << 20;

WeightType weight_type(DType type) {
  switch (type) {
    case DType::kF32:
      return WeightType::kF32;
    case DType::kBf16:
      return WeightType::kBf16;
    case DType::kF16:
      return WeightType::kF16;
    case DType::kI8:
      return WeightType::kInt8;
  }
  return WeightType::kF32;
}

// eos_token_id is a number or a list. An id outside the vocabulary, as some published models have,
// can never be sampled: it is left out with a warning.
Status read_eos(const json::Value& config, const std::string& file, ModelInfo& info) {
  const json::Value* eos = config.find("eos_token_id");
  if (eos == nullptr || eos->is_null() || !info.eos_token_ids.empty()) return {};
  const json::Array list = eos->is_array() ? eos->as_array() : json::Array{*eos};
  for (const json::Value& entry : list) {
    if (!entry.is_number() || !entry.is_integer_text()) {
      return invalid_argument(file + ": eos_token_id must be a token id or a list of token ids",
                              "eos_token_id");
    }
    const auto id = entry.to_uint64();
    if (id && *id < info.vocab_size) {
      info.eos_token_ids.push_back(static_cast<TokenId>(*id));
    } else {
      info.warnings.push_back(file + ": eos_token_id " + entry.number_text().substr(0, 20) +
                              " is left out, for vocab_size is " + std::to_string(info.vocab_size));
    }
  }
  return {};
}

// Published models keep their end tokens in three places. A list in generation_config.json is all
// of them; elsewhere the tokenizer may name one that was added when the model was trained further.
Status read_end_tokens(const LoadOptions& options, const json::Value& config, ModelInfo& info) {
  const std::string generation_path = options.model_dir + "/generation_config.json";
  bool listed = false;
  if (std::error_code error; std::filesystem::exists(generation_path, error)) {
    COXSWAIN_ASSIGN_OR_RETURN(const json::Value generation,
                              json::parse_file(generation_path, kConfigBytesMax));
    COXSWAIN_RETURN_IF_ERROR(read_eos(generation, generation_path, info));
    const json::Value* eos = generation.find("eos_token_id");
    listed = eos != nullptr && eos->is_array() && !info.eos_token_ids.empty();
  }
  COXSWAIN_RETURN_IF_ERROR(read_eos(config, options.model_dir + "/config.json", info));
  std::vector<TokenId>& ids = info.eos_token_ids;
  if (const auto own = options.tokenizer_eos; own && !listed && *own >= 0) {
    const bool has_row = static_cast<std::uint32_t>(*own) < info.vocab_size;
    if (has_row && std::find(ids.begin(), ids.end(), *own) == ids.end()) ids.push_back(*own);
  }
  if (ids.empty()) {
    info.warnings.push_back(options.model_dir +
                            ": no end token is known: only a limit or a stop string ends a text");
  }
  return {};
}

// One KV group for each window, the one without a window first.
void fill_kv_groups(const ArchSpec& arch, ModelInfo& info) {
  std::vector<std::uint32_t> windows;
  for (const LayerSpec& layer : arch.layers) {
    if (std::find(windows.begin(), windows.end(), layer.window) == windows.end())
      windows.push_back(layer.window);
  }
  std::sort(windows.begin(), windows.end());
  info.kv_groups.resize(windows.size());
  for (std::size_t g = 0; g < windows.size(); ++g) {
    info.kv_groups[g].kind = windows[g] == 0 ? KvGroup::Kind::kFull : KvGroup::Kind::kWindow;
    info.kv_groups[g].window = windows[g];
  }
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const auto at = std::find(windows.begin(), windows.end(), arch.layers[i].window);
    const auto group = static_cast<std::uint32_t>(at - windows.begin());
    info.kv_groups[group].layers.push_back(i);
    info.kv_layers.push_back(
        {group, arch.attention.n_kv_heads, arch.attention.head_dim, arch.attention.head_dim});
  }
}

ModelInfo describe(const ArchSpec& arch) {
  ModelInfo info;
  info.model_type = arch.model_type;
  info.vocab_size = arch.vocab_size;
  info.hidden_size = arch.hidden_size;
  info.n_layers = arch.n_layers();
  info.max_position_embeddings = arch.max_positions;
  fill_kv_groups(arch, info);
  for (const RopeSpec& rope : arch.ropes) {
    const RopeSwitch at = rope_switch(rope);
    if (at.length == 0) continue;
    info.rope_switch_length = at.length;
    info.rope_length_is_exact = at.exact;
  }
  return info;
}

Result<MlpWeights> load_mlp(WeightLoader& loader, const MlpMap& map, WeightType type) {
  MlpWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(out.up, loader.linear(map.up, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.down, loader.linear(map.down, type));
  return out;
}

Result<LayerWeights> load_layer(WeightLoader& loader, const LayerMap& map, WeightType type) {
  LayerWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(out.attention_norm, loader.norm(map.attention_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.attention_norm_after, loader.norm(map.attention_norm_after));
  COXSWAIN_ASSIGN_OR_RETURN(out.mlp_norm, loader.norm(map.mlp_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.mlp_norm_after, loader.norm(map.mlp_norm_after));
  COXSWAIN_ASSIGN_OR_RETURN(out.qkv, loader.linear(map.qkv, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.out, loader.linear(map.out, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.q_norm, loader.norm(map.q_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.k_norm, loader.norm(map.k_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.sinks, loader.vector(map.sinks));
  COXSWAIN_ASSIGN_OR_RETURN(out.mlp, load_mlp(loader, map.mlp, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.router, loader.linear(map.router, WeightType::kF32));
  for (const MlpMap& expert : map.experts) {
    COXSWAIN_ASSIGN_OR_RETURN(MlpWeights weights, load_mlp(loader, expert, type));
    out.experts.push_back(std::move(weights));
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.shared_expert, load_mlp(loader, map.shared_expert, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.shared_gate, loader.linear(map.shared_gate, WeightType::kF32));
  return out;
}

// A file that holds a head of its own beside the embedding wins over a config that ties the two, as
// in the reference implementation: models trained further often keep the field of their parent.
Status split_untied_head(WeightLoader& loader, TensorMap& map) {
  if (!map.head.empty()) return {};
  COXSWAIN_ASSIGN_OR_RETURN(const bool differs,
                            loader.other_name_differs(map.embedding.rows.front()));
  if (!differs) return {};
  map.head = map.embedding;
  map.head.rows.front().tensor = map.embedding.rows.front().otherwise;
  map.embedding.rows.front().bias.clear();
  return {};
}

Result<DecoderWeights> load_weights(WeightLoader& loader,
                                    const TensorMap& map,
                                    DType dtype,
                                    WeightType type) {
  DecoderWeights out;
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored, loader.stored_type(map.embedding));
  // Widening rows that are only looked up would cost memory and change nothing.
  const DType row_type = tensor::size_of(dtype) < tensor::size_of(stored) ? dtype : stored;
  // A tied head holds the rows too; only int8 has lost bits that an embedding should keep.
  const bool shared = map.head.empty() && type != WeightType::kInt8;
  if (!shared) {
    COXSWAIN_ASSIGN_OR_RETURN(out.embedding, loader.rows(map.embedding, row_type));
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.positions, loader.rows(map.positions, row_type));
  COXSWAIN_ASSIGN_OR_RETURN(out.embedding_norm, loader.norm(map.embedding_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.project_in, loader.linear(map.project_in, type));
  for (const LayerMap& layer : map.layers) {
    COXSWAIN_ASSIGN_OR_RETURN(LayerWeights weights, load_layer(loader, layer, type));
    out.layers.push_back(std::move(weights));
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.final_norm, loader.norm(map.final_norm));
  COXSWAIN_ASSIGN_OR_RETURN(out.project_out, loader.linear(map.project_out, type));
  COXSWAIN_ASSIGN_OR_RETURN(out.head,
                            loader.linear(map.head.empty() ? map.embedding : map.head, type));
  return out;
}

// A tensor that nothing reads may mean that config.json leaves a field out.
void warn_of_unread(const WeightLoader& loader, const std::string& model_dir, ModelInfo& info) {
  constexpr std::size_t kNamed = 3;
  const std::vector<std::string> names = loader.unread();
  if (names.empty()) return;
  std::string text = model_dir + ": " + std::to_string(names.size()) +
                     (names.size() == 1 ? " tensor is" : " tensors are") +
                     " not used by this architecture: ";
  for (std::size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  info.warnings.push_back(text + (names.size() > kNamed ? ", ..." : ""));
}

}  // namespace

Result<std::uint64_t> stored_weight_bytes(const std::string& model_dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint,
                            weights::Checkpoint::open(model_dir));
  return checkpoint.n_bytes();
}

Result<std::unique_ptr<Model>> Model::load(const LoadOptions& options) {
  if (options.kernels == nullptr) return internal_error("Model::load needs a kernel table");
  if (options.dtype == DType::kI8)
    return invalid_argument("dtype int8 is asked for with quantize_int8");
  const std::string config_path = options.model_dir + "/config.json";
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value config,
                            json::parse_file(config_path, kConfigBytesMax));
  auto read = read_architecture(config);
  if (!read.ok()) return read.status().with_context(options.model_dir);
  Architecture architecture = std::move(read).value();
  if (options.n_token_ids > architecture.arch.vocab_size) {
    return invalid_argument(
        config_path + ": vocab_size is " + std::to_string(architecture.arch.vocab_size) +
        ", but the tokenizer has ids up to " + std::to_string(options.n_token_ids - 1));
  }
  COXSWAIN_ASSIGN_OR_RETURN(const weights::Checkpoint checkpoint,
                            weights::Checkpoint::open(options.model_dir));

  TensorMap& tensors = architecture.tensors;
  WeightLoader loader(checkpoint, tensors.prefixes, *options.kernels, options.progress);
  COXSWAIN_RETURN_IF_ERROR(split_untied_head(loader, tensors));
  COXSWAIN_ASSIGN_OR_RETURN(const DType stored, loader.stored_type(tensors.layers.front().out));
  const DType dtype = options.dtype.value_or(stored);
  const WeightType type = options.quantize_int8 ? WeightType::kInt8 : weight_type(dtype);
  COXSWAIN_ASSIGN_OR_RETURN(DecoderWeights weights, load_weights(loader, tensors, dtype, type));

  ModelInfo info = describe(architecture.arch);
  COXSWAIN_RETURN_IF_ERROR(read_end_tokens(options, config, info));
  warn_of_unread(loader, options.model_dir, info);
  info.dtype = options.quantize_int8 ? "int8" : std::string(tensor::name_of(dtype));
  info.weight_bytes = loader.bytes();
  const std::string identity = json::write(config) + info.dtype;
  info.fingerprint = XXH3_64bits_withSeed(identity.data(), identity.size(), loader.fingerprint());
  return std::unique_ptr<Model>(std::make_unique<Decoder>(
      std::move(architecture.arch), std::move(weights), std::move(info), *options.kernels));
}

}  // namespace coxswain::model
