// The Open Inference Protocol below /v2, as KServe speaks it.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr std::array kInfer{
    Member{"id", "string <= 256", "Comes back."},
    Member{.name = "inputs", .type = "[KserveTensor] >= 1", .presence = kRequired},
    Member{"outputs", "[KserveOutput]", "Names for the answers, in order."},
    Member{"parameters", "KserveParameters"},
};
constexpr std::array kTensor{
    Member{.name = "name", .type = "string <= 256", .presence = kRequired},
    Member{.name = "datatype", .type = "'BYTES'|'UINT8'", .presence = kRequired},
    Member{.name = "shape", .type = "[u32]", .presence = kRequired},
    Member{.name = "data",
           .type = "[any] >= 1",
           .about = "Texts, or the bytes of one.",
           .presence = kRequired},
    Member{"parameters", "any", "None is known."},
};
constexpr std::array kOutput{
    Member{.name = "name", .type = "string <= 256", .presence = kRequired},
};
constexpr std::array kGenerate{
    Member{"id", "string <= 256", "Comes back."},
    Member{.name = "text_input", .type = "string", .presence = kRequired},
    Member{"parameters", "KserveParameters"},
};
constexpr std::array kMaxTokens{
    Member{"max_tokens", "u32 >= 1", "As max_new_tokens, the native name."},
};

constexpr std::array kNames{
    Member{"model_name", "string"},
    Member{"model_version", "string"},
    Member{"id", "string"},
};
constexpr std::array kOutputs{Member{"outputs", "[KserveAnsweredTensor]"}};
constexpr std::array kAnsweredTensor{
    Member{"name", "string"},
    Member{"shape", "[u64]"},
    Member{"datatype", "'BYTES'"},
    Member{"data", "[string|integer >= 0 <= 255]"},
};
constexpr std::array kText{
    Member{"text_output", "string"},
    Member{.name = "details", .type = "KserveDetails", .presence = kMayBeAbsent},
};
constexpr std::array kDetails{
    Member{"finish_reason", "'length'|'eos_token'|'stop_sequence'|null"},
    Member{"logprobs", "[Token]"},
};
constexpr std::array kServer{
    Member{"name", "string"},
    Member{"version", "string"},
    Member{"extensions", "[string]"},
};
constexpr std::array kModel{
    Member{"versions", "[string]"},
    Member{"platform", "string"},
    Member{"inputs", "[KserveTensorType]"},
    Member{"outputs", "[KserveTensorType]"},
};
constexpr std::array kTensorType{
    Member{"name", "string"},
    Member{"datatype", "string"},
    Member{"shape", "[integer]"},
};
constexpr std::array kLive{Member{"live", "bool"}};
constexpr std::array kReady{Member{"ready", "bool"}};
constexpr std::array kModelName{Member{"name", "string"}};

void describe_documents(Description& out) {
  out.request("KserveInferRequest",
              {kInfer},
              "",
              R"({"inputs":[{"name":"a","datatype":"BYTES","shape":[1],"data":["a"]}]})");
  out.request(
      "KserveTensor", {kTensor}, "", R"({"name":"a","datatype":"BYTES","shape":[1],"data":["a"]})");
  out.request("KserveOutput", {kOutput}, "", R"({"name":"a"})");
  out.request("KserveGenerateRequest", {kGenerate}, "", R"({"text_input":"a"})");
  out.request("KserveParameters",
              {kMaxTokens, native_parameters(), sampling_steps(), scheduling()});
  out.answer("KserveInferAnswer", {kNames, kOutputs});
  out.answer("KserveAnsweredTensor", {kAnsweredTensor});
  out.answer("KserveGenerateAnswer", {kNames, kText});
  out.answer("KserveDetails", {kDetails});
  out.answer("KserveServer", {kServer});
  out.answer("KserveModel", {kServer, kModel});
  out.answer("KserveTensorType", {kTensorType});
  out.answer("KserveLive", {kLive});
  out.answer("KserveReady", {kLive, kReady});
  out.answer("KserveModelReady", {kModelName, kLive, kReady});
}

}  // namespace

void describe_kserve(Description& out) {
  using Kind = Operation::Kind;
  using Access = Operation::Access;
  out.begin_family("kserve",
                   "The Open Inference Protocol of KServe. A path may name a version of the model: "
                   "/v2/models/{model}/versions/{version} and what is below it.");
  describe_documents(out);
  constexpr std::string_view kGenerateExample =
      R"({"text_input":"The capital of France is","parameters":{"max_tokens":8}})";
  out.operation(
      {.method = "POST",
       .path = "/v2/models/{model}/infer",
       .id = "kserve_infer",
       .about = "A text for each text.",
       .kind = Kind::kGenerates,
       .request = "KserveInferRequest",
       .example =
           R"({"inputs":[{"name":"text_input","datatype":"BYTES","shape":[1],"data":["a"]}],"parameters":{"max_tokens":8}})",
       .answer = "KserveInferAnswer",
       .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "POST",
                 .path = "/v2/models/{model}/generate",
                 .id = "kserve_generate",
                 .about = "One answer.",
                 .kind = Kind::kGenerates,
                 .request = "KserveGenerateRequest",
                 .example = kGenerateExample,
                 .answer = "KserveGenerateAnswer",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "POST",
                 .path = "/v2/models/{model}/generate_stream",
                 .id = "kserve_generate_stream",
                 .about = "A stream.",
                 .kind = Kind::kGenerates,
                 .request = "KserveGenerateRequest",
                 .example = kGenerateExample,
                 .event = "KserveGenerateAnswer",
                 .always_streams = true,
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "GET",
                 .path = "/v2",
                 .id = "kserve_server",
                 .about = "What the server is.",
                 .answer = "KserveServer"});
  out.operation({.method = "GET",
                 .path = "/v2/health/live",
                 .id = "kserve_live",
                 .about = "Whether the process answers.",
                 .access = Access::kHealth,
                 .answer = "KserveLive"});
  out.operation({.method = "GET",
                 .path = "/v2/health/ready",
                 .id = "kserve_ready",
                 .about = "Whether requests are answered; 503 with the same document if not.",
                 .access = Access::kHealth,
                 .answer = "KserveReady",
                 .also_status = 503});
  out.operation({.method = "GET",
                 .path = "/v2/models/{model}",
                 .id = "kserve_model",
                 .about = "What the model takes and gives.",
                 .answer = "KserveModel",
                 .refusals = {ErrorKind::kNotFound}});
  out.operation({.method = "GET",
                 .path = "/v2/models/{model}/ready",
                 .id = "kserve_model_ready",
                 .about = "Whether requests are answered; 503 with the same document if not.",
                 .answer = "KserveModelReady",
                 .also_status = 503,
                 .refusals = {ErrorKind::kNotFound}});
}

}  // namespace coxswain::openapi
