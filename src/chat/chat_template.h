#pragma once
// ChatTemplate: turns a conversation into the prompt text that a model was trained on.
//
// The language is Jinja2 as the Hugging Face libraries run it (immutable sandbox, trim_blocks,
// lstrip_blocks, loop controls, generation blocks passed through), with Python's semantics where
// they show. A template is the data of a stranger: no I/O, no attributes beyond mapping and list
// items and the documented methods, budgets for steps, output and depth.
//
// Strings that came from users carry a mark through filters and concatenation; the result lists the
// byte spans they ended up in, so that the tokenizer does not parse special tokens in them.
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

// What the template sees. Messages (but for the role, if it is a usual one), tools, documents and
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
  std::uint64_t random_seed = 0;                // for `random` and `lipsum`
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

// The templates that a model brings: default, tool_use, rag, ... Sources in the order of the
// reference: chat_template.jinja, chat_template.json, tokenizer_config.json (string or list of
// {name, template}), processor_config.json, the metadata of a GGUF file. `model_dir`: a folder or
// one GGUF file. `override_path`: own file (.jinja, or a tokenizer_config.json), empty = none.
// An empty list means that the model has no template.
struct NamedTemplate {
  std::string name;
  std::string source;
};
Result<std::vector<NamedTemplate>> load_templates(const std::string& model_dir,
                                                  const std::string& override_path);

// The template for one request, as the reference chooses it: "tool_use" if there are tools and it
// exists, otherwise "default"; null if neither is there.
const NamedTemplate* select_template(const std::vector<NamedTemplate>& templates, bool has_tools);

// What a request says about its template.
struct TemplateChoice {
  bool has_tools = false;
  bool has_documents = false;
  std::string_view name = {};  // asked for by name; empty = none
};

// The template for one request: the one asked for by name; else "tool_use" for tools; else "rag"
// for documents that "default" does not read (the reference would leave them out silently); else
// "default". Errors: kInvalidArgument, kind kTemplateError, listing the names that there are.
Result<const NamedTemplate*> select_template(const std::vector<NamedTemplate>& templates,
                                             const TemplateChoice& choice);

}  // namespace coxswain::chat
