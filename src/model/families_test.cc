// What a config means where it leaves fields out, says null, or uses one of several spellings: as
// the reference implementation of each family reads it.

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/families/family.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Architecture read(std::string_view fields) {
  auto out = read_architecture(small_config(fields));
  EXPECT_TRUE(out.ok()) << fields << ": " << out.status().message();
  return out.ok() ? std::move(out).value() : Architecture{};
}

Status refusal(std::string_view fields) {
  return read_architecture(small_config(fields)).status();
}

std::vector<std::uint32_t> windows(std::string_view fields) {
  std::vector<std::uint32_t> out;
  for (const LayerSpec& layer : read(fields).arch.layers) out.push_back(layer.attention().window);
  return out;
}

TEST(Families, WindowsFollowTheRuleOfTheFamily) {
  EXPECT_THAT(windows(R"({"model_type":"mistral"})"), ElementsAre(4096, 4096, 4096));
  EXPECT_THAT(windows(R"({"model_type":"mistral","sliding_window":null})"), ElementsAre(0, 0, 0));
  const std::string moe =
      R"("num_experts":4,"num_experts_per_tok":2,"moe_intermediate_size":24,"shared_expert_intermediate_size":8,)"
      R"("use_sliding_window":true,"sliding_window":9,"num_hidden_layers":4,)";
  EXPECT_THAT(windows(R"({"model_type":"qwen2","use_sliding_window":true,"max_window_layers":2})"),
              ElementsAre(0, 0, 4096));
  EXPECT_THAT(windows("{" + moe + R"("model_type":"qwen2_moe","max_window_layers":4})"),
              ElementsAre(9, 0, 9, 0));
  EXPECT_THAT(windows("{" + moe + R"("model_type":"qwen2_moe","max_window_layers":2})"),
              ElementsAre(9, 0, 0, 0));
  EXPECT_THAT(windows("{" + moe + R"("model_type":"qwen3_moe","max_window_layers":2})"),
              ElementsAre(9, 9, 9, 9));
  EXPECT_THAT(
      windows(
          R"({"model_type":"smollm3","use_sliding_window":true,"sliding_window":9,"no_rope_layers":[1,0,1]})"),
      ElementsAre(0, 9, 0));
}

TEST(Families, AbsentHeadsAreTheFamilysAndNullMeansAsManyAsHeads) {
  const auto kv_heads = [](const std::string& model_type, const std::string& value) {
    json::Value config = small_config(R"({"num_attention_heads":8,"model_type":")" + model_type +
                                      R"(","head_dim":16})");
    if (value.empty()) {
      config.as_object().erase("num_key_value_heads");
    } else {
      config.as_object().set("num_key_value_heads", json::parse(value).value());
    }
    const auto out = read_architecture(config);
    return out.ok() ? out->arch.layers.front().attention().n_kv_heads : 0;
  };
  EXPECT_EQ(kv_heads("llama", ""), 8U);
  EXPECT_EQ(kv_heads("starcoder2", ""), 2U);
  EXPECT_EQ(kv_heads("smollm3", ""), 4U);
  EXPECT_EQ(kv_heads("smollm3", "null"), 8U);
  EXPECT_EQ(kv_heads("smollm3", "1"), 1U);
  EXPECT_EQ(kv_heads("gemma2", ""), 4U);
  EXPECT_EQ(read(R"({"model_type":"llama"})").arch.layers.front().attention().head_dim, 12U);
  EXPECT_EQ(read(R"({"model_type":"qwen3"})").arch.layers.front().attention().head_dim, 128U);
  EXPECT_EQ(read(R"({"model_type":"gemma2"})").arch.layers.front().attention().head_dim, 256U);
}

TEST(Families, NullSwitchesAnAbsentSoftCapOff) {
  EXPECT_EQ(read(R"({"model_type":"gemma2"})").arch.layers.front().attention().soft_cap, 50.0F);
  EXPECT_EQ(read(R"({"model_type":"gemma2"})").arch.head.soft_cap, 30.0F);
  const auto off = read(
      R"({"model_type":"gemma2","attn_logit_softcapping":null,"final_logit_softcapping":null})");
  EXPECT_EQ(off.arch.layers.front().attention().soft_cap, 0.0F);
  EXPECT_EQ(off.arch.head.soft_cap, 0.0F);
  const auto third = read(R"({"model_type":"gemma3_text","attn_logit_softcapping":8.0})");
  EXPECT_EQ(third.arch.layers.front().attention().soft_cap, 0.0F)
      << "the reference does not apply it";
}

