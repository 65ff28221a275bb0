// The native document: {"inputs", "parameters", "stream"}.

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/fields.h"
#include "api/grammar_document.h"

namespace coxswain::api {
namespace {

Parameters read_parameters(FieldReader& fields) {
  Parameters out;
  out.best_of = fields.read_u64("best_of");
  out.temperature = fields.read_float("temperature");
  out.repetition_penalty = fields.read_float("repetition_penalty");
  out.frequency_penalty = fields.read_float("frequency_penalty");
  out.top_k = fields.read_i32("top_k");
  out.top_p = fields.read_float("top_p");
  out.typical_p = fields.read_float("typical_p");
  out.do_sample = fields.read_bool("do_sample").value_or(false);
  out.max_new_tokens = fields.read_u32("max_new_tokens");
  out.return_full_text = fields.read_bool("return_full_text");
  out.stop = fields.read_strings("stop", FieldReader::BareString::kRefused);
  out.truncate = fields.read_u64("truncate");
  out.details = fields.read_bool("details").value_or(false);
  out.decoder_input_details = fields.read_bool("decoder_input_details").value_or(false);
  out.seed = fields.read_u64("seed");
  out.top_n_tokens = fields.read_u32("top_n_tokens");
  read_sampling_steps(fields, out);
  read_scheduling(fields, out);
  read_native_grammar(fields, out);
  fields.refuse_documented(kNativeParameters);
  return out;
}

}  // namespace

Result<GenerateRequest> read_generate_request(const json::Value& body,
                                              const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  GenerateRequest out;
  auto inputs = fields.read_string("inputs", static_cast<std::size_t>(-1));
  if (fields.ok() && !inputs) fields.fail("`inputs` is missing", "inputs");
  out.inputs = std::move(inputs).value_or(std::string());
  out.stream = fields.read_bool("stream");
  const json::Value* parameters = fields.find("parameters");
  fields.refuse_documented(kNativeDocument);
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  if (parameters == nullptr) {
    out.parameters.do_sample = true;  // a request without parameters samples
    return out;
  }
  if (!parameters->is_object()) {
    return invalid_argument(
        "`parameters` must be an object. Given: " + std::string(type_name(*parameters)),
        "parameters");
  }
  FieldReader inner(parameters->as_object());
  out.parameters = read_parameters(inner);
  const IgnoredFields ignored = finish_fields(inner, limits);
  out.ignored.insert(out.ignored.end(), ignored.begin(), ignored.end());
  COXSWAIN_RETURN_IF_ERROR(inner.status());
  return out;
}

}  // namespace coxswain::api
