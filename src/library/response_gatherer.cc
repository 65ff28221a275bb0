#include "library/response_gatherer.h"

#include <iterator>
#include <utility>

namespace coxswain::library {

void ResponseGatherer::add(batch::TokenEvent event) {
  for (std::size_t i = 0; i < event.tokens.size(); ++i) {
    const OutputToken& token = event.tokens[i];
    const std::string_view visible = token.special ? std::string_view() : token.text;
    const bool last = event.finish && i + 1 == event.tokens.size();
    next_.text += last ? holdback_.finish(visible, *event.finish) : holdback_.push(visible);
  }
  if (next_.tokens.empty()) {
    next_.tokens = std::move(event.tokens);
  } else {
    next_.tokens.insert(next_.tokens.end(),
                        std::make_move_iterator(event.tokens.begin()),
                        std::make_move_iterator(event.tokens.end()));
  }
  if (!event.prompt.empty()) next_.prompt = std::move(event.prompt);
  if (!event.final) return;
  next_.final = true;
  next_.status = std::move(event.status);
  if (event.finish) next_.finish = event.finish->reason;
  next_.usage = {.n_prompt_tokens = n_prompt_,
                 .n_cached_prompt_tokens = event.n_cached_prompt_tokens,
                 .n_generated_tokens = event.n_generated};
}

Response ResponseGatherer::take() {
  Response out = std::move(next_);
  next_ = {.id = out.id};
  return out;
}

}  // namespace coxswain::library
