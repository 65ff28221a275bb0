#pragma once
// A family turns config.json into an ArchSpec and a TensorMap. One file for each; families.cc lists
// them.
//
// Thread rule: pure functions.

#include <span>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "json/json.h"
#include "model/arch_spec.h"
#include "model/config_reader.h"
#include "model/tensor_map.h"

namespace coxswain::model {

struct Architecture {
  ArchSpec arch;
  TensorMap tensors;
};

// Fills both from the config. Faults go to the reader's status; the result then does not matter.
using ReadFamily = Architecture (*)(ConfigReader& config);

struct Family {
  std::string_view model_type;
  ReadFamily read = nullptr;
};

std::span<const Family> families();

// Reads model_type and everything else. Errors name the field: kInvalidArgument; kUnimplemented for
// an unknown family.
Result<Architecture> read_architecture(const json::Value& config);

// ---- one reader for each family ----
Architecture read_bloom(ConfigReader& config);
Architecture read_codegen(ConfigReader& config);
Architecture read_cohere(ConfigReader& config);
Architecture read_dbrx(ConfigReader& config);
Architecture read_falcon(ConfigReader& config);
Architecture read_gemma(ConfigReader& config);
Architecture read_gemma2(ConfigReader& config);
Architecture read_gemma3_text(ConfigReader& config);
Architecture read_gpt2(ConfigReader& config);
Architecture read_gpt_bigcode(ConfigReader& config);
Architecture read_gpt_neo(ConfigReader& config);
Architecture read_gpt_neox(ConfigReader& config);
Architecture read_gpt_oss(ConfigReader& config);
Architecture read_gptj(ConfigReader& config);
Architecture read_granite(ConfigReader& config);
Architecture read_llama(ConfigReader& config);
Architecture read_mistral(ConfigReader& config);
Architecture read_mixtral(ConfigReader& config);
Architecture read_mpt(ConfigReader& config);
Architecture read_olmo2(ConfigReader& config);
Architecture read_opt(ConfigReader& config);
Architecture read_phi(ConfigReader& config);
Architecture read_phi3(ConfigReader& config);
Architecture read_qwen2(ConfigReader& config);
Architecture read_qwen2_moe(ConfigReader& config);
Architecture read_qwen3(ConfigReader& config);
Architecture read_qwen3_moe(ConfigReader& config);
Architecture read_smollm3(ConfigReader& config);
Architecture read_stablelm(ConfigReader& config);
Architecture read_starcoder2(ConfigReader& config);

}  // namespace coxswain::model
