#pragma once
// For tests: a small config of every family, and models of random weights made from them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "json/json.h"
#include "model/model.h"
#include "model/random_checkpoint.h"
#include "model/single_sequence.h"
#include "weights/test_files.h"

namespace coxswain::model {

// Fields that every config below shares unless it says otherwise.
inline json::Value small_config(std::string_view fields) {
  const std::string standard =
      R"({"vocab_size":61,"hidden_size":48,"intermediate_size":56,"num_hidden_layers":3,"num_attention_heads":4,)"
      R"("num_key_value_heads":2,"max_position_embeddings":128,"eos_token_id":2})";
  auto config = json::parse(standard);
  auto own = json::parse(fields);
  EXPECT_TRUE(own.ok()) << own.status().message();
  for (const auto& [key, value] : own->as_object()) config->as_object().set(key, value);
  return std::move(config).value();
}

struct SmallModel {
  std::string_view name;
  std::string_view fields;
};

// At least one of every family; windows are smaller than the test sequences.
// NOLINTNEXTLINE(readability-function-size): a table
inline const std::vector<SmallModel>& small_models() {
  static const std::vector<SmallModel> models{
      {"llama", R"({"model_type":"llama"})"},
      {"llama_tied_bias",
       R"({"model_type":"llama","tie_word_embeddings":true,"attention_bias":true,"mlp_bias":true})"},
      {"llama_dynamic",
       R"({"model_type":"llama","max_position_embeddings":24,"rope_scaling":{"type":"dynamic","factor":2}})"},
      {"llama_llama3",
       R"({"model_type":"llama","rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4,)"
       R"("original_max_position_embeddings":32}})"},
      {"llama_yarn",
       R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":32}})"},
      {"mistral", R"({"model_type":"mistral","sliding_window":9})"},
      {"mixtral", R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2})"},
      {"qwen2",
       R"({"model_type":"qwen2","use_sliding_window":true,"sliding_window":9,"max_window_layers":1})"},
      {"qwen2_moe",
       R"({"model_type":"qwen2_moe","num_experts":5,"num_experts_per_tok":2,"moe_intermediate_size":24,)"
       R"("shared_expert_intermediate_size":40})"},
      {"qwen3", R"({"model_type":"qwen3","head_dim":16,"tie_word_embeddings":true})"},
      {"qwen3_moe",
       R"({"model_type":"qwen3_moe","head_dim":16,"num_experts":5,"num_experts_per_tok":3,"moe_intermediate_size":24,)"
       R"("norm_topk_prob":true,"mlp_only_layers":[1]})"},
      {"gemma", R"({"model_type":"gemma","head_dim":16,"num_key_value_heads":1})"},
      {"gemma2",
       R"({"model_type":"gemma2","head_dim":16,"sliding_window":9,"attn_logit_softcapping":5,"final_logit_softcapping":8,)"
       R"("query_pre_attn_scalar":16})"},
      {"gemma3_text",
       R"({"model_type":"gemma3_text","head_dim":16,"sliding_window":9,"sliding_window_pattern":2,"query_pre_attn_scalar":16})"},
      {"phi3",
       R"({"model_type":"phi3","original_max_position_embeddings":24,"rope_scaling":{"type":"longrope",)"
       R"("short_factor":[1,1,1,1.5,1.5,2],"long_factor":[1,2,3,4,4,4]}})"},
      {"gpt2", R"({"model_type":"gpt2","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128})"},
      {"gpt_neox", R"({"model_type":"gpt_neox","num_key_value_heads":4,"rotary_pct":0.5})"},
      {"starcoder2", R"({"model_type":"starcoder2","sliding_window":9})"},
      {"smollm3", R"({"model_type":"smollm3","no_rope_layers":[1,0,1]})"},
      {"olmo2", R"({"model_type":"olmo2"})"},
      {"granite",
       R"({"model_type":"granite","embedding_multiplier":3,"attention_multiplier":0.2,"residual_multiplier":0.6,"logits_scaling":2})"},
      {"cohere", R"({"model_type":"cohere","use_qk_norm":true,"logit_scale":0.5})"},
      {"bloom", R"({"model_type":"bloom","n_embed":48,"n_layer":3})"},
      {"bloom_postln",
       R"({"model_type":"bloom","n_embed":48,"n_layer":3,"apply_residual_connection_post_layernorm":true})"},
      {"codegen",
       R"({"model_type":"codegen","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128,"rotary_dim":8})"},
      {"dbrx",
       R"({"model_type":"dbrx","d_model":48,"n_heads":4,"n_layers":3,"attn_config":{"kv_n_heads":2,"clip_qkv":2},)"
       R"("ffn_config":{"ffn_hidden_size":24,"moe_num_experts":5,"moe_top_k":2}})"},
      {"falcon_7b", R"({"model_type":"falcon","multi_query":true})"},
      {"falcon_40b", R"({"model_type":"falcon","new_decoder_architecture":true,"num_kv_heads":2})"},
      {"falcon_rw",
       R"({"model_type":"falcon","alibi":true,"multi_query":false,"parallel_attn":false,"bias":true})"},
      {"gpt_bigcode",
       R"({"model_type":"gpt_bigcode","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128})"},
      {"gpt_neo",
       R"({"model_type":"gpt_neo","num_layers":3,"num_heads":4,"window_size":9,"attention_layers":["global","local","global"]})"},
      {"gpt_oss",
       R"({"model_type":"gpt_oss","sliding_window":9,"head_dim":16,"num_local_experts":5,"num_experts_per_tok":2})"},
      {"gptj",
       R"({"model_type":"gptj","n_embd":48,"n_layer":3,"n_head":4,"n_positions":128,"rotary_dim":8})"},
      {"mpt",
       R"({"model_type":"mpt","d_model":48,"n_heads":6,"n_layers":3,"attn_config":{"alibi":true,"clip_qkv":2}})"},
      {"opt", R"({"model_type":"opt","ffn_dim":56})"},
      {"opt_350m",
       R"({"model_type":"opt","ffn_dim":56,"do_layer_norm_before":false,"word_embed_proj_dim":20})"},
      {"phi", R"({"model_type":"phi","qk_layernorm":true})"},
      {"stablelm", R"({"model_type":"stablelm","partial_rotary_factor":0.5,"use_qkv_bias":true})"},
      {"stablelm_12b",
       R"({"model_type":"stablelm","partial_rotary_factor":0.5,"qk_layernorm":true,"use_parallel_residual":true})"},
  };
  return models;
}

// Writes a checkpoint of the config into `folder` and loads it.
inline std::unique_ptr<Model> load_small(const base::TempFolder& folder,
                                         const json::Value& config,
                                         const LoadOptions& how) {
  RandomCheckpointOptions options;
  options.dir = folder.path();
  const Status written = write_random_checkpoint(config, options);
  EXPECT_TRUE(written.ok()) << written.message();
  LoadOptions load = how;
  load.model_dir = folder.path();
  auto model = Model::load(load);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(model).value() : nullptr;
}

// The logits [4, vocab] of a short prompt.
inline std::vector<float> logits_of_a_prompt(Model& model, kernels::ExecContext& exec) {
  const std::vector<TokenId> ids{1, 5, 9, 60};
  auto sequence = SingleSequence::create(model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(4);
  EXPECT_TRUE(sequence->feed(ids).ok());
  return sequence->logits(4).value();
}

}  // namespace coxswain::model
