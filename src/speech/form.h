#pragma once
// What the answer to a chat looks like: the form of its text where the client asks for one, and how it is read:
// thoughts and calls of functions apart from what the model says.
//
// Thread rule: pure functions.

#include <optional>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "speech/asked.h"
#include "speech/model.h"
#include "speech/reply_reader.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::speech {

struct Form {
  std::optional<AskedGrammar> grammar;
  std::optional<ThoughtBudget> thoughts;
  std::optional<ReplyOptions> reply;  // empty: all of the text is content
};

struct FormInput {
  const AskedTools& tools;
  const std::optional<AskedGrammar>& grammar;
  const std::optional<AskedThoughts>& thoughts;
  const Manner& manner;
  const tokenizer::Tokenizer& tokenizer;
  std::string_view prompt;  // the rendered text
  bool allows_grammars = true;
  // TGI's clients get all of a text, calls are numbered, and a grammar beside tools is refused.
  bool is_tgi = false;
  // A bound on thoughts is passed over where the model has none that are known.
  bool may_lack_thoughts = false;
  std::string_view parser_option = "--reasoning-parser";  // for messages
};

// Errors: kInvalidArgument and kUnimplemented, naming the field.
Result<Form> make_form(const FormInput& input);

}  // namespace coxswain::speech
