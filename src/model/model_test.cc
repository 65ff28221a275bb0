// Loading: what is read, what is refused and how; and the limits of a forward pass.

#include "model/model.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/single_sequence.h"
#include "model/test_models.h"
#include "weights/checkpoint.h"

namespace coxswain::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoadOptions scalar() {
  LoadOptions options;
  options.kernels = *kernels::kernel_table(kernels::Isa::kScalar);
  return options;
}

std::vector<float> logits_of(Model& model, std::span<const TokenId> ids) {
  kernels::ExecContext exec(1);
  auto sequence = SingleSequence::create(model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(static_cast<std::uint32_t>(ids.size()));
  EXPECT_TRUE(sequence->feed(ids).ok());
  return sequence->logits(1).value();
}

Status load_status(const std::string& dir) {
  LoadOptions options = scalar();
  options.model_dir = dir;
  return Model::load(options).status();
}

TEST(Model, DescribesItself) {
  const base::TempFolder folder;
  const auto config = small_config(
      R"({"model_type":"gemma2","head_dim":16,"sliding_window":9,"query_pre_attn_scalar":16,"torch_dtype":"float32","eos_token_id":[3,4]})");
  const auto model = load_small(folder, config, scalar());
  ASSERT_NE(model, nullptr);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.model_type, "gemma2");
  EXPECT_EQ(info.dtype, "bfloat16") << "the tensors decide, not torch_dtype";
  EXPECT_EQ(info.vocab_size, 61U);
  EXPECT_EQ(info.n_layers, 3U);
  EXPECT_THAT(info.eos_token_ids, ElementsAre(3, 4));
  ASSERT_EQ(info.kv_groups.size(), 2U);
  EXPECT_EQ(info.kv_groups[0].kind, KvGroup::Kind::kFull);
  EXPECT_THAT(info.kv_groups[0].layers, ElementsAre(1));
  EXPECT_EQ(info.kv_groups[1].window, 9U);
  EXPECT_THAT(info.kv_groups[1].layers, ElementsAre(0, 2));
  ASSERT_EQ(info.kv_layers.size(), 3U);
  EXPECT_EQ(info.kv_layers[1].group, 0U);
  EXPECT_EQ(info.kv_layers[2].group, 1U);
}

TEST(Model, GenerationConfigDecidesWhereTextEnds) {
  const base::TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[7,8]})");
  const auto model = load_small(folder, small_config(R"({"model_type":"llama"})"), scalar());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->info().eos_token_ids, ElementsAre(7, 8));
  folder.write("generation_config.json", R"({"eos_token_id":"</s>"})");
  EXPECT_THAT(load_status(folder.path()).message(),
              HasSubstr("eos_token_id must be a token id or a list of token ids"));
}

// Published models have such entries: an added token without a row, or -1 for none.
TEST(Model, EosIdsOutsideTheVocabularyAreLeftOutWithAWarning) {
  const base::TempFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id":[61,7,-1]})");
  const auto config = small_config(R"({"model_type":"llama","eos_token_id":5})");
  const auto some = load_small(folder, config, scalar());
  ASSERT_NE(some, nullptr);
  EXPECT_THAT(some->info().eos_token_ids, ElementsAre(7));
  EXPECT_THAT(some->info().warnings,
              ElementsAre(HasSubstr("eos_token_id 61 is left out, for vocab_size is 61"),
                          HasSubstr("eos_token_id -1 is left out")));
  folder.write("generation_config.json", R"({"eos_token_id":61})");
  const auto other = load_small(folder, config, scalar());
  ASSERT_NE(other, nullptr);
  EXPECT_THAT(other->info().eos_token_ids, ElementsAre(5)) << "then config.json is asked";
}

// As text-generation-inference, whose users rely on it for models that were trained further.
TEST(Model, TheTokenizersEndTokenCountsUnlessAListIsGiven) {
  const base::TempFolder folder;
  LoadOptions options = scalar();
  options.tokenizer_eos = 9;
  const auto ends = [&](std::string_view config, const std::string& generation) {
    folder.write("generation_config.json", generation);
    const auto model = load_small(folder, small_config(config), options);
    return model == nullptr ? std::vector<TokenId>{} : model->info().eos_token_ids;
  };
  const std::string_view llama = R"({"model_type":"llama"})";  // with eos_token_id 2
  EXPECT_THAT(ends(llama, "{}"), ElementsAre(2, 9));
  EXPECT_THAT(ends(llama, R"({"eos_token_id":7})"), ElementsAre(7, 9));
  EXPECT_THAT(ends(llama, R"({"eos_token_id":[7]})"), ElementsAre(7));
  EXPECT_THAT(ends(R"({"model_type":"llama","eos_token_id":9})", "{}"), ElementsAre(9));
  EXPECT_THAT(ends(R"({"model_type":"llama","eos_token_id":null})", "{}"), ElementsAre(9));
  options.tokenizer_eos = 61;  // a token without a row
  EXPECT_THAT(ends(llama, "{}"), ElementsAre(2));
}

