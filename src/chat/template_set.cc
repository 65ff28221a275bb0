#include "chat/template_set.h"

#include <utility>

namespace coxswain::chat {

Result<TemplateSet> TemplateSet::load(const std::string& model_dir,
                                      const std::string& override_path,
                                      const RenderLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(auto templates, load_templates(model_dir, override_path));
  return compile(std::move(templates), limits);
}

Result<TemplateSet> TemplateSet::compile(std::vector<NamedTemplate> templates,
                                         const RenderLimits& limits) {
  TemplateSet out;
  for (const NamedTemplate& entry : templates) {
    auto compiled = ChatTemplate::compile(entry.source, limits);
    if (!compiled.ok()) return compiled.status().with_context("chat template `" + entry.name + "`");
    out.compiled_.push_back(std::move(compiled).value());
  }
  out.templates_ = std::move(templates);
  return out;
}

Result<Rendered> TemplateSet::render(const RenderInput& input) const {
  TemplateChoice choice{.has_tools = !input.tools.is_null(),
                        .has_documents = !input.documents.is_null()};
  if (input.extra.is_object()) {
    const json::Value* name = input.extra.find("chat_template");
    if (name != nullptr && name->is_string()) choice.name = name->as_string();
  }
  COXSWAIN_ASSIGN_OR_RETURN(const NamedTemplate* chosen, select_template(templates_, choice));
  return compiled_[static_cast<std::size_t>(chosen - templates_.data())].render(input);
}

}  // namespace coxswain::chat
