#include <array>
#include <string>

#include "model/families/family.h"

namespace coxswain::model {
namespace {

constexpr std::array kFamilies{
    Family{"bloom", read_bloom},
    Family{"codegen", read_codegen},
    Family{"cohere", read_cohere},
    Family{"dbrx", read_dbrx},
    Family{"falcon", read_falcon},
    Family{"gemma", read_gemma},
    Family{"gemma2", read_gemma2},
    Family{"gemma3_text", read_gemma3_text},
    Family{"gpt2", read_gpt2},
    Family{"gpt_bigcode", read_gpt_bigcode},
    Family{"gpt_neo", read_gpt_neo},
    Family{"gpt_neox", read_gpt_neox},
    Family{"gpt_oss", read_gpt_oss},
    Family{"gptj", read_gptj},
    Family{"granite", read_granite},
    Family{"llama", read_llama},
    Family{"mistral", read_mistral},
    Family{"mixtral", read_mixtral},
    Family{"mpt", read_mpt},
    Family{"olmo2", read_olmo2},
    Family{"opt", read_opt},
    Family{"phi", read_phi},
    Family{"phi3", read_phi3},
    Family{"qwen2", read_qwen2},
    Family{"qwen2_moe", read_qwen2_moe},
    Family{"qwen3", read_qwen3},
    Family{"qwen3_moe", read_qwen3_moe},
    Family{"smollm3", read_smollm3},
    Family{"stablelm", read_stablelm},
    Family{"starcoder2", read_starcoder2},
};

}  // namespace

std::span<const Family> families() {
  return kFamilies;
}

Result<Architecture> read_architecture(const json::Value& config) {
  if (!config.is_object()) return invalid_argument("config.json: is not an object");
  ConfigReader reader(config, "config.json: ");
  const std::string model_type = reader.text_or("model_type", "");
  COXSWAIN_RETURN_IF_ERROR(reader.status());
  if (reader.has("quantization_config")) {
    return Status(Code::kUnimplemented,
                  ErrorKind::kValidation,
                  "config.json: quantization_config (weights stored quantised) is not supported",
                  "quantization_config");
  }
  for (const Family& family : families()) {
    if (family.model_type != model_type) continue;
    Architecture out = family.read(reader);
    COXSWAIN_RETURN_IF_ERROR(reader.status());
    out.arch.model_type = model_type;
    // Of a tied pair some files keep only the head.
    if (Rows& rows = out.tensors.embedding.rows.front(); out.arch.tied && rows.otherwise.empty())
      rows.otherwise = "lm_head.weight";
    return out;
  }
  return Status(Code::kUnimplemented,
                ErrorKind::kValidation,
                "config.json: model_type \"" + model_type + "\" is not supported",
                "model_type");
}

}  // namespace coxswain::model
