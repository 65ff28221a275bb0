#include "model/stored_quant_config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"

namespace coxswain::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using weights::StoredMethod;
using weights::StoredQuant;

Result<StoredQuant> parsed(const std::string& text) {
  const auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return parse_stored_quant(*value, "here");
}

TEST(StoredQuantConfig, FormsOfGptq) {
  const auto first = parsed(R"({"quant_method":"gptq","bits":3,"group_size":128,"sym":true,)"
                            R"("desc_act":true,"damp_percent":0.1,"dynamic":{}})");
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_EQ(first->method, StoredMethod::kGptq);
  EXPECT_EQ(first->bits, 3U);
  EXPECT_EQ(first->group_size, 128U);
  EXPECT_TRUE(first->zeros_less_one);
  const auto second = parsed(R"({"bits":4,"group_size":-1,"checkpoint_format":"gptq_v2"})");
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(second->method, StoredMethod::kGptq);
  EXPECT_EQ(second->group_size, 0U);
  EXPECT_FALSE(second->zeros_less_one);
}

TEST(StoredQuantConfig, FormsOfAwq) {
  const auto quant = parsed(R"({"zero_point":true,"q_group_size":64,"w_bit":4,"version":"GEMM",)"
                            R"("modules_to_not_convert":["lm_head","down_proj"]})");
  ASSERT_TRUE(quant.ok()) << quant.status().message();
  EXPECT_EQ(quant->method, StoredMethod::kAwq);
  EXPECT_EQ(quant->group_size, 64U);
  EXPECT_THAT(quant->plain_modules, ElementsAre("lm_head", "down_proj"));
}

TEST(StoredQuantConfig, ComesFromTheConfigOrTheFileOfOlderPrograms) {
  const base::TempFolder folder;
  const auto method = [&](const std::string& config) {
    const auto out = read_stored_quant(folder.path(), *json::parse(config));
    EXPECT_TRUE(out.ok()) << out.status().message();
    return quantize_name(*out);
  };
  EXPECT_EQ(method("{}"), "");
  EXPECT_EQ(method(R"({"quantization_config":null})"), "");
  EXPECT_EQ(method(R"({"compression_config":{"quant_method":"awq"}})"), "awq");
  folder.write("quant_config.json", R"({"w_bit":4,"zero_point":true})");
  EXPECT_EQ(method("{}"), "awq");
  folder.write("quantize_config.json", R"({"bits":4,"group_size":128})");
  EXPECT_EQ(method("{}"), "gptq");
  EXPECT_EQ(method(R"({"quantization_config":{"quant_method":"awq"}})"), "awq");
  folder.write("quantize_config.json", R"({"bits":5})");
  EXPECT_THAT(read_stored_quant(folder.path(), *json::parse("{}")).status().message(),
              HasSubstr("quantize_config.json.bits (5) is not supported"));
}

