#include "serve/router/chat_renderer.h"

#include <memory>
#include <utility>

#include "chat/template_set.h"

namespace coxswain::serve {

Result<router::ChatRenderer> load_chat_renderer(const std::string& model_dir,
                                                const std::string& config) {
  COXSWAIN_ASSIGN_OR_RETURN(chat::TemplateSet loaded, chat::TemplateSet::load(model_dir, config));
  if (loaded.empty()) return router::ChatRenderer();
  auto set = std::make_shared<const chat::TemplateSet>(std::move(loaded));
  return router::ChatRenderer([set](const chat::RenderInput& input) { return set->render(input); });
}

}  // namespace coxswain::serve
