// The document of /detokenize: vLLM's, which llama-server's is a part of.

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/fields.h"

namespace coxswain::api {

Result<DetokenizeRequest> read_detokenize_request(const json::Value& body,
                                                  const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  DetokenizeRequest out;
  out.model = fields.read_string("model", limits.model_bytes_max);
  out.skip_special_tokens = fields.read_bool("skip_special_tokens").value_or(false);
  const json::Value* tokens = fields.find("tokens");
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  if (tokens == nullptr) return invalid_argument("`tokens` is missing", "tokens");
  if (!tokens->is_array()) {
    return invalid_argument(
        "`tokens` must be an array of token ids. Given: " + std::string(type_name(*tokens)),
        "tokens");
  }
  COXSWAIN_ASSIGN_OR_RETURN(out.tokens, read_token_ids(tokens->as_array(), "tokens"));
  return out;
}

}  // namespace coxswain::api
