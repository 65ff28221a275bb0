// Answers of POST /v1/completions.

#include <utility>

#include "api/answer.h"
#include "api/completion_logprobs.h"
#include "api/openai_parts.h"
#include "api/sse.h"
#include "json/json.h"
#include "request/stop_holdback.h"

namespace coxswain::api {
namespace {

struct Choice {
  std::size_t index = 0;
  std::string text = {};
  std::string logprobs = "null";  // JSON
  std::string_view finish = {};
};

// {"index":...,"text":...,"logprobs":...,"finish_reason":...}
// Before the end of a stream finish_reason is null, in TGI's dialect "".
void append_choice(std::string& out, ApiStyle style, const Choice& choice) {
  out += R"({"index":)";
  json::append_unsigned(out, choice.index);
  out += R"(,"text":)";
  json::append_quoted(out, choice.text);
  out += R"(,"logprobs":)";
  out += choice.logprobs;
  out += R"(,"finish_reason":)";
  if (choice.finish.empty() && style == ApiStyle::kOpenAi) {
    out += "null";
  } else {
    json::append_quoted(out, choice.finish);
  }
  out += '}';
}

class CompletionAnswer final : public WholeAnswer {
 public:
  CompletionAnswer(OpenAiAnswerOptions options, std::size_t per_prompt)
      : options_(std::move(options)), per_prompt_(per_prompt) {}

  bool keeps_tokens() const override { return options_.logprobs; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      if (i > 0) out += ',';
      append_choice(out, options_.style, choice(i, sequences[i]));
    }
    out += R"(],"usage":)";
    append_usage(out, options_.style, usage_of(sequences, per_prompt_));
    out += '}';
    return out;
  }

 private:
  Choice choice(std::size_t index, const SequenceAnswer& sequence) const {
    Choice out{.index = index,
               .finish = openai_finish_name(options_.style, sequence.finish.reason)};
    CompletionLogprobs logprobs(options_.n_top_logprobs);
    if (options_.echo) {
      out.text = sequence.prompt_text;
      logprobs.add_prompt(sequence.prompt, sequence.prompt_pieces);
    }
    out.text += request::text_before_stop(sequence.finish);
    logprobs.add(sequence.tokens);
    if (options_.logprobs) out.logprobs = logprobs.take();
    return out;
  }

  OpenAiAnswerOptions options_;
  std::size_t per_prompt_;
};

class CompletionStream final : public StreamedAnswer {
 public:
  CompletionStream(OpenAiAnswerOptions options, std::size_t per_prompt)
      : options_(std::move(options)), per_prompt_(per_prompt) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t index,
                                  const AnswerPiece& piece) override {
    while (progress_.size() <= index) {
      progress_.push_back(
          {request::StopHoldback(sequence.stops), CompletionLogprobs(options_.n_top_logprobs)});
    }
    Progress& progress = progress_[index];
    Choice choice{.index = index};
    if (options_.echo && !std::exchange(progress.begun, true)) {
      choice.text = sequence.prompt_text;
      if (options_.logprobs) progress.logprobs.add_prompt(piece.prompt, sequence.prompt_pieces);
    }
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const OutputToken& token = piece.tokens[i];
      const bool last = piece.final && i + 1 == piece.tokens.size();
      if (!sequence.prompt_only) {
        const std::string_view visible = token.special ? std::string_view() : token.text;
        choice.text += last ? progress.holdback.finish(visible, sequence.finish)
                            : progress.holdback.push(visible);
        if (options_.logprobs) progress.logprobs.add({&token, 1});
      }
      if (options_.logprobs) choice.logprobs = progress.logprobs.take();
      out.push_back(sse_event(last ? last_chunk(sequence, choice) : chunk(choice)));
      choice.text.clear();
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::vector<std::string> out;
    if (options_.include_usage && options_.style == ApiStyle::kOpenAi) {
      std::string last = R"({"object":"text_completion")";
      append_identity(last, options_);
      append_served_by(last, options_);
      last += R"(,"choices":[],"usage":)";
      append_usage(last, options_.style, usage_of(sequences, per_prompt_));
      last += '}';
      out.push_back(sse_event(last));
    }
    out.emplace_back(kSseDone);
    return out;
  }

 private:
  // One sequence of the answer.
  struct Progress {
    request::StopHoldback holdback;
    CompletionLogprobs logprobs;
    bool begun = false;
  };

  std::string chunk(const Choice& choice) const {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, options_.style, choice);
    out += ']';
    append_served_by(out, options_);
    if (options_.include_usage && options_.style == ApiStyle::kOpenAi) out += R"(,"usage":null)";
    out += '}';
    return out;
  }

  // TGI's has the usage of its prompt.
  std::string last_chunk(const SequenceAnswer& sequence, Choice choice) const {
    const bool tgi = options_.style == ApiStyle::kTgi;
    const bool raw = tgi && sequence.finish.reason == FinishReason::kEosToken;
    choice.finish = raw ? "eos_token" : openai_finish_name(options_.style, sequence.finish.reason);
    if (!tgi) return chunk(choice);
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, options_.style, choice);
    out += R"(],"usage":)";
    append_usage(
        out, options_.style, Usage{sequence.n_prompt, sequence.n_generated, sequence.n_cached});
    out += '}';
    return out;
  }

  OpenAiAnswerOptions options_;
  std::size_t per_prompt_;
  std::vector<Progress> progress_;  // [n_sequences]
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

}  // namespace coxswain::api
