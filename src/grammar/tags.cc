#include "grammar/tags.h"

#include <algorithm>
#include <vector>

#include "grammar/character_automaton.h"
#include "grammar/token_trie.h"
#include "json/json.h"

namespace coxswain::grammar {
namespace {

constexpr std::size_t kSchemaDepthMax = 64;
constexpr std::uint32_t kSpaceBehindThoughtsMax = 4;
const CharacterSet kSpace{{'\t', '\n'}, {' ', ' '}};

Result<Node> read_tag(Expressions& e, const Tag& tag, const SchemaOptions& options) {
  if (tag.schema.empty())
    return e.sequence({e.bytes(tag.begin), any_json_object(e, options), e.bytes(tag.end)});
  const auto schema = json::parse(tag.schema, {.depth_max = kSchemaDepthMax});
  if (!schema.ok()) return invalid_argument("the schema is no JSON: " + schema.status().message());
  COXSWAIN_ASSIGN_OR_RETURN(const Node body, schema_expression(e, schema.value(), options));
  return e.sequence({e.bytes(tag.begin), body, e.bytes(tag.end)});
}

// `text` as a pattern that matches it alone.
void append_literal(std::string& pattern, std::string_view text) {
  for (const char c : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}/-)").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
}

// Texts that spell none of these.
Result<Node> free_text(Expressions& e, std::span<const std::string> forbidden) {
  std::string pattern;
  for (const std::string& text : forbidden) {
    if (text.front() == kSpecialToken) continue;  // no character begins so
    if (!pattern.empty()) pattern += '|';
    append_literal(pattern, text);
  }
  if (pattern.empty()) return e.repeat(e.characters(CharacterSet::all()), 0, kUnbounded);
  COXSWAIN_ASSIGN_OR_RETURN(
      const CharacterAutomaton spelled,
      CharacterAutomaton::of_pattern(pattern, CharacterAutomaton::Match::kAnywhere));
  return spelled.complement().write(e, [&](const CharacterSet& set) { return e.characters(set); });
}

std::string name_of(std::span<const Tag> tags, std::size_t i) {
  return tags[i].name.empty() ? "tag " + std::to_string(i) : tags[i].name;
}

Result<std::vector<Node>> read_tags(Expressions& expressions,
                                    std::span<const Tag> tags,
                                    const SchemaOptions& options) {
  if (tags.empty()) return invalid_argument("there is no tag");
  std::vector<Node> nodes;
  nodes.reserve(tags.size());
  for (std::size_t i = 0; i < tags.size(); ++i) {
    auto node = read_tag(expressions, tags[i], options);
    if (!node.ok()) return node.status().with_context(name_of(tags, i));
    nodes.push_back(node.value());
  }
  return nodes;
}

Status check_triggers(std::span<const Tag> tags, std::span<const std::string> triggers) {
  if (std::ranges::any_of(triggers, &std::string::empty))
    return invalid_argument("a trigger may not be empty");
  for (std::size_t i = 0; i < tags.size(); ++i) {
    const auto begins = [&](const std::string& trigger) {
      return tags[i].begin.starts_with(trigger);
    };
    if (std::ranges::none_of(triggers, begins)) {
      return invalid_argument(name_of(tags, i) + " does not begin with one of the triggers");
    }
  }
  return {};
}

}  // namespace

Result<Node> preamble_text(Expressions& e, const Preamble& preamble) {
  if (preamble.end.empty()) return e.empty();
  COXSWAIN_ASSIGN_OR_RETURN(const Node thoughts, free_text(e, std::span(&preamble.end, 1)));
  const Node space = e.repeat(e.characters(kSpace), 0, kSpaceBehindThoughtsMax);
  const Node rest = e.sequence({thoughts, e.bytes(preamble.end), space});
  if (preamble.is_open) return rest;
  return e.optional(e.sequence({e.bytes(preamble.begin), rest}));
}

Result<Node> messages_text(Expressions& expressions,
                           std::span<const Tag> tags,
                           const Messages& messages,
                           const SchemaOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<Node> nodes, read_tags(expressions, tags, options));
  const Node text = expressions.repeat(expressions.characters(CharacterSet::all()), 0, kUnbounded);
  for (const std::string& begin : messages.begins)
    nodes.push_back(expressions.sequence({expressions.bytes(begin), text}));
  std::vector<Node> between;
  between.reserve(messages.between.size());
  for (const std::string& one : messages.between) between.push_back(expressions.bytes(one));
  const Node message = expressions.choice(nodes);
  const Node more = expressions.sequence({expressions.choice(between), message});
  return expressions.sequence({message, expressions.repeat(more, 0, kUnbounded)});
}

Result<Node> tagged_text(Expressions& expressions,
                         std::span<const Tag> tags,
                         std::span<const std::string> triggers,
                         const SchemaOptions& options) {
  COXSWAIN_ASSIGN_OR_RETURN(const std::vector<Node> nodes, read_tags(expressions, tags, options));
  const Node tag = expressions.choice(nodes);
  if (triggers.empty()) return tag;
  COXSWAIN_RETURN_IF_ERROR(check_triggers(tags, triggers));
  COXSWAIN_ASSIGN_OR_RETURN(const Node text, free_text(expressions, triggers));
  return expressions.sequence(
      {text, expressions.repeat(expressions.sequence({tag, text}), 0, kUnbounded)});
}

}  // namespace coxswain::grammar
