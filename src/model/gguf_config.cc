#include "model/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace coxswain::model {
namespace {

// Makes the config of one header; the first failure stands.
class ConfigMaker {
 public:
  ConfigMaker(const std::string& path,
              const gguf::Header& header,
              const GgufArchitecture& architecture,
              const GgufTensors& tensors)
      : path_(path), header_(header), architecture_(architecture), tensors_(tensors) {}

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
  const GgufTensors& tensors_;
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
  const gguf::TensorInfo* const embedding = tensors_.find("token_embd.weight");
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
  set("tie_word_embeddings", tensors_.find("output.weight") == nullptr);
  set("attention_bias", tensors_.find("blk.0.attn_q.bias") != nullptr);
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
  auto values = tensors_.floats(tensor);
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
  if (tensors_.find(kGgufRopeFactors) != nullptr) {
    // The frequencies of llama3's scaling, computed by the converter: what longrope divides by.
    const json::Value values = factors(kGgufRopeFactors);
    scaling.set("rope_type", "longrope");
    scaling.set("short_factor", values);
    scaling.set("long_factor", values);
    scaling.set("attention_factor", real("attention_factor", 1.0));
    scaling.set("original_max_position_embeddings",
                real("original_max_position_embeddings", trained));
  } else if (tensors_.find(kGgufLongFactors) != nullptr &&
             tensors_.find(kGgufShortFactors) != nullptr) {
    scaling.set("rope_type", "longrope");
    scaling.set("short_factor", factors(kGgufShortFactors));
    scaling.set("long_factor", factors(kGgufLongFactors));
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

}  // namespace

Result<json::Value> gguf_config(const std::string& path,
                                const gguf::Header& header,
                                const GgufArchitecture& architecture,
                                const GgufTensors& tensors) {
  return ConfigMaker(path, header, architecture, tensors).make();
}

}  // namespace coxswain::model
