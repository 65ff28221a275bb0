#include "model/gguf_names.h"

#include <algorithm>
#include <charconv>

#include "model/config_reader.h"

namespace coxswain::model {
namespace {

constexpr std::array<GgufNamePair, 3> kOuterNames{{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<GgufNamePair, 12> kLayerNames{{
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
}};

constexpr std::array<GgufNamePair, 4> kMixtralNames{{
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
}};
constexpr std::array<GgufNamePair, 8> kQwenMoeNames{{
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {"ffn_up_exps", "mlp.experts.{}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{}.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
}};
constexpr std::array<GgufNamePair, 3> kGemmaNames{{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<GgufNamePair, 2> kNormsAfterNames{{
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<GgufNamePair, 1> kPhi3Names{{{"ffn_up", "mlp.gate_up_proj"}}};

constexpr std::array<GgufArchitecture, 12> kArchitectures{{
    {.name = "llama",
     .model_type = "llama",
     .also_written = {"mistral", "mixtral"},
     .layer_names = kMixtralNames,
     .interleaves = true},
    {.name = "granite", .model_type = "granite", .interleaves = true},
    {.name = "smollm3", .model_type = "smollm3", .interleaves = true},
    {.name = "qwen2", .model_type = "qwen2"},
    {.name = "qwen2moe", .model_type = "qwen2_moe", .layer_names = kQwenMoeNames},
    {.name = "qwen3", .model_type = "qwen3"},
    {.name = "qwen3moe", .model_type = "qwen3_moe", .layer_names = kQwenMoeNames},
    {.name = "gemma", .model_type = "gemma", .adds_norm_offset = true},
    {.name = "gemma2",
     .model_type = "gemma2",
     .layer_names = kGemmaNames,
     .adds_norm_offset = true},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .layer_names = kGemmaNames,
     .adds_norm_offset = true},
    {.name = "olmo2", .model_type = "olmo2", .layer_names = kNormsAfterNames},
    {.name = "phi3", .model_type = "phi3", .layer_names = kPhi3Names},
}};

std::string_view renamed(std::span<const GgufNamePair> names, std::string_view part) {
  const auto found = std::ranges::find(names, part, &GgufNamePair::first);
  return found == names.end() ? std::string_view() : found->second;
}

// The name of a layer's part in the file, and which expert `part` is of.
struct FoundPart {
  std::string_view name;  // empty: there is none
  std::optional<std::uint64_t> expert = {};
};

FoundPart find_part(const GgufNamePair& names, std::string_view part) {
  const std::size_t hole = names.second.find("{}");
  if (hole == std::string_view::npos)
    return names.second == part ? FoundPart{names.first} : FoundPart{};
  const std::string_view after = names.second.substr(hole + 2);
  if (!part.starts_with(names.second.substr(0, hole)) || !part.ends_with(after)) return {};
  std::uint64_t expert = 0;
  const char* const end = part.data() + part.size() - after.size();
  const auto read = std::from_chars(part.data() + hole, end, expert);
  return read.ec == std::errc() && read.ptr == end ? FoundPart{names.first, expert} : FoundPart{};
}

FoundPart find_part(const GgufArchitecture& architecture, std::string_view part) {
  for (const GgufNamePair& names : architecture.layer_names) {
    if (const FoundPart found = find_part(names, part); !found.name.empty()) return found;
  }
  for (const GgufNamePair& names : kLayerNames) {
    if (!renamed(architecture.layer_names, names.first).empty()) continue;
    if (const FoundPart found = find_part(names, part); !found.name.empty()) return found;
  }
  return {};
}

}  // namespace

std::span<const GgufArchitecture> gguf_architectures() {
  return kArchitectures;
}

const GgufArchitecture* gguf_architecture_of(std::string_view model_type) {
  const auto* const found = std::ranges::find_if(kArchitectures, [&](const GgufArchitecture& a) {
    return a.model_type == model_type ||
           std::ranges::find(a.also_written, model_type) != a.also_written.end();
  });
  return found == kArchitectures.end() ? nullptr : found;
}

weights::GgufName name_in_checkpoint(const GgufArchitecture& architecture, std::string_view name) {
  if (name == kGgufRopeFactors || name == kGgufLongFactors || name == kGgufShortFactors)
    return {.is_ignored = true};
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view ending = name.substr(dot);  // ".weight", ".bias"
  const std::string_view outer = renamed(kOuterNames, name.substr(0, dot));
  if (!outer.empty()) return {.name = std::string(outer) + std::string(ending)};
  if (!name.starts_with("blk.")) return {};
  const std::size_t end = name.find('.', 4);
  if (end >= dot) return {};
  const std::string_view part = name.substr(end + 1, dot - end - 1);
  std::string_view found = renamed(architecture.layer_names, part);
  if (found.empty()) found = renamed(kLayerNames, part);
  if (found.empty()) return {};
  return {.name = "model.layers." + std::string(name.substr(4, end - 4)) + "." +
                  std::string(found) + std::string(ending),
          .experts_max = found.find("{}") == std::string_view::npos ? 0 : kExpertsMax,
          .is_row = part == "ffn_gate_inp_shexp"};
}

GgufPlace place_in_gguf(const GgufArchitecture& architecture, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string ending(name.substr(dot));
  for (const GgufNamePair& names : kOuterNames) {
    if (names.second == name.substr(0, dot)) return {.name = std::string(names.first) + ending};
  }
  constexpr std::string_view kLayers = "model.layers.";
  if (!name.starts_with(kLayers)) return {};
  const std::size_t end = name.find('.', kLayers.size());
  if (end >= dot) return {};
  const FoundPart part = find_part(architecture, name.substr(end + 1, dot - end - 1));
  if (part.name.empty()) return {};
  return {.name = "blk." + std::string(name.substr(kLayers.size(), end - kLayers.size())) + "." +
                  std::string(part.name) + ending,
          .part = part.name,
          .expert = part.expert};
}

}  // namespace coxswain::model
