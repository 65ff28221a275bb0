// Folders of every family as GGUF files: the model that is read back is the same.

#include "quantize/gguf_source.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "json/json.h"
#include "model/model.h"
#include "model/random_checkpoint.h"
#include "model/single_sequence.h"
#include "quantize/gguf_output.h"

namespace coxswain::quantize {
namespace {

using testing::HasSubstr;

constexpr std::string_view kTokenizer =
    R"({"added_tokens":[{"id":2,"content":"<end>","special":true}],"pre_tokenizer":{"type":"ByteLevel",)"
    R"("add_prefix_space":false},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":3},"merges":["a b"]}})";

json::Value config_of(std::string_view fields) {
  auto config = json::parse(
      R"({"vocab_size":61,"hidden_size":64,"intermediate_size":96,"num_hidden_layers":3,"num_attention_heads":4,)"
      R"("num_key_value_heads":2,"max_position_embeddings":128,"eos_token_id":2})");
  auto own = json::parse(fields);
  EXPECT_TRUE(own.ok()) << own.status().message();
  for (const auto& [key, value] : own->as_object()) config->as_object().set(key, value);
  return std::move(config).value();
}

// A folder of random weights, and a file made of it.
class Folder {
 public:
  explicit Folder(std::string_view fields) {
    model::RandomCheckpointOptions random;
    random.dir = folder_.path();
    EXPECT_TRUE(model::write_random_checkpoint(config_of(fields), random).ok());
    folder_.write("tokenizer.json", kTokenizer);
    folder_.write("tokenizer_config.json",
                  R"({"eos_token":"<end>","chat_template":"{{ messages }}"})");
  }
  const std::string& path() const { return folder_.path(); }
  Result<std::string> file(std::string_view mix) const {
    COXSWAIN_ASSIGN_OR_RETURN(const GgufSource source, open_folder_source(path(), "abab ab\nb"));
    EXPECT_EQ(source.note, "");
    base::ThreadPool pool(2);
    const std::string to = folder_.file("made-" + std::string(mix) + ".gguf");
    COXSWAIN_RETURN_IF_ERROR(write_gguf(source, to, mix, pool));
    return to;
  }

 private:
  const base::TempFolder folder_;
};

std::unique_ptr<model::Model> load(const std::string& path) {
  model::LoadOptions options;
  options.kernels = *kernels::kernel_table(kernels::Isa::kScalar);
  options.model_dir = path;
  options.dtype = tensor::DType::kF32;
  auto model = model::Model::load(options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(model).value() : nullptr;
}

std::vector<float> logits_of(model::Model& model) {
  std::vector<TokenId> ids(40);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 7 % 61);
  kernels::ExecContext exec(1);
  auto sequence = model::SingleSequence::create(model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(static_cast<std::uint32_t>(ids.size()));
  EXPECT_TRUE(sequence->feed(ids).ok());
  return sequence->logits(1).value();
}

struct FamilyCase {
  const char* architecture;
  bool is_exact;  // what is written are the same sums of the same numbers
  const char* fields;
};

class GgufOfFolder : public testing::TestWithParam<FamilyCase> {};

TEST_P(GgufOfFolder, GivesTheLogitsOfTheFolder) {
  const Folder folder(GetParam().fields);
  const auto file = folder.file("BF16");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto header = gguf::Header::read(*file);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->text("general.architecture"), GetParam().architecture);
  EXPECT_EQ(header->number("general.file_type"), 32);
  EXPECT_EQ(header->text("tokenizer.chat_template"), "{{ messages }}");
  const auto original = load(folder.path());
  const auto made = load(*file);
  ASSERT_TRUE(original != nullptr && made != nullptr);
  EXPECT_THAT(made->info().warnings, testing::IsEmpty());
  EXPECT_EQ(made->info().eos_token_ids, original->info().eos_token_ids);
  const std::vector<float> expected = logits_of(*original);
  const std::vector<float> found = logits_of(*made);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (GetParam().is_exact) {
      ASSERT_EQ(found[i], expected[i]) << i;
    } else {
      ASSERT_NEAR(found[i], expected[i], 2e-4) << i;
    }
  }
}

