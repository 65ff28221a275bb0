#include "chat/chat_template.h"

#include <algorithm>
#include <array>
#include <new>

#include "chat/interpreter.h"
#include "chat/parser.h"

namespace coxswain::chat {
namespace {

Status template_error(std::string message) {
  return {Code::kInvalidArgument, ErrorKind::kTemplateError, std::move(message)};
}

// Who speaks in a conversation. Templates build special tokens of it ("<|" + role + "|>"), so these
// count as the template's own words; any other role is a client's text like the rest.
constexpr std::array<std::string_view, 9> kRoles{"system",
                                                 "developer",
                                                 "user",
                                                 "assistant",
                                                 "tool",
                                                 "function",
                                                 "ipython",
                                                 "observation",
                                                 "model"};

// Stands behind the text that the model goes on with while the template runs, so that the cut is
// found also where the text occurs elsewhere. The blank shows whether the template trims.
constexpr std::string_view kCutMark = "FINAL_MESSAGE_ENDS_HERE ";

// The text of a final message: its content, or the text of the last part that has one.
const json::Value* final_text(const json::Value& message) {
  const json::Value* content = message.find("content");
  if (content == nullptr || content->is_string()) return content;
  if (!content->is_array()) return nullptr;
  const auto& parts = content->as_array();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const json::Value* text = part->find("text");
    if (text != nullptr) return text->is_string() ? text : nullptr;
  }
  return nullptr;
}

// As Value::from_json of what a client sent, with kCutMark behind the string `marked`, which may be
// null or any string inside.
Value client_value(const json::Value& value, const json::Value* marked) {
  if (marked == nullptr) return Value::from_json(value, true);
  if (&value == marked)
    return Value::string(Text::untrusted(value.as_string() + std::string(kCutMark)));
  if (value.is_array()) {
    std::vector<Value> items;
    for (const json::Value& item : value.as_array()) items.push_back(client_value(item, marked));
    return Value::list(std::move(items));
  }
  if (!value.is_object()) return Value::from_json(value, true);
  Dict members;
  for (const auto& [key, member] : value.as_object())
    members.set(Value::string(Text::untrusted(key)), client_value(member, marked));
  return Value::dict(std::move(members));
}

Value messages_value(const json::Value& messages, const json::Value* marked) {
  if (!messages.is_array()) return Value::from_json(messages, true);
  std::vector<Value> out;
  out.reserve(messages.as_array().size());
  for (const json::Value& message : messages.as_array()) {
    if (!message.is_object()) {
      out.push_back(Value::from_json(message, true));
      continue;
    }
    Dict fields;
    for (const auto& [key, member] : message.as_object()) {
      const bool known_role = key == "role" && member.is_string() &&
                              std::ranges::find(kRoles, member.as_string()) != kRoles.end();
      fields.set(Value::string(Text::untrusted(key)),
                 known_role ? Value::from_json(member, false) : client_value(member, marked));
    }
    out.push_back(Value::dict(std::move(fields)));
  }
  return Value::list(std::move(out));
}

// Cuts the rendering behind the final message's text, so that the model goes on with it. If the
// template trims it, so does this.
Status cut_behind(const std::string& final_text, Text& text) {
  const std::string_view mark = kCutMark.substr(0, kCutMark.size() - 1);
  const std::size_t at = text.bytes.rfind(mark);
  const Text trimmed = strip(Text(final_text), nullptr, Side::kBoth);
  if (at == std::string::npos || text.bytes.find(trimmed.bytes) == std::string::npos) {
    return template_error(
        "continue_final_message is set but the final message does not appear in the rendered chat");
  }
  const bool trims = text.bytes.compare(at, kCutMark.size(), kCutMark) != 0;
  text = text.slice(0, at);
  if (trims) text = strip(text, nullptr, Side::kRight);
  return {};
}

}  // namespace

struct ChatTemplate::Program {
  chat::Program program;
  RenderLimits limits;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::compile(std::string_view source, const RenderLimits& limits) {
  try {
    return ChatTemplate(std::make_unique<const Program>(
        Program{parse_template(source, limits.parse_depth_max), limits}));
  } catch (const RenderError& error) {
    return template_error(error.message);
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kTemplateError,
                  "not enough memory to compile the template");
  }
}

Result<Rendered> ChatTemplate::render(const RenderInput& input) const {
  try {
    const json::Value* continued = nullptr;
    if (input.continue_final_message) {
      if (input.messages.is_array() && !input.messages.as_array().empty())
        continued = final_text(input.messages.as_array().back());
      if (continued == nullptr || !continued->is_string())
        return template_error("continue_final_message needs a last message with text content");
    }
    Interpreter interpreter(program_->program, program_->limits, input);
    interpreter.set_global("messages", messages_value(input.messages, continued));
    interpreter.set_global("tools", Value::from_json(input.tools, true));
    interpreter.set_global("documents", Value::from_json(input.documents, true));
    if (!input.bos_token.empty())
      interpreter.set_global("bos_token", Value::string(input.bos_token));
    if (!input.eos_token.empty())
      interpreter.set_global("eos_token", Value::string(input.eos_token));
    if (input.add_generation_prompt) {
      interpreter.set_global("add_generation_prompt", Value::boolean(*input.add_generation_prompt));
    }
    if (input.extra.is_object()) {
      for (const auto& [name, value] : input.extra.as_object())
        interpreter.set_global(name, Value::from_json(value, true));
    }
    Text text = interpreter.run();
    if (continued != nullptr) COXSWAIN_RETURN_IF_ERROR(cut_behind(continued->as_string(), text));
    return Rendered{std::move(text.bytes), std::move(text.marks)};
  } catch (const RenderError& error) {
    return template_error(error.message);
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kTemplateError,
                  "not enough memory to render the template");
  }
}

bool ChatTemplate::mentions(std::string_view name) const {
  return std::ranges::find(program_->program.names, name) != program_->program.names.end();
}

}  // namespace coxswain::chat
