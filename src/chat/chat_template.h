#pragma once
// ChatTemplate: turns a conversation into the prompt text that a model was trained on.
//
// The language is the part of Jinja2 that chat templates use (docs/chat-templates.md), as the Hugging Face libraries
// run it (immutable sandbox, trim_blocks, lstrip_blocks, loop controls, generation blocks passed through), with
// Python's semantics where they show; compile() refuses the rest. A template is the data of a stranger: no I/O, no
// attributes beyond mapping and list items and the documented methods, budgets for steps, output and depth.
//
// Strings that came from users carry a mark through filters and concatenation; the result lists the byte spans they
// ended up in, so that the tokenizer does not parse special tokens in them.
//
// Thread rule: immutable after compile; render() from any thread.

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "json/json.h"

namespace coxswain::chat {

struct RenderLimits {
  std::size_t parse_depth_max = 200;
  std::size_t steps_max = 1'000'000;
  std::size_t output_bytes_max = std::size_t{8} << 20;
  std::size_t recursion_max = 100;  // macros and recursive loops
};

// What the template sees; all texts are UTF-8. Messages (but for the role, if it is a usual one), tools, documents and
// `extra` are untrusted; the rest is ours.
struct RenderInput {
  json::Value messages;   // array of objects, every key of the request kept
  json::Value tools;      // array or null
  json::Value documents;  // array or null
  std::string bos_token;
  std::string eos_token;
  std::optional<bool> add_generation_prompt = true;  // empty: the variable is undefined
  bool continue_final_message = false;               // cut right after the last message's content
  json::Value extra;  // object: chat_template_kwargs and further special tokens, or null
  std::chrono::system_clock::time_point now{};  // for strftime_now; UTC
};

struct Rendered {
  std::string text;
  std::vector<TextSpan> untrusted;  // sorted, disjoint
};

class ChatTemplate {
 public:
  // Errors: kInvalidArgument with line and reason.
  static Result<ChatTemplate> compile(std::string_view source, const RenderLimits& limits = {});

  // Errors: kInvalidArgument, kind kTemplateError: raise_exception's message, or what went wrong;
  // over budget: names the budget.
  Result<Rendered> render(const RenderInput& input) const;

  // True if the template mentions the variable `name` (used for "tools").
  bool mentions(std::string_view name) const;

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<const Program> program);
  std::unique_ptr<const Program> program_;
};

}  // namespace coxswain::chat
