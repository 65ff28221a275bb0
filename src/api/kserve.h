#pragma once
// The Open Inference Protocol, version 2, over HTTP, as KServe's clients and TGI's build for KServe speak it: documents
// and answers of the routes below /v2. docs/api.md has the members.
//
// A text is an element of a tensor of BYTES: a string, as the protocol has it; or its bytes as numbers, a whole tensor
// of them, as TGI has it. An answer has the form of what it answers.
//
// Thread rule: pure functions; a format as AnswerFormat.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "api/answer.h"
#include "api/documents.h"
#include "json/json.h"

namespace coxswain::api {

inline constexpr std::string_view kKserveInput = "text_input";
inline constexpr std::string_view kKserveOutput = "text_output";
inline constexpr std::string_view kKserveVersion = "1";  // of the model: there is one

// One output tensor: the answers to the texts of an input tensor.
struct KserveTensor {
  std::string name;
  std::size_t n_texts = 1;
  bool as_bytes = false;  // numbers, as TGI has them
};

// Body of POST .../infer.
struct KserveInferRequest {
  std::optional<std::string> id;
  std::vector<std::string> texts;     // of all tensors, in order
  std::vector<KserveTensor> outputs;  // one for each input tensor
  Parameters parameters;              // native ones
  IgnoredFields ignored;
};

// Body of POST .../generate and .../generate_stream.
struct KserveGenerateRequest {
  std::optional<std::string> id;
  std::string text;
  Parameters parameters;
  IgnoredFields ignored;
};

// Errors: kInvalidArgument with kind kValidation, naming the field.
Result<KserveInferRequest> read_kserve_infer(const json::Value& body, const DocumentLimits& limits);
Result<KserveGenerateRequest> read_kserve_generate(const json::Value& body,
                                                   const DocumentLimits& limits);

struct KserveAnswerOptions {
  std::string id;
  std::string model;
  std::string version{kKserveVersion};
  // infer:
  std::vector<KserveTensor> outputs = {};
  std::size_t per_text = 1;  // sequences of each text, the best of which is its answer
  // generate:
  bool details = false;
};
std::unique_ptr<AnswerFormat> make_kserve_infer_answer(KserveAnswerOptions options);
std::unique_ptr<AnswerFormat> make_kserve_generate_answer(KserveAnswerOptions options);
std::unique_ptr<AnswerFormat> make_kserve_generate_stream(KserveAnswerOptions options);

// GET /v2 and GET /v2/models/NAME.
std::string kserve_server_document(std::string_view version);
std::string kserve_model_document(std::string_view model);

}  // namespace coxswain::api