TEST(Model, SaysWhenNothingButALimitEndsAText) {
  const base::TempFolder folder;
  const auto model =
      load_small(folder, small_config(R"({"model_type":"llama","eos_token_id":null})"), scalar());
  ASSERT_NE(model, nullptr);
  EXPECT_THAT(model->info().warnings, ElementsAre(HasSubstr("no end token is known")));
}

// A config that leaves attention_bias out beside weights that have biases computes something else.
TEST(Model, WarnsOfTensorsThatNothingReads) {
  const base::TempFolder folder;
  const auto whole =
      load_small(folder, small_config(R"({"model_type":"llama","attention_bias":true})"), scalar());
  ASSERT_NE(whole, nullptr);
  EXPECT_TRUE(whole->info().warnings.empty());
  folder.write("config.json", json::write(small_config(R"({"model_type":"llama"})")));
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  const auto without = Model::load(options);
  ASSERT_TRUE(without.ok()) << without.status().message();
  EXPECT_THAT((*without)->info().warnings,
              ElementsAre(HasSubstr("12 tensors are not used by this architecture: "
                                    "\"model.layers.0.self_attn.q_proj.bias\"")));
}

TEST(Model, MasksTablesAndACopyOfATiedHeadAreNoUnreadTensors) {
  const base::TempFolder folder;
  const auto config = small_config(R"({"model_type":"llama","tie_word_embeddings":true})");
  ASSERT_NE(load_small(folder, config, scalar()), nullptr);
  std::string head(std::size_t{61} * 48 * 2, '\0');
  const auto checkpoint = weights::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  ASSERT_TRUE(checkpoint->find("model.embed_tokens.weight")
                  .read(0, std::as_writable_bytes(std::span(head)))
                  .ok());
  const std::string one = R"("dtype":"F32","shape":[1],"data_offsets":)";
  const std::string header =
      R"({"layers.0.attn.bias":{)" + one + R"([0,4]},"model.rotary_emb.inv_freq":{)" + one +
      R"([4,8]},"steps":{"dtype":"I64","shape":[1],"data_offsets":[8,16]},)"
      R"("lm_head.weight":{"dtype":"BF16","shape":[61,48],"data_offsets":[16,5872]}})";
  folder.write("carried.safetensors",
               weights::safetensors_bytes(header, std::string(16, '\0') + head));
  std::filesystem::rename(folder.path() + "/model.safetensors",
                          folder.path() + "/weights.safetensors");
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"steps":"carried.safetensors",)"
               R"("model.norm.weight":"weights.safetensors"}})");
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  const auto model = Model::load(options);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_TRUE((*model)->info().warnings.empty());
}

// Some repositories hold the same weights once more, in another program's layout.
TEST(Model, OnlyTheCheckpointCountsAsWeights) {
  const base::TempFolder folder;
  ASSERT_NE(load_small(folder, small_config(R"({"model_type":"llama"})"), scalar()), nullptr);
  const auto before = stored_weight_bytes(folder.path());
  ASSERT_TRUE(before.ok());
  EXPECT_GT(*before, 0U);
  std::filesystem::copy_file(folder.path() + "/model.safetensors",
                             folder.path() + "/consolidated.safetensors");
  EXPECT_EQ(stored_weight_bytes(folder.path()).value(), *before);
  EXPECT_EQ(stored_weight_bytes(folder.path() + "/none").status().code(), Code::kNotFound);
}

