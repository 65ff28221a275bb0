// Answers of POST /v1/messages.

#include <optional>

#include "api/answer.h"
#include "api/sse.h"
#include "json/json.h"
#include "request/stop_holdback.h"

namespace coxswain::api {
namespace {

// The client's stop string that ended the sequence. Null: another reason.
const std::string* stop_of(const SequenceAnswer& sequence) {
  const SequenceFinish& finish = sequence.finish;
  if (finish.reason != FinishReason::kStopSequence) return nullptr;
  const std::string_view end =
      std::string_view(finish.generated_text).substr(request::text_before_stop(finish).size());
  for (const std::string& stop : sequence.stops) {
    if (end.starts_with(stop)) return &stop;
  }
  return nullptr;
}

// "stop_reason":...,"stop_sequence":...
void append_stop(std::string& out, const SequenceAnswer& sequence) {
  const std::string* stop = stop_of(sequence);
  const bool length = sequence.finish.reason == FinishReason::kLength;
  out += R"("stop_reason":)";
  json::append_quoted(out, length ? "max_tokens" : stop != nullptr ? "stop_sequence" : "end_turn");
  out += R"(,"stop_sequence":)";
  if (stop != nullptr) {
    json::append_quoted(out, *stop);
  } else {
    out += "null";
  }
}

// The input is the sum of what was computed and what was read from the cache.
void append_usage(std::string& out, const SequenceAnswer& sequence) {
  out += R"({"input_tokens":)";
  json::append_unsigned(out, sequence.n_prompt - sequence.n_cached);
  out += R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)";
  json::append_unsigned(out, sequence.n_cached);
  out += R"(,"output_tokens":)";
  json::append_unsigned(out, sequence.n_generated);
  out += '}';
}

// {"id":...,"type":"message","role":"assistant","model":...
void append_head(std::string& out, const MessagesAnswerOptions& options) {
  out += R"({"id":)";
  json::append_quoted(out, options.id);
  out += R"(,"type":"message","role":"assistant","model":)";
  json::append_quoted(out, options.model);
}

class MessagesAnswer final : public AnswerFormat {
 public:
  explicit MessagesAnswer(MessagesAnswerOptions options) : options_(std::move(options)) {}

  bool streams() const override { return false; }
  bool keeps_tokens() const override { return false; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& sequence = sequences.front();
    std::string out;
    append_head(out, options_);
    out += R"(,"content":[{"type":"text","text":)";
    json::append_quoted(out, request::text_before_stop(sequence.finish));
    out += "}],";
    append_stop(out, sequence);
    out += R"(,"usage":)";
    append_usage(out, sequence);
    out += '}';
    return out;
  }

  std::vector<std::string> events(const SequenceAnswer&, std::size_t, const AnswerPiece&) override {
    return {};
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) override { return {}; }

 private:
  MessagesAnswerOptions options_;
};

// One block of text. How much of the prompt was in the cache is known at the end, and so stands in message_delta alone.
class MessagesStream final : public AnswerFormat {
 public:
  explicit MessagesStream(MessagesAnswerOptions options) : options_(std::move(options)) {}

  bool streams() const override { return true; }
  bool keeps_tokens() const override { return false; }
  std::string body(std::span<const SequenceAnswer>) override { return {}; }

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    std::vector<std::string> out;
    if (!holdback_) {
      holdback_.emplace(sequence.stops);
      out = opening(sequence);
    }
    std::string text;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const OutputToken& token = piece.tokens[i];
      const bool last = piece.final && i + 1 == piece.tokens.size();
      const std::string_view visible = token.special ? std::string_view() : token.text;
      text += last ? holdback_->finish(visible, sequence.finish) : holdback_->push(visible);
    }
    if (!text.empty()) {
      std::string delta =
          R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":)";
      json::append_quoted(delta, text);
      out.push_back(sse_event("content_block_delta", delta + "}}"));
    }
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::string delta = R"({"type":"message_delta","delta":{)";
    append_stop(delta, sequences.front());
    delta += R"(},"usage":)";
    append_usage(delta, sequences.front());
    delta += '}';
    return {sse_event("content_block_stop", R"({"type":"content_block_stop","index":0})"),
            sse_event("message_delta", delta),
            sse_event("message_stop", R"({"type":"message_stop"})")};
  }

 private:
  std::vector<std::string> opening(const SequenceAnswer& sequence) const {
    std::string start = R"({"type":"message_start","message":)";
    append_head(start, options_);
    start += R"(,"content":[],"stop_reason":null,"stop_sequence":null,"usage":)";
    SequenceAnswer nothing_yet;
    nothing_yet.n_prompt = sequence.n_prompt;
    append_usage(start, nothing_yet);
    start += "}}";
    return {
        sse_event("message_start", start),
        sse_event(
            "content_block_start",
            R"({"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}})"),
        sse_event("ping", R"({"type":"ping"})")};
  }

  MessagesAnswerOptions options_;
  std::optional<request::StopHoldback> holdback_;  // from the first event on
};

}  // namespace

std::unique_ptr<AnswerFormat> make_messages_answer(MessagesAnswerOptions options) {
  return std::make_unique<MessagesAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_messages_stream(MessagesAnswerOptions options) {
  return std::make_unique<MessagesStream>(std::move(options));
}

}  // namespace coxswain::api
