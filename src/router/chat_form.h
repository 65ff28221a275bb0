#pragma once
// What the answer to a chat looks like: the form of its text where the client asks for one, and how it is read:
// thoughts and calls of functions apart from what the model says.
//
// Thread rule: pure functions.

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "api/answer.h"
#include "api/documents.h"
#include "chat/chat_template.h"
#include "reply/parser.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::router {

// Renders a conversation; empty if the model has no template.
using ChatRenderer = std::function<Result<chat::Rendered>(const chat::RenderInput&)>;

// How a model speaks.
struct ChatModel {
  ChatRenderer render;
  bool reads_tools = false;     // its template shows it the functions of a request
  reply::Formats formats = {};  // what it writes

  explicit operator bool() const { return static_cast<bool>(render); }
};

struct ChatForm {
  std::optional<api::AskedGrammar> grammar;
  std::optional<ThoughtBudget> thoughts;
  std::optional<api::ReplyOptions> reply;  // empty: all of the text is content
};

struct ChatFormInput {
  const ChatModel& model;
  const tokenizer::Tokenizer& tokenizer;
  api::ApiStyle style = api::ApiStyle::kOpenAi;
  bool allows_grammars = true;
  std::string_view prompt;  // the rendered text
};

// Errors: kInvalidArgument and kUnimplemented, naming the field.
Result<ChatForm> chat_form(const api::ChatRequest& request, const ChatFormInput& input);

// The messages as a model is to see them whose template does not read `tools`, and those with a tool_prompt: the last
// one says what may be called and how.
json::Value messages_with_tools(const json::Value& messages,
                                const api::AskedTools& tools,
                                bool template_reads_tools);

}  // namespace coxswain::router