TEST(Model, OtherTypesStayNearTheStoredOne) {
  const auto config = small_config(R"({"model_type":"llama","tie_word_embeddings":true})");
  const std::vector<TokenId> ids{5, 9, 33, 2, 60, 17};
  const auto run = [&](std::optional<tensor::DType> dtype,
                       const char* quantize,
                       std::string& name,
                       std::uint64_t& bytes) {
    const base::TempFolder folder;
    LoadOptions options = scalar();
    options.dtype = dtype;
    options.quantize = quantize;
    const auto model = load_small(folder, config, options);
    name = model->info().dtype;
    bytes = model->info().weight_bytes;
    return logits_of(*model, ids);
  };
  std::string name;
  std::uint64_t stored_bytes = 0;
  std::uint64_t bytes = 0;
  const auto reference = run(tensor::DType::kF32, "", name, bytes);
  EXPECT_EQ(name, "float32");
  const auto spread = [&](const std::vector<float>& other) {
    double error = 0.0;
    double size = 0.0;
    for (std::size_t i = 0; i < other.size(); ++i) {
      error += std::pow(other[i] - reference[i], 2);
      size += std::pow(reference[i], 2);
    }
    return std::sqrt(error / size);
  };
  EXPECT_LT(spread(run(std::nullopt, "", name, stored_bytes)), 0.02);
  EXPECT_EQ(name, "bfloat16");
  EXPECT_LT(stored_bytes, bytes);
  EXPECT_LT(spread(run(tensor::DType::kF16, "", name, bytes)), 0.02);
  EXPECT_EQ(name, "float16");
  std::uint64_t last_bytes = stored_bytes;
  for (const auto& [quantize, most] :
       {std::pair{"int8", 0.1}, std::pair{"int4", 0.3}, std::pair{"int4-g128", 0.3}}) {
    const double error = spread(run(std::nullopt, quantize, name, bytes));
    EXPECT_EQ(name, quantize);
    EXPECT_LT(error, most) << name;
    EXPECT_GT(error, 0.0) << name;
    EXPECT_LE(bytes, last_bytes) << name;
    last_bytes = bytes;
  }
}

// Tied, so that the embedding is read back from the head unless weights are quantised here.
TEST(Model, SharesSayWhatEachPartIsHeldIn) {
  const auto config = small_config(R"({"model_type":"llama","tie_word_embeddings":true})");
  const auto shares = [&](const char* quantize) {
    const base::TempFolder folder;
    LoadOptions options = scalar();
    options.quantize = quantize;
    const auto model = load_small(folder, config, options);
    std::vector<std::string> out;
    std::uint64_t bytes = 0;
    for (const WeightShare& share : model->info().weight_shares) {
      EXPECT_GT(share.bytes, 0U);
      bytes += share.bytes;
      out.push_back(share.part + " " + share.format);
    }
    EXPECT_EQ(bytes, model->info().weight_bytes);
    return out;
  };
  EXPECT_THAT(
      shares(""),
      testing::ElementsAre("layers bfloat16", "layers float32", "head bfloat16", "head float32"));
  EXPECT_THAT(
      shares("int4"),
      testing::ElementsAre(
          "embedding bfloat16", "layers int4", "layers float32", "head int8", "head float32"));
}

TEST(Model, AnUnknownWeightFormatIsRefusedWithTheOnesThereAre) {
  const base::TempFolder folder;
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  for (const char* name : {"int3", "float32"}) {
    options.quantize = name;
    const Status status = Model::load(options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("int8, int4, int4-g128"));
  }
}

TEST(Model, ANameOfAStoredFormMustBeThatOfTheWeights) {
  const base::TempFolder folder;
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  options.quantize = "gptq";
  folder.write("config.json", R"({"model_type":"llama"})");
  EXPECT_THAT(
      Model::load(options).status().message(),
      HasSubstr("quantize is gptq, but the weights of " + folder.path() + " are stored plainly"));
  const std::string stored = R"({"model_type":"llama","quantization_config":{"quant_method":)"
                             R"("bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"}})";
  folder.write("config.json", stored);
  EXPECT_THAT(Model::load(options).status().message(), HasSubstr("stored as bitsandbytes-nf4"));
  options.quantize = "bitsandbytes-nf4";
  EXPECT_THAT(Model::load(options).status().message(), HasSubstr("vocab_size is missing"));
}

TEST(Model, Int8RefusesRowsWhoseSumsCouldOverflow) {
  const base::TempFolder folder;
  const auto config = small_config(
      R"({"model_type":"llama","hidden_size":8,"num_hidden_layers":1,"intermediate_size":133145})");
  LoadOptions options = scalar();
  ASSERT_NE(load_small(folder, config, options), nullptr);
  options.model_dir = folder.path();
  options.quantize = "int8";
  const Status status = Model::load(options).status();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_THAT(
      status.message(),
      HasSubstr("model.safetensors: tensor \"model.layers.0.mlp.down_proj.weight\" has 133145 "
                "inputs, int8 takes at most 133144"));
}

