#include "model_size.h"

#include <cstddef>

#include "json/json.h"

namespace coxswain::bench {

Result<Parameters> parameters_of(const std::string& model_dir) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value config,
                            json::parse_file(model_dir + "/config.json", std::size_t{1} << 20));
  const auto number = [&](const char* key, double otherwise) {
    const json::Value* value = config.find(key);
    return value != nullptr ? value->to_double().value_or(otherwise) : otherwise;
  };
  const double hidden = number("hidden_size", 0);
  const double heads = number("num_attention_heads", 1);
  const double kv_heads = number("num_key_value_heads", heads);
  const double dim = number("head_dim", hidden / heads);
  const double width = number("moe_intermediate_size", number("intermediate_size", 0));
  const double layer = hidden * dim * (2 * heads + 2 * kv_heads) +
                       3 * hidden * width * number("num_experts_per_tok", 1);
  return Parameters{layer * number("num_hidden_layers", 0), hidden * number("vocab_size", 0)};
}

}  // namespace coxswain::bench
