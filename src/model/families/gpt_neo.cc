// gpt_neo: learned positions, q.k without scaling, a window on the layers called local.

#include <algorithm>

#include "model/families/common.h"

namespace coxswain::model {
namespace {

// Appends the kinds of one entry [[kinds...], repetitions]; false if it is no such entry or more
// than the model's layers.
bool append_kinds(const json::Value& entry, std::size_t n_layers, std::vector<std::string>& kinds) {
  if (!entry.is_array() || entry.as_array().size() != 2 || !entry.as_array()[0].is_array())
    return false;
  const json::Array& names = entry.as_array()[0].as_array();
  const auto times = entry.as_array()[1].to_uint64();
  if (!times || *times > n_layers || names.size() * *times > n_layers - kinds.size()) return false;
  if (!std::ranges::all_of(names, &json::Value::is_string)) return false;
  for (std::uint64_t n = names.size() * *times, i = 0; i < n; ++i)
    kinds.push_back(names[i % names.size()].as_string());
  return true;
}

// attention_layers, or attention_types = [[[kinds...], repetitions], ...].
std::vector<std::string> read_kinds(ConfigReader& config, std::size_t n_layers) {
  std::vector<std::string> kinds = config.texts_or_empty("attention_layers", kLayersMax);
  const json::Value* types = kinds.empty() ? config.get("attention_types") : nullptr;
  if (types != nullptr && types->is_array()) {
    for (const json::Value& entry : types->as_array()) {
      if (append_kinds(entry, n_layers, kinds)) continue;
      kinds.clear();
      break;
    }
  }
  if (kinds.size() != n_layers)
    config.fail("attention_layers", "must name the kind of every layer");
  kinds.resize(n_layers);
  return kinds;
}

}  // namespace

Architecture read_gpt_neo(ConfigReader& config) {
  Architecture out;
  Shape shape;
  shape.vocab = config.count("vocab_size", 1, kVocabMax);
  shape.hidden = config.count("hidden_size", 1, kHiddenMax);
  shape.n_layers = config.count_of({"num_layers", "num_hidden_layers"}, 1, kLayersMax);
  shape.n_heads = config.count_of({"num_heads", "num_attention_heads"}, 1, kHeadsMax);
  shape.n_kv_heads = shape.n_heads;
  shape.head_dim = divided(config, shape.hidden, shape.n_heads, "num_heads");
  shape.intermediate = config.count_or("intermediate_size", 1, kIntermediateMax, 4 * shape.hidden);
  shape.max_positions = config.count("max_position_embeddings", 1, kPositionsMax);
  out.arch = make_arch(shape);
  ArchSpec& arch = out.arch;
  arch.norm = read_layer_norm(config, "layer_norm_epsilon");
  set_mlp(arch, GateKind::kNone, read_activation(config, "activation_function", "gelu_new"));
  arch.head.tied = config.flag_or("tie_word_embeddings", true);
  arch.embedding.n_positions = shape.max_positions;
  const std::uint32_t window = config.count_or("window_size", 1, kPositionsMax, 256);
  const std::vector<std::string> kinds = read_kinds(config, arch.layers.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    arch.layers[i].attention().scale = 1.0F;
    if (kinds[i] == "local") arch.layers[i].attention().window = window;
  }

  const std::uint64_t hidden = shape.hidden;
  out.tensors = transformer_outer(arch, "wte", norm("ln_f", hidden, Bias::kYes));
  TensorMap& map = out.tensors;
  map.embedding.positions = matrix(hidden, {whole("wpe", shape.max_positions, hidden)});
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const std::string prefix = layer_prefix("h.", i);
    const std::string attention = prefix + "attn.attention.";
    LayerMap layer;
    layer.mixer_norm = norm(prefix + "ln_1", hidden, Bias::kYes);
    layer.feed_forward_norm = norm(prefix + "ln_2", hidden, Bias::kYes);
    layer.attention().qkv = matrix(hidden,
                                   {whole(attention + "q_proj", hidden, hidden),
                                    whole(attention + "k_proj", hidden, hidden),
                                    whole(attention + "v_proj", hidden, hidden)});
    layer.attention().out =
        matrix(hidden, {whole(attention + "out_proj", hidden, hidden, Bias::kYes)});
    layer.mlp() =
        plain_mlp(arch, prefix + "mlp.c_fc", prefix + "mlp.c_proj", shape.intermediate, Bias::kYes);
    map.layers.push_back(std::move(layer));
  }
  return out;
}

}  // namespace coxswain::model