TEST(Model, AHeadThatDiffersFromTheEmbeddingWinsOverTying) {
  const auto config = [](bool tied) {
    return small_config(tied ? R"({"model_type":"llama","tie_word_embeddings":true})"
                             : R"({"model_type":"llama"})");
  };
  const std::vector<TokenId> ids{5, 9, 33, 2, 60, 17};
  const base::TempFolder folder;  // holds an embedding and a head of its own
  const auto untied = load_small(folder, config(false), scalar());
  ASSERT_NE(untied, nullptr);
  const auto expected = logits_of(*untied, ids);
  folder.write("config.json", json::write(config(true)));
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  const auto model = Model::load(options);
  ASSERT_TRUE(model.ok()) << model.status().message();
  EXPECT_EQ(logits_of(**model, ids), expected);
  EXPECT_EQ((*model)->info().weight_bytes, untied->info().weight_bytes);
}

TEST(Model, FingerprintFollowsEveryWeight) {
  const auto config = small_config(R"({"model_type":"llama"})");
  const base::TempFolder folder;
  const auto first = load_small(folder, config, scalar());
  const auto again = load_small(folder, config, scalar());
  ASSERT_TRUE(first != nullptr && again != nullptr);
  EXPECT_EQ(first->info().fingerprint, again->info().fingerprint);
  const std::string path = folder.path() + "/model.safetensors";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(last);
  file.close();
  LoadOptions options = scalar();
  options.model_dir = folder.path();
  EXPECT_NE((*Model::load(options))->info().fingerprint, first->info().fingerprint);
}

