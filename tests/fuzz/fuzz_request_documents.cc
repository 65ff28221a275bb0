// Bodies of requests, from JSON to what the engine is given.
//
// First byte: bits 0-1 = route, bit 2 = the route's style of errors, bit 3 = streaming, bit 4 = /v1/messages instead
// of the others, bit 5 = Ollama's routes, bit 6 = /v1/responses, bit 7 = KServe's routes. Every body is read leniently
// and strictly, with wide and with narrow limits.

#include <algorithm>
#include <memory>
#include <string>
#include <variant>

#include "api/documents.h"
#include "api/errors.h"
#include "api/input_items.h"
#include "api/kserve.h"
#include "fuzz/fuzz_input.h"
#include "json/json.h"
#include "router/test_tokenizer.h"
#include "router/validate.h"

namespace {

using coxswain::Status;
using coxswain::fuzz::require;
namespace api = coxswain::api;
namespace json = coxswain::json;
namespace router = coxswain::router;

constexpr std::uint32_t kVocabSize = 258;

const router::Validator& validator() {
  static const router::Validator made = [] {
    router::ValidationLimits limits;
    limits.input_tokens_max = 40;
    limits.total_tokens_max = 60;
    limits.vocab_size = kVocabSize;
    limits.exact_count_bytes_max = 20;
    return router::Validator(
        limits, std::make_shared<router::ByteTokenizer>(), [] { return std::uint64_t{7}; });
  }();
  return made;
}

void check_error(api::ApiStyle style, const Status& status) {
  require(!status.message().empty(), "an error says why");
  const int http = api::http_status(style, status);
  require(http >= 400 && http < 500, "a client's mistake is the client's");
  const std::string body = api::error_body(style, status);
  require(body.size() <= api::kErrorBodyBytesMax, "an error body is short");
  require(json::parse(body).ok(), "an error body is JSON");
}

void check_valid(const router::ValidRequest& request) {
  const router::ValidationLimits& limits = validator().limits();
  require(request.input_length() > 0 && request.input_length() <= limits.input_tokens_max,
          "the prompt is within limits");
  for (const coxswain::TokenId id : request.prompt())
    require(id >= 0 && static_cast<std::uint32_t>(id) < kVocabSize, "ids are of the vocabulary");
  const std::uint32_t max_new = request.stopping().max_new_tokens;
  require(request.input_length() + max_new <= limits.total_tokens_max,
          "prompt and answer are within limits");
  require(request.n_sequences() >= 1 &&
              request.n_sequences() <= std::max(limits.best_of_max, limits.n_max),
          "the number of sequences is within limits");
  const coxswain::SamplingParams& sampling = request.sampling();
  require(!sampling.do_sample || sampling.temperature > 0, "a temperature divides");
  require(sampling.top_p > 0 && sampling.top_p <= 1, "top_p is a probability");
  require(sampling.typical_p > 0 && sampling.typical_p <= 1, "typical_p is a probability");
  require(sampling.min_p >= 0 && sampling.min_p <= 1, "min_p is a probability");
  require(sampling.top_k >= 0, "top_k counts");
  require(sampling.repetition_penalty > 0, "a repetition penalty divides");
  for (const auto& [id, bias] : sampling.logit_bias)
    require(id >= 0 && static_cast<std::uint32_t>(id) < kVocabSize && bias >= -100 && bias <= 100,
            "a bias is of the vocabulary and small");
  const auto engine = request.engine_request(coxswain::RequestId{1});
  require(engine.prompt == request.prompt(), "the engine is given the prompt");
  require(engine.n_sequences() == request.n_sequences(), "the engine is given every sequence");
}

struct Call {
  api::ApiStyle style = api::ApiStyle::kNative;
  bool stream = false;
};

void validate(const Call& call, const api::Parameters& parameters, const api::Prompt& prompt) {
  router::ValidationInput input;
  input.style = call.style;
  input.stream = call.stream;
  input.parameters = &parameters;
  if (const auto* ids = std::get_if<std::vector<coxswain::TokenId>>(&prompt)) {
    input.ids = ids;
  } else {
    input.text.text = std::get<std::string>(prompt);
  }
  const auto valid = validator().validate(input);
  if (valid.ok()) {
    check_valid(*valid);
  } else {
    check_error(call.style, valid.status());
  }
}

void validate_all(const Call& call, const api::GenerateRequest& request) {
  validate(call, request.parameters, request.inputs);
}
void validate_all(const Call& call, const api::ChatRequest& request) {
  require(request.messages.is_array() && !request.messages.as_array().empty(),
          "there are messages");
  for (const json::Value& message : request.messages.as_array()) {
    const json::Value* role = message.find("role");
    require(role != nullptr && role->is_string(), "a message has a role");
    const json::Value* content = message.find("content");
    require(content != nullptr, "a message has a content");
    require(content->is_string() || (content->is_null() && message.find("tool_calls") != nullptr),
            "its content is text, or null beside calls");
  }
  validate(call, request.parameters, json::write(request.messages));
}
void validate_all(const Call& call, const api::OllamaRequest& request) {
  if (!request.chat.messages.is_null()) validate_all(call, request.chat);
}
void validate_all(const Call& call, const api::CompletionRequest& request) {
  require(!request.prompts.empty(), "there is a prompt");
  for (const api::Prompt& prompt : request.prompts) validate(call, request.parameters, prompt);
}

void validate_all(const Call& call, const api::ResponsesRequest& request) {
  validate_all(call, request.chat);
}

void validate_all(const Call& call, const api::KserveInferRequest& request) {
  std::size_t n_texts = 0;
  for (const api::KserveTensor& tensor : request.outputs) n_texts += tensor.n_texts;
  require(!request.texts.empty() && n_texts == request.texts.size(), "each text has its place");
  for (const std::string& text : request.texts) validate(call, request.parameters, text);
}

void validate_all(const Call& call, const api::KserveGenerateRequest& request) {
  validate(call, request.parameters, request.text);
}

coxswain::Result<api::ResponsesRequest> read_responses(const json::Value& body,
                                                       const api::DocumentLimits& limits) {
  auto out = api::read_responses_request(body, limits);
  if (!out.ok()) return out;
  // What an earlier answer left reads as what a client sends.
  const json::Array earlier = out->items.size() > 1 ? out->items : json::Array();
  COXSWAIN_RETURN_IF_ERROR(api::set_response_messages(*out, earlier, limits));
  const auto listed = api::input_items_document(out->items, "resp_1", {.limit = 100});
  require(listed.ok() && json::parse(*listed).ok(), "what was taken is listed");
  return out;
}

const api::IgnoredFields& ignored_of(const api::ResponsesRequest& request) {
  return request.chat.ignored;
}
const api::IgnoredFields& ignored_of(const api::OllamaRequest& request) {
  return request.chat.ignored;
}
template <typename Request>
const api::IgnoredFields& ignored_of(const Request& request) {
  return request.ignored;
}

template <typename Read>
void check_document(const Call& call, const json::Value& body, Read read) {
  const auto lenient = read(body, api::DocumentLimits{});
  api::DocumentLimits strict_limits;
  strict_limits.strict_fields = true;
  const auto strict = read(body, strict_limits);
  if (!lenient.ok()) {
    require(!strict.ok(), "strictness accepts no more");
    check_error(call.style, lenient.status());
    return;
  }
  if (strict.ok()) {
    validate_all(call, *strict);
  } else {
    require(!ignored_of(*lenient).empty(), "strictness refuses only what is ignored otherwise");
    check_error(call.style, strict.status());
  }
  validate_all(call, *lenient);

  api::DocumentLimits narrow;
  narrow.messages_max = 1;
  narrow.parts_per_message_max = 1;
  narrow.role_bytes_max = 4;
  narrow.model_bytes_max = 4;
  narrow.logit_bias_entries_max = 1;
  narrow.client_batch_max = 1;
  if (const auto limited = read(body, narrow); !limited.ok())
    check_error(call.style, limited.status());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  const bool messages = (flags & 16) != 0;
  const api::ApiStyle others = (flags & 4) != 0 ? api::ApiStyle::kOpenAi : api::ApiStyle::kNative;
  const bool ollama = (flags & 32) != 0;
  const api::ApiStyle named = messages ? api::ApiStyle::kAnthropic : others;
  const Call call{ollama ? api::ApiStyle::kOllama : named, (flags & 8) != 0};
  const auto body = json::parse(input.rest());
  if (!body.ok()) {
    check_error(call.style, body.status());
    return 0;
  }
  if ((flags & 128) != 0) {
    if ((flags & 1) != 0) {
      check_document(call, *body, api::read_kserve_infer);
    } else {
      check_document(call, *body, api::read_kserve_generate);
    }
    return 0;
  }
  if ((flags & 64) != 0) {
    check_document(Call{api::ApiStyle::kOpenAi, (flags & 8) != 0}, *body, read_responses);
    return 0;
  }
  if (ollama) {
    check_document(
        call,
        *body,
        (flags & 1) != 0 ? api::read_ollama_chat_request : api::read_ollama_generate_request);
    return 0;
  }
  if (messages) {
    check_document(call, *body, api::read_messages_request);
    return 0;
  }
  switch (flags & 3) {
    case 0:
      check_document(call, *body, api::read_generate_request);
      break;
    case 1:
      check_document(call, *body, api::read_chat_request);
      break;
    default:
      check_document(call, *body, api::read_completion_request);
      break;
  }
  return 0;
}
