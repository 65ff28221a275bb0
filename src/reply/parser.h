#pragma once
// What a model wrote, split into what it thought, what it says and which functions it calls.
//
// Each family of models spells calls in a way of its own. A parser takes the text piece by piece, as tokens come, and
// yields parts as soon as nothing that may follow changes them. Joined, the parts are the same for every cut of the
// text. Text that is no call, or a call that cannot be read, comes out as text: nothing that a model writes is lost,
// but for the frames around what was understood and white space between them. The time is linear in the text.
//
// The formats with an example of each: docs/tools.md.
//
// Thread rule: an object belongs to one answer and one thread; functions are pure.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "json/json.h"

namespace coxswain::reply {

// A function that the client declared.
struct Tool {
  std::string name;
  json::Value parameters = {};  // JSON schema of an object; null: any
};

struct Part {
  enum class Kind : std::uint8_t {
    kText,
    kReasoning,
    kCall,       // text: the function's name; a new call begins
    kArguments,  // what follows of the last call's arguments, which joined are one JSON object
  };
  Kind kind = Kind::kText;
  std::string text;
  std::string id = {};  // kCall: if the model gave it one

  friend bool operator==(const Part&, const Part&) = default;
};

enum class ToolFormat : std::uint8_t {
  kNone,  // text alone
  kJson,  // the whole answer is {"name": ..., "arguments"|"parameters": {...}}, or a list of these
  kDemo,
  kHermes,
  kLlama3Json,
  kLlama3Pythonic,
  kMistral,      // [TOOL_CALLS] and a list
  kMistralArgs,  // [TOOL_CALLS]NAME[ARGS]{...}; what it reads is the same
  kQwen3Coder,
  kDeepSeekV3,
  kDeepSeekV31,
  kHarmony,
  kGemma,
  kGlm45,
  kGranite,
  kPhi4,
  kFunctionary,    // <function=NAME>{...}</function>
  kFunctionaryV3,  // >>>NAME and a line end; what it reads is the same
  kKimiK2,
  kCohere,
};

enum class ReasoningFormat : std::uint8_t {
  kNone,
  kThink,      // <think> ... </think>
  kMistral,    // [THINK] ... [/THINK]
  kGranite,    // Here is my thought process: ... Here is my response: ...
  kGranite33,  // <think> ... </think><response> ... </response>
  kCohere,
  kGemma,    // <|channel>thought ... <channel|>
  kHarmony,  // channels, which ToolFormat::kHarmony brings with it
};

struct Formats {
  ToolFormat tools = ToolFormat::kNone;
  ReasoningFormat reasoning = ReasoningFormat::kNone;

  friend bool operator==(const Formats&, const Formats&) = default;
};

// By the name that options use: "hermes", "llama3_json", ...; "none". Empty if there is no such format.
std::optional<ToolFormat> tool_format_named(std::string_view name);
std::optional<ReasoningFormat> reasoning_format_named(std::string_view name);
std::string_view name_of(ToolFormat format);
std::string_view name_of(ReasoningFormat format);
// For messages: all names, joined by ", ".
std::string tool_format_names();
std::string reasoning_format_names();

// What a model with this chat template and these tokens writes. `has_token`: whether the text is one token of it.
Formats detect_formats(std::string_view template_source,
                       const std::function<bool(std::string_view)>& has_token);

// How one call is spelled, for answers that have to be a call: marker, before_name, the name, between, the arguments as
// a JSON object, after. Formats whose arguments are no JSON have the shape of kJson.
struct CallShape {
  ToolFormat format = ToolFormat::kJson;  // that reads it
  std::string marker = {};                // opens a call in the midst of text; empty: nothing does
  std::string before_name = {};
  std::string between = {};
  std::string after = {};
};
CallShape call_shape(ToolFormat format);

// How a model frames what it thinks, and what begins the text it says, where that has a frame.
struct ReasoningFrames {
  std::string begin = {};
  std::string end = {};
  std::string content_begin = {};
};
ReasoningFrames reasoning_frames(ReasoningFormat format);

// Of models that frame all they say: an answer is messages, one of `begins` and then text, with one of `between` in
// between, calls among them. Empty for others.
struct MessageFrames {
  std::vector<std::string> begins = {};
  std::vector<std::string> between = {};
};
MessageFrames message_frames(ToolFormat format);

// Whether the end of a prompt has opened a block of reasoning, so that the answer begins inside of one.
bool opens_reasoning(ReasoningFormat format, std::string_view prompt_tail);

struct ParserSetup {
  Formats formats = {};
  std::shared_ptr<const std::vector<Tool>> tools = {};  // null or empty: no calls are looked for
  bool in_reasoning = false;                            // opens_reasoning()
  bool shows_special = false;  // special tokens that belong to no frame are text
};

class Parser {
 public:
  virtual ~Parser() = default;
  // The text of the next token, or more than one's; `special`: of a special token, spelled. Special tokens that
  // belong to no format's frame are dropped, but for ParserSetup::shows_special. Appends to `out`.
  virtual void push(std::string_view text, bool special, std::vector<Part>& out) = 0;
  // The answer has ended: what was kept back.
  virtual void finish(std::vector<Part>& out) = 0;
};

std::unique_ptr<Parser> make_parser(ParserSetup setup);

}  // namespace coxswain::reply
