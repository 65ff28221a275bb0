#pragma once
// Tags: JSON texts in a frame, such as a call of a tool as a model spells it; alone, or in the midst of free text.
//
// With triggers the text is free as long as none of them is spelled; where one is, a tag that begins with it follows,
// whole, and then free text again. Without, the text is one tag.
//
// Special tokens have no text that could be free; kSpecialToken (token_trie.h) and the spelling of one stand for it in
// `begin`, `end` and triggers.
//
// Errors: kInvalidArgument naming the tag and what is wrong with it or its schema; kResourceExhausted.
// Thread rule: pure functions.

#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "grammar/expression.h"
#include "grammar/json_schema.h"

namespace coxswain::grammar {

struct Tag {
  std::string begin = {};
  std::string schema = {};  // as JSON; empty: any object
  std::string end = {};
  std::string name = {};  // in errors; empty: "tag" and its number

  friend bool operator==(const Tag&, const Tag&) = default;
};

// What comes before the text that a grammar is for: thoughts, from `begin` to the first `end`, then white space.
struct Preamble {
  std::string begin = {};
  std::string end = {};  // empty: there is no preamble
  // `begin` stands in the prompt: there are thoughts. Else there may be some.
  bool is_open = false;

  friend bool operator==(const Preamble&, const Preamble&) = default;
};
Result<Node> preamble_text(Expressions& expressions, const Preamble& preamble);

// What tags stand among where all text is framed, by special tokens as a rule: messages, each a tag, or one of `begins`
// and free text, with one of `between` in between. Empty: text is as above.
struct Messages {
  std::vector<std::string> begins = {};
  std::vector<std::string> between = {};

  friend bool operator==(const Messages&, const Messages&) = default;
};
Result<Node> messages_text(Expressions& expressions,
                           std::span<const Tag> tags,
                           const Messages& messages,
                           const SchemaOptions& options);

Result<Node> tagged_text(Expressions& expressions,
                         std::span<const Tag> tags,
                         std::span<const std::string> triggers,
                         const SchemaOptions& options);

}  // namespace coxswain::grammar
