#include "api/vertex.h"

#include <string>
#include <utility>

#include "api/document_parts.h"
#include "api/errors.h"
#include "api/fields.h"

namespace coxswain::api {
namespace {

bool is_chat(const json::Value& instance) {
  if (!instance.is_object()) return false;
  const json::Value* messages = instance.as_object().find("messages");
  return messages != nullptr && !messages->is_null();
}

Status refused(std::string_view field, std::string_view must) {
  return invalid_argument("`" + std::string(field) + "` " + std::string(must) + " on this route",
                          std::string(field));
}

Result<PredictInstance> read_instance(const json::Value& instance, const DocumentLimits& limits) {
  if (is_chat(instance)) {
    COXSWAIN_ASSIGN_OR_RETURN(ChatRequest request, read_chat_request(instance, limits));
    if (request.stream) return refused("stream", "can only be false");
    if (request.tools) return refused("tools", "are not supported");
    return PredictInstance(std::move(request));
  }
  COXSWAIN_ASSIGN_OR_RETURN(GenerateRequest request, read_generate_request(instance, limits));
  if (request.stream.value_or(false)) return refused("stream", "can only be false");
  return PredictInstance(std::move(request));
}

class Predictions final : public WholeAnswer {
 public:
  bool keeps_tokens() const override { return false; }
  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"predictions":[)";
    for (const SequenceAnswer& sequence : sequences) {
      if (out.back() == '"') out += ',';
      json::append_quoted(out, sequence.finish.generated_text);
    }
    return out + "]}";
  }
};

}  // namespace

Result<PredictRequest> read_predict(const json::Value& body, const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  PredictRequest out;
  const json::Value* instances = fields.find("instances");
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  if (instances == nullptr || !instances->is_array() || instances->as_array().empty() ||
      instances->as_array().size() > limits.client_batch_max) {
    return invalid_argument("`instances` must be an array of 1 to " +
                                std::to_string(limits.client_batch_max) +
                                " objects (--max-client-batch-size)",
                            "instances");
  }
  for (const json::Value& each : instances->as_array()) {
    auto instance = read_instance(each, limits);
    const std::string place = "instances[" + std::to_string(out.instances.size()) + "]";
    if (!instance.ok()) return instance.status().with_context(place);
    out.instances.push_back(std::move(instance).value());
  }
  return out;
}

std::unique_ptr<AnswerFormat> make_predictions() {
  return std::make_unique<Predictions>();
}

}  // namespace coxswain::api
