#pragma once
// A model's chat templates and its way of speaking, as the router has them, and what a request makes of an answer.
//
// Thread rule: pure functions.

#include <string_view>

#include <coxswain/status.h>

#include "api/documents.h"
#include "api/errors.h"
#include "speech/conversation.h"
#include "speech/form.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::router {

struct ChatModel {
  speech::Renderer render = {};  // empty if the model has no template
  speech::Manner manner = {};

  explicit operator bool() const { return static_cast<bool>(render); }
};

struct ChatFormInput {
  const ChatModel& model;
  const tokenizer::Tokenizer& tokenizer;
  api::ApiStyle style = api::ApiStyle::kOpenAi;
  bool allows_grammars = true;
  std::string_view prompt;  // the rendered text
};

// As speech::make_form(), for a route of this style.
Result<speech::Form> chat_form(const api::ChatRequest& request, const ChatFormInput& input);

}  // namespace coxswain::router
