#pragma once
// What a client asks of the answer to a chat, read but not looked at with the model's eyes: functions to call, the form
// of the text, a bound on thoughts.
//
// Thread rule: values.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grammar/compiler.h"
#include "json/json.h"
#include "reply/parser.h"

namespace coxswain::speech {

// What the text of an answer has to look like.
struct AskedGrammar {
  grammar::Source source;
  std::string field;  // path of the member that says so: "response_format.json_schema.schema"
};

// Functions that the model may call, as the client declares them.
struct AskedTools {
  enum class Choice : std::uint8_t { kAuto, kRequired, kNamed };
  json::Value list;  // as templates read them; null: none are declared, or none may be called
  std::shared_ptr<const std::vector<reply::Tool>> callable;  // null where `list` is
  std::vector<std::string> strict;    // names of those whose arguments have to follow their schema
  Choice choice = Choice::kAuto;      // kNamed: `callable` is that one
  bool parallel = true;               // more than one call in an answer
  std::optional<std::string> prompt;  // TGI's tool_prompt

  explicit operator bool() const { return callable != nullptr; }
};

// The most tokens that thoughts may have.
struct AskedThoughts {
  std::uint32_t tokens_max = 0;
  std::string field;  // that says so
};

}  // namespace coxswain::speech