TEST(Model, ConfigFaultsNameTheField) {
  struct Case {
    std::string fields;
    std::string message;
  };
  const std::vector<Case> cases{
      {R"({"model_type":"nothing"})", "model_type \"nothing\" is not supported"},
      {R"({"model_type":7})", "model_type must be a string"},
      {R"({"model_type":"llama","quantization_config":{"bits":5}})",
       "quantization_config.bits (5) is not supported"},
      {R"({"model_type":"llama","hidden_size":null})", "hidden_size is missing"},
      {R"({"model_type":"llama","hidden_size":65537})",
       "hidden_size must be a whole number from 1 to 65536, not 65537"},
      {R"({"model_type":"llama","hidden_size":1e2})", "hidden_size must be a whole number"},
      {R"({"model_type":"llama","hidden_size":18446744073709551617})",
       "hidden_size must be a whole number"},
      {R"({"model_type":"llama","intermediate_size":1048577})",
       "intermediate_size must be a whole number from 1 to 1048576"},
      {R"({"model_type":"llama","head_dim":0})",
       "head_dim must be a whole number from 1 to 4096, not 0"},
      {R"({"model_type":"llama","head_dim":4097})", "head_dim must be a whole number"},
      {R"({"model_type":"llama","head_dim":7})", "gives 7 rotary dimensions, not an even number"},
      {R"({"model_type":"llama","num_attention_heads":4097})",
       "num_attention_heads must be a whole number from 1 to 4096"},
      {R"({"model_type":"llama","rms_norm_eps":-1e-6})",
       "rms_norm_eps must be a number from 0 to 1, not -1e-6"},
      {R"({"model_type":"llama","rms_norm_eps":2})", "rms_norm_eps must be a number"},
      {R"({"model_type":"mistral","sliding_window":0})",
       "sliding_window must be a whole number from 1 to 16777216, not 0"},
      {R"({"model_type":"mistral","sliding_window":-1})", "sliding_window must be a whole number"},
      {R"({"model_type":"gemma2","sliding_window":null})",
       "sliding_window is null, but this family has layers with a window"},
      {R"({"model_type":"gemma2","query_pre_attn_scalar":0})",
       "query_pre_attn_scalar must be a number from"},
      {R"({"model_type":"gemma2","final_logit_softcapping":-30})",
       "final_logit_softcapping must be a number from 0"},
      {R"({"model_type":"granite","logits_scaling":0})", "logits_scaling must be a number from"},
      {R"({"model_type":"cohere","logit_scale":1e7})",
       "logit_scale must be a number from 0.000001 to 1000000, not 1e7"},
      {R"({"model_type":"gpt_neox","rotary_pct":1.5})", "rotary_pct must be a number from 0 to 1"},
      {R"({"model_type":"qwen2","use_sliding_window":true,"sliding_window":null,)"
       R"("layer_types":["full_attention","full_attention","sliding_attention"]})",
       "sliding_window is missing, but layer_types asks for it"},
      {R"({"model_type":"llama","hidden_size":-48})", "hidden_size must be a whole number"},
      {R"({"model_type":"llama","hidden_size":48.5})", "hidden_size must be a whole number"},
      {R"({"model_type":"llama","num_hidden_layers":1001})",
       "num_hidden_layers must be a whole number from 1 to 1000"},
      {R"({"model_type":"llama","vocab_size":2000001})",
       "vocab_size must be a whole number from 1 to 2000000"},
      {R"({"model_type":"llama","max_position_embeddings":16777217})", "max_position_embeddings"},
      {R"({"model_type":"llama","num_attention_heads":5})",
       "num_attention_heads is 5 and does not divide"},
      {R"({"model_type":"llama","num_attention_heads":0})",
       "num_attention_heads must be a whole number"},
      {R"({"model_type":"llama","num_key_value_heads":3})",
       "num_key_value_heads is 3 and does not divide"},
      {R"({"model_type":"llama","rms_norm_eps":"small"})", "rms_norm_eps must be a number"},
      {R"({"model_type":"llama","hidden_act":"tanh"})", "hidden_act \"tanh\" is not supported"},
      {R"({"model_type":"llama","attention_bias":1})",
       "attention_bias must be true or false, not 1"},
      // What is too long for a message is cut between characters.
      {R"({"model_type":[")" + std::string(37, 'x') + R"(ä and more"]})",
       R"(model_type must be a string, not [")" + std::string(37, 'x') + "..."},
      {R"({"model_type":"gpt_neo","num_heads":4,"attention_types":[[["global"],4000000000]]})",
       "attention_layers must name the kind of every layer"},
      {R"({"model_type":"gpt_neo","num_heads":4,"attention_types":[[["global",1],1]]})",
       "attention_layers must name the kind of every layer"},
      {R"({"model_type":"mixtral","num_local_experts":4,"num_experts_per_tok":5})",
       "num_experts_per_tok must be a whole number from 1 to 4"},
      {R"({"model_type":"mixtral","num_hidden_layers":1000,"num_local_experts":66,"num_experts_per_tok":2})",
       "num_local_experts must be a whole number from 1 to 65"},
      {R"({"model_type":"qwen2","layer_types":["full_attention"]})",
       "layer_types has 1 entries for 3 layers"},
      {R"({"model_type":"qwen2","layer_types":["a","b","c"]})", "layer_types holds \"a\""},
      {R"({"model_type":"smollm3","no_rope_layers":[1,2,1]})",
       "no_rope_layers must hold whole numbers from 0 to 1"},
      {R"({"model_type":"dbrx"})", "attn_config is missing"},
      {R"({"model_type":"mpt","d_model":48,"n_heads":4,"n_layers":3,"attn_config":{"alibi":false}})",
       "attn_config.alibi"},
  };
  for (const Case& c : cases) {
    const base::TempFolder folder;
    folder.write("config.json", json::write(small_config(c.fields)));
    const Status status = load_status(folder.path());
    ASSERT_FALSE(status.ok()) << c.fields;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
    EXPECT_THAT(status.message(), HasSubstr("config.json: "));
  }
}

TEST(Model, EveryIdOfTheTokenizerNeedsARow) {
  const base::TempFolder folder;
  LoadOptions options = scalar();
  options.n_token_ids = 61;
  ASSERT_NE(load_small(folder, small_config(R"({"model_type":"llama"})"), options), nullptr);
  options.model_dir = folder.path();
  options.n_token_ids = 62;
  EXPECT_THAT(Model::load(options).status().message(),
              HasSubstr("vocab_size is 61, but the tokenizer has ids up to 61"));
}

