#include "apps/chat_renderer.h"

#include <memory>
#include <optional>
#include <utility>

#include "chat/chat_template.h"
#include "json/json.h"

namespace coxswain::apps {
namespace {

// What a request without and with tools is rendered with; null if the model has no template for it.
struct Choices {
  std::shared_ptr<const chat::ChatTemplate> without_tools;
  std::shared_ptr<const chat::ChatTemplate> with_tools;
};

Result<std::shared_ptr<const chat::ChatTemplate>> compile(const chat::NamedTemplate* chosen) {
  if (chosen == nullptr) return std::shared_ptr<const chat::ChatTemplate>();
  auto compiled = chat::ChatTemplate::compile(chosen->source);
  if (!compiled.ok()) return compiled.status().with_context("chat template `" + chosen->name + "`");
  return std::make_shared<const chat::ChatTemplate>(std::move(compiled).value());
}

bool has_tools(const chat::RenderInput& input) {
  return input.tools.is_array() && !input.tools.as_array().empty();
}

}  // namespace

Result<router::ChatRenderer> load_chat_renderer(const std::string& model_dir,
                                                const std::string& config) {
  COXSWAIN_ASSIGN_OR_RETURN(const auto templates, chat::load_templates(model_dir, config));
  if (templates.empty()) return router::ChatRenderer();
  const chat::NamedTemplate* plain = chat::select_template(templates, false);
  const chat::NamedTemplate* tools = chat::select_template(templates, true);
  Choices choices;
  COXSWAIN_ASSIGN_OR_RETURN(choices.without_tools, compile(plain));
  choices.with_tools = choices.without_tools;
  if (tools != plain) {
    COXSWAIN_ASSIGN_OR_RETURN(choices.with_tools, compile(tools));
  }
  return router::ChatRenderer([choices](const chat::RenderInput& input) -> Result<chat::Rendered> {
    const auto& chosen = has_tools(input) ? choices.with_tools : choices.without_tools;
    if (chosen == nullptr) {
      return Status(Code::kInvalidArgument,
                    ErrorKind::kTemplateError,
                    "the model has several chat templates and none of them is the default");
    }
    return chosen->render(input);
  });
}

}  // namespace coxswain::apps
