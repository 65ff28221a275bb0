#pragma once
// TemplateSet: all templates of a model (default, tool_use, rag, ...), compiled, and which of them a request gets.
//
// A request gets the template that it asks for by name (the string member "chat_template" of its `extra`, which is
// chat_template_kwargs); else "tool_use" if it has tools; else "rag" if it has documents and "default" does not read
// them (the reference would leave them out silently); else "default". `tools` and `documents` count as given unless
// null. A client can name a template of the model; it cannot bring one.
//
// Thread rule: immutable; render() from any thread.

#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"

namespace coxswain::chat {

struct NamedTemplate {
  std::string name;
  std::string source;
};

// The templates that a model brings, from the first of the reference's sources that has one: chat_template.jinja,
// chat_template.json, tokenizer_config.json (string or list of {name, template}), processor_config.json, the metadata
// of a GGUF file. `model_dir`: a folder or one GGUF file. `override_path`: a file instead of all of these (a template,
// or a tokenizer_config.json), empty = none. An empty list means that the model has no template.
Result<std::vector<NamedTemplate>> load_templates(const std::string& model_dir,
                                                  const std::string& override_path);

class TemplateSet {
 public:
  TemplateSet() = default;

  // Errors: those of load_templates(), and kInvalidArgument naming the template that cannot be compiled with its line.
  // A model without templates gives an empty set.
  static Result<TemplateSet> load(const std::string& model_dir,
                                  const std::string& override_path,
                                  const RenderLimits& limits = {});
  static Result<TemplateSet> compile(std::vector<NamedTemplate> templates,
                                     const RenderLimits& limits = {});

  bool empty() const { return templates_.empty(); }
  const std::vector<NamedTemplate>& templates() const { return templates_; }

  // The template that a request with tools gets, unless it names one, and whether it shows them to the model.
  struct ForTools {
    std::string_view source;  // empty: there is none
    bool reads_tools = false;
  };
  ForTools for_tools() const;

  // Errors: those of ChatTemplate::render(), and kTemplateError listing the names if there is no template to choose.
  Result<Rendered> render(const RenderInput& input) const;

 private:
  const NamedTemplate* find(std::string_view name) const;
  Result<const NamedTemplate*> choose(const RenderInput& input) const;

  std::vector<NamedTemplate> templates_;
  std::vector<ChatTemplate> compiled_;  // [templates_]
};

}  // namespace coxswain::chat
