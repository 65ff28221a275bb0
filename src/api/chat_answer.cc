// Answers of POST /v1/chat/completions.

#include "api/answer.h"
#include "api/openai_parts.h"
#include "api/sse.h"
#include "json/json.h"
#include "request/stop_holdback.h"

namespace coxswain::api {
namespace {

// "token":...,"logprob":...,"bytes":[...]    The bytes are UTF-8, those of the text alone; not in TGI's dialect.
void append_token(std::string& out, ApiStyle style, std::string_view text, float logprob) {
  out += R"("token":)";
  json::append_quoted(out, text);
  out += R"(,"logprob":)";
  json::append_real32(out, logprob);
  if (style != ApiStyle::kOpenAi) return;
  out += R"(,"bytes":[)";
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i > 0) out += ',';
    json::append_unsigned(out, static_cast<unsigned char>(text[i]));
  }
  out += ']';
}

// {"token":...,"logprob":...,"bytes":[...],"top_logprobs":[...]}
void append_logprob(std::string& out, ApiStyle style, const OutputToken& token) {
  out += '{';
  append_token(out, style, token.text, token.logprob);
  out += R"(,"top_logprobs":[)";
  for (std::size_t i = 0; i < token.alternatives.size(); ++i) {
    if (i > 0) out += ',';
    out += '{';
    append_token(out, style, token.alternatives[i].text, token.alternatives[i].logprob);
    out += '}';
  }
  out += "]}";
}

void append_logprobs(std::string& out, ApiStyle style, std::span<const OutputToken> tokens) {
  out += R"({"content":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_logprob(out, style, tokens[i]);
  }
  out += "]}";
}

class ChatAnswer final : public AnswerFormat {
 public:
  explicit ChatAnswer(OpenAiAnswerOptions options) : options_(std::move(options)) {}

  bool streams() const override { return false; }
  bool keeps_tokens() const override { return options_.logprobs; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"object":"chat.completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(out, sequences[i], i);
    }
    out += R"(],"usage":)";
    append_usage(out, options_.style, usage_of(sequences, sequences.size()));
    out += '}';
    return out;
  }

  std::vector<std::string> events(const SequenceAnswer&, std::size_t, const AnswerPiece&) override {
    return {};
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) override { return {}; }

 private:
  void append_choice(std::string& out, const SequenceAnswer& sequence, std::size_t index) const {
    out += R"({"index":)";
    json::append_unsigned(out, index);
    out += R"(,"message":{"role":"assistant","content":)";
    json::append_quoted(out, request::text_before_stop(sequence.finish));
    out += R"(},"logprobs":)";
    if (options_.logprobs) {
      append_logprobs(out, options_.style, sequence.tokens);
    } else {
      out += "null";
    }
    out += R"(,"finish_reason":)";
    json::append_quoted(out, openai_finish_name(options_.style, sequence.finish.reason));
    out += '}';
  }

  OpenAiAnswerOptions options_;
};

class ChatStream final : public AnswerFormat {
 public:
  explicit ChatStream(OpenAiAnswerOptions options) : options_(std::move(options)) {}

  bool streams() const override { return true; }
  bool keeps_tokens() const override { return false; }
  std::string body(std::span<const SequenceAnswer>) override { return {}; }

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t index,
                                  const AnswerPiece& piece) override {
    while (holdbacks_.size() <= index) holdbacks_.emplace_back(sequence.stops);
    request::StopHoldback& holdback = holdbacks_[index];
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const OutputToken& token = piece.tokens[i];
      const bool last = piece.final && i + 1 == piece.tokens.size();
      const std::string_view visible = token.special ? std::string_view() : token.text;
      const std::string text =
          last ? holdback.finish(visible, sequence.finish) : holdback.push(visible);
      out.push_back(sse_event(chunk(index, token, text, last ? &sequence.finish : nullptr)));
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::vector<std::string> out;
    if (options_.include_usage) {
      std::string last = head();
      last += R"("choices":[],"usage":)";
      append_usage(last, options_.style, usage_of(sequences, sequences.size()));
      last += '}';
      out.push_back(sse_event(last));
    }
    out.emplace_back(kSseDone);
    return out;
  }

 private:
  std::string head() const {
    std::string out = R"({"object":"chat.completion.chunk")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += ',';
    return out;
  }

  std::string chunk(std::size_t index,
                    const OutputToken& token,
                    std::string_view text,
                    const SequenceFinish* finish) const {
    std::string out = head();
    out += R"("choices":[{"index":)";
    json::append_unsigned(out, index);
    out += R"(,"delta":{"role":"assistant","content":)";
    json::append_quoted(out, text);
    out += R"(,"tool_calls":null},"logprobs":)";
    if (options_.logprobs) {
      append_logprobs(out, options_.style, std::span(&token, 1));
    } else {
      out += "null";
    }
    out += R"(,"finish_reason":)";
    if (finish != nullptr) {
      json::append_quoted(out, openai_finish_name(options_.style, finish->reason));
    } else {
      out += "null";
    }
    out += R"(}],"usage":null})";
    return out;
  }

  OpenAiAnswerOptions options_;
  std::vector<request::StopHoldback> holdbacks_;  // [n_sequences]
};

}  // namespace

std::unique_ptr<AnswerFormat> make_chat_answer(OpenAiAnswerOptions options) {
  return std::make_unique<ChatAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_chat_stream(OpenAiAnswerOptions options) {
  return std::make_unique<ChatStream>(std::move(options));
}

}  // namespace coxswain::api
