// Answers of POST /api/chat and /api/generate.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/openai_parts.h"
#include "api/reply_reader.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

using Kind = reply::Part::Kind;

// 2023-11-14T22:13:20Z
std::string utc_text(std::int64_t unix_seconds) {
  using std::chrono::floor;
  const std::chrono::sys_seconds at{std::chrono::seconds(unix_seconds)};
  const auto day = floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  std::array<char, 64> text{};
  const int n = std::snprintf(text.data(),
                              text.size(),
                              "%04d-%02u-%02uT%02d:%02d:%02dZ",
                              static_cast<int>(date.year()),
                              static_cast<unsigned>(date.month()),
                              static_cast<unsigned>(date.day()),
                              static_cast<int>(time.hours().count()),
                              static_cast<int>(time.minutes().count()),
                              static_cast<int>(time.seconds().count()));
  return {text.data(), static_cast<std::size_t>(n)};
}

// {"model":...,"created_at":...
void append_head(std::string& out, const OllamaAnswerOptions& options) {
  out += R"({"model":)";
  json::append_quoted(out, options.model);
  out += R"(,"created_at":)";
  json::append_quoted(out, utc_text(options.created));
}

// What an answer, or a line of one, says.
void append_said(std::string& out, const OllamaAnswerOptions& options, const Reply& said) {
  out += options.chat ? R"(,"message":{"role":"assistant","content":)" : R"(,"response":)";
  json::append_quoted(out, said.content);
  if (!said.reasoning.empty()) {
    out += R"(,"thinking":)";
    json::append_quoted(out, said.reasoning);
  }
  if (!options.chat) return;
  if (!said.calls.empty()) out += R"(,"tool_calls":[)";
  for (std::size_t i = 0; i < said.calls.size(); ++i) {
    const Reply::Call& call = said.calls[i];
    out += i > 0 ? R"(,{"id":)" : R"({"id":)";
    json::append_quoted(out, call.id);
    out += R"(,"function":{"index":)";
    json::append_unsigned(out, i);
    out += R"(,"name":)";
    json::append_quoted(out, call.name);
    out += R"(,"arguments":)";
    const auto arguments = json::parse(call.arguments);  // what was cut off is none
    out += arguments.ok() && arguments->is_object() ? call.arguments : "{}";
    out += "}}";
  }
  if (!said.calls.empty()) out += ']';
  out += '}';
}

// ,"logprobs":[...]
void append_token_logprobs(std::string& out, std::span<const OutputToken> tokens) {
  out += R"(,"logprobs":)";
  append_logprob_list(out, ApiStyle::kOpenAi, tokens);
}

void append_duration(std::string& out, std::string_view name, TimePoint begin, TimePoint end) {
  const auto passed = std::max(end - begin, Clock::duration::zero());
  out += ",\"";
  out += name;
  out += "\":";
  json::append_integer(out, std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count());
}

// "done":true and the figures, all durations in nanoseconds. What passes before the first step counts as loading.
void append_done(std::string& out,
                 const OllamaAnswerOptions& options,
                 const SequenceAnswer& sequence) {
  out += R"(,"done":true,"done_reason":)";
  json::append_quoted(out, openai_finish_name(ApiStyle::kOpenAi, sequence.finish.reason));
  append_duration(out, "total_duration", options.received, sequence.finished_at);
  append_duration(out, "load_duration", options.received, sequence.scheduled_at);
  out += R"(,"prompt_eval_count":)";
  json::append_unsigned(out, sequence.n_prompt);
  append_duration(out, "prompt_eval_duration", sequence.scheduled_at, sequence.first_token_at);
  out += R"(,"eval_count":)";
  json::append_unsigned(out, sequence.n_generated);
  append_duration(out, "eval_duration", sequence.first_token_at, sequence.finished_at);
  out += '}';
}

class OllamaAnswer final : public WholeAnswer {
 public:
  explicit OllamaAnswer(OllamaAnswerOptions options) : options_(std::move(options)) {}

  bool keeps_tokens() const override { return true; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& sequence = sequences.front();
    std::string out;
    append_head(out, options_);
    append_said(out, options_, read_reply(options_.reply, sequence, 0));
    if (options_.logprobs) append_token_logprobs(out, sequence.tokens);
    append_done(out, options_, sequence);
    return out;
  }

 private:
  OllamaAnswerOptions options_;
};

// A line for each part of a token; a call is a line once its arguments are whole.
class OllamaStream final : public StreamedAnswer {
 public:
  explicit OllamaStream(OllamaAnswerOptions options) : options_(std::move(options)) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    std::vector<std::string> out;
    if (!reader_) reader_.emplace(options_.reply, 0, sequence.stops);
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool last = piece.final && i + 1 == piece.tokens.size();
      logprobs_ = options_.logprobs ? &piece.tokens[i] : nullptr;
      for (const reply::Part& part :
           reader_->push(piece.tokens[i], last ? &sequence.finish : nullptr)) {
        add_part(out, part);
      }
      if (last) end_call(out);
      if (logprobs_ != nullptr) add_line(out, {});
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::string last;
    append_head(last, options_);
    append_said(last, options_, {});
    append_done(last, options_, sequences.front());
    return {last + "\n"};
  }

 private:
  void add_part(std::vector<std::string>& out, const reply::Part& part) {
    if (part.kind == Kind::kArguments) {
      call_->arguments += part.text;
      return;
    }
    end_call(out);
    if (part.kind == Kind::kCall) {
      call_.emplace(Reply::Call{part.id, part.text, {}});
      return;
    }
    Reply said;
    (part.kind == Kind::kText ? said.content : said.reasoning) = part.text;
    add_line(out, said);
  }

  void end_call(std::vector<std::string>& out) {
    if (!call_) return;
    Reply said;
    said.calls.push_back(*std::exchange(call_, std::nullopt));
    add_line(out, said);
  }

  // With the log-probabilities of the token, unless a line has them.
  void add_line(std::vector<std::string>& out, const Reply& said) {
    std::string line;
    append_head(line, options_);
    append_said(line, options_, said);
    if (const OutputToken* token = std::exchange(logprobs_, nullptr))
      append_token_logprobs(line, std::span(token, 1));
    out.push_back(line + ",\"done\":false}\n");
  }

  OllamaAnswerOptions options_;
  std::optional<ReplyReader> reader_;  // from the first event on
  std::optional<Reply::Call> call_;    // whose arguments are not whole
  const OutputToken* logprobs_ = nullptr;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_ollama_answer(OllamaAnswerOptions options) {
  return std::make_unique<OllamaAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_ollama_stream(OllamaAnswerOptions options) {
  return std::make_unique<OllamaStream>(std::move(options));
}

std::string ollama_empty_answer(const OllamaAnswerOptions& options, std::string_view reason) {
  std::string out;
  append_head(out, options);
  append_said(out, options, {});
  out += R"(,"done":true,"done_reason":)";
  json::append_quoted(out, reason);
  out += '}';
  return out;
}

}  // namespace coxswain::api
