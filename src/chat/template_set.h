#pragma once
// TemplateSet: all templates of a model, compiled, and the choice among them for each request.
//
// A request is rendered with the template that select_template() names. What it says about the
// choice is in its RenderInput: `tools` and `documents` count as given unless null, and the string
// member "chat_template" of `extra` (chat_template_kwargs) asks for a template by name. A client
// can name a template of the model; it cannot bring one.
//
// Thread rule: immutable; render() from any thread.

#include <string>
#include <vector>

#include "chat/chat_template.h"

namespace coxswain::chat {

class TemplateSet {
 public:
  TemplateSet() = default;

  // Errors: those of load_templates(), and kInvalidArgument naming the template that cannot be
  // compiled with its line. A model without templates gives an empty set.
  static Result<TemplateSet> load(const std::string& model_dir,
                                  const std::string& override_path,
                                  const RenderLimits& limits = {});
  static Result<TemplateSet> compile(std::vector<NamedTemplate> templates,
                                     const RenderLimits& limits = {});

  bool empty() const { return templates_.empty(); }
  const std::vector<NamedTemplate>& templates() const { return templates_; }

  // Errors: those of select_template() and of ChatTemplate::render().
  Result<Rendered> render(const RenderInput& input) const;

 private:
  std::vector<NamedTemplate> templates_;
  std::vector<ChatTemplate> compiled_;  // [templates_]
};

}  // namespace coxswain::chat
