#include "chat/json_values.h"

#include <algorithm>

#include "chat/interpreter.h"

namespace coxswain::chat {
namespace {

// Who speaks in a conversation. Templates build special tokens of it ("<|" + role + "|>"), so these count as the
// template's own words; any other role is a client's text like the rest.
constexpr std::array<std::string_view, 9> kRoleNames{"system",
                                                     "developer",
                                                     "user",
                                                     "assistant",
                                                     "tool",
                                                     "function",
                                                     "ipython",
                                                     "observation",
                                                     "model"};

constexpr std::size_t kKeysShared = 16;

Value number(const json::Value& value) {
  if (const auto small = value.to_int64()) return Value::integer(*small);
  if (value.is_integer_text()) return Value::integer(value.number_text());
  return Value::real(value.to_double().value_or(0));
}

}  // namespace

Value JsonValues::read(const json::Value& value) {
  switch (value.type()) {
    case json::Value::Type::kNull:
      return Value::none();
    case json::Value::Type::kBool:
      return Value::boolean(value.as_bool());
    case json::Value::Type::kNumber:
      return number(value);
    case json::Value::Type::kString:
      return text(&value == marked_ ? value.as_string() + std::string(mark_) : value.as_string());
    case json::Value::Type::kArray: {
      std::vector<Value> items;
      items.reserve(value.as_array().size());
      for (const json::Value& item : value.as_array()) items.push_back(read(item));
      return Value::list(std::move(items));
    }
    case json::Value::Type::kObject:
      return object(value.as_object(), false);
  }
  return Value::none();
}

Value JsonValues::read_messages(const json::Value& messages) {
  if (!messages.is_array()) return read(messages);
  std::vector<Value> out;
  out.reserve(messages.as_array().size());
  for (const json::Value& message : messages.as_array())
    out.push_back(message.is_object() ? object(message.as_object(), true) : read(message));
  return Value::list(std::move(out));
}

Value JsonValues::object(const json::Object& members, bool is_message) {
  Dict out;
  out.reserve(members.size());
  for (const auto& [name, member] : members) {
    const Value* known = is_message && name == "role" ? role(member) : nullptr;
    out.append_new(key(name), known != nullptr ? *known : read(member));
  }
  return Value::dict(std::move(out));
}

Value JsonValues::text(std::string bytes) const {
  return Value::string(is_untrusted_ ? Text::untrusted(std::move(bytes)) : Text(std::move(bytes)));
}

Value JsonValues::key(const std::string& name) {
  const auto seen = std::ranges::find(keys_, name, &Value::as_bytes);
  if (seen != keys_.end()) return *seen;
  Value out = text(name);
  if (keys_.size() < kKeysShared) keys_.push_back(out);
  return out;
}

const Value* JsonValues::role(const json::Value& value) {
  if (!value.is_string()) return nullptr;
  static_assert(kRoleNames.size() == kRoles);
  const auto found = std::ranges::find(kRoleNames, value.as_string());
  if (found == kRoleNames.end()) return nullptr;
  Value& out = roles_[static_cast<std::size_t>(found - kRoleNames.begin())];
  if (out.is_undefined()) out = Value::string(std::string(*found));
  return &out;
}

Value from_json(Interpreter& interpreter, const Value& text) {
  require_defined(text);
  if (!text.is_string()) fail("from_json: the JSON must be a text, not " + type_name(text));
  interpreter.charge(text.as_bytes().size() / 8);
  const auto document = json::parse(text.as_bytes());
  if (!document.ok()) fail("from_json: " + document.status().message());
  return JsonValues(text.as_text().is_marked()).read(*document);
}

}  // namespace coxswain::chat
