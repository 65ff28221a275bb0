#include "serve/router/chat_model.h"

#include <memory>
#include <utility>

#include "chat/template_set.h"

namespace coxswain::serve {

Result<router::ChatModel> load_chat_model(const ChatModelOptions& options,
                                          const tokenizer::Tokenizer& tokenizer) {
  COXSWAIN_ASSIGN_OR_RETURN(
      chat::TemplateSet loaded,
      chat::TemplateSet::load(options.model_dir, options.tokenizer_config_path));
  router::ChatModel out;
  COXSWAIN_ASSIGN_OR_RETURN(out.manner,
                            speech::manner_of(loaded,
                                              tokenizer,
                                              {options.tool_call_parser, "--tool-call-parser"},
                                              {options.reasoning_parser, "--reasoning-parser"}));
  if (loaded.empty()) return out;
  const auto set = std::make_shared<const chat::TemplateSet>(std::move(loaded));
  out.render = [set](const chat::RenderInput& input) { return set->render(input); };
  return out;
}

}  // namespace coxswain::serve
