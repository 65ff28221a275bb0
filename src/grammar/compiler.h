#pragma once
// Compiler: from what a client sends to what a runner walks.
//
// Results are kept by content, errors too, so that a schema sent with every request is compiled once.
//
// Thread rule: methods from any thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "grammar/json_schema.h"
#include "grammar/program.h"
#include "grammar/tags.h"

namespace coxswain::grammar {

inline constexpr std::size_t kSourceBytesMax = 256U << 10;   // of what a client sends
inline constexpr std::size_t kCompilerBytesMax = 64U << 20;  // of what is kept

struct Source {
  enum class Kind : std::uint8_t {
    kJsonSchema,  // text: the schema as JSON
    kJsonObject,  // any JSON object
    kRegex,       // text: the pattern; the whole answer matches
    kChoice,      // one of `choices`
    kRules,       // text: rules in GBNF or Lark's language (ebnf.h)
    kTags,        // `tags`, with free text around them if there are `triggers` (tags.h)
  };
  Kind kind = Kind::kJsonSchema;
  std::string text = {};
  std::vector<std::string> choices = {};
  std::vector<Tag> tags = {};
  std::vector<std::string> triggers = {};
  Messages messages = {};  // of kTags: without triggers
  SchemaOptions schema = {};
  Preamble preamble = {};  // in front of a text of any kind

  friend bool operator==(const Source&, const Source&) = default;
};

// Errors: kInvalidArgument and kResourceExhausted, with what the client may read.
Result<Program> compile(const Source& source);
// What runners take.
enum class Form : std::uint8_t {
  kProgram,
  kPattern,  // carry_pattern(); errors are those of pattern_of(), too
};
// The same as it travels to a runner.
Result<CompiledGrammar> compile_source(const Source& source, Form form = Form::kProgram);

class Compiler {
 public:
  explicit Compiler(std::size_t kept_bytes_max = kCompilerBytesMax, Form form = Form::kProgram);
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  // Errors: as compile().
  Result<CompiledGrammar> compile(const Source& source);

 private:
  class Kept;
  std::unique_ptr<Kept> kept_;
  Form form_;
};

}  // namespace coxswain::grammar
