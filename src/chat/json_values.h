#pragma once
// JsonValues: the JSON of a request as values of a template. All strings are marked as untrusted, but for the usual
// roles of messages. from_json() reads a text of the template the same way.
//
// The same few keys occur in every message; each is made once.
//
// Thread rule: one thread; the values made may outlive it.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "chat/value.h"
#include "json/json.h"

namespace coxswain::chat {

class Interpreter;

class JsonValues {
 public:
  // The string `marked`, which may be null, gets `mark` at its end.
  explicit JsonValues(const json::Value* marked, std::string_view mark)
      : marked_(marked), mark_(mark) {}
  // `is_untrusted`: whether the strings are marked as such.
  explicit JsonValues(bool is_untrusted) : is_untrusted_(is_untrusted) {}

  Value read(const json::Value& value);
  // As read(), for the messages of a conversation.
  Value read_messages(const json::Value& messages);

 private:
  static constexpr std::size_t kRoles = 9;

  Value key(const std::string& name);
  Value object(const json::Object& members, bool is_message);
  Value text(std::string bytes) const;
  const Value* role(const json::Value& value);

  const json::Value* marked_ = nullptr;
  std::string_view mark_;
  bool is_untrusted_ = true;
  std::vector<Value> keys_;
  std::array<Value, kRoles> roles_;  // undefined until they occur
};

// The value that the JSON text `text` stands for; its strings are marked if any of the text is. Throws RenderError
// for what is no text or no JSON.
Value from_json(Interpreter& interpreter, const Value& text);

}  // namespace coxswain::chat
