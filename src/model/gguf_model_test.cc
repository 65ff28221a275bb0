// Small models of every architecture, written here as converters write them. (The reference files with their logits are
// cases of coxswain-conformance.)

#include "model/gguf_model.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gguf/testing/file_bytes.h"
#include "model/single_sequence.h"
#include "model/test_models.h"
#include "weights/checkpoint.h"

namespace coxswain::model {
namespace {

using gguf::testing::bytes_of;
using gguf::testing::f32_value;
using gguf::testing::FileBytes;
using gguf::testing::string_value;
using gguf::testing::u32_value;
using ::testing::HasSubstr;

std::unique_ptr<Model> load(const std::string& path) {
  LoadOptions options;
  options.kernels = *kernels::kernel_table(kernels::Isa::kScalar);
  options.model_dir = path;
  options.dtype = tensor::DType::kF32;
  auto model = Model::load(options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.ok() ? std::move(model).value() : nullptr;
}

std::vector<float> logits_of(Model& model, std::span<const TokenId> ids) {
  kernels::ExecContext exec(1);
  auto sequence = SingleSequence::create(model, exec, {});
  EXPECT_TRUE(sequence.ok()) << sequence.status().message();
  sequence->restart(static_cast<std::uint32_t>(ids.size()));
  EXPECT_TRUE(sequence->feed(ids).ok());
  return sequence->logits(1).value();
}

// What a converter makes of one small model.
struct Conversion {
  std::string architecture;
  bool interleaves = false;
  bool adds_one_to_norms = false;
  std::string fields;  // of its config, beside small_config()'s
  // Keys beyond those that every model has, as bytes behind their names.
  std::map<std::string, std::string> keys = {};
  // Endings of names in a layer that are not as in llama.
  std::map<std::string, std::string> names = {};
};

class Converter {
 public:
  Converter(const weights::Checkpoint& from, const json::Value& config, const Conversion& how)
      : from_(from), config_(config), how_(how) {}

  std::string bytes() {
    add_keys();
    for (const weights::TensorFile& file : from_.files()) {
      for (const weights::TensorInfo& tensor : file.tensors()) add_tensor(file, tensor);
    }
    for (const auto& [name, experts] : experts_) {
      auto dimensions = experts.dimensions;
      dimensions.push_back(experts.n);
      out_.tensor_with(name, dimensions, 0, experts.bytes);
    }
    return out_.bytes();
  }

 private:
  struct Experts {
    std::vector<std::uint64_t> dimensions;
    std::uint64_t n = 0;
    std::string bytes;
  };

  std::uint32_t count(std::string_view field) const {
    return static_cast<std::uint32_t>(config_.find(field)->to_uint64().value());
  }
  std::uint32_t head_dim() const {
    return config_.find("head_dim") != nullptr
               ? count("head_dim")
               : count("hidden_size") / count("num_attention_heads");
  }

  void add_keys() {
    const std::string& a = how_.architecture;
    out_.key("general.architecture", string_value(a))
        .key(a + ".embedding_length", u32_value(count("hidden_size")))
        .key(a + ".feed_forward_length", u32_value(count("intermediate_size")))
        .key(a + ".block_count", u32_value(count("num_hidden_layers")))
        .key(a + ".context_length", u32_value(count("max_position_embeddings")))
        .key(a + ".attention.head_count", u32_value(count("num_attention_heads")))
        .key(a + ".attention.head_count_kv", u32_value(count("num_key_value_heads")))
        .key(a + ".attention.layer_norm_rms_epsilon", f32_value(1e-6F))
        .key(a + ".attention.key_length", u32_value(head_dim()))
        .key("tokenizer.ggml.eos_token_id", u32_value(2));
    for (const auto& [name, value] : how_.keys)
      out_.key(std::string(a).append(".").append(name), value);
  }

  std::string ending_of(const std::string& part) const {
    static const std::map<std::string, std::string> usual{
        {"input_layernorm", "attn_norm"},
        {"post_attention_layernorm", "ffn_norm"},
        {"self_attn.q_proj", "attn_q"},
        {"self_attn.k_proj", "attn_k"},
        {"self_attn.v_proj", "attn_v"},
        {"self_attn.o_proj", "attn_output"},
        {"self_attn.q_norm", "attn_q_norm"},
        {"self_attn.k_norm", "attn_k_norm"},
        {"mlp.gate_proj", "ffn_gate"},
        {"mlp.up_proj", "ffn_up"},
        {"mlp.down_proj", "ffn_down"},
    };
    const auto own = how_.names.find(part);
    return own != how_.names.end() ? own->second : usual.at(part);
  }

  void add_tensor(const weights::TensorFile& file, const weights::TensorInfo& tensor) {
    std::string bytes(tensor.n_bytes(), '\0');
    ASSERT_TRUE(file.read(tensor, 0, std::as_writable_bytes(std::span(bytes))).ok());
    std::vector<std::uint64_t> dimensions(tensor.shape.rbegin(), tensor.shape.rend());
    std::string name = tensor.name;
    const std::string ending = name.substr(name.rfind('.'));
    name.resize(name.size() - ending.size());
    if (name.starts_with("model.")) name.erase(0, 6);
    const bool is_norm = name.find("norm") != std::string::npos;
    if (is_norm && how_.adds_one_to_norms) add_one(bytes);
    if (name == "embed_tokens" || name == "norm" || name == "lm_head") {
      const std::string outer = name == "norm"      ? "output_norm"
                                : name == "lm_head" ? "output"
                                                    : "token_embd";
      out_.tensor_with(outer + ending, dimensions, 0, bytes);
      return;
    }
    const std::size_t dot = name.find('.', 7);  // "layers.N."
    const std::string layer = "blk." + name.substr(7, dot - 7) + ".";
    std::string part = name.substr(dot + 1);
    const std::size_t expert = part.find("experts.");
    if (expert != std::string::npos && part.find("shared_expert") == std::string::npos) {
      const std::size_t after = part.find('.', expert + 8);
      part = part.substr(0, expert) + "experts" + part.substr(after);
      Experts& all = experts_[layer + ending_of(part) + ending];
      all.dimensions = dimensions;
      all.bytes += bytes;  // files list experts in order
      ++all.n;
      return;
    }
    if (part == "mlp.shared_expert_gate") dimensions = {dimensions.front()};
    if (how_.interleaves && (part == "self_attn.q_proj" || part == "self_attn.k_proj"))
      interleave(bytes, tensor.shape.front());
    out_.tensor_with(layer + ending_of(part) + ending, dimensions, 0, bytes);
  }

  static void add_one(std::string& bytes) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, bytes.data() + i, sizeof(float));
      value += 1.0F;
      std::memcpy(bytes.data() + i, &value, sizeof(float));
    }
  }

