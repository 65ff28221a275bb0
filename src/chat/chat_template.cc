#include "chat/chat_template.h"

#include <new>

#include "base/utf8.h"
#include "chat/interpreter.h"
#include "chat/json_values.h"
#include "chat/parser.h"

namespace coxswain::chat {
namespace {

Status template_error(std::string message) {
  return {Code::kInvalidArgument, ErrorKind::kTemplateError, std::move(message)};
}

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

// Cuts the rendering behind the final message's text, so that the model goes on with it. If the
// template trims it, so does this.
Status cut_behind(const std::string& final_text, Text& text) {
  const std::string_view mark = kCutMark.substr(0, kCutMark.size() - 1);
  const std::size_t at = text.bytes.rfind(mark);
  const Text trimmed = strip(Text(final_text), nullptr, Side::kBoth);
  if (at == std::string::npos || find_text(text.bytes, trimmed.bytes) == std::string::npos) {
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
  if (const std::size_t valid = base::valid_utf8_prefix(source); valid < source.size())
    return template_error("byte " + std::to_string(valid) + " of the template is not UTF-8");
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

namespace {

// The variables of one render. What the template does not mention is not made.
void set_variables(const chat::Program& program,
                   const RenderInput& input,
                   const json::Value* continued,
                   Interpreter& interpreter) {
  const KnownNames& known = program.known;
  JsonValues values(continued, kCutMark);
  if (known.messages != kNoName)
    interpreter.set_variable(known.messages, values.read_messages(input.messages));
  if (known.tools != kNoName) interpreter.set_variable(known.tools, values.read(input.tools));
  if (known.documents != kNoName)
    interpreter.set_variable(known.documents, values.read(input.documents));
  if (known.bos_token != kNoName && !input.bos_token.empty())
    interpreter.set_variable(known.bos_token, Value::string(input.bos_token));
  if (known.eos_token != kNoName && !input.eos_token.empty())
    interpreter.set_variable(known.eos_token, Value::string(input.eos_token));
  if (input.add_generation_prompt) {
    interpreter.set_variable(known.add_generation_prompt,
                             Value::boolean(*input.add_generation_prompt));
  }
  if (!input.extra.is_object()) return;
  for (const auto& [name, value] : input.extra.as_object()) {
    if (const NameId id = program.find(name); id != kNoName)
      interpreter.set_variable(id, values.read(value));
  }
}

}  // namespace

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
    set_variables(program_->program, input, continued, interpreter);
    Text text = interpreter.run();
    if (continued != nullptr) COXSWAIN_RETURN_IF_ERROR(cut_behind(continued->as_string(), text));
    return Rendered{std::move(text.bytes), std::move(text.marks).take()};
  } catch (const RenderError& error) {
    return template_error(error.message);
  } catch (const std::bad_alloc&) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kTemplateError,
                  "not enough memory to render the template");
  }
}

bool ChatTemplate::mentions(std::string_view name) const {
  return program_->program.find(name) != kNoName;
}

}  // namespace coxswain::chat
