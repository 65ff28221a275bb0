// Answers of POST /, /generate and /generate_stream.

#include "api/answer.h"
#include "api/sse.h"
#include "json/json.h"
#include "request/best_of.h"

namespace coxswain::api {
namespace {

std::string_view finish_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kLength:
      return "length";
    case FinishReason::kEosToken:
      return "eos_token";
    case FinishReason::kStopSequence:
      return "stop_sequence";
  }
  return "length";
}

void append_bool(std::string& out, bool value) {
  out += value ? "true" : "false";
}

void append_seed(std::string& out, const std::optional<std::uint64_t>& seed) {
  if (seed) {
    json::append_unsigned(out, *seed);
  } else {
    out += "null";
  }
}

// "id", "text" and "logprob", with the brace that opens the object. Every kind of token has them.
template <typename Token>
void begin_token(std::string& out, const Token& token) {
  out += R"({"id":)";
  json::append_integer(out, token.id);
  out += R"(,"text":)";
  json::append_quoted(out, token.text);
  out += R"(,"logprob":)";
  json::append_real32(out, token.logprob);
}

// OutputToken or TokenAlternative.
template <typename Token>
void append_token(std::string& out, const Token& token) {
  begin_token(out, token);
  out += R"(,"special":)";
  append_bool(out, token.special);
  out += '}';
}

void append_token(std::string& out, const PromptToken& token) {
  begin_token(out, token);
  out += '}';
}

template <typename Token>
void append_tokens(std::string& out, const std::vector<Token>& tokens) {
  out += '[';
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_token(out, tokens[i]);
  }
  out += ']';
}

// "top_tokens": one list for each generated token.
void append_top_tokens(std::string& out, const std::vector<OutputToken>& tokens) {
  out += R"(,"top_tokens":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_tokens(out, tokens[i].alternatives);
  }
  out += ']';
}

// "finish_reason" to "seed", without braces.
void append_finish(std::string& out, const SequenceAnswer& sequence) {
  out += R"("finish_reason":)";
  json::append_quoted(out, finish_name(sequence.finish.reason));
  out += R"(,"generated_tokens":)";
  json::append_unsigned(out, sequence.n_generated);
  out += R"(,"seed":)";
  append_seed(out, sequence.seed);
}

// Of sequences whose shard has guessed ahead alone: TGI has no such members.
void append_drafts(std::string& out, const SequenceAnswer& sequence) {
  if (sequence.n_drafts == 0) return;
  out += R"(,"draft_n":)";
  json::append_unsigned(out, sequence.n_drafts);
  out += R"(,"draft_n_accepted":)";
  json::append_unsigned(out, sequence.n_drafts_accepted);
}

// "finish_reason" to "tokens" and what follows, without braces.
void append_details(std::string& out, const SequenceAnswer& sequence) {
  append_finish(out, sequence);
  out += R"(,"prefill":)";
  append_tokens(out, sequence.prompt);
  out += R"(,"tokens":)";
  append_tokens(out, sequence.tokens);
  append_drafts(out, sequence);
}

void append_generated_text(std::string& out,
                           const SequenceAnswer& sequence,
                           const NativeAnswerOptions& options) {
  out += R"("generated_text":)";
  json::append_quoted(out,
                      options.return_full_text
                          ? sequence.prompt_text + sequence.finish.generated_text
                          : sequence.finish.generated_text);
}

class NativeAnswer final : public WholeAnswer {
 public:
  explicit NativeAnswer(const NativeAnswerOptions& options) : options_(options) {}

  bool keeps_tokens() const override { return options_.details; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    const std::size_t best = best_sequence(sequences);
    const SequenceAnswer& winner = sequences[best];
    std::string out = options_.as_array ? "[{" : "{";
    append_generated_text(out, winner, options_);
    if (options_.details) {
      out += R"(,"details":{)";
      append_details(out, winner);
      if (sequences.size() > 1) append_losers(out, sequences, best);
      if (options_.top_tokens) append_top_tokens(out, winner.tokens);
      out += '}';
    }
    out += options_.as_array ? "}]" : "}";
    return out;
  }

 private:
  void append_losers(std::string& out,
                     std::span<const SequenceAnswer> sequences,
                     std::size_t best) const {
    out += R"(,"best_of_sequences":[)";
    bool first = true;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (i == best) continue;
      if (!first) out += ',';
      first = false;
      out += '{';
      append_generated_text(out, sequences[i], options_);
      out += ',';
      append_details(out, sequences[i]);
      if (options_.top_tokens) append_top_tokens(out, sequences[i].tokens);
      out += '}';
    }
    out += ']';
  }

  NativeAnswerOptions options_;
};

class NativeStream final : public StreamedAnswer {
 public:
  explicit NativeStream(const NativeAnswerOptions& options) : options_(options) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool last = piece.final && i + 1 == piece.tokens.size();
      out.push_back(sse_event(message(sequence, piece.tokens[i], last)));
    }
    return out;
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) override { return {}; }

 private:
  std::string message(const SequenceAnswer& sequence, const OutputToken& token, bool last) {
    std::string out = R"({"index":)";
    json::append_unsigned(out, ++n_messages_);
    out += R"(,"token":)";
    append_token(out, token);
    if (!token.alternatives.empty()) {
      out += R"(,"top_tokens":)";
      append_tokens(out, token.alternatives);
    }
    out += ',';
    if (last) {
      append_generated_text(out, sequence, options_);
    } else {
      out += R"("generated_text":null)";
    }
    out += R"(,"details":)";
    if (last && options_.details) {
      append_stream_details(out, sequence);
    } else {
      out += "null";
    }
    out += '}';
    return out;
  }

  static void append_stream_details(std::string& out, const SequenceAnswer& sequence) {
    out += '{';
    append_finish(out, sequence);
    out += R"(,"input_length":)";
    json::append_unsigned(out, sequence.n_prompt);
    append_drafts(out, sequence);
    out += '}';
  }

  NativeAnswerOptions options_;
  std::uint64_t n_messages_ = 0;
};

}  // namespace

std::size_t best_sequence(std::span<const SequenceAnswer> sequences) {
  return request::best_of(sequences);
}

std::unique_ptr<AnswerFormat> make_native_answer(const NativeAnswerOptions& options) {
  return std::make_unique<NativeAnswer>(options);
}
std::unique_ptr<AnswerFormat> make_native_stream(const NativeAnswerOptions& options) {
  return std::make_unique<NativeStream>(options);
}

}  // namespace coxswain::api