TEST(Model, WeightFaultsNameFileTensorAndRule) {
  const base::TempFolder folder;
  ASSERT_NE(load_small(folder, small_config(R"({"model_type":"llama"})"), scalar()), nullptr);
  const auto with = [&](std::string_view fields) {
    folder.write("config.json", json::write(small_config(fields)));
    return load_status(folder.path()).message();
  };
  EXPECT_THAT(
      with(R"({"model_type":"llama","num_hidden_layers":4})"),
      HasSubstr("model.safetensors: tensor \"layers.3.input_layernorm.weight\" is missing"));
  EXPECT_THAT(with(R"({"model_type":"llama","intermediate_size":57})"),
              HasSubstr("tensor \"model.layers.0.mlp.gate_proj.weight\" has shape [56, 48], the "
                        "config asks for [57, 48]"));
  EXPECT_THAT(with(R"({"model_type":"qwen2"})"), HasSubstr("q_proj.bias\" is missing"));

  folder.write("config.json", json::write(small_config(R"({"model_type":"llama"})")));
  const auto size = std::filesystem::file_size(folder.path() + "/model.safetensors");
  std::filesystem::resize_file(folder.path() + "/model.safetensors", size - 1);
  EXPECT_EQ(load_status(folder.path()).code(), Code::kDataLoss);
  std::filesystem::remove(folder.path() + "/model.safetensors");
  EXPECT_EQ(load_status(folder.path()).code(), Code::kNotFound);
  EXPECT_EQ(load_status(folder.path() + "/none").code(), Code::kNotFound);
  folder.write("config.json", "{");
  EXPECT_THAT(load_status(folder.path()).message(), HasSubstr("config.json"));
}

class ForwardLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    model_ = load_small(
        folder_,
        small_config(
            R"({"model_type":"gpt2","n_embd":48,"n_layer":2,"n_head":4,"n_positions":20})"),
        scalar());
    ASSERT_NE(model_, nullptr);
    kvstore::KvStoreOptions options;
    options.type = tensor::DType::kF32;
    options.n_blocks = {2};
    options.layers = model_->info().kv_layers;
    auto store = kvstore::KvStore::create(options);
    ASSERT_TRUE(store.ok());
    store_ = std::make_unique<kvstore::KvStore>(std::move(store).value());
    ASSERT_TRUE(model_->reserve(8, 2, exec_).ok());
  }

  Status run(std::vector<TokenId> tokens,
             std::int32_t first_position,
             std::vector<BlockId> blocks) {
    SequenceRows rows;
    rows.n_rows = tokens.size();
    rows.first_position = first_position;
    rows.block_tables.assign(1, blocks);
    std::vector<float> hidden(tokens.size() * model_->info().hidden_size);
    return model_->forward({tokens, {&rows, 1}}, {}, hidden, *store_, exec_);
  }

  base::TempFolder folder_;
  kernels::ExecContext exec_{1};
  std::unique_ptr<Model> model_;
  std::unique_ptr<kvstore::KvStore> store_;
};

TEST_F(ForwardLimits, RefuseWhatWouldLeaveTheModelOrTheCache) {
  EXPECT_TRUE(run({1, 2, 3}, 0, {1}).ok());
  EXPECT_THAT(run({1, 61, 3}, 0, {1}).message(),
              HasSubstr("token id 61 is outside the vocabulary"));
  EXPECT_THAT(run({1, -1, 3}, 0, {1}).message(), HasSubstr("token id -1"));
  EXPECT_THAT(run({1, 2}, 19, {1, 0}).message(), HasSubstr("position 20 is beyond"));
  EXPECT_THAT(run({1}, -1, {1}).message(), HasSubstr("rows of the sequences"));
  EXPECT_THAT(run({1}, 16, {1}).message(), HasSubstr("block table of 1 blocks for 17 positions"));
  EXPECT_THAT(run({1}, 0, {2}).message(), HasSubstr("block id 2 is out of range"));
  EXPECT_THAT(run({1}, 17, {kReleasedBlock, 0}).message(), HasSubstr("out of range"));
  EXPECT_THAT(run(std::vector<TokenId>(9, 1), 0, {1}).message(), HasSubstr("larger than reserved"));
  std::vector<float> hidden(48);
  std::vector<float> out(3 * 61);
  const std::vector<std::uint32_t> three{0, 0, 0};
  EXPECT_THAT(model_->logits(hidden, three, out, exec_).message(), HasSubstr("more than reserved"));
  const std::vector<std::uint32_t> outside{1};
  EXPECT_THAT(model_->logits(hidden, outside, std::span(out).first(61), exec_).message(),
              HasSubstr("outside the hidden states"));
}

}  // namespace
}  // namespace coxswain::model
