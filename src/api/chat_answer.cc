// Answers of POST /v1/chat/completions.

#include <utility>

#include "api/answer.h"
#include "api/answer_text.h"
#include "api/openai_parts.h"
#include "api/reply_reader.h"
#include "api/sse.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

// "reasoning_content":...,"reasoning":...   Both names are in use.
void append_reasoning(std::string& out, std::string_view text) {
  out += R"("reasoning_content":)";
  json::append_quoted(out, text);
  out += R"(,"reasoning":)";
  json::append_quoted(out, text);
}

// {"id":...,"type":"function","function":{...}}
void append_call(std::string& out, ApiStyle style, const Reply::Call& call) {
  out += R"({"id":)";
  json::append_quoted(out, call.id);
  out += R"(,"type":"function","function":{)";
  if (style == ApiStyle::kTgi) out += R"("description":null,)";
  out += R"("name":)";
  json::append_quoted(out, call.name);
  out += R"(,"arguments":)";
  json::append_quoted(out, call.arguments);
  out += "}}";
}

// Calls end an answer as if it had stopped; what was cut off did not.
std::string_view finish_name(ApiStyle style, FinishReason reason, bool has_calls) {
  const std::string_view name = openai_finish_name(style, reason);
  return has_calls && style == ApiStyle::kOpenAi && name == "stop" ? "tool_calls" : name;
}

class ChatAnswer final : public WholeAnswer {
 public:
  explicit ChatAnswer(OpenAiAnswerOptions options) : options_(std::move(options)) {}

  bool keeps_tokens() const override {
    return options_.logprobs || options_.reply || options_.text.shows_special ||
           options_.extras.tells_prompt();
  }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"object":"chat.completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(out, sequences[i], i);
    }
    Usage usage = usage_of(sequences, sequences.size());
    if (options_.reply) usage.reasoning_tokens = n_reasoning_tokens_;
    out += R"(],"usage":)";
    append_usage(out, options_.style, usage);
    const SequenceAnswer& first = sequences.front();
    append_prompt(out, options_.extras, first.prompt, first.prompt_ids);
    append_timings(out, options_.extras, sequences, sequences.size());
    out += '}';
    return out;
  }

 private:
  void append_choice(std::string& out, const SequenceAnswer& sequence, std::size_t index) {
    Reply reply;
    if (options_.reply) {
      reply = read_reply(*options_.reply, sequence, index, options_.text);
      n_reasoning_tokens_ += reply.n_reasoning_tokens;
    } else {
      reply.content = whole_text(sequence, options_.text);
    }
    out += R"({"index":)";
    json::append_unsigned(out, index);
    out += R"(,"message":)";
    append_message(out, reply);
    out += R"(,"logprobs":)";
    if (options_.logprobs) {
      append_logprobs(out, options_, sequence.tokens);
    } else {
      out += "null";
    }
    out += R"(,"finish_reason":)";
    json::append_quoted(out,
                        finish_name(options_.style, sequence.finish.reason, !reply.calls.empty()));
    append_token_ids(out, options_.extras, sequence.tokens);
    out += '}';
  }

  // Of calls alone the content is null, or absent in TGI's dialect.
  void append_message(std::string& out, const Reply& reply) const {
    out += R"({"role":"assistant")";
    const bool has_content = reply.calls.empty() || !reply.content.empty();
    if (has_content || options_.style == ApiStyle::kOpenAi) out += R"(,"content":)";
    if (has_content) {
      json::append_quoted(out, reply.content);
    } else if (options_.style == ApiStyle::kOpenAi) {
      out += "null";
    }
    if (!reply.reasoning.empty()) {
      out += ',';
      append_reasoning(out, reply.reasoning);
    }
    if (!reply.calls.empty()) {
      out += R"(,"tool_calls":[)";
      for (std::size_t i = 0; i < reply.calls.size(); ++i) {
        if (i > 0) out += ',';
        append_call(out, options_.style, reply.calls[i]);
      }
      out += ']';
    }
    out += '}';
  }

  std::uint64_t n_reasoning_tokens_ = 0;
  OpenAiAnswerOptions options_;
};

// {"index":...,"id":...,"type":"function","function":{"name":...,"arguments":""}}, or {"index":...,"function":{...}}
// for what follows of the arguments. TGI's chunks all have all members.
void append_call_delta(std::string& out,
                       ApiStyle style,
                       std::size_t index,
                       const std::string& id,
                       const reply::Part& part) {
  const bool begins = part.kind == reply::Part::Kind::kCall;
  const bool tgi = style == ApiStyle::kTgi;
  out += R"("tool_calls":[{"index":)";
  json::append_unsigned(out, index);
  if (begins || tgi) {
    out += R"(,"id":)";
    json::append_quoted(out, id);
    out += R"(,"type":"function")";
  }
  out += R"(,"function":{)";
  if (begins) {
    out += R"("name":)";
    json::append_quoted(out, part.text);
    out += ',';
  } else if (tgi) {
    out += R"("name":null,)";
  }
  out += R"("arguments":)";
  json::append_quoted(out, begins ? std::string_view() : part.text);
  out += "}}]";
}