// Rows that turn stand in another order, and norms that are one larger are rounded.
// NOLINTNEXTLINE(readability-function-size): a table
std::vector<FamilyCase> families() {
  return {
      {"llama", false, R"({"model_type":"llama"})"},
      {"llama",
       false,
       R"({"model_type":"llama","attention_bias":true,"tie_word_embeddings":true})"},
      {"llama",
       false,
       R"({"model_type":"llama","rope_scaling":{"rope_type":"llama3","factor":8,"low_freq_factor":1,)"
       R"("high_freq_factor":4,"original_max_position_embeddings":32}})"},
      {"llama",
       false,
       R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4,"original_max_position_embeddings":32}})"},
      {"llama",
       false,
       R"({"model_type":"llama","rope_scaling":{"rope_type":"linear","factor":4},"rope_theta":500})"},
      {"llama", false, R"({"model_type":"mistral","sliding_window":null,"head_dim":32})"},
      {"llama", false, R"({"model_type":"mistral","sliding_window":4096})"},
      {"llama", false, R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2})"},
      {"granite",
       false,
       R"({"model_type":"granite","embedding_multiplier":3,"attention_multiplier":0.2,"residual_multiplier":0.6,)"
       R"("logits_scaling":3})"},
      {"smollm3", false, R"({"model_type":"smollm3","num_hidden_layers":5})"},
      {"qwen2", true, R"({"model_type":"qwen2"})"},
      {"qwen2moe",
       true,
       R"({"model_type":"qwen2_moe","num_experts":5,"num_experts_per_tok":2,"moe_intermediate_size":32,)"
       R"("shared_expert_intermediate_size":64})"},
      {"qwen3", true, R"({"model_type":"qwen3","head_dim":32,"tie_word_embeddings":true})"},
      {"qwen3moe",
       true,
       R"({"model_type":"qwen3_moe","head_dim":32,"num_experts":12,"num_experts_per_tok":3,)"
       R"("moe_intermediate_size":32,"norm_topk_prob":true})"},
      {"gemma", false, R"({"model_type":"gemma","head_dim":32,"num_key_value_heads":1})"},
      {"gemma2",
       false,
       R"({"model_type":"gemma2","head_dim":32,"sliding_window":9,"attn_logit_softcapping":5,)"
       R"("final_logit_softcapping":8,"query_pre_attn_scalar":32})"},
      {"gemma3",
       false,
       R"({"model_type":"gemma3_text","head_dim":32,"num_hidden_layers":7,"sliding_window":9,)"
       R"("query_pre_attn_scalar":32,"rope_scaling":{"rope_type":"linear","factor":8},"rope_local_base_freq":1e4})"},
      {"gemma3",
       false,
       R"({"model_type":"gemma3_text","head_dim":32,"num_hidden_layers":4,"sliding_window":9,)"
       R"("sliding_window_pattern":2,"query_pre_attn_scalar":32})"},
      {"olmo2", true, R"({"model_type":"olmo2"})"},
      {"phi3", true, R"({"model_type":"phi3","sliding_window":9})"},
      {"phi3",
       true,
       R"({"model_type":"phi3","original_max_position_embeddings":24,"rope_scaling":{"type":"longrope",)"
       R"("short_factor":[1,1,1,1.5,2,2,2,2],"long_factor":[1,2,3,4,5,6,7,8]}})"},
  };
}

INSTANTIATE_TEST_SUITE_P(All, GgufOfFolder, testing::ValuesIn(families()), [](const auto& test) {
  return std::string(test.param.architecture) + "_" + std::to_string(test.index);
});

TEST(GgufOfFolders, EightBitsAreNearThem) {
  const Folder folder(R"({"model_type":"llama"})");
  const auto file = folder.file("Q8_0");
  ASSERT_TRUE(file.ok()) << file.status().message();
  const std::vector<float> expected = logits_of(*load(folder.path()));
  const std::vector<float> found = logits_of(*load(*file));
  double off = 0;
  double size = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    off += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  EXPECT_LT(off, size * 0.03 * 0.03);
  EXPECT_GT(off, 0);
}

TEST(GgufOfFolders, AHeadThatDiffersWinsOverTheConfig) {
  const Folder folder(R"({"model_type":"qwen2"})");
  ASSERT_TRUE(folder.file("BF16").ok());
  auto config = config_of(R"({"model_type":"qwen2","tie_word_embeddings":true})");
  std::ofstream(folder.path() + "/config.json") << json::write(config);
  const auto file = folder.file("BF16");
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(logits_of(*load(*file)), logits_of(*load(folder.path())));
}

TEST(GgufOfFolders, WhatAFileCannotSayIsRefusedByName) {
  const auto refusal = [](std::string_view fields) {
    return open_folder_source(Folder(fields).path(), "").status().message();
  };
  EXPECT_THAT(refusal(R"({"model_type":"olmo2"})"), "");
  EXPECT_THAT(refusal(R"({"model_type":"starcoder2"})"),
              HasSubstr("family starcoder2 are not written as GGUF"));
  EXPECT_THAT(refusal(R"({"model_type":"mistral","sliding_window":9})"),
              HasSubstr("sliding window of layer 0"));
  EXPECT_THAT(refusal(R"({"model_type":"llama","mlp_bias":true})"),
              HasSubstr("no tensor \"layers.0.mlp.down_proj.bias\""));
  EXPECT_THAT(refusal(R"({"model_type":"llama","rope_scaling":{"type":"dynamic","factor":2}})"),
              HasSubstr("rotary embedding"));
  EXPECT_THAT(refusal(R"({"model_type":"llama","hidden_act":"gelu"})"),
              HasSubstr("feed-forward of layer 0"));
  EXPECT_THAT(
      refusal(R"({"model_type":"qwen3_moe","head_dim":32,"num_experts":5,"num_experts_per_tok":3,)"
              R"("moe_intermediate_size":32,"norm_topk_prob":false})"),
      HasSubstr("feed-forward of layer 0"));
}

}  // namespace
}  // namespace coxswain::quantize
