#include "model/end_tokens.h"

#include <algorithm>
#include <filesystem>
#include <string>

namespace coxswain::model {
namespace {

// eos_token_id is a number or a list. An id outside the vocabulary, as some published models have, can never be
// sampled: it is left out with a warning.
Status read_eos(const json::Value& config, const std::string& file, ModelInfo& info) {
  const json::Value* eos = config.find("eos_token_id");
  if (eos == nullptr || eos->is_null() || !info.eos_token_ids.empty()) return {};
  const json::Array list = eos->is_array() ? eos->as_array() : json::Array{*eos};
  for (const json::Value& entry : list) {
    if (!entry.is_number() || !entry.is_integer_text()) {
      return invalid_argument(file + ": eos_token_id must be a token id or a list of token ids",
                              "eos_token_id");
    }
    const auto id = entry.to_uint64();
    if (id && *id < info.vocab_size) {
      info.eos_token_ids.push_back(static_cast<TokenId>(*id));
    } else {
      info.warnings.push_back(file + ": eos_token_id " + entry.number_text().substr(0, 20) +
                              " is left out, for vocab_size is " + std::to_string(info.vocab_size));
    }
  }
  return {};
}

}  // namespace

Status read_end_tokens(const LoadOptions& options,
                       const json::Value& config,
                       const std::string& config_path,
                       ModelInfo& info) {
  const std::string generation_path = options.model_dir + "/generation_config.json";
  bool listed = false;
  if (std::error_code error; std::filesystem::exists(generation_path, error)) {
    COXSWAIN_ASSIGN_OR_RETURN(const json::Value generation,
                              json::parse_file(generation_path, kConfigFileBytesMax));
    COXSWAIN_RETURN_IF_ERROR(read_eos(generation, generation_path, info));
    const json::Value* eos = generation.find("eos_token_id");
    listed = eos != nullptr && eos->is_array() && !info.eos_token_ids.empty();
  }
  COXSWAIN_RETURN_IF_ERROR(read_eos(config, config_path, info));
  std::vector<TokenId>& ids = info.eos_token_ids;
  if (const auto own = options.tokenizer_eos; own && !listed && *own >= 0) {
    const bool has_row = static_cast<std::uint32_t>(*own) < info.vocab_size;
    if (has_row && std::find(ids.begin(), ids.end(), *own) == ids.end()) ids.push_back(*own);
  }
  if (ids.empty()) {
    info.warnings.push_back(options.model_dir +
                            ": no end token is known: only a limit or a stop string ends a text");
  }
  return {};
}

}  // namespace coxswain::model
