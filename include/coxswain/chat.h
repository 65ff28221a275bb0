#pragma once
// Chats in which a model calls functions and thinks: what it is told, and what it makes of it.
//
//     coxswain::ChatOptions options;
//     options.tools = {{"get_weather", "Weather of a city", R"({"type": "object", "properties": ...})"}};
//     auto turn = model->chat(messages, options);                  // Result<ChatTurn>
//     auto id = engine.enqueue(turn->request());
//     coxswain::ReplyParser reply(*turn);
//     for (Response piece; !piece.final;) reply.push(piece = engine.await(*id));
//     messages.push_back(reply.message());                         // and what the calls in it returned
//
// The same as /v1/chat/completions gives. Which models, and what counts as a call: docs/tools.md.
//
// Thread rule: values; a ReplyParser belongs to one thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/export.h>
#include <coxswain/grammar.h>
#include <coxswain/request.h>
#include <coxswain/types.h>

namespace coxswain {

namespace library {
struct ReplyForm;
}

// A call of a function, as the model wrote it.
struct ToolCall {
  std::string id = {};
  std::string name = {};
  std::string arguments = {};  // a JSON object, unless the answer broke off

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool", or what else the template knows
  std::string content;
  std::string reasoning = {};             // of an assistant, if the template is to see it
  std::vector<ToolCall> tool_calls = {};  // of an assistant
  std::string tool_call_id = {};          // of "tool": the call whose result this is
  std::string name = {};                  // of "tool": the function, where the template wants it

  friend bool operator==(const ChatMessage&, const ChatMessage&) = default;
};

// A function that may be called.
struct Tool {
  std::string name;              // 1 to 256 bytes
  std::string description = {};  // for the model
  std::string parameters = {};   // the JSON schema of an object, as text; empty: none is known
  // Calls of it follow the schema. ToolChoice::kRequired and a named function do so in any case.
  bool strict = false;
};

enum class ToolChoice : std::uint8_t {
  kAuto,      // the model may call some
  kNone,      // and is not shown them
  kRequired,  // the answer is a call
};

// A grammar that text is to keep to, as compile_grammar() takes it.
struct Guide {
  GuideType type = GuideType::kJson;
  std::string text = {};
};

struct ChatOptions {
  std::vector<Tool> tools = {};  // at most 1,024
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string tool_name = {};       // not empty: the answer is a call of this one
  bool parallel_tool_calls = true;  // else calls behind the first are left out of the reply
  // What the model says has this form; its thoughts are free. Beside tools a schema: a call, or a text of it.
  std::optional<Guide> guide = {};
  std::string reasoning_effort = {};         // for the template; "none" also does not think
  std::optional<bool> enable_thinking = {};  // for the template
  std::string template_arguments = {};       // for the template: a JSON object as text; goes before
  std::optional<std::uint32_t> thinking_tokens_max = {};  // the block of thoughts is closed then
  // Ids of calls are drawn from it, where the model gives none. Empty: from the prompt.
  std::optional<std::uint64_t> id_seed = {};
};

// What LocalModel::chat() makes of messages and ChatOptions.
struct ChatTurn {
  Prompt prompt = {};
  CompiledGrammar grammar = {};
  std::optional<ThoughtBudget> thoughts = {};
  std::shared_ptr<const library::ReplyForm> form = {};  // how the answer is read

  // A greedy request of these, as many tokens as there is room for.
  Request request() const {
    Request out;
    out.prompt = prompt;
    out.sampling.grammar = grammar;
    out.sampling.thoughts = thoughts;
    return out;
  }
};

struct ReplyEvent {
  enum class Kind : std::uint8_t {
    kText,
    kReasoning,
    kCallBegin,  // text: the function's name
    kArguments,  // what follows of the call's arguments, which joined are one JSON object
    kCallEnd,
  };
  Kind kind = Kind::kText;
  std::string text = {};
  std::uint32_t call = 0;  // of calls: which, from 0 on
  std::string id = {};     // of kCallBegin

  friend bool operator==(const ReplyEvent&, const ReplyEvent&) = default;
};

// Reads one sequence of a ChatTurn's request. Joined, the events are the same however the answer is cut into responses.
class COXSWAIN_EXPORT ReplyParser {
 public:
  explicit ReplyParser(const ChatTurn& turn, std::uint32_t sequence = 0);
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;
  ~ReplyParser();

  // Responses of the sequence, all of them and in order; those of others yield nothing, as an empty one does.
  std::vector<ReplyEvent> push(const Response& piece);

  // The answer so far as the assistant's message, to go on with.
  const ChatMessage& message() const;
  std::uint32_t n_reasoning_tokens() const;

 private:
  class COXSWAIN_HIDDEN Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain
