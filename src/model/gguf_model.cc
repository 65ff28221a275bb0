#include "model/gguf_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "weights/gguf_file.h"

namespace coxswain::model {

using weights::GgufName;
using Names = std::pair<std::string_view, std::string_view>;

// One architecture of the files, and the family that computes it.
struct GgufArchitecture {
  std::string_view name;        // general.architecture
  std::string_view model_type;  // of the family
  // Names of a layer's parts that are others than kLayerNames has, or are not there.
  std::span<const Names> layer_names = {};
  // Rows of q and k stand as interleaved pairs, where the checkpoint has them in halves.
  bool interleaves = false;
  bool adds_norm_offset = false;  // norms that the family stores as weight - 1 are whole here
};

namespace {

constexpr std::array<Names, 3> kOuterNames{{
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
}};

constexpr std::array<Names, 12> kLayerNames{{
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

constexpr std::array<Names, 4> kMixtralNames{{
    {"ffn_gate_inp", "block_sparse_moe.gate"},
    {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
}};
constexpr std::array<Names, 8> kQwenMoeNames{{
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {"ffn_up_exps", "mlp.experts.{}.up_proj"},
    {"ffn_down_exps", "mlp.experts.{}.down_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
}};
constexpr std::array<Names, 3> kGemmaNames{{
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<Names, 2> kNormsAfterNames{{
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
}};
constexpr std::array<Names, 1> kPhi3Names{{{"ffn_up", "mlp.gate_up_proj"}}};

constexpr std::array<GgufArchitecture, 12> kArchitectures{{
    {.name = "llama", .model_type = "llama", .layer_names = kMixtralNames, .interleaves = true},
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

// Tensors whose values go into the config.
constexpr std::string_view kRopeFactors = "rope_freqs.weight";
constexpr std::string_view kLongFactors = "rope_factors_long.weight";
constexpr std::string_view kShortFactors = "rope_factors_short.weight";

std::string_view renamed(std::span<const Names> names, std::string_view part) {
  const auto found = std::ranges::find(names, part, &Names::first);
  return found == names.end() ? std::string_view() : found->second;
}

GgufName name_in_checkpoint(const GgufArchitecture& architecture, std::string_view name) {
  if (name == kRopeFactors || name == kLongFactors || name == kShortFactors)
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
          .per_expert = found.find("{}") != std::string_view::npos,
          .is_row = part == "ffn_gate_inp_shexp"};
}

// Makes the config of one header; the first failure stands.
class ConfigMaker {
 public:
  ConfigMaker(const std::string& path,
              const gguf::Header& header,
              const GgufArchitecture& architecture,
              std::function<const gguf::TensorInfo*(std::string_view)> find_tensor,
              std::function<Result<std::vector<float>>(std::string_view)> floats)
      : path_(path),
        header_(header),
        architecture_(architecture),
        find_tensor_(std::move(find_tensor)),
        floats_(std::move(floats)) {}

  Result<json::Value> make();

 private:
  std::string key(std::string_view name) const {
    return std::string(architecture_.name) + "." + std::string(name);
  }
  std::optional<double> number(std::string_view name) const { return header_.number(key(name)); }
  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  void set(const char* field, json::Value value) { config_.set(field, std::move(value)); }
  // A header may hold what JSON cannot: infinities, also as the quotient of two of its numbers.
  json::Value real(const char* field, double value) {
    if (std::isfinite(value)) return json::Value::real(value);
    fail({Code::kInvalidArgument,
          ErrorKind::kValidation,
          path_ + ": the header makes `" + field + "` " + std::to_string(value) +
              ", which must be finite",
          field});
    return json::Value::integer(0);
  }
  // Whole numbers stay whole: the families tell the two apart.
  void set_number(const char* field, double value) {
    const bool whole = value == std::floor(value) && std::abs(value) < 0x1p53;
    set(field, whole ? json::Value::integer(static_cast<std::int64_t>(value)) : real(field, value));
  }
  double required(std::string_view name) {
    const std::string whole = key(name);
    const auto value = header_.number(whole);
    if (!value || !std::isfinite(*value)) {
      const bool is_list = header_.find(whole) != nullptr && header_.find(whole)->is_array;
      fail({is_list ? Code::kUnimplemented : Code::kInvalidArgument,
            ErrorKind::kValidation,
            path_ + ": key " + whole +
                (is_list ? " (a value for each layer) is not supported"
                         : " is missing or no number"),
            whole});
      return 0;
    }
    return *value;
  }
  void take(const char* field, std::string_view name) { set_number(field, required(name)); }
  void take_if_there(const char* field, std::string_view name) {
    if (const auto value = number(name); value && std::isfinite(*value)) set_number(field, *value);
  }

  void shape();
  void end_tokens();
  void experts();
  void windows();
  void rope();
  void multipliers();
  json::Value factors(std::string_view tensor);

  const std::string& path_;
  const gguf::Header& header_;
  const GgufArchitecture& architecture_;
  const std::function<const gguf::TensorInfo*(std::string_view)> find_tensor_;
  const std::function<Result<std::vector<float>>(std::string_view)> floats_;
  json::Object config_;
  Status status_;
};

Result<json::Value> ConfigMaker::make() {
  const bool has_experts = number("expert_count").value_or(0) > 0;
  const bool is_mixtral = architecture_.name == "llama" && has_experts;
  set("model_type", is_mixtral ? std::string_view("mixtral") : architecture_.model_type);
  shape();
  end_tokens();
  if (has_experts) experts();
  windows();
  rope();
  multipliers();
  if (!status_.ok()) return status_;
  return json::Value(std::move(config_));
}

void ConfigMaker::shape() {
  const gguf::TensorInfo* const embedding = find_tensor_("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    fail(invalid_argument(path_ + ": tensor \"token_embd.weight\" is missing or no matrix"));
    return;
  }
  set_number("vocab_size", static_cast<double>(embedding->shape.front()));
  take("hidden_size", "embedding_length");
  take("intermediate_size", "feed_forward_length");
  take("num_hidden_layers", "block_count");
  take("num_attention_heads", "attention.head_count");
  const double n_heads = required("attention.head_count");
  if (header_.find(key("attention.head_count_kv")) != nullptr) {
    take("num_key_value_heads", "attention.head_count_kv");
  } else {
    set_number("num_key_value_heads", n_heads);
  }
  const double width = required("embedding_length");
  if (status_.ok() && n_heads >= 1)
    set_number("head_dim", number("attention.key_length").value_or(std::floor(width / n_heads)));
  take("max_position_embeddings", "context_length");
  take("rms_norm_eps", "attention.layer_norm_rms_epsilon");
  set("tie_word_embeddings", find_tensor_("output.weight") == nullptr);
  set("attention_bias", find_tensor_("blk.0.attn_q.bias") != nullptr);
  const double rotary = number("rope.dimension_count").value_or(0);
  const double head_dim = number("attention.key_length").value_or(width / std::max(n_heads, 1.0));
  if (rotary > 0 && rotary != head_dim) set_number("partial_rotary_factor", rotary / head_dim);
}

void ConfigMaker::end_tokens() {
  json::Array ids;
  for (const char* const name : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
    const auto id = header_.number(std::string("tokenizer.ggml.") + name);
    if (id && *id >= 0 && *id < 0x1p53)
      ids.push_back(json::Value::integer(static_cast<std::int64_t>(*id)));
  }
  if (!ids.empty()) set("eos_token_id", std::move(ids));
}

void ConfigMaker::experts() {
  take("num_local_experts", "expert_count");
  take("num_experts_per_tok", "expert_used_count");
  take_if_there("moe_intermediate_size", "expert_feed_forward_length");
  take_if_there("shared_expert_intermediate_size", "expert_shared_feed_forward_length");
  if (architecture_.name == "qwen3moe") set("norm_topk_prob", true);
}

void ConfigMaker::windows() {
  const double window = number("attention.sliding_window").value_or(0);
  if (window <= 0) {
    set("sliding_window", nullptr);
    return;
  }
  set_number("sliding_window", window);
  const auto pattern = number("attention.sliding_window_pattern");
  if (pattern) set_number("sliding_window_pattern", *pattern);
}

json::Value ConfigMaker::factors(std::string_view tensor) {
  json::Array out;
  auto values = floats_(tensor);
  if (!values.ok()) {
    fail(values.status());
    return out;
  }
  for (const float value : *values) {
    if (!std::isfinite(value)) {
      fail(invalid_argument(path_ + ": tensor \"" + std::string(tensor) +
                            "\" has a value that is no number"));
      return out;
    }
    out.push_back(real("rope_scaling", static_cast<double>(value)));
  }
  return out;
}

void ConfigMaker::rope() {
  set_number("rope_theta", number("rope.freq_base").value_or(1e4));
  if (const auto local = number("rope.freq_base_swa")) set_number("rope_local_base_freq", *local);
  const double trained =
      number("rope.scaling.original_context_length").value_or(number("context_length").value_or(0));
  const std::string_view type = header_.text(key("rope.scaling.type"));
  const auto factor = number("rope.scaling.factor");
  json::Object scaling;
  if (find_tensor_(kRopeFactors) != nullptr) {
    // The frequencies of llama3's scaling, computed by the converter: what longrope divides by.
    const json::Value values = factors(kRopeFactors);
    scaling.set("rope_type", "longrope");
    scaling.set("short_factor", values);
    scaling.set("long_factor", values);
    scaling.set("attention_factor", real("attention_factor", 1.0));
    scaling.set("original_max_position_embeddings",
                real("original_max_position_embeddings", trained));
  } else if (find_tensor_(kLongFactors) != nullptr && find_tensor_(kShortFactors) != nullptr) {
    scaling.set("rope_type", "longrope");
    scaling.set("short_factor", factors(kShortFactors));
    scaling.set("long_factor", factors(kLongFactors));
    const double attention = number("rope.scaling.attn_factor").value_or(0);
    if (attention > 0) scaling.set("attention_factor", real("attention_factor", attention));
    set_number("original_max_position_embeddings", trained);
  } else if (type == "linear" || (type.empty() && factor.value_or(0) > 1)) {
    scaling.set("rope_type", "linear");
    scaling.set("factor", real("factor", factor.value_or(1)));
  } else if (type == "yarn") {
    scaling.set("rope_type", "yarn");
    scaling.set("factor", real("factor", factor.value_or(1)));
    scaling.set("original_max_position_embeddings",
                real("original_max_position_embeddings", trained));
    const double beta_fast = number("rope.scaling.yarn_beta_fast").value_or(32);
    const double beta_slow = number("rope.scaling.yarn_beta_slow").value_or(1);
    scaling.set("beta_fast", real("beta_fast", beta_fast));
    scaling.set("beta_slow", real("beta_slow", beta_slow));
  } else if (!type.empty() && type != "none") {
    fail({Code::kUnimplemented,
          ErrorKind::kValidation,
          path_ + ": key " + key("rope.scaling.type") + " is \"" + std::string(type) +
              "\", supported are none, linear and yarn",
          key("rope.scaling.type")});
  }
  if (!scaling.empty()) set("rope_scaling", json::Value(std::move(scaling)));
}

void ConfigMaker::multipliers() {
  const std::string_view name = architecture_.name;
  if (name.starts_with("gemma") && name != "gemma") {
    take_if_there("attn_logit_softcapping", "attn_logit_softcapping");
    take_if_there("final_logit_softcapping", "final_logit_softcapping");
    // No key tells it. Only the largest models scale by the width of a head as the model's width gives it.
    constexpr double kLayersOfGemma2Large = 46;
    constexpr double kLayersOfGemma3Large = 62;
    const double n_layers = required("block_count");
    const bool large = n_layers == (name == "gemma2" ? kLayersOfGemma2Large : kLayersOfGemma3Large);
    const double width = required("embedding_length");
    const double n_heads = std::max(required("attention.head_count"), 1.0);
    set_number("query_pre_attn_scalar",
               large ? width / n_heads : number("attention.key_length").value_or(width / n_heads));
  }
  if (name == "granite") {
    take_if_there("attention_multiplier", "attention.scale");
    take_if_there("embedding_multiplier", "embedding_scale");
    take_if_there("residual_multiplier", "residual_scale");
    take_if_there("logits_scaling", "logit_scale");
  }
}

// "name-00002-of-00005.gguf": the files of a split model, in order. One file is its own only part.
Result<std::vector<std::string>> parts_of(const std::string& path, const gguf::Header& header) {
  const double count = header.number("split.count").value_or(1);
  if (count <= 1) return std::vector<std::string>{path};
  constexpr std::size_t kEndingLength = std::string_view("-00001-of-00005.gguf").size();
  constexpr double kPartsMax = 99'999;
  if (count > kPartsMax || path.size() <= kEndingLength)
    return Status(Code::kDataLoss, path + ": split.count and the name of the file do not fit");
  std::vector<std::string> out;
  for (int i = 1; i <= static_cast<int>(count); ++i) {
    std::array<char, 32> ending{};
    std::snprintf(ending.data(), ending.size(), "-%05d-of-%05d.gguf", i, static_cast<int>(count));
    out.push_back(path.substr(0, path.size() - kEndingLength) + ending.data());
  }
  if (std::ranges::find(out, path) == out.end())
    return Status(Code::kDataLoss, path + ": split.count and the name of the file do not fit");
  return out;
}

}  // namespace

Result<GgufModel> GgufModel::open(const std::string& path) {
  GgufModel out;
  COXSWAIN_RETURN_IF_ERROR(out.read_parts(path));
  const std::string_view name = out.parts_.front().header.text("general.architecture");
  const auto* const found = std::ranges::find(kArchitectures, name, &GgufArchitecture::name);
  if (found == kArchitectures.end()) {
    std::string known;
    for (const GgufArchitecture& a : kArchitectures)
      known += (known.empty() ? "" : ", ") + std::string(a.name);
    return Status(
        Code::kUnimplemented,
        ErrorKind::kValidation,
        path + ": general.architecture is \"" + std::string(name) + "\", supported are " + known,
        "general.architecture");
  }
  out.architecture_ = found;
  COXSWAIN_RETURN_IF_ERROR(out.make_config());
  return out;
}

Status GgufModel::read_parts(const std::string& path) {
  const auto add = [&](const std::string& file) -> Status {
    auto header = gguf::Header::read(file);
    if (!header.ok()) return header.status().with_context(file);
    parts_.push_back({file, std::move(header).value()});
    return {};
  };
  COXSWAIN_RETURN_IF_ERROR(add(path));
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                            parts_of(path, parts_.front().header));
  if (paths.size() == 1) return {};
  parts_.clear();
  for (const std::string& part : paths) COXSWAIN_RETURN_IF_ERROR(add(part));
  return {};
}

Status GgufModel::make_config() {
  const auto find = [&](std::string_view name) -> std::pair<const Part*, const gguf::TensorInfo*> {
    for (const Part& part : parts_) {
      const auto tensors = part.header.tensors();
      const auto found = std::ranges::find(tensors, name, &gguf::TensorInfo::name);
      if (found != tensors.end()) return {&part, &*found};
    }
    return {};
  };
  const auto floats = [&](std::string_view name) -> Result<std::vector<float>> {
    const auto [part, tensor] = find(name);
    constexpr std::uint64_t kFactorsMax = 1 << 16;
    if (tensor->type->name != "F32" || tensor->n_bytes > kFactorsMax * sizeof(float))
      return Status(Code::kDataLoss,
                    part->path + ": tensor \"" + std::string(name) + "\" has type " +
                        std::string(tensor->type->name) + " and shape " +
                        weights::shape_text(tensor->shape) + ", not some factors in F32");
    COXSWAIN_ASSIGN_OR_RETURN(const weights::TensorFile file,
                              weights::TensorFile::open(part->path));
    std::vector<float> out(tensor->n_bytes / sizeof(float));
    if (!file.read_at(tensor->begin, std::as_writable_bytes(std::span(out))))
      return Status(Code::kDataLoss, part->path + ": cannot be read");
    return out;
  };
  ConfigMaker maker(
      parts_.front().path,
      parts_.front().header,
      *architecture_,
      [&](std::string_view name) { return find(name).second; },
      floats);
  COXSWAIN_ASSIGN_OR_RETURN(config_, maker.make());
  return {};
}

Result<weights::Checkpoint> GgufModel::open_weights() const {
  std::vector<weights::TensorFile> files;
  for (const Part& part : parts_) {
    COXSWAIN_ASSIGN_OR_RETURN(
        weights::TensorFile file,
        weights::open_gguf(part.path, part.header, [&](std::string_view name) {
          return name_in_checkpoint(*architecture_, name);
        }));
    files.push_back(std::move(file));
  }
  return weights::Checkpoint::of(std::move(files));
}

void GgufModel::adjust(Architecture& architecture) const {
  if (architecture_->interleaves) {
    for (RopeSpec& rope : architecture.arch.ropes) rope.style = kernels::RopeStyle::kInterleaved;
  }
  if (!architecture_->adds_norm_offset) return;
  architecture.arch.norm.weight_offset = 0.0F;
  for (LayerSpec& layer : architecture.arch.layers)
    layer.attention().qk_norm_spec.weight_offset = 0.0F;
}

}  // namespace coxswain::model
