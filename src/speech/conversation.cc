#include "speech/conversation.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace coxswain::speech {
namespace {

constexpr std::string_view kFallbackPrompt =
    "These functions can be called. To call one, answer with nothing but JSON: {\"name\": the "
    "function's name, "
    "\"arguments\": an object}. Otherwise answer as usual.";

// The messages with the arguments of their function calls as objects, the form that most templates are written for;
// clients send JSON texts. Empty if there is nothing to turn.
std::optional<json::Value> with_argument_objects(const json::Value& messages) {
  const auto has_calls = [](const json::Value& message) {
    return message.find("tool_calls") != nullptr;
  };
  if (std::ranges::none_of(messages.as_array(), has_calls)) return std::nullopt;
  bool turned = false;
  json::Array out = messages.as_array();
  for (json::Value& message : out) {
    json::Value* calls = message.as_object().find("tool_calls");
    if (calls == nullptr) continue;
    for (json::Value& call : calls->as_array()) {
      json::Value& arguments = *call.as_object().find("function")->as_object().find("arguments");
      if (!arguments.is_string()) continue;
      auto parsed = json::parse(arguments.as_string());
      if (!parsed.ok() || !parsed.value().is_object()) continue;
      arguments = std::move(parsed.value());
      turned = true;
    }
  }
  if (!turned) return std::nullopt;
  return json::Value(std::move(out));
}

bool ends_with_assistant(const json::Value& messages) {
  const json::Value* role = messages.as_array().back().find("role");
  return role != nullptr && role->is_string() && role->as_string() == "assistant";
}

}  // namespace

json::Value messages_with_tools(const json::Value& messages,
                                const AskedTools& tools,
                                bool template_reads_tools) {
  if (!tools || (template_reads_tools && !tools.prompt)) return messages;
  json::Array out = messages.as_array();
  json::Object& last = out.back().as_object();
  const json::Value* content = last.find("content");
  if (content == nullptr || !content->is_string()) return messages;
  std::string text = content->as_string();
  text += "\n---\n";
  if (!template_reads_tools) {
    text += json::write(tools.list);
    text += '\n';
  }
  text += tools.prompt ? *tools.prompt : std::string(kFallbackPrompt);
  last.set("content", json::Value(std::move(text)));
  return json::Value(std::move(out));
}

Result<chat::Rendered> render(const Conversation& conversation,
                              bool reads_tools,
                              const tokenizer::Tokenizer& tokenizer,
                              const Renderer& renderer) {
  const bool wants_answer = conversation.add_generation_prompt.value_or(false);
  const bool final_message = conversation.continue_final_message.value_or(
      ends_with_assistant(conversation.messages) && !wants_answer);
  if (final_message && wants_answer) {
    return invalid_argument(
        "`continue_final_message` and `add_generation_prompt` must not both be true",
        "continue_final_message");
  }
  chat::RenderInput input;
  const json::Value messages =
      messages_with_tools(conversation.messages, conversation.tools, reads_tools);
  input.messages = messages;
  if (reads_tools) input.tools = conversation.tools.list;
  input.documents = conversation.documents;
  input.bos_token = tokenizer.bos_token();
  input.eos_token = tokenizer.eos_token();
  input.add_generation_prompt = conversation.add_generation_prompt.value_or(!final_message);
  input.continue_final_message = final_message;
  input.extra = conversation.template_arguments;
  input.now = conversation.now;
  auto objects = with_argument_objects(messages);
  if (!objects) return renderer(input);
  input.messages = std::move(*objects);
  Result<chat::Rendered> rendered = renderer(input);
  if (rendered.ok()) return rendered;
  input.messages = messages;  // some templates join texts
  return renderer(input);
}

}  // namespace coxswain::speech
