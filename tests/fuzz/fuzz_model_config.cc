// config.json of a stranger's model folder. What is accepted must be an architecture that the
// decoder can run without looking again: sizes, indices and shapes fit together.

#include <cmath>
#include <string>

#include "fuzz/fuzz_input.h"
#include "json/json.h"
#include "model/families/family.h"

namespace {

using coxswain::fuzz::require;
namespace model = coxswain::model;

void check_matrix(const model::MatrixMap& matrix) {
  for (const model::Rows& rows : matrix.rows) {
    require(!rows.tensor.empty() && !rows.shape.empty() && rows.count > 0 && rows.step > 0,
            "rows of a named tensor with a shape");
    for (const std::uint64_t extent : rows.shape) require(extent > 0, "no extent is zero");
  }
  require(matrix.empty() || matrix.k > 0, "a matrix has columns");
}

void check_attention(const model::AttentionSpec& attention) {
  require(attention.n_heads > 0 && attention.n_kv_heads > 0 && attention.head_dim > 0,
          "there are heads");
  require(attention.n_heads % attention.n_kv_heads == 0, "query heads share KV heads evenly");
  require(attention.n_heads <= model::kHeadsMax && attention.head_dim <= model::kHeadDimMax,
          "heads are within limits");
  require(attention.alibi_slopes.empty() || attention.alibi_slopes.size() == attention.n_heads,
          "one slope for each head");
}

void check_arch(const model::ArchSpec& arch) {
  require(arch.vocab_size > 0 && arch.vocab_size <= model::kVocabMax, "vocabulary within limits");
  require(arch.hidden_size > 0 && arch.hidden_size <= model::kHiddenMax, "width within limits");
  require(!arch.layers.empty() && arch.n_layers() <= model::kLayersMax, "layers within limits");
  check_attention(arch.attention);
  for (const model::RopeSpec& rope : arch.ropes) {
    require(rope.rotary_dim % 2 == 0 && rope.rotary_dim <= arch.attention.head_dim,
            "rotary dimensions fit a head");
    require(std::isfinite(rope.theta) && rope.theta > 0, "theta is a positive number");
    const std::size_t n_pairs = rope.rotary_dim / 2;
    require(rope.scaling != model::RopeScaling::kLongRope ||
                (rope.short_factor.size() == n_pairs && rope.long_factor.size() == n_pairs),
            "one factor for each pair");
  }
  for (const model::LayerSpec& layer : arch.layers) {
    require(layer.rope < static_cast<std::int32_t>(arch.ropes.size()), "a layer's rope exists");
    require(std::isfinite(layer.attention_scale), "a layer's scale is a number");
    require(!layer.moe || (arch.moe.n_experts > 0 && arch.moe.n_used > 0 &&
                           arch.moe.n_used <= arch.moe.n_experts),
            "a mixture uses no more experts than it has");
  }
}

void check_layer(const model::ArchSpec& arch,
                 const model::LayerSpec& spec,
                 const model::LayerMap& map) {
  check_matrix(map.qkv);
  check_matrix(map.out);
  check_matrix(map.mlp.up);
  check_matrix(map.mlp.down);
  check_matrix(map.router);
  require(map.qkv.n() == arch.attention.qkv_width(), "q, k and v have their rows");
  require(map.out.k == arch.attention.q_width() && map.out.n() == arch.hidden_size,
          "the output projection fits");
  require(!spec.moe || map.experts.size() == arch.moe.n_experts, "every expert has its tensors");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto config = coxswain::json::parse(text);
  if (!config.ok()) return 0;
  const auto read = model::read_architecture(*config);
  if (!read.ok()) {
    require(!read.status().message().empty(), "an error says why");
    return 0;
  }
  check_arch(read->arch);
  require(read->tensors.layers.size() == read->arch.layers.size(), "every layer has its tensors");
  for (std::size_t i = 0; i < read->arch.layers.size(); ++i)
    check_layer(read->arch, read->arch.layers[i], read->tensors.layers[i]);
  return 0;
}