std::string group_of(const std::string& weights) {
  return R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{"g":{)"
         R"("targets":["Linear"],"weights":{)" +
         weights + "}}}}";
}

TEST(StoredQuantConfig, FormsOfOtherPrograms) {
  const auto fp8 = parsed(R"({"quant_method":"fp8","weight_block_size":[128,64],)"
                          R"("ignored_layers":["a"],"modules_to_not_convert":["b"]})");
  ASSERT_TRUE(fp8.ok()) << fp8.status().message();
  EXPECT_EQ(fp8->block_rows, 128U);
  EXPECT_EQ(fp8->block_inputs, 64U);
  EXPECT_THAT(fp8->plain_modules, ElementsAre("b", "a"));
  const auto nf4 = parsed(R"({"quant_method":"bitsandbytes","load_in_4bit":true,)"
                          R"("load_in_8bit":false,"bnb_4bit_quant_type":"nf4"})");
  ASSERT_TRUE(nf4.ok()) << nf4.status().message();
  EXPECT_EQ(quantize_name(*nf4), "bitsandbytes-nf4");
  const auto marlin = parsed(R"({"quant_method":"gptq","bits":4,"is_marlin_format":true})");
  ASSERT_TRUE(marlin.ok()) << marlin.status().message();
  EXPECT_EQ(quantize_name(*marlin), "marlin");
  const auto groups = parsed(group_of(R"("num_bits":8,"strategy":"group","group_size":64,)"
                                      R"("symmetric":false)"));
  ASSERT_TRUE(groups.ok()) << groups.status().message();
  ASSERT_EQ(groups->groups.size(), 1U);
  EXPECT_EQ(groups->groups[0].group_size, 64U);
  EXPECT_FALSE(groups->groups[0].symmetric);
  EXPECT_FALSE(groups->groups[0].is_packed);
}

std::string with_cache(const std::string& scheme) {
  std::string out = group_of(R"("num_bits":8,"strategy":"channel")");
  out.pop_back();
  return out + R"(,"kv_cache_scheme":)" + scheme + "}";
}

TEST(StoredQuantConfig, SaysWhetherTheCacheHoldsFloats) {
  for (const auto& [scheme, is_float] :
       {std::pair{
            R"({"num_bits":8,"type":"float","strategy":"tensor","symmetric":true,"dynamic":false})",
            true},
        std::pair{R"({"num_bits":8,"type":"float"})", true},
        std::pair{"null", false}}) {
    const auto stored = parsed(with_cache(scheme));
    ASSERT_TRUE(stored.ok()) << stored.status().message();
    EXPECT_EQ(stored->float8_cache, is_float) << scheme;
  }
}

TEST(StoredQuantConfig, RefusesWhatItDoesNotKnowByFieldAndValue) {
  struct Case {
    std::string config;
    std::string message;
  };
  const std::vector<Case> cases{
      {"[]", "here must be an object"},
      {R"({"quant_method":"hqq"})", "here.quant_method \"hqq\" is not supported"},
      {R"({"quant_method":7})", "here.quant_method must be a string, not 7"},
      {R"({"bits":5})", "here.bits (5) is not supported"},
      {R"({"bits":"4"})", "here.bits must be a whole number"},
      {R"({"group_size":0})", "here.group_size must be a whole number from 1"},
      {R"({"group_size":-2})", "here.group_size must be a whole number from 1"},
      {R"({"is_marlin_format":true,"bits":8})", "here.bits (8) is not supported"},
      {R"({"dynamic":{"a":{"bits":8}}})", "here.dynamic ({\"a\":{\"bits\":8}}) is not supported"},
      {R"({"hadamard":true})", "here.hadamard (true) is not known"},
      {R"({"quant_method":"marlin","bits":8})", "here.bits (8) is not supported"},
      {R"({"quant_method":"marlin","sym":false})", "here.sym (false) is not supported"},
      {R"({"checkpoint_format":"marlin","desc_act":true})",
       "here.desc_act (true) is not supported"},
      {R"({"checkpoint_format":"marlin_24"})", "here.checkpoint_format (\"marlin_24\") is not"},
      {R"({"quant_method":"exl2","rope":1})", "here.rope (1) is not known"},
      {R"({"quant_method":"fp8","fmt":"e5m2"})", "here.fmt (\"e5m2\") is not supported"},
      {R"({"quant_method":"fp8","weight_block_size":[128]})",
       "weight_block_size must be a list of 2"},
      {R"({"quant_method":"fp8","weight_block_size":[0,8]})",
       "weight_block_size must hold numbers"},
      {R"({"quant_method":"bitsandbytes"})", "load_in_4bit or load_in_8bit must be true"},
      {R"({"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"int4"})",
       "here.bnb_4bit_quant_type (\"int4\") is not supported"},
      {R"({"quant_method":"compressed-tensors"})", "here.format is missing"},
      {R"({"quant_method":"compressed-tensors","format":"marlin-24"})",
       "here.format (\"marlin-24\") is not supported"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized"})",
       "here.config_groups is missing"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized","config_groups":{}})",
       "here.config_groups is empty"},
      {R"({"quant_method":"compressed-tensors","format":"int-quantized",)"
       R"("sparsity_config":{"format":"sparse-24-bitmask"}})",
       "here.sparsity_config ({\"format\":\"sparse-24-bitmask\"}) is not supported"},
      {group_of(R"("num_bits":4)"), "here.config_groups.g.weights.num_bits (4) is not supported"},
      {group_of(R"("num_bits":8,"strategy":"token")"), "strategy (\"token\") is not supported"},
      {group_of(R"("num_bits":8,"strategy":"group")"), "weights.group_size is missing"},
      {group_of(R"("num_bits":8,"type":"uint")"), "weights.type (\"uint\") is not supported"},
      {group_of(R"("num_bits":8,"strategy":"channel","shift":1)"), "shift (1) is not known"},
      {with_cache(R"({"num_bits":4,"type":"float"})"),
       "here.kv_cache_scheme.num_bits (4) is not supported"},
      {with_cache(R"({"num_bits":8,"type":"int"})"),
       "here.kv_cache_scheme.type (\"int\") is not supported"},
      {with_cache(R"({"num_bits":8,"type":"float","strategy":"attn_head"})"),
       "here.kv_cache_scheme.strategy (\"attn_head\") is not supported"},
      {with_cache("7"), "here.kv_cache_scheme must be"},
      {R"({"quant_method":"awq","bits":8})", "here.bits (8) is not supported"},
      {R"({"quant_method":"awq","version":"gemv"})", "here.version (\"gemv\") is not supported"},
      {R"({"quant_method":"awq","zero_point":false})", "here.zero_point (false) is not supported"},
      {R"({"quant_method":"awq","modules_to_not_convert":[1]})", "must hold strings, not 1"},
  };
  for (const Case& c : cases)
    EXPECT_THAT(parsed(c.config).status().message(), HasSubstr(c.message)) << c.config;
}

}  // namespace
}  // namespace coxswain::model
