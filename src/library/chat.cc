#include "coxswain/chat.h"

#include <chrono>
#include <span>
#include <utility>

#include "coxswain/local_model.h"

#include "base/keyed_hash.h"
#include "json/json.h"
#include "library/chat_parts.h"
#include "library/model_state.h"
#include "speech/conversation.h"
#include "speech/form.h"

namespace coxswain {

namespace {

using library::ModelState;
using speech::AskedTools;

constexpr std::size_t kToolsMax = 1024;
constexpr std::size_t kNameBytesMax = 256;

// The object that a text has to be.
Result<json::Value> object_of(const std::string& text, const std::string& field) {
  auto value = json::parse(text);
  if (!value.ok()) {
    return invalid_argument("`" + field + "` must be a JSON object: " + value.status().message(),
                            field);
  }
  if (!value->is_object())
    return invalid_argument("`" + field + "` must be a JSON object. Given: another value", field);
  return value;
}

Status check_tool_name(const std::string& name, const std::string& field) {
  if (!name.empty() && name.size() <= kNameBytesMax) return {};
  return invalid_argument("`" + field + "` must have 1 to " + std::to_string(kNameBytesMax) +
                              " bytes. Given: " + std::to_string(name.size()),
                          field);
}

Status add_tool(const Tool& tool,
                const std::string& field,
                json::Array& list,
                std::vector<reply::Tool>& callable) {
  COXSWAIN_RETURN_IF_ERROR(check_tool_name(tool.name, field + ".name"));
  reply::Tool out{.name = tool.name};
  json::Object function;
  function.append_new("name", tool.name);
  if (!tool.description.empty()) function.append_new("description", tool.description);
  if (!tool.parameters.empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(out.parameters, object_of(tool.parameters, field + ".parameters"));
    function.append_new("parameters", out.parameters);
  }
  json::Object entry;
  entry.append_new("type", std::string("function"));
  entry.append_new("function", json::Value(std::move(function)));
  list.emplace_back(std::move(entry));
  callable.push_back(std::move(out));
  return {};
}

AskedTools::Choice choice_of(const ChatOptions& options) {
  if (!options.tool_name.empty()) return AskedTools::Choice::kNamed;
  return options.tool_choice == ToolChoice::kRequired ? AskedTools::Choice::kRequired
                                                      : AskedTools::Choice::kAuto;
}

// Nothing where no function may be called.
Result<AskedTools> asked_tools(const ChatOptions& options) {
  if (options.tools.size() > kToolsMax) {
    return invalid_argument("`tools` must have at most " + std::to_string(kToolsMax) +
                                " entries. Given: " + std::to_string(options.tools.size()),
                            "tools");
  }
  AskedTools out;
  json::Array list;
  std::vector<reply::Tool> callable;
  for (std::size_t i = 0; i < options.tools.size(); ++i) {
    const Tool& tool = options.tools[i];
    COXSWAIN_RETURN_IF_ERROR(add_tool(tool, "tools." + std::to_string(i), list, callable));
    if (tool.strict) out.strict.push_back(tool.name);
  }
  out.choice = choice_of(options);
  if (out.choice == AskedTools::Choice::kNamed) {
    std::erase_if(callable,
                  [&](const reply::Tool& tool) { return tool.name != options.tool_name; });
    if (callable.empty()) {
      return invalid_argument(
          "`tool_name` must be the name of one of `tools`. Given: " + options.tool_name,
          "tool_name");
    }
  } else if (options.tool_choice == ToolChoice::kNone) {
    return AskedTools();
  } else if (callable.empty()) {
    if (out.choice == AskedTools::Choice::kAuto) return AskedTools();
    return invalid_argument("`tool_choice` must be kAuto or kNone where there are no `tools`",
                            "tool_choice");
  }
  out.list = json::Value(std::move(list));
  out.callable = std::make_shared<const std::vector<reply::Tool>>(std::move(callable));
  out.parallel = options.parallel_tool_calls;
  return out;
}

json::Value calls_of(const ChatMessage& message) {
  json::Array out;
  for (const ToolCall& call : message.tool_calls) {
    json::Object function;
    function.append_new("name", call.name);
    function.append_new("arguments", call.arguments);
    json::Object entry;
    entry.append_new("id", call.id);
    entry.append_new("type", std::string("function"));
    entry.append_new("function", json::Value(std::move(function)));
    out.emplace_back(std::move(entry));
  }
  return json::Value(std::move(out));
}

json::Value list_of(const std::vector<ChatMessage>& messages) {
  json::Array list;
  for (const ChatMessage& message : messages) {
    json::Object entry;
    entry.append_new("role", message.role);
    // Templates test for null where an answer only calls functions.
    const bool only_calls = message.content.empty() && !message.tool_calls.empty();
    entry.append_new("content", only_calls ? json::Value() : json::Value(message.content));
    if (!message.reasoning.empty()) entry.append_new("reasoning_content", message.reasoning);
    if (!message.tool_calls.empty()) entry.append_new("tool_calls", calls_of(message));
    if (!message.tool_call_id.empty()) entry.append_new("tool_call_id", message.tool_call_id);
    if (!message.name.empty()) entry.append_new("name", message.name);
    list.emplace_back(std::move(entry));
  }
  return json::Value(std::move(list));
}

// What the template is told beside the messages; null: nothing.
Result<json::Value> template_arguments(const ChatOptions& options) {
  json::Object out;
  if (!options.template_arguments.empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(json::Value given,
                              object_of(options.template_arguments, "template_arguments"));
    out = std::move(given.as_object());
  }
  const std::string& effort = options.reasoning_effort;
  auto thinks = options.enable_thinking;
  if (!thinks && effort == "none") thinks = false;
  if (!effort.empty() && out.find("reasoning_effort") == nullptr)
    out.append_new("reasoning_effort", effort);
  if (thinks && out.find("enable_thinking") == nullptr)
    out.append_new("enable_thinking", json::Value(*thinks));
  return out.empty() ? json::Value() : json::Value(std::move(out));
}

Result<chat::Rendered> rendered(const ModelState& model,
                                const std::vector<ChatMessage>& messages,
                                const AskedTools& tools,
                                json::Value arguments) {
  if (messages.empty()) return invalid_argument("`messages` cannot be empty", "messages");
  if (model.templates.empty()) {
    return Status(
        Code::kInvalidArgument, ErrorKind::kTemplateError, "the model has no chat template");
  }
  const json::Value list = list_of(messages);
  return speech::render(
      {.messages = list,
       .tools = tools,
       .template_arguments = std::move(arguments),
       .now = std::chrono::system_clock::now()},
      model.manner.reads_tools,
      *model.tokenizer,
      [&](const chat::RenderInput& input) { return model.templates.render(input); });
}

Result<Prompt> encoded(const ModelState& model, chat::Rendered rendered) {
  COXSWAIN_ASSIGN_OR_RETURN(
      tokenizer::Encoding encoding,
      model.tokenizer->encode(rendered.text,
                              {.add_special_tokens = false, .untrusted = rendered.untrusted}));
  return Prompt{.ids = std::move(encoding.ids),
                .text = std::move(rendered.text),
                .spans = std::move(encoding.offsets)};
}

std::uint64_t seed_of(const ChatOptions& options, const std::string& prompt) {
  return options.id_seed ? *options.id_seed
                         : base::sip_hash(std::as_bytes(std::span(prompt)), {}, base::kSip13);
}

}  // namespace

Result<Prompt> LocalModel::chat(const std::vector<ChatMessage>& messages) const {
  COXSWAIN_ASSIGN_OR_RETURN(chat::Rendered text, rendered(*state_, messages, {}, {}));
  return encoded(*state_, std::move(text));
}

Result<ChatTurn> LocalModel::chat(const std::vector<ChatMessage>& messages,
                                  const ChatOptions& options) const {
  COXSWAIN_ASSIGN_OR_RETURN(const AskedTools tools, asked_tools(options));
  COXSWAIN_ASSIGN_OR_RETURN(json::Value arguments, template_arguments(options));
  COXSWAIN_ASSIGN_OR_RETURN(chat::Rendered text,
                            rendered(*state_, messages, tools, std::move(arguments)));
  std::optional<speech::AskedGrammar> guide;
  if (options.guide) {
    COXSWAIN_ASSIGN_OR_RETURN(grammar::Source source, library::guide_source(*options.guide));
    guide.emplace(speech::AskedGrammar{std::move(source), "guide"});
  }
  std::optional<speech::AskedThoughts> thoughts;
  if (options.thinking_tokens_max)
    thoughts.emplace(speech::AskedThoughts{*options.thinking_tokens_max, "thinking_tokens_max"});
  COXSWAIN_ASSIGN_OR_RETURN(
      speech::Form form,
      speech::make_form({.tools = tools,
                         .grammar = guide,
                         .thoughts = thoughts,
                         .manner = state_->manner,
                         .tokenizer = *state_->tokenizer,
                         .prompt = text.text,
                         .parser_option = "LocalModelOptions::reasoning_parser"}));
  ChatTurn out;
  if (form.grammar) {
    auto compiled = state_->grammars.compile(form.grammar->source);
    if (!compiled.ok()) return compiled.status().with_context("`" + form.grammar->field + "`");
    out.grammar = std::move(compiled).value();
  }
  out.thoughts = std::move(form.thoughts);
  speech::ReplyOptions reply = form.reply ? std::move(*form.reply) : speech::ReplyOptions();
  reply.id_seed = seed_of(options, text.text);
  out.form = std::make_shared<const library::ReplyForm>(library::ReplyForm{std::move(reply)});
  COXSWAIN_ASSIGN_OR_RETURN(out.prompt, encoded(*state_, std::move(text)));
  return out;
}

}  // namespace coxswain
