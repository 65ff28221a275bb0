#include <string>

#include <coxswain/grammar.h>

#include "grammar/compiler.h"

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

Result<CompiledGrammar> compile_grammar(GuideType type, std::string_view guide) {
  if (type == GuideType::kJson && !guide.empty())
    return invalid_argument("the guide must be empty for any JSON. Given: " + std::string(guide));
  return grammar::compile_source({.kind = kind_of(type), .text = std::string(guide)});
}

}  // namespace coxswain