TEST(Families, GemmaTakesItsActivationFromHiddenAct) {
  const auto activation = [](std::string_view fields) {
    return read(fields).arch.layers.front().mlp().activation;
  };
  EXPECT_EQ(activation(R"({"model_type":"gemma","hidden_act":"gelu"})"),
            kernels::Activation::kGeluTanh);
  EXPECT_EQ(activation(R"({"model_type":"gemma","hidden_act":"silu","hidden_activation":"gelu"})"),
            kernels::Activation::kSilu);
  EXPECT_EQ(activation(R"({"model_type":"gemma2","hidden_act":"silu","hidden_activation":"gelu"})"),
            kernels::Activation::kGeluErf);
}

TEST(Families, EachHasItsOwnBaseFrequency) {
  const auto theta = [](std::string_view fields) { return read(fields).arch.ropes.front().theta; };
  EXPECT_EQ(theta(R"({"model_type":"llama"})"), 1e4);
  EXPECT_EQ(theta(R"({"model_type":"olmo2"})"), 1e4);
  EXPECT_EQ(theta(R"({"model_type":"cohere"})"), 5e5);
  EXPECT_EQ(theta(R"({"model_type":"smollm3"})"), 2e6);
  EXPECT_EQ(theta(R"({"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":2})"),
            1e6);
}

TEST(Families, Gemma3FillsInTheRopeThatAConfigLeavesOut) {
  const auto ropes =
      read(R"({"model_type":"gemma3_text","rope_local_base_freq":500,)"
           R"("rope_parameters":{"full_attention":{"rope_type":"linear","factor":4}}})")
          .arch.ropes;
  ASSERT_EQ(ropes.size(), 2U);
  EXPECT_EQ(ropes[0].scaling, RopeScaling::kLinear);
  EXPECT_EQ(ropes[0].theta, 1e6);
  EXPECT_EQ(ropes[1].scaling, RopeScaling::kNone);
  EXPECT_EQ(ropes[1].theta, 500.0);
}

TEST(Families, Gemma3HasOneLengthAtWhichItsAnglesChange) {
  const auto code = [](const std::string& full, const std::string& sliding) {
    return refusal(
               R"({"model_type":"gemma3_text","head_dim":8,"rope_parameters":{"full_attention":)" +
               full + R"(,"sliding_attention":)" + sliding + "}}")
        .code();
  };
  const std::string dynamic = R"({"rope_type":"dynamic","factor":2})";
  const std::string longrope = R"({"rope_type":"longrope","original_max_position_embeddings":32,)"
                               R"("short_factor":[1,1,1,1],"long_factor":[2,2,2,2]})";
  EXPECT_EQ(code(dynamic, dynamic), Code::kOk);
  EXPECT_EQ(code(dynamic, R"({"rope_type":"default"})"), Code::kOk);
  EXPECT_EQ(code(dynamic, longrope), Code::kUnimplemented);
}

TEST(Families, OnlySomeTurnAPartOfEachHead) {
  const RopeSpec own =
      read(R"({"model_type":"gpt_neox","rotary_pct":0.5,"partial_rotary_factor":1,"rope_theta":7})")
          .arch.ropes.front();
  EXPECT_EQ(own.rotary_dim, 6U);
  EXPECT_EQ(own.theta, 1e4) << "rotary_emb_base is the name here";
  EXPECT_EQ(
      read(R"({"model_type":"llama","partial_rotary_factor":1})").arch.ropes.front().rotary_dim,
      12U);
  const Status status = refusal(R"({"model_type":"llama","partial_rotary_factor":0.5})");
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_EQ(status.field(), "partial_rotary_factor");
}

TEST(Families, OfATiedPairTheHeadMayStandAlone) {
  const auto other_name = [](std::string_view fields) {
    return read(fields).tensors.embedding.table.rows.front().otherwise;
  };
  EXPECT_EQ(other_name(R"({"model_type":"llama"})"), "");
  EXPECT_EQ(other_name(R"({"model_type":"llama","tie_word_embeddings":true})"), "lm_head.weight");
  EXPECT_EQ(
      other_name(R"({"model_type":"gpt2","n_embd":48,"n_layer":2,"n_head":4,"n_positions":20})"),
      "lm_head.weight");
  EXPECT_EQ(other_name(R"({"model_type":"gpt_neox","rotary_pct":0.5,"tie_word_embeddings":true})"),
            "embed_out.weight");
}

TEST(Families, OptMayHaveNormsWithoutWeights) {
  const auto norms = [](const std::string& more) {
    const TensorMap map = read(R"({"model_type":"opt","ffn_dim":56)" + more + "}").tensors;
    return std::vector<bool>{map.head.norm.empty(),
                             map.layers.front().mixer_norm.empty(),
                             map.layers.front().feed_forward_norm.empty()};
  };
  EXPECT_THAT(norms(""), ElementsAre(false, false, false));
  EXPECT_THAT(norms(R"(,"layer_norm_elementwise_affine":false)"), ElementsAre(true, true, true));
}

