#pragma once
// Reads how the weights of a folder are stored quantised: quantization_config or compression_config of config.json, or
// the files that older programs wrote beside it (quantize_config.json, quant_config.json). Every field is known or
// refused by name: one that changes what weights mean must not be passed over.
//
// Thread rule: pure functions.

#include <string>

#include <coxswain/status.h>

#include "json/json.h"
#include "weights/stored_quant.h"

namespace coxswain::model {

// Method kNone where nothing says that weights are quantised. Errors name the field and its value: kUnimplemented for
// a method, a number of bits or an option that is not known, kInvalidArgument for a value that is senseless.
Result<weights::StoredQuant> read_stored_quant(const std::string& model_dir,
                                               const json::Value& config);

// What one of these objects says; `where` stands before its fields in messages.
Result<weights::StoredQuant> parse_stored_quant(const json::Value& value, const std::string& where);

// The value of --quantize that stands for this form, as "gptq" or "bitsandbytes-nf4"; empty for kNone.
std::string quantize_name(const weights::StoredQuant& quant);
// Whether --quantize takes the name, for weights that are stored so.
bool is_stored_quantize_name(std::string_view name);

}  // namespace coxswain::model
