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
      {R"({"checkpoint_format":"marlin"})", "here.checkpoint_format (\"marlin\") is not supported"},
      {R"({"is_marlin_format":true})", "here.is_marlin_format (true) is not supported"},
      {R"({"dynamic":{"a":{"bits":8}}})", "here.dynamic ({\"a\":{\"bits\":8}}) is not supported"},
      {R"({"hadamard":true})", "here.hadamard (true) is not known"},
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
