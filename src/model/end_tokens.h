#pragma once
// The ids that end a text. Published models keep them in three places: a list in generation_config.json is all of
// them; otherwise its one id, or config.json's, and one that the tokenizer may name, which was added when the
// model was trained further.
//
// Thread rule: pure but for reading the file.

#include <string>

#include <coxswain/status.h>

#include "json/json.h"
#include "model/model.h"

namespace coxswain::model {

// Fills info.eos_token_ids, and info.warnings about them. REQUIRES: info.vocab_size is set. Errors name file and field.
Status read_end_tokens(const LoadOptions& options,
                       const json::Value& config,
                       const std::string& config_path,
                       ModelInfo& info);

}  // namespace coxswain::model
