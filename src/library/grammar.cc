#include <string>

#include <coxswain/grammar.h>

#include "grammar/compiler.h"
#include "library/chat_parts.h"

namespace coxswain {
namespace {

using grammar::Source;

Source::Kind kind_of(GuideType type) {
  switch (type) {
    case GuideType::kJson:
      return Source::Kind::kJsonObject;
    case GuideType::kJsonSchema:
      return Source::Kind::kJsonSchema;
    case GuideType::kRegex:
      return Source::Kind::kRegex;
    case GuideType::kEbnfGrammar:
      break;
  }
  return Source::Kind::kRules;
}

}  // namespace

Result<Source> library::guide_source(const Guide& guide) {
  if (guide.type == GuideType::kJson && !guide.text.empty())
    return invalid_argument("the guide must be empty for any JSON. Given: " + guide.text);
  return Source{.kind = kind_of(guide.type), .text = guide.text};
}

Result<CompiledGrammar> compile_grammar(GuideType type, std::string_view guide) {
  COXSWAIN_ASSIGN_OR_RETURN(const Source source,
                            library::guide_source({.type = type, .text = std::string(guide)}));
  return grammar::compile_source(source);
}

}  // namespace coxswain
