#pragma once
// Grammars: what the text of an answer has to look like.
//
//     auto grammar = coxswain::compile_grammar(coxswain::GuideType::kJsonSchema, schema);  // Result<CompiledGrammar>
//     if (!grammar.ok()) ...                                                               // which keyword, and why
//     request.sampling.grammar = grammar.value();
//
// Compiling takes milliseconds and more for large schemas: keep what it gives for all requests that want it. What
// cannot be kept to is refused, never passed over. Which keywords there are: docs/api.md, "Answers of a given form".
//
// Thread rule: any thread.

#include <cstdint>
#include <string_view>

#include <coxswain/export.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain {

// In the order of TensorRT-LLM's guide types.
enum class GuideType : std::uint8_t {
  kJson,         // any JSON object; the guide is empty
  kJsonSchema,   // a schema as JSON text, draft 7 or 2020-12; any white space of JSON, bounded
  kRegex,        // the whole answer matches
  kEbnfGrammar,  // rules, as GBNF or as Lark writes them
};

// Errors: kInvalidArgument with the JSON pointer or the offset of what is at fault; kResourceExhausted for guides above
// 256 KiB, compiled ones above 8 MiB, and what would take more states than there may be.
COXSWAIN_EXPORT Result<CompiledGrammar> compile_grammar(GuideType type,
                                                        std::string_view guide = {});

}  // namespace coxswain
