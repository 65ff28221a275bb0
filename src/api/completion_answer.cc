// Answers of POST /v1/completions.

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/answer_text.h"
#include "api/completion_logprobs.h"
#include "api/openai_parts.h"
#include "api/sse.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

struct Choice {
  std::size_t index = 0;
  std::string text = {};
  std::string logprobs = "null";  // JSON
  std::string_view finish = {};
  std::string more = {};  // members, a comma in front
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
  out += choice.more;
  out += '}';
}

// The sequences by their mean log-probability, the best one first; the first among equals.
std::vector<std::size_t> best_first(std::span<const SequenceAnswer> sequences) {
  std::vector<std::size_t> out(sequences.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::ranges::stable_sort(
      out, std::greater<>(), [&](std::size_t i) { return sequences[i].mean_logprob(); });
  return out;
}

class CompletionAnswer final : public WholeAnswer {
 public:
  CompletionAnswer(OpenAiAnswerOptions options, std::size_t per_prompt)
      : options_(std::move(options)), per_prompt_(per_prompt) {}

  bool keeps_tokens() const override {
    return options_.logprobs || options_.text.shows_special || options_.extras.tells_prompt();
  }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    std::size_t index = 0;
    for (std::size_t first = 0; first < sequences.size(); first += per_prompt_) {
      const auto of_prompt = sequences.subspan(first, per_prompt_);
      const bool chooses = options_.n_best > 0 && options_.n_best < per_prompt_;
      const auto order = chooses ? best_first(of_prompt) : std::vector<std::size_t>();
      for (std::size_t i = 0; i < (chooses ? options_.n_best : per_prompt_); ++i, ++index) {
        if (index > 0) out += ',';
        append_choice(out, options_.style, choice(index, of_prompt[chooses ? order[i] : i]));
      }
    }
    out += R"(],"usage":)";
    append_usage(out, options_.style, usage_of(sequences, per_prompt_));
    append_timings(out, options_.extras, sequences, per_prompt_);
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
      if (options_.logprobs) logprobs.add_prompt(sequence.prompt, sequence.prompt_pieces);
    }
    out.text += whole_text(sequence, options_.text);
    logprobs.add(sequence.tokens);
    if (options_.logprobs) out.logprobs = logprobs.take();
    append_token_ids(out.more, options_.extras, sequence.tokens);
    append_prompt(out.more, options_.extras, sequence.prompt, sequence.prompt_ids);
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
          {AnswerText(sequence, options_.text), CompletionLogprobs(options_.n_top_logprobs)});
    }
    Progress& progress = progress_[index];
    Choice choice{.index = index};
    const bool begins = !std::exchange(progress.begun, true);
    if (options_.echo && begins) {
      choice.text = sequence.prompt_text;
      if (options_.logprobs) progress.logprobs.add_prompt(piece.prompt, sequence.prompt_pieces);
    }
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const OutputToken& token = piece.tokens[i];
      const bool last = piece.final && i + 1 == piece.tokens.size();
      if (!sequence.prompt_only) {
        choice.text += progress.text.push(token, last ? &sequence.finish : nullptr);
        if (options_.logprobs) progress.logprobs.add({&token, 1});
      }
      if (options_.logprobs) choice.logprobs = progress.logprobs.take();
      const std::span<const OutputToken> shown(&token, sequence.prompt_only ? 0 : 1);
      choice.more.clear();
      append_token_ids(choice.more, options_.extras, shown);
      if (begins && i == 0)
        append_prompt(choice.more, options_.extras, piece.prompt, sequence.prompt_ids);
      out.push_back(sse_event(last ? last_chunk(sequence, choice) : chunk(sequence, choice)));
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
      append_timings(last, options_.extras, sequences, per_prompt_);
      last += '}';
      out.push_back(sse_event(last));
    }
    out.emplace_back(kSseDone);
    return out;
  }

 private:
  // One sequence of the answer.
  struct Progress {
    AnswerText text;
    CompletionLogprobs logprobs;
    bool begun = false;
  };

  std::string chunk(const SequenceAnswer& sequence, const Choice& choice) const {
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, options_.style, choice);
    out += ']';
    append_served_by(out, options_);
    if (options_.include_usage && options_.style == ApiStyle::kOpenAi) out += R"(,"usage":null)";
    append_timings(out, options_.extras, {&sequence, 1}, 1);
    out += '}';
    return out;
  }

  // TGI's has the usage of its prompt.
  std::string last_chunk(const SequenceAnswer& sequence, Choice choice) const {
    const bool tgi = options_.style == ApiStyle::kTgi;
    const bool raw = tgi && sequence.finish.reason == FinishReason::kEosToken;
    choice.finish = raw ? "eos_token" : openai_finish_name(options_.style, sequence.finish.reason);
    if (!tgi) return chunk(sequence, choice);
    std::string out = R"({"object":"text_completion")";
    append_identity(out, options_);
    append_served_by(out, options_);
    out += R"(,"choices":[)";
    append_choice(out, options_.style, choice);
    out += R"(],"usage":)";
    append_usage(
        out, options_.style, Usage{sequence.n_prompt, sequence.n_generated, sequence.n_cached});
    append_timings(out, options_.extras, {&sequence, 1}, 1);
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
