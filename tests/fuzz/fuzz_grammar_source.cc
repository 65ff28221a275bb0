// JSON Schemas and regular expressions, and what they become.
//
// First byte: which of them, and the white space of a schema. The rest: the source.

#include <string>
#include <string_view>

#include "fuzz/grammar_checks.h"
#include "grammar/compiler.h"
#include "json/json.h"

namespace {

using coxswain::fuzz::require;
namespace grammar = coxswain::grammar;
using Space = grammar::SchemaOptions::Space;

constexpr std::size_t kSourceMax = 4096;
constexpr std::size_t kWalkMax = 24;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > kSourceMax) return 0;
  coxswain::fuzz::Input input(data, size);
  const unsigned kind = input.byte() % 4;
  const bool is_schema = kind < 3;
  grammar::Source source{.text = std::string(input.rest())};
  if (is_schema)
    source.schema = {.space = static_cast<Space>(kind), .closes_objects = kind == 1};
  else
    source.kind = grammar::Source::Kind::kRegex;
  auto program = grammar::compile(source);
  if (!coxswain::fuzz::travels(program)) return 0;
  coxswain::fuzz::Draw draw(size);
  const auto walk = coxswain::fuzz::walk(*std::move(program), draw, kWalkMax);
  require(walk.is_whole || !walk.is_at_end, "a text can go on or stop");
  if (is_schema && walk.is_whole)
    require(coxswain::json::parse(walk.text).ok(), "what a schema allows is JSON");
  return 0;
}
