// The completion document: one or several prompts as text or token ids.

#include <limits>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"

namespace coxswain::api {
namespace {

Status bad_prompt(std::string message) {
  return invalid_argument(std::move(message), "prompt");
}

Status bad_form(std::string given) {
  return bad_prompt(
      "`prompt` must be a string, an array of strings, an array of token ids or an array of such "
      "arrays. Given: " +
      std::move(given));
}

Status empty_array() {
  return bad_prompt("Empty array detected. Do not use an empty array for the prompt.");
}

Result<std::vector<TokenId>> read_ids(const json::Array& array) {
  if (array.empty()) return empty_array();
  return read_token_ids(array, "prompt");
}

Result<std::vector<Prompt>> read_list(const json::Array& array, const DocumentLimits& limits) {
  if (array.size() > limits.client_batch_max) {
    return bad_prompt("Number of prompts exceeds the maximum allowed batch size of " +
                      std::to_string(limits.client_batch_max))
        .as_whole_text();
  }
  std::vector<Prompt> out;
  out.reserve(array.size());
  for (const json::Value& entry : array) {
    if (entry.type() != array.front().type()) {
      return bad_form("an array with " + std::string(type_name(array.front())) + " and " +
                      std::string(type_name(entry)));
    }
    if (entry.is_string()) {
      out.emplace_back(entry.as_string());
    } else {
      COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, read_ids(entry.as_array()));
      out.emplace_back(std::move(ids));
    }
  }
  return out;
}

Result<std::vector<Prompt>> read_prompts(const json::Value* value, const DocumentLimits& limits) {
  if (value == nullptr) return bad_prompt("`prompt` is missing");
  if (value->is_string()) return std::vector<Prompt>{value->as_string()};
  if (!value->is_array()) return bad_form(std::string(type_name(*value)));
  const json::Array& array = value->as_array();
  if (array.empty()) return empty_array();
  switch (array.front().type()) {
    case json::Value::Type::kNumber: {
      COXSWAIN_ASSIGN_OR_RETURN(std::vector<TokenId> ids, read_ids(array));
      return std::vector<Prompt>{std::move(ids)};
    }
    case json::Value::Type::kString:
    case json::Value::Type::kArray:
      return read_list(array, limits);
    case json::Value::Type::kNull:
    case json::Value::Type::kBool:
    case json::Value::Type::kObject:
      break;
  }
  return bad_form("an array with " + std::string(type_name(array.front())));
}

}  // namespace

Result<CompletionRequest> read_completion_request(const json::Value& body,
                                                  const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  CompletionRequest out;
  out.model = fields.read_string("model", limits.model_bytes_max);
  const json::Value* prompt = fields.find("prompt");
  if (fields.find("suffix") != nullptr) {
    fields.fail(
        unsupported("Suffix is not supported and can be achieved by preprocessing the prompt.",
                    "suffix")
            .as_whole_text());
  }
  out.parameters = read_openai_parameters(fields, limits);
  out.parameters.top_n_tokens = fields.read_u32("logprobs");
  out.parameters.top_tokens_field = "logprobs";
  out.logprobs = out.parameters.top_n_tokens.has_value();
  out.echo = fields.read_bool("echo").value_or(false);
  out.stream = fields.read_bool("stream").value_or(false);
  out.include_usage = read_include_usage(fields);
  fields.require_neutral("add_special_tokens", "true");
  out.parameters.best_of = fields.read_u64("best_of");
  fields.refuse_documented(kCompletionDocument);
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  COXSWAIN_ASSIGN_OR_RETURN(out.prompts, read_prompts(prompt, limits));
  return out;
}

}  // namespace coxswain::api
