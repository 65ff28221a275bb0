// config.json of a stranger's model folder. What is accepted must be an architecture that the
// decoder can run without looking again: sizes, indices and shapes fit together.

#include <cmath>
#include <string>
#include <variant>

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

void check_ropes(const model::ArchSpec& arch) {
  for (const model::RopeSpec& rope : arch.ropes) {
    require(rope.rotary_dim % 2 == 0, "rotary dimensions come in pairs");
    require(std::isfinite(rope.theta) && rope.theta > 0, "theta is a positive number");
    const std::size_t n_pairs = rope.rotary_dim / 2;
    require(rope.scaling != model::RopeScaling::kLongRope ||
                (rope.short_factor.size() == n_pairs && rope.long_factor.size() == n_pairs),
            "one factor for each pair");
  }
}

void check_block(const model::ArchSpec& arch,
                 const model::AttentionSpec& spec,
                 const model::AttentionMap& map) {
  check_attention(spec);
  require(spec.rope < static_cast<std::int32_t>(arch.ropes.size()), "a layer's rope exists");
  require(
      spec.rope < 0 || arch.ropes[static_cast<std::size_t>(spec.rope)].rotary_dim <= spec.head_dim,
      "rotary dimensions fit a head");
  require(std::isfinite(spec.scale), "a layer's scale is a number");
  check_matrix(map.qkv);
  check_matrix(map.out);
  require(map.qkv.n() == spec.qkv_width(), "q, k and v have their rows");
  require(map.out.k == spec.q_width() && map.out.n() == arch.hidden_size,
          "the output projection fits");
}

void check_block(const model::ArchSpec& arch,
                 const model::MlpSpec& spec,
                 const model::MlpMap& map) {
  check_matrix(map.up);
  check_matrix(map.down);
  require(map.up.n() == spec.inner_width(), "gate and up have their rows");
  require(map.down.k == spec.intermediate && map.down.n() == arch.hidden_size,
          "the second projection fits");
}

void check_block(const model::ArchSpec& arch,
                 const model::ExpertsSpec& spec,
                 const model::ExpertsMap& map) {
  require(spec.n_experts > 0 && spec.n_used > 0 && spec.n_used <= spec.n_experts,
          "a mixture uses no more experts than it has");
  check_matrix(map.router);
  require(map.experts.size() == spec.n_experts, "every expert has its tensors");
  for (const model::MlpMap& expert : map.experts) check_block(arch, spec.expert, expert);
  if (spec.shared) check_block(arch, *spec.shared, map.shared);
}

// A block and its tensors are of one kind and fit.
template <typename AnySpec, typename AnyMap>
void check_blocks(const model::ArchSpec& arch, const AnySpec& any_spec, const AnyMap& any_map) {
  require(any_spec.index() == any_map.index(), "a block's tensors are of its kind");
  std::visit(
      [&](const auto& spec) {
        check_block(arch, spec, std::get<typename model::BlockOf<decltype(spec)>::Map>(any_map));
      },
      any_spec);
}

void check_arch(const model::ArchSpec& arch) {
  require(arch.vocab_size > 0 && arch.vocab_size <= model::kVocabMax, "vocabulary within limits");
  require(arch.hidden_size > 0 && arch.hidden_size <= model::kHiddenMax, "width within limits");
  require(!arch.layers.empty() && arch.n_layers() <= model::kLayersMax, "layers within limits");
  check_ropes(arch);
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
  for (std::size_t i = 0; i < read->arch.layers.size(); ++i) {
    const model::LayerSpec& spec = read->arch.layers[i];
    const model::LayerMap& map = read->tensors.layers[i];
    check_blocks(read->arch, spec.mixer, map.mixer);
    check_blocks(read->arch, spec.feed_forward, map.feed_forward);
  }
  return 0;
}
