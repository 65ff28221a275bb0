#include "model/describe.h"

#include <algorithm>
#include <cstdint>
#include <variant>
#include <vector>

#include "model/rope.h"

namespace coxswain::model {
namespace {

KvShape kv_shape(const LayerSpec& layer) {
  return std::visit([](const auto& spec) { return BlockOf<decltype(spec)>::kv_shape(spec); },
                    layer.mixer);
}

// One KV group for each shape that a mixer keeps, in order: those that see everything first, then by window.
void fill_kv_groups(const ArchSpec& arch, ModelInfo& info) {
  std::vector<KvShape> shapes;
  shapes.reserve(arch.layers.size());
  for (const LayerSpec& layer : arch.layers) shapes.push_back(kv_shape(layer));
  std::sort(shapes.begin(), shapes.end());
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  info.kv_groups.resize(shapes.size());
  for (std::size_t g = 0; g < shapes.size(); ++g) {
    info.kv_groups[g].kind = shapes[g].kind;
    info.kv_groups[g].window = shapes[g].window;
    info.kv_groups[g].sink_tokens = shapes[g].sink_tokens;
  }
  for (std::uint32_t i = 0; i < arch.n_layers(); ++i) {
    const KvShape shape = kv_shape(arch.layers[i]);
    const auto at = std::lower_bound(shapes.begin(), shapes.end(), shape);
    const auto group = static_cast<std::uint32_t>(at - shapes.begin());
    info.kv_groups[group].layers.push_back(i);
    info.kv_layers.push_back({group, shape.n_kv_heads, shape.k_head_dim, shape.v_head_dim});
  }
}

}  // namespace

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

}  // namespace coxswain::model
