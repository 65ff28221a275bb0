#pragma once
// A conversation as a model's template writes it, with the functions that may be called.
//
// Thread rule: pure functions.

#include <chrono>
#include <functional>
#include <optional>

#include <coxswain/status.h>

#include "chat/chat_template.h"
#include "json/json.h"
#include "speech/asked.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::speech {

// Renders a conversation.
using Renderer = std::function<Result<chat::Rendered>(const chat::RenderInput&)>;

struct Conversation {
  const json::Value& messages;  // not empty; array of objects with a role
  const AskedTools& tools;
  json::Value documents = {};           // array or null
  json::Value template_arguments = {};  // object or null
  // Empty: an answer of the assistant's that stands last is continued.
  std::optional<bool> add_generation_prompt = {};
  std::optional<bool> continue_final_message = {};
  std::chrono::system_clock::time_point now = {};
};

// The messages as a model is to see them whose template does not read `tools`, and those with a tool_prompt: the last
// one says what may be called and how.
json::Value messages_with_tools(const json::Value& messages,
                                const AskedTools& tools,
                                bool template_reads_tools);

// `reads_tools`: of the template. Errors: kInvalidArgument, kTemplateError.
Result<chat::Rendered> render(const Conversation& conversation,
                              bool reads_tools,
                              const tokenizer::Tokenizer& tokenizer,
                              const Renderer& renderer);

}  // namespace coxswain::speech
