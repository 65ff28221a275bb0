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

Value messages_value(const json::Value& messages) {
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
      fields.set(Value::string(Text::untrusted(key)), Value::from_json(member, !known_role));
    }
    out.push_back(Value::dict(std::move(fields)));
  }
  return Value::list(std::move(out));
}

// What the reference calls the final message: its text, or the text of its last text part.
std::optional<std::string> final_message_text(const json::Value& messages) {
  if (!messages.is_array() || messages.as_array().empty()) return std::nullopt;
  const json::Value* content = messages.as_array().back().find("content");
  if (content == nullptr) return std::nullopt;
  if (content->is_string()) return content->as_string();
  if (!content->is_array()) return std::nullopt;
  const auto& parts = content->as_array();
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const json::Value* text = part->find("text");
    if (text != nullptr && text->is_string()) return text->as_string();
  }
  return std::nullopt;
}

// Cuts the rendering behind the last message's content, so that the model goes on with it. The
// template may have trimmed the content; then blanks at its end are not put back.
Status cut_after_final_message(const json::Value& messages, Text& text) {
  const auto content = final_message_text(messages);
  if (!content)
    return template_error("continue_final_message needs a last message with text content");
  const Text trimmed = strip(Text(*content), nullptr, Side::kBoth);
  const std::size_t at = text.bytes.rfind(trimmed.bytes);
  if (trimmed.empty() || at == std::string::npos) {
    return template_error(
        "continue_final_message is set but the final message does not appear in the rendered chat");
  }
  const std::size_t whole = text.bytes.rfind(*content);
  const std::size_t end =
      whole != std::string::npos && whole + content->size() >= at + trimmed.bytes.size()
          ? whole + content->size()
          : at + trimmed.bytes.size();
  text = text.slice(0, end);
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
    Interpreter interpreter(program_->program, program_->limits, input);
    interpreter.set_global("messages", messages_value(input.messages));
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
    if (input.continue_final_message)
      COXSWAIN_RETURN_IF_ERROR(cut_after_final_message(input.messages, text));
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
