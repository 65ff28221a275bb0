// Answers of POST /v1/completions.

#include "json/json.h"
#include "router/answer.h"
#include "router/openai_parts.h"
#include "router/sse.h"
#include "router/stop_holdback.h"

namespace coxswain::router {
namespace {

// ,"choices":[{"index":...,"text":...,"logprobs":null,"finish_reason":...}]
void append_choice(std::string& out,
                   std::size_t index,
                   std::string_view text,
                   std::string_view finish) {
  out += R"({"index":)";
  json::append_unsigned(out, index);
  out += R"(,"text":)";
  json::append_quoted(out, text);
  out += R"(,"logprobs":null,"finish_reason":)";
  json::append_quoted(out, finish);
  out += '}';
}

class CompletionAnswer final : public AnswerFormat {
 public:
  CompletionAnswer(OpenAiAnswerOptions options, std::size_t per_prompt)
      : options_(std::move(options)), per_prompt_(per_prompt) {}

  bool streams() const override { return false; }
  bool keeps_tokens() const override { return false; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (i > 0) out += ',';
      const SequenceFinish& finish = sequences[i].finish;
      append_choice(out, i, text_before_stop(finish), openai_finish_name(finish.reason));
    }
    out += R"(],"usage":)";
    append_usage(out, usage_of(sequences, per_prompt_));
    out += '}';
    return out;
  }

  std::vector<std::string> events(const SequenceAnswer&,
                                  std::size_t,
                                  const batch::TokenEvent&) override {
    return {};
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) override { return {}; }

 private:
  OpenAiAnswerOptions options_;
  std::size_t per_prompt_;
};

class CompletionStream final : public AnswerFormat {
 public:
  CompletionStream(OpenAiAnswerOptions options, std::size_t per_prompt)
      : options_(std::move(options)), per_prompt_(per_prompt) {}

  bool streams() const override { return true; }
  bool keeps_tokens() const override { return false; }
  std::string body(std::span<const SequenceAnswer>) override { return {}; }

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t index,
                                  const batch::TokenEvent& event) override {
    while (holdbacks_.size() <= index) holdbacks_.emplace_back(sequence.stops);
    StopHoldback& holdback = holdbacks_[index];
    std::vector<std::string> out;
    for (std::size_t i = 0; i < event.tokens.size(); ++i) {
      const OutputToken& token = event.tokens[i];
      const std::string_view piece = token.special ? std::string_view() : token.text;
      if (event.final && i + 1 == event.tokens.size()) {
        const std::string text = holdback.finish(piece, sequence.finish);
        out.push_back(sse_event(last_chunk(sequence, index, text)));
      } else {
        out.push_back(sse_event(chunk(index, holdback.push(piece))));
      }
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::vector<std::string> out;
    if (options_.include_usage) {
      std::string last = R"({"object":"text_completion")";
      append_identity(last, options_);
      append_served_by(last, options_);
      last += R"(,"choices":[],"usage":)";
      append_usage(last, usage_of(sequences, per_prompt_));
      last += '}';
      out.push_back(sse_event(last));
    }
    out.emplace_back(kSseDone);
    return out;
  }

 private:
  std::string chunk(std::size_t index, std::string_view text) const {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, index, text, "");
    out += ']';
    append_served_by(out, options_);
    out += '}';
    return out;
  }

  std::string last_chunk(const SequenceAnswer& sequence,
                         std::size_t index,
                         std::string_view text) const {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, index, text, openai_finish_name(sequence.finish.reason));
    out += R"(],"usage":)";
    append_usage(out, Usage{sequence.n_prompt, sequence.n_generated});
    out += '}';
    return out;
  }

  OpenAiAnswerOptions options_;
  std::size_t per_prompt_;
  std::vector<StopHoldback> holdbacks_;  // [n_sequences]
};

}  // namespace

std::unique_ptr<AnswerFormat> make_completion_answer(OpenAiAnswerOptions options,
                                                     std::size_t per_prompt) {
  return std::make_unique<CompletionAnswer>(std::move(options), per_prompt);
}
std::unique_ptr<AnswerFormat> make_completion_stream(OpenAiAnswerOptions options,
                                                     std::size_t per_prompt) {
  return std::make_unique<CompletionStream>(std::move(options), per_prompt);
}

}  // namespace coxswain::router
