#pragma once
// The table of request fields that some API documents: TGI's, OpenAI's, vLLM's, SGLang's, llama-server's, LMDeploy's,
// TensorRT-LLM's, Ollama's, Anthropic's. A client that writes one of them expects it to work, so a document that does
// not have it refuses it by name. Names outside of this table are unknown.
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>
#include <string_view>

namespace coxswain::api {

// Objects of requests, as bits.
enum Place : std::uint16_t {
  kNativeDocument = 1,
  kNativeParameters = 2,  // member of the native document
  kChatDocument = 4,
  kCompletionDocument = 8,
  kMessagesDocument = 16,
  kOllamaDocument = 32,
  kOllamaOptions = 64,  // member of Ollama's document
  kResponsesDocument = 128,
};

struct DocumentedField {
  std::string_view name;
  // Who documents it, a letter each: O OpenAI, A Anthropic, M Ollama, V vLLM, S SGLang, C llama-server, D LMDeploy,
  // N TensorRT-LLM, T TGI. None: other engines, or this server alone.
  std::string_view by = {};
  // Compact JSON texts, separated by blanks, of values that change nothing in an object without it, as null does.
  std::string_view neutral = {};
  std::uint16_t places = 0;  // objects that have it; none: not supported
};

// All, sorted by name.
std::span<const DocumentedField> documented_fields();

// Null for a name that no API documents.
const DocumentedField* find_documented_field(std::string_view name);

}  // namespace coxswain::api