TEST(Families, GptOssIsStretchedUnlessItsConfigSaysOtherwise) {
  const std::string experts =
      R"({"model_type":"gpt_oss","num_local_experts":4,"num_experts_per_tok":2)";
  const RopeSpec published = read(experts + "}").arch.ropes.front();
  EXPECT_EQ(published.scaling, RopeScaling::kYarn);
  EXPECT_EQ(published.factor, 32.0);
  EXPECT_FALSE(published.truncate);
  EXPECT_DOUBLE_EQ(published.attention_factor, 0.1 * std::log(32.0) + 1.0);
  const auto plain = read(experts + R"(,"rope_parameters":{"rope_type":"default"}})");
  EXPECT_EQ(plain.arch.ropes.front().scaling, RopeScaling::kNone);
}

TEST(Families, Phi3KeepsItsTrainedLengthBesideTheScaling) {
  const std::string factors =
      R"("short_factor":[1,1,1,1,1,1],"long_factor":[2,2,2,2,2,2],"original_max_position_embeddings":16})";
  const auto trained = [&](const std::string& fields) {
    const RopeSpec rope =
        read(R"({"model_type":"phi3",)" + fields + factors + "}").arch.ropes.front();
    EXPECT_EQ(rope.scaling, RopeScaling::kLongRope);
    return rope.original_max_positions;
  };
  EXPECT_EQ(trained(R"("rope_scaling":{"type":"longrope",)"), 4096.0);
  EXPECT_EQ(trained(R"("original_max_position_embeddings":64,"rope_scaling":{"type":"yarn",)"),
            64.0);
  EXPECT_EQ(trained(R"("original_max_position_embeddings":64,"rope_scaling":{"type":"su",)"), 64.0);
}

TEST(Families, ATiedHeadKeepsItsBias) {
  for (
      const std::string fields :
      {R"({"model_type":"phi","tie_word_embeddings":true,"partial_rotary_factor":0.5})",
       R"({"model_type":"gptj","n_embd":48,"n_layer":2,"n_head":4,"n_positions":64,"rotary_dim":8,"tie_word_embeddings":true})"}) {
    const TensorMap map = read(fields).tensors;
    EXPECT_TRUE(map.head.matrix.empty());
    EXPECT_EQ(map.embedding.table.rows.front().bias, "lm_head.bias");
  }
}

TEST(Families, ADefaultThatDoesNotFitTheModelIsRefusedByName) {
  for (const char* model_type : {"gptj", "codegen"}) {
    const Status status =
        refusal(R"({"n_embd":48,"n_layer":2,"n_head":4,"n_positions":64,"model_type":")" +
                std::string(model_type) + "\"}");
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "config.json: rotary_dim must be a whole number from 2 to 12, not its default of 64");
  }
}

// Where it is published, null turns by angles of the whole width, which no head has room for.
TEST(Families, NoRotaryDimIsNotItsDefault) {
  const Status status = refusal(
      R"({"model_type":"gptj","n_embd":256,"n_layer":2,"n_head":4,"n_positions":64,"rotary_dim":null})");
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.message(), "config.json: rotary_dim must be a number, not null");
}

TEST(Families, LegalButUnsupportedValuesAreToldApartFromWrongOnes) {
  const auto code = [](std::string_view fields) { return refusal(fields).code(); };
  EXPECT_EQ(code(R"({"model_type":"llama","hidden_act":"tanh"})"), Code::kUnimplemented);
  EXPECT_EQ(code(R"({"model_type":"llama","hidden_act":7})"), Code::kInvalidArgument);
  EXPECT_EQ(code(R"({"model_type":"llama","rope_scaling":{"type":"other"}})"),
            Code::kUnimplemented);
  for (
      const auto& [fields, field] : std::vector<std::pair<std::string, std::string>>{
          {R"({"model_type":"gemma3_text","use_bidirectional_attention":true})",
           "use_bidirectional_attention"},
          {R"({"model_type":"gpt2","n_embd":48,"n_layer":2,"n_head":4,"n_positions":20,"add_cross_attention":true})",
           "add_cross_attention"},
          {R"({"model_type":"qwen2","layer_types":["a","b","c"]})", "layer_types"}}) {
    const Status status = refusal(fields);
    EXPECT_EQ(status.code(), Code::kUnimplemented) << fields;
    EXPECT_EQ(status.field(), field);
    EXPECT_THAT(status.message(), HasSubstr("not supported"));
  }
}

}  // namespace
}  // namespace coxswain::model
