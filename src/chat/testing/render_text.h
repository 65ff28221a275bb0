#pragma once
// Renders a piece of template source for tests of the language. Thread rule: a pure function.

#include <chrono>
#include <string>
#include <string_view>

#include "chat/chat_template.h"
#include "json/json.h"

namespace coxswain::chat {

// The text of `source` with no messages, the members of the JSON object `variables` as its variables and a clock
// that stands at 2024-07-26 12:34:56 UTC; "!" and the error where there is one.
inline std::string render_text(std::string_view source, std::string_view variables) {
  const auto compiled = ChatTemplate::compile(source);
  if (!compiled.ok()) return "!" + compiled.status().message();
  RenderInput input;
  input.messages = json::Array{};
  input.extra = *json::parse(variables);
  input.now = std::chrono::system_clock::time_point(std::chrono::seconds(1721997296));
  const auto out = compiled->render(input);
  return out.ok() ? out->text : "!" + out.status().message();
}

}  // namespace coxswain::chat
