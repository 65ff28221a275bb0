#pragma once
// The documents of POST /vertex, as Google Vertex AI sends them: several requests in one, and a text for each.
//
// Thread rule: pure functions; a format as AnswerFormat.

#include <memory>
#include <variant>
#include <vector>

#include <coxswain/status.h>

#include "api/answer.h"
#include "api/documents.h"
#include "json/json.h"

namespace coxswain::api {

// Neither streams, nor has functions that may be called.
using PredictInstance = std::variant<GenerateRequest, ChatRequest>;

struct PredictRequest {
  std::vector<PredictInstance> instances;  // 1 to DocumentLimits::client_batch_max
  IgnoredFields ignored;
};

// Errors: kInvalidArgument with kind kValidation, naming the field.
Result<PredictRequest> read_predict(const json::Value& body, const DocumentLimits& limits);

// {"predictions":["text",...]}, in the order of the instances.
std::unique_ptr<AnswerFormat> make_predictions();

}  // namespace coxswain::api
