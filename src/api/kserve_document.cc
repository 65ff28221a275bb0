// The documents of the routes below /v2.

#include <cstdint>
#include <limits>
#include <utility>

#include "api/document_parts.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/kserve.h"
#include "base/utf8.h"

namespace coxswain::api {
namespace {

constexpr std::size_t kIdBytesMax = 256;
constexpr std::size_t kNameBytesMax = 256;

Status wrong(const std::string& field, std::string_view must, std::string_view given) {
  std::string text = "`" + field + "` ";
  text.append(must).append(". Given: ").append(given);
  return invalid_argument(std::move(text), field);
}

// Parameters are those of the native document, where the protocol's own `max_tokens` is called otherwise.
Result<GenerateRequest> native_of(const json::Value* parameters, const DocumentLimits& limits) {
  json::Object document;
  document.append_new("inputs", "");
  if (parameters != nullptr && parameters->is_object()) {
    json::Object own = parameters->as_object();
    const json::Value* most = own.find("max_tokens");
    if (most != nullptr && !most->is_null()) {
      if (const json::Value* other = own.find("max_new_tokens"); other && !other->is_null()) {
        return invalid_argument("`max_tokens` and `max_new_tokens` are the same: give one",
                                "max_tokens");
      }
      const auto number = most->to_uint64();
      if (!number || *number == 0 || *number > std::numeric_limits<std::uint32_t>::max())
        return wrong("max_tokens", "must be a whole number, 1 to 4294967295", given_text(*most));
      own.set("max_new_tokens", *most);
    }
    own.erase("max_tokens");
    document.append_new("parameters", json::Value(std::move(own)));
  } else if (parameters != nullptr) {
    document.append_new("parameters", *parameters);
  }
  return read_generate_request(json::Value(std::move(document)), limits);
}

// The elements, however they are nested.
void flatten(const json::Value& data, std::vector<const json::Value*>& out) {
  if (!data.is_array()) return out.push_back(&data);
  for (const json::Value& element : data.as_array()) flatten(element, out);
}

Result<std::string> text_of_bytes(const std::vector<const json::Value*>& elements,
                                  const std::string& field) {
  std::string out;
  for (const json::Value* element : elements) {
    const auto byte = element->to_uint64();
    if (!byte || *byte > 0xFF) return wrong(field, "must be bytes, 0 to 255", given_text(*element));
    out += static_cast<char>(*byte);
  }
  if (!base::is_utf8(out)) return wrong(field, "must be UTF-8", "other bytes");
  return out;
}

// The product; a shape is a list of numbers.
Result<std::size_t> n_elements_of(const json::Value* shape, const std::string& field) {
  if (shape == nullptr || !shape->is_array())
    return wrong(field, "must be an array of numbers", shape ? given_text(*shape) : "none");
  std::size_t out = 1;
  for (const json::Value& one : shape->as_array()) {
    const auto n = one.to_uint64();
    if (!n || *n > UINT32_MAX)
      return wrong(field, "must be an array of numbers from 0 on", given_text(one));
    // More than a body can hold stays more.
    out = *n == 0 ? 0 : std::min<std::size_t>(out, UINT32_MAX) * *n;
  }
  return out;
}

Status read_tensor(const json::Value& value,
                   const std::string& field,
                   const DocumentLimits& limits,
                   KserveInferRequest& out) {
  if (!value.is_object()) return wrong(field, "must be an object", given_text(value));
  FieldReader fields(value.as_object());
  const auto name = fields.read_string("name", kNameBytesMax);
  const auto datatype = fields.read_string("datatype", kNameBytesMax);
  const json::Value* shape = fields.find("shape");
  const json::Value* data = fields.find("data");
  fields.find("parameters");  // of the tensor: none that we know
  for (const std::string& ignored : finish_fields(fields, limits))
    out.ignored.emplace_back(field).append(".").append(ignored);
  if (!fields.ok())
    return within(fields.status(), "`" + field + "`", field + "." + fields.status().field());
  if (!name) return wrong(field + ".name", "must be a string", "none");
  if (data == nullptr || !data->is_array())
    return wrong(field + ".data", "must be an array", data ? given_text(*data) : "none");
  std::vector<const json::Value*> elements;
  flatten(*data, elements);
  if (elements.empty()) return wrong(field + ".data", "must not be empty", "no element");
  const bool as_bytes = elements.front()->is_number();
  const std::string type = datatype.value_or("none");
  if (type != "BYTES" && !(as_bytes && type == "UINT8"))
    return wrong(field + ".datatype", "must be BYTES", echo(type));
  COXSWAIN_ASSIGN_OR_RETURN(const std::size_t n, n_elements_of(shape, field + ".shape"));
  KserveTensor output{.name = *name, .as_bytes = as_bytes};
  if (as_bytes) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string text, text_of_bytes(elements, field + ".data"));
    out.texts.push_back(std::move(text));
  } else {
    if (n != elements.size()) {
      return wrong(field + ".shape",
                   "must have as many elements as `data`",
                   std::to_string(n) + " and " + std::to_string(elements.size()));
    }
    output.n_texts = n;
    for (const json::Value* element : elements) {
      if (!element->is_string())
        return wrong(field + ".data", "must have strings alone", given_text(*element));
      out.texts.push_back(element->as_string());
    }
  }
  out.outputs.push_back(std::move(output));
  return {};
}

