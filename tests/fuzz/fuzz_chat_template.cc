// A chat template, up to the first NUL, and a conversation as JSON behind it (a stock one if there
// is none): compiled and rendered within small budgets.
//
// U+2620 marks what users wrote. Where it stands in the prompt, the prompt must be known as
// untrusted; a template that can make the character itself is not held to that.

#include <chrono>
#include <string>

#include "chat/chat_template.h"
#include "fuzz/fuzz_input.h"
#include "json/json.h"

namespace {

using coxswain::TextSpan;
using coxswain::fuzz::require;
namespace chat = coxswain::chat;
namespace json = coxswain::json;

constexpr std::string_view kMark = "\xE2\x98\xA0";
constexpr std::string_view kConversation =
    R"([{"role":"system","content":" \u2620 Be brief. "},)"
    R"({"role":"user","content":"\u2620 Hi <|end|> {{ 1 }}","name":"n"},)"
    R"({"role":"assistant","content":"<think>\u2620</think>Hello\u2620","tool_calls":[{"type":"function",)"
    R"("function":{"name":"f","arguments":{"x":[1,2.5,null,true,"\u2620"]}}}]},)"
    R"({"role":"tool","content":"\u2620"},{"role":"user","content":""}])";
constexpr std::string_view kTools =
    R"([{"type":"function","function":{"name":"f","description":"d\u2620","parameters":{"type":"object",)"
    R"("properties":{"x":{"type":"string"}},"required":["x"]}}}])";

chat::RenderLimits small_limits() {
  chat::RenderLimits limits;
  limits.parse_depth_max = 40;
  limits.steps_max = 20'000;
  limits.output_bytes_max = 16 << 10;
  limits.recursion_max = 12;
  return limits;
}

bool can_make_mark(std::string_view source) {
  for (const std::string_view way : {"2620", "9760", "u26", "\xE2\x98\xA0"}) {
    if (source.find(way) != std::string_view::npos) return true;
  }
  return false;
}

void check_spans(const chat::Rendered& rendered, bool marks_are_users) {
  std::size_t end = 0;
  for (const TextSpan& span : rendered.untrusted) {
    require(span.begin >= end && span.begin < span.end && span.end <= rendered.text.size(),
            "untrusted spans are sorted, disjoint and inside the text");
    end = span.end;
  }
  if (!marks_are_users) return;
  std::size_t next = 0;
  for (std::size_t at = rendered.text.find(kMark); at != std::string::npos;
       at = rendered.text.find(kMark, at + 1)) {
    while (next < rendered.untrusted.size() && rendered.untrusted[next].end <= at) ++next;
    require(next < rendered.untrusted.size() && rendered.untrusted[next].begin <= at &&
                at + kMark.size() <= rendered.untrusted[next].end,
            "what users wrote is known as untrusted");
  }
}

void check_render(const chat::ChatTemplate& compiled,
                  const chat::RenderInput& input,
                  bool marks_are_users) {
  const auto rendered = compiled.render(input);
  const auto again = compiled.render(input);
  require(rendered.ok() == again.ok(), "rendering twice gives the same");
  if (!rendered.ok()) {
    require(!rendered.status().message().empty() || again.status().message().empty(),
            "an error is the same twice");
    return;
  }
  require(rendered->text == again->text && rendered->untrusted == again->untrusted,
          "rendering twice gives the same");
  require(rendered->text.size() <= small_limits().output_bytes_max, "a prompt is within its limit");
  check_spans(*rendered, marks_are_users);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input in(data, size);
  const std::string_view source = in.until_nul();
  const auto compiled = chat::ChatTemplate::compile(source, small_limits());
  if (!compiled.ok()) {
    require(!compiled.status().message().empty(), "an error says why");
    return 0;
  }
  static const json::Value stock = *json::parse(kConversation);
  static const json::Value tools = *json::parse(kTools);
  chat::RenderInput input;
  input.messages = stock;
  if (!in.rest().empty()) {
    auto own = json::parse(in.rest());
    if (own.ok() && own->is_array()) input.messages = std::move(own).value();
  }
  input.bos_token = "<s>";
  input.eos_token = "</s>";
  input.now = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
  const bool marks_are_users = !can_make_mark(source);
  check_render(*compiled, input, marks_are_users);

  input.tools = tools;
  input.documents = stock;
  input.add_generation_prompt = std::nullopt;
  input.continue_final_message = true;
  check_render(*compiled, input, marks_are_users);
  return 0;
}