class ChatStream final : public StreamedAnswer {
 public:
  explicit ChatStream(OpenAiAnswerOptions options) : options_(std::move(options)) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t index,
                                  const AnswerPiece& piece) override {
    if (!std::exchange(has_prompt_, true))
      append_prompt(told_once_, options_.extras, piece.prompt, sequence.prompt_ids);
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool last = piece.final && i + 1 == piece.tokens.size();
      const SequenceFinish* finish = last ? &sequence.finish : nullptr;
      if (options_.reply) {
        add_parts(out, sequence, index, piece.tokens[i], finish);
      } else {
        add_text(out, sequence, index, piece.tokens[i], finish);
      }
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::vector<std::string> out;
    if (options_.include_usage) {
      Usage usage = usage_of(sequences, sequences.size());
      if (options_.reply) {
        usage.reasoning_tokens = 0;
        for (const Spoken& one : spoken_)
          *usage.reasoning_tokens += one.reader.n_reasoning_tokens();
      }
      std::string last = head();
      last += R"("choices":[],"usage":)";
      append_usage(last, options_.style, usage);
      append_timings(last, options_.extras, sequences, sequences.size());
      last += '}';
      out.push_back(sse_event(last));
    }
    out.emplace_back(kSseDone);
    return out;
  }

 private:
  // A sequence whose text is read.
  struct Spoken {
    ReplyReader reader;
    std::string call_id = {};  // of the last call
    std::size_t n_calls = 0;
    bool has_role = false;
  };

  // One chunk for each token.
  void add_text(std::vector<std::string>& out,
                const SequenceAnswer& sequence,
                std::size_t index,
                const OutputToken& token,
                const SequenceFinish* finish) {
    while (texts_.size() <= index) texts_.emplace_back(sequence, options_.text);
    const std::string text = texts_[index].push(token, finish);
    std::string delta = R"("role":"assistant","content":)";
    json::append_quoted(delta, text);
    if (options_.style == ApiStyle::kOpenAi) delta += R"(,"tool_calls":null)";
    const std::string_view reason =
        finish != nullptr ? openai_finish_name(options_.style, finish->reason) : "";
    out.push_back(sse_event(chunk(sequence, index, delta, &token, reason)));
  }

  // One chunk for each part, the token's log-probabilities and id in the first, and a last one that says why it ended.
  void add_parts(std::vector<std::string>& out,
                 const SequenceAnswer& sequence,
                 std::size_t index,
                 const OutputToken& token,
                 const SequenceFinish* finish) {
    while (spoken_.size() <= index) {
      spoken_.push_back({ReplyReader(
          *options_.reply, spoken_.size(), sequence.stops, sequence.id_stops, options_.text)});
    }
    Spoken& spoken = spoken_[index];
    const OutputToken* untold = options_.logprobs || options_.extras.token_ids ? &token : nullptr;
    for (const reply::Part& part : spoken.reader.push(token, finish)) {
      out.push_back(sse_event(chunk(sequence, index, delta(spoken, part), untold, "")));
      untold = nullptr;
    }
    if (finish == nullptr && untold == nullptr) return;
    const std::string_view reason =
        finish == nullptr ? "" : finish_name(options_.style, finish->reason, spoken.n_calls > 0);
    out.push_back(sse_event(chunk(sequence, index, role(spoken), untold, reason)));
  }

  // "role":"assistant"   Once; in all of TGI's chunks.
  std::string role(Spoken& spoken) const {
    const bool wanted = !spoken.has_role || options_.style == ApiStyle::kTgi;
    spoken.has_role = true;
    return wanted ? R"("role":"assistant")" : "";
  }

  // The members of a delta.
  std::string delta(Spoken& spoken, const reply::Part& part) const {
    using Kind = reply::Part::Kind;
    std::string out = role(spoken);
    if (!out.empty()) out += ',';
    if (part.kind == Kind::kText) {
      out += R"("content":)";
      json::append_quoted(out, part.text);
    } else if (part.kind == Kind::kReasoning) {
      append_reasoning(out, part.text);
    } else {
      if (part.kind == Kind::kCall) {
        spoken.call_id = part.id;
        ++spoken.n_calls;
      }
      append_call_delta(out, options_.style, spoken.n_calls - 1, spoken.call_id, part);
    }
    return out;
  }

  std::string head() const {
    std::string out = R"({"object":"chat.completion.chunk")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += ',';
    return out;
  }

  // `token`: whose log-probabilities and id it tells, or null; an empty reason: it goes on.
  std::string chunk(const SequenceAnswer& sequence,
                    std::size_t index,
                    std::string_view delta,
                    const OutputToken* token,
                    std::string_view finish_reason) {
    std::string out = head();
    out += R"("choices":[{"index":)";
    json::append_unsigned(out, index);
    out += R"(,"delta":{)";
    out += delta;
    out += R"(},"logprobs":)";
    const std::span<const OutputToken> tokens(token, token == nullptr ? 0 : 1);
    if (options_.logprobs && token != nullptr) {
      append_logprobs(out, options_, tokens);
    } else {
      out += "null";
    }
    out += R"(,"finish_reason":)";
    if (!finish_reason.empty()) {
      json::append_quoted(out, finish_reason);
    } else {
      out += "null";
    }
    append_token_ids(out, options_.extras, tokens);
    out += R"(}],"usage":null)";
    out += std::exchange(told_once_, {});
    append_timings(out, options_.extras, {&sequence, 1}, 1);
    out += '}';
    return out;
  }

  OpenAiAnswerOptions options_;
  bool has_prompt_ = false;        // told_once_ was made
  std::string told_once_;          // members of the first chunk
  std::vector<AnswerText> texts_;  // [n_sequences], where all is content
  std::vector<Spoken> spoken_;     // [n_sequences], where it is not
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_answer(OpenAiAnswerOptions options) {
  return std::make_unique<ChatAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_chat_stream(OpenAiAnswerOptions options) {
  return std::make_unique<ChatStream>(std::move(options));
}

}  // namespace coxswain::api
