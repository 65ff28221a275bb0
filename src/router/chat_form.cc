#include "router/chat_form.h"

namespace coxswain::router {

Result<speech::Form> chat_form(const api::ChatRequest& request, const ChatFormInput& input) {
  return speech::make_form({.tools = request.tools,
                            .grammar = request.parameters.grammar,
                            .thoughts = request.thoughts,
                            .manner = input.model.manner,
                            .tokenizer = input.tokenizer,
                            .prompt = input.prompt,
                            .allows_grammars = input.allows_grammars,
                            .is_tgi = input.style == api::ApiStyle::kTgi,
                            // Anthropic's clients send a bound to every model.
                            .may_lack_thoughts = input.style == api::ApiStyle::kAnthropic});
}

}  // namespace coxswain::router