// They name the answers, in order.
Status read_outputs(const json::Value& value, KserveInferRequest& out) {
  if (!value.is_array()) return wrong("outputs", "must be an array", given_text(value));
  const json::Array& outputs = value.as_array();
  if (outputs.empty()) return {};
  if (outputs.size() != out.outputs.size()) {
    return wrong("outputs",
                 "must have as many entries as `inputs` (Inputs and outputs length mismatch)",
                 std::to_string(outputs.size()) + " and " + std::to_string(out.outputs.size()));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const json::Value* name = outputs[i].find("name");
    const std::string field = "outputs." + std::to_string(i) + ".name";
    if (name == nullptr || !name->is_string())
      return wrong(field, "must be a string", name ? given_text(*name) : "none");
    if (name->as_string().size() > kNameBytesMax) {
      return wrong(field,
                   "must have at most " + std::to_string(kNameBytesMax) + " bytes",
                   std::to_string(name->as_string().size()));
    }
    out.outputs[i].name = name->as_string();
  }
  return {};
}

}  // namespace

Result<KserveInferRequest> read_kserve_infer(const json::Value& body,
                                             const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  KserveInferRequest out;
  out.id = fields.read_string("id", kIdBytesMax);
  const json::Value* inputs = fields.find("inputs");
  const json::Value* outputs = fields.find("outputs");
  const json::Value* parameters = fields.find("parameters");
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  if (inputs == nullptr || !inputs->is_array() || inputs->as_array().empty()) {
    return wrong(
        "inputs", "must be an array with a tensor or more", inputs ? given_text(*inputs) : "none");
  }
  const json::Array& tensors = inputs->as_array();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(read_tensor(tensors[i], "inputs." + std::to_string(i), limits, out));
  if (out.texts.size() > limits.client_batch_max) {
    return wrong("inputs",
                 "must have at most " + std::to_string(limits.client_batch_max) +
                     " texts (--max-client-batch-size)",
                 std::to_string(out.texts.size()));
  }
  if (out.outputs.size() == 1) out.outputs.front().name = kKserveOutput;
  if (outputs != nullptr) COXSWAIN_RETURN_IF_ERROR(read_outputs(*outputs, out));
  COXSWAIN_ASSIGN_OR_RETURN(GenerateRequest native, native_of(parameters, limits));
  out.parameters = std::move(native.parameters);
  out.ignored.insert(out.ignored.end(), native.ignored.begin(), native.ignored.end());
  return out;
}

Result<KserveGenerateRequest> read_kserve_generate(const json::Value& body,
                                                   const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  KserveGenerateRequest out;
  out.id = fields.read_string("id", kIdBytesMax);
  auto text = fields.read_string(kKserveInput, static_cast<std::size_t>(-1));
  const json::Value* parameters = fields.find("parameters");
  out.ignored = finish_fields(fields, limits);
  if (fields.ok() && !text) fields.fail("`text_input` is missing", kKserveInput);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  out.text = *std::move(text);
  COXSWAIN_ASSIGN_OR_RETURN(GenerateRequest native, native_of(parameters, limits));
  out.parameters = std::move(native.parameters);
  out.ignored.insert(out.ignored.end(), native.ignored.begin(), native.ignored.end());
  return out;
}

}  // namespace coxswain::api