  // Of each head: row i of the first half becomes row 2 i, of the second 2 i + 1.
  void interleave(std::string& bytes, std::uint64_t n_rows) const {
    const std::string before = bytes;
    const std::size_t row_bytes = bytes.size() / n_rows;
    const std::size_t dim = head_dim();
    for (std::size_t row = 0; row < n_rows; ++row) {
      const std::size_t head = row / dim * dim;
      const std::size_t in_head = row % dim;
      const std::size_t to = head + (in_head < dim / 2 ? 2 * in_head : 2 * (in_head - dim / 2) + 1);
      std::memcpy(bytes.data() + to * row_bytes, before.data() + row * row_bytes, row_bytes);
    }
  }

  const weights::Checkpoint& from_;
  const json::Value& config_;
  const Conversion& how_;
  FileBytes out_;
  std::map<std::string, Experts> experts_;
};

const std::map<std::string, std::string> kGemmaEndings{
    {"post_attention_layernorm", "post_attention_norm"},
    {"pre_feedforward_layernorm", "ffn_norm"},
    {"post_feedforward_layernorm", "post_ffw_norm"}};
const std::map<std::string, std::string> kQwenMoeEndings{
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.experts.gate_proj", "ffn_gate_exps"},
    {"mlp.experts.up_proj", "ffn_up_exps"},
    {"mlp.experts.down_proj", "ffn_down_exps"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"}};

// NOLINTNEXTLINE(readability-function-size): a table
std::vector<Conversion> conversions() {
  return {
      {.architecture = "llama", .interleaves = true, .fields = R"({"model_type":"llama"})"},
      {.architecture = "llama",
       .interleaves = true,
       .fields = R"({"model_type":"llama","tie_word_embeddings":true,"rope_theta":500,)"
                 R"("rope_scaling":{"rope_type":"linear","factor":4}})",
       .keys = {{"rope.freq_base", f32_value(500)},
                {"rope.scaling.type", string_value("linear")},
                {"rope.scaling.factor", f32_value(4)}}},
      {.architecture = "llama",
       .interleaves = true,
       .fields = R"({"model_type":"llama","rope_scaling":{"rope_type":"yarn","factor":4,)"
                 R"("original_max_position_embeddings":32}})",
       .keys = {{"rope.scaling.type", string_value("yarn")},
                {"rope.scaling.factor", f32_value(4)},
                {"rope.scaling.original_context_length", u32_value(32)}}},
      {.architecture = "llama",
       .interleaves = true,
       .fields =
           R"({"model_type":"mixtral","num_local_experts":5,"num_experts_per_tok":2,"rms_norm_eps":1e-6,"rope_theta":1e4})",
       .keys = {{"expert_count", u32_value(5)}, {"expert_used_count", u32_value(2)}},
       .names = {{"block_sparse_moe.gate", "ffn_gate_inp"},
                 {"block_sparse_moe.experts.w1", "ffn_gate_exps"},
                 {"block_sparse_moe.experts.w2", "ffn_down_exps"},
                 {"block_sparse_moe.experts.w3", "ffn_up_exps"}}},
      {.architecture = "granite",
       .interleaves = true,
       .fields =
           R"({"model_type":"granite","embedding_multiplier":3,"attention_multiplier":0.2,"residual_multiplier":0.6,"logits_scaling":2})",
       .keys = {{"embedding_scale", f32_value(3)},
                {"attention.scale", f32_value(0.2F)},
                {"residual_scale", f32_value(0.6F)},
                {"logit_scale", f32_value(2)}}},
      {.architecture = "smollm3",
       .interleaves = true,
       .fields = R"({"model_type":"smollm3","rope_theta":1e4})"},
      {.architecture = "qwen2", .fields = R"({"model_type":"qwen2"})"},
      {.architecture = "qwen2moe",
       .fields =
           R"({"model_type":"qwen2_moe","num_experts":5,"num_experts_per_tok":2,"moe_intermediate_size":24,"shared_expert_intermediate_size":40})",
       .keys = {{"expert_count", u32_value(5)},
                {"expert_used_count", u32_value(2)},
                {"expert_feed_forward_length", u32_value(24)},
                {"expert_shared_feed_forward_length", u32_value(40)}},
       .names = kQwenMoeEndings},
      {.architecture = "qwen3",
       .fields = R"({"model_type":"qwen3","head_dim":16,"tie_word_embeddings":true})"},
      {.architecture = "qwen3moe",
       .fields =
           R"({"model_type":"qwen3_moe","head_dim":16,"num_experts":5,"num_experts_per_tok":3,"moe_intermediate_size":24,"norm_topk_prob":true})",
       .keys = {{"expert_count", u32_value(5)},
                {"expert_used_count", u32_value(3)},
                {"expert_feed_forward_length", u32_value(24)}},
       .names = kQwenMoeEndings},
      {.architecture = "gemma",
       .adds_one_to_norms = true,
       .fields = R"({"model_type":"gemma","head_dim":16,"num_key_value_heads":1})"},
      {.architecture = "gemma2",
       .adds_one_to_norms = true,
       .fields =
           R"({"model_type":"gemma2","head_dim":16,"sliding_window":9,"attn_logit_softcapping":5,"final_logit_softcapping":8,"query_pre_attn_scalar":16})",
       .keys = {{"attention.sliding_window", u32_value(9)},
                {"attn_logit_softcapping", f32_value(5)},
                {"final_logit_softcapping", f32_value(8)}},
       .names = kGemmaEndings},
      {.architecture = "gemma3",
       .adds_one_to_norms = true,
       .fields =
           R"({"model_type":"gemma3_text","head_dim":16,"num_hidden_layers":7,"sliding_window":9,"query_pre_attn_scalar":16,"rope_theta":1e6})",
       .keys = {{"attention.sliding_window", u32_value(9)}, {"rope.freq_base", f32_value(1e6F)}},
       .names = kGemmaEndings},
      {.architecture = "olmo2",
       .fields = R"({"model_type":"olmo2","rms_norm_eps":1e-6})",
       .names = {{"post_attention_layernorm", "post_attention_norm"},
                 {"post_feedforward_layernorm", "post_ffw_norm"}}},
      {.architecture = "phi3",
       .fields = R"({"model_type":"phi3","rms_norm_eps":1e-6,"tie_word_embeddings":false})",
       .names = {{"self_attn.qkv_proj", "attn_qkv"}, {"mlp.gate_up_proj", "ffn_up"}}},
  };
}

class GgufArchitectures : public ::testing::TestWithParam<Conversion> {};

TEST_P(GgufArchitectures, GiveTheLogitsOfTheCheckpoint) {
  const Conversion& how = GetParam();
  const base::TempFolder folder;
  const json::Value config = small_config(how.fields);
  RandomCheckpointOptions random;
  random.dir = folder.path();
  random.type = tensor::DType::kF32;
  ASSERT_TRUE(write_random_checkpoint(config, random).ok());
  const auto checkpoint = weights::Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok());
  folder.write("converted.gguf", Converter(*checkpoint, config, how).bytes());

  const auto original = load(folder.path());
  const auto converted = load(folder.path() + "/converted.gguf");
  ASSERT_TRUE(original != nullptr && converted != nullptr);
  EXPECT_EQ(converted->info().model_type, original->info().model_type);
  EXPECT_THAT(converted->info().warnings, ::testing::IsEmpty());
  EXPECT_EQ(converted->info().eos_token_ids, original->info().eos_token_ids);
  std::vector<TokenId> ids(25);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 7 % 61);
  const std::vector<float> expected = logits_of(*original, ids);
  const std::vector<float> got = logits_of(*converted, ids);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    // The products of q and k are summed in the order in which the values stand.
    if (how.interleaves) {
      ASSERT_NEAR(got[i], expected[i], 1e-4) << "token " << i;
    } else {
      ASSERT_EQ(got[i], expected[i]) << "token " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All,
                         GgufArchitectures,
                         ::testing::ValuesIn(conversions()),
                         [](const auto& test) {
                           return test.param.architecture + std::to_string(test.index);
                         });

class GgufErrors : public ::testing::Test {
 protected:
  std::string error(const FileBytes& file) {
    folder_.write("a.gguf", file.bytes());
    const auto model = GgufModel::open(folder_.path() + "/a.gguf");
    if (!model.ok()) return model.status().message();
    const auto weights = model->open_weights();
    return weights.ok() ? "ok" : weights.status().message();
  }
  static FileBytes file() {
    FileBytes out;
    out.key("general.architecture", string_value("llama"))
        .key("llama.embedding_length", u32_value(32))
        .key("llama.feed_forward_length", u32_value(32))
        .key("llama.block_count", u32_value(1))
        .key("llama.context_length", u32_value(64))
        .key("llama.attention.layer_norm_rms_epsilon", f32_value(1e-5F))
        .tensor_with("token_embd.weight", {32, 4}, 2, std::string(4 * 18, '\1'));
    return out;
  }
  static FileBytes whole_file() { return file().key("llama.attention.head_count", u32_value(2)); }

  const base::TempFolder folder_;
};

TEST_F(GgufErrors, NameTheKeyOrTheTensor) {
  EXPECT_EQ(error(whole_file()), "ok");
  EXPECT_THAT(error(FileBytes().key("general.architecture", string_value("mamba"))),
              HasSubstr("general.architecture is \"mamba\", supported are llama, "));
  EXPECT_THAT(error(file()), HasSubstr("key llama.attention.head_count is missing"));
  EXPECT_THAT(error(file().key("llama.attention.head_count", gguf::testing::f32s_value({1, 2}))),
              HasSubstr("llama.attention.head_count (a value for each layer) is not supported"));
  EXPECT_THAT(error(whole_file().key("llama.rope.scaling.type", string_value("odd"))),
              HasSubstr("key llama.rope.scaling.type is \"odd\""));
  EXPECT_THAT(error(whole_file().key("llama.rope.freq_base", f32_value(HUGE_VALF))),
              HasSubstr("the header makes `rope_theta` inf, which must be finite"));
  EXPECT_THAT(error(whole_file()
                        .key("llama.attention.key_length", u32_value(0))
                        .key("llama.rope.dimension_count", u32_value(16))),
              HasSubstr("the header makes `partial_rotary_factor` inf"));
  EXPECT_THAT(
      error(whole_file().tensor_with("blk.0.attn_odd.weight", {32}, 0, std::string(128, 0))),
      HasSubstr("\"blk.0.attn_odd.weight\" is not known"));
  EXPECT_THAT(
      error(whole_file().tensor_with("blk.0.ffn_norm.weight", {32}, 24, std::string(32, 0))),
      HasSubstr("\"blk.0.ffn_norm.weight\" has type I8, which holds no weights"));
  EXPECT_THAT(
      error(whole_file().tensor_with("blk.0.ffn_up_exps.weight", {32, 2}, 0, std::string(256, 0))),
      HasSubstr("has shape [2, 32], not one matrix for each expert"));
  EXPECT_THAT(
      error(whole_file().tensor_with("blk.0.ffn_up_exps.weight", {32, 0, 1ULL << 40}, 0, "")),
      HasSubstr("has shape [1099511627776, 0, 32], not one matrix for each expert"));
  EXPECT_THAT(error(whole_file().tensor_with(
                  "blk.0.ffn_up_exps.weight", {1, 1, 4097}, 0, std::string(4 * 4097, 0))),
              HasSubstr("has shape [4097, 1, 1], at most 4096 experts are read"));
  EXPECT_THAT(error(whole_file().key("split.count",
                                     bytes_of<std::uint32_t>(2) + bytes_of<std::uint16_t>(3))),
              HasSubstr("split.count and the name of the file do not fit"));
}

// The tensors of one model in three files, keys in the first alone.
TEST_F(GgufErrors, SplitFilesAreOneModel) {
  const std::string count = bytes_of<std::uint32_t>(2) + bytes_of<std::uint16_t>(2);
  FileBytes first = whole_file();
  first.key("split.count", count);
  FileBytes second;
  second.key("split.count", count)
      .tensor_with("blk.0.attn_norm.weight", {32}, 0, std::string(128, '\0'));
  folder_.write("m-00001-of-00002.gguf", first.bytes());
  const std::string path = folder_.path() + "/m-00001-of-00002.gguf";
  EXPECT_THAT(GgufModel::open(path).status().message(), HasSubstr("m-00002-of-00002.gguf"));
  folder_.write("m-00002-of-00002.gguf", second.bytes());
  const auto model = GgufModel::open(path);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto checkpoint = model->open_weights();
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_TRUE(checkpoint->find("model.embed_tokens.weight"));
  EXPECT_TRUE(checkpoint->find("model.layers.0.input_layernorm.weight"));
}

}  // namespace
}  // namespace coxswain::model
