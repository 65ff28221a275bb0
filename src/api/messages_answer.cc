// Answers of POST /v1/messages.

#include <optional>
#include <vector>

#include "api/answer.h"
#include "api/reply_reader.h"
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
void append_stop(std::string& out, const SequenceAnswer& sequence, bool has_calls) {
  const std::string* stop = stop_of(sequence);
  std::string_view reason = has_calls ? "tool_use" : "end_turn";
  if (stop != nullptr) reason = "stop_sequence";
  if (sequence.finish.reason == FinishReason::kLength) reason = "max_tokens";
  out += R"("stop_reason":)";
  json::append_quoted(out, reason);
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

using Kind = reply::Part::Kind;

// Blocks in the order in which the model wrote them: parts that go on belong to one.
struct Block {
  Kind kind = Kind::kText;
  std::string text = {};  // of a call: its arguments, a JSON object
  std::string id = {};
  std::string name = {};
};

bool goes_on(const Block& block, const reply::Part& part) {
  if (part.kind == Kind::kArguments) return true;
  return part.kind != Kind::kCall && part.kind == block.kind;
}

Block block_of(const reply::Part& part) {
  if (part.kind == Kind::kCall) return {.kind = part.kind, .id = part.id, .name = part.text};
  return {.kind = part.kind, .text = part.text};
}

// The block as it is before its text.
void append_empty_block(std::string& out, const Block& block) {
  if (block.kind == Kind::kText) {
    out += R"({"type":"text","text":""})";
  } else if (block.kind == Kind::kReasoning) {
    out += R"({"type":"thinking","thinking":"","signature":""})";
  } else {
    out += R"({"type":"tool_use","id":)";
    json::append_quoted(out, block.id);
    out += R"(,"name":)";
    json::append_quoted(out, block.name);
    out += R"(,"input":{}})";
  }
}

void append_block(std::string& out, const Block& block) {
  if (block.kind == Kind::kText) {
    out += R"({"type":"text","text":)";
    json::append_quoted(out, block.text);
    out += '}';
  } else if (block.kind == Kind::kReasoning) {
    out += R"({"type":"thinking","thinking":)";
    json::append_quoted(out, block.text);
    out += R"(,"signature":""})";
  } else {
    out += R"({"type":"tool_use","id":)";
    json::append_quoted(out, block.id);
    out += R"(,"name":)";
    json::append_quoted(out, block.name);
    out += R"(,"input":)";
    const auto input = json::parse(block.text);  // what was cut off is none
    out += input.ok() && input->is_object() ? block.text : "{}";
    out += '}';
  }
}

// {"type":"text_delta","text":...} and its kin.
void append_delta(std::string& out, const reply::Part& part) {
  if (part.kind == Kind::kText) {
    out += R"({"type":"text_delta","text":)";
  } else if (part.kind == Kind::kReasoning) {
    out += R"({"type":"thinking_delta","thinking":)";
  } else {
    out += R"({"type":"input_json_delta","partial_json":)";
  }
  json::append_quoted(out, part.text);
  out += '}';
}

class MessagesAnswer final : public WholeAnswer {
 public:
  explicit MessagesAnswer(MessagesAnswerOptions options) : options_(std::move(options)) {}

  bool keeps_tokens() const override { return true; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& sequence = sequences.front();
    std::vector<Block> blocks;
    ReplyReader reader(options_.reply, 0, sequence.stops);
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const bool last = i + 1 == sequence.tokens.size();
      for (const reply::Part& part :
           reader.push(sequence.tokens[i], last ? &sequence.finish : nullptr)) {
        if (!blocks.empty() && goes_on(blocks.back(), part)) {
          blocks.back().text += part.text;
        } else {
          blocks.push_back(block_of(part));
        }
      }
    }
    if (blocks.empty()) blocks.emplace_back();
    std::string out;
    append_head(out, options_);
    out += R"(,"content":[)";
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (i > 0) out += ',';
      append_block(out, blocks[i]);
    }
    out += "],";
    append_stop(out, sequence, reader.n_calls() > 0);
    out += R"(,"usage":)";
    append_usage(out, sequence);
    out += '}';
    return out;
  }

 private:
  MessagesAnswerOptions options_;
};

// How much of the prompt was in the cache is known at the end, and so stands in message_delta alone.
class MessagesStream final : public StreamedAnswer {
 public:
  explicit MessagesStream(MessagesAnswerOptions options) : options_(std::move(options)) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    std::vector<std::string> out;
    if (!reader_) {
      reader_.emplace(options_.reply, 0, sequence.stops);
      add_opening(out, sequence);
    }
    std::vector<reply::Part> parts;  // of all tokens, joined where they go on
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool last = piece.final && i + 1 == piece.tokens.size();
      for (reply::Part& part : reader_->push(piece.tokens[i], last ? &sequence.finish : nullptr)) {
        if (!parts.empty() && part.kind != Kind::kCall && parts.back().kind == part.kind) {
          parts.back().text += part.text;
        } else {
          parts.push_back(std::move(part));
        }
      }
    }
    for (const reply::Part& part : parts) add_part(out, part);
    return out;
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    std::vector<std::string> out;
    if (!open_) begin_block(out, {});
    end_block(out);
    std::string delta = R"({"type":"message_delta","delta":{)";
    append_stop(delta, sequences.front(), reader_ && reader_->n_calls() > 0);
    delta += R"(},"usage":)";
    append_usage(delta, sequences.front());
    delta += '}';
    out.push_back(sse_event("message_delta", delta));
    out.push_back(sse_event("message_stop", R"({"type":"message_stop"})"));
    return out;
  }

 private:
  void add_opening(std::vector<std::string>& out, const SequenceAnswer& sequence) const {
    std::string start = R"({"type":"message_start","message":)";
    append_head(start, options_);
    start += R"(,"content":[],"stop_reason":null,"stop_sequence":null,"usage":)";
    SequenceAnswer nothing_yet;
    nothing_yet.n_prompt = sequence.n_prompt;
    append_usage(start, nothing_yet);
    start += "}}";
    out.push_back(sse_event("message_start", start));
    out.push_back(sse_event("ping", R"({"type":"ping"})"));
  }

  // {"type":...,"index":...
  std::string event(std::string_view type) const {
    std::string out = R"({"type":)";
    json::append_quoted(out, type);
    out += R"(,"index":)";
    json::append_unsigned(out, n_blocks_ - 1);
    return out;
  }

  void begin_block(std::vector<std::string>& out, const Block& block) {
    if (open_) end_block(out);
    open_ = block;
    ++n_blocks_;
    std::string start = event("content_block_start");
    start += R"(,"content_block":)";
    append_empty_block(start, block);
    out.push_back(sse_event("content_block_start", start + "}"));
  }

  void end_block(std::vector<std::string>& out) {
    out.push_back(sse_event("content_block_stop", event("content_block_stop") + "}"));
    open_.reset();
  }

  void add_part(std::vector<std::string>& out, const reply::Part& part) {
    if (!open_ || !goes_on(*open_, part)) begin_block(out, block_of(part));
    if (part.kind == Kind::kCall) return;
    std::string delta = event("content_block_delta");
    delta += R"(,"delta":)";
    append_delta(delta, part);
    out.push_back(sse_event("content_block_delta", delta + "}"));
  }

  MessagesAnswerOptions options_;
  std::optional<ReplyReader> reader_;  // from the first event on
  std::optional<Block> open_;          // without its text
  std::size_t n_blocks_ = 0;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_messages_answer(MessagesAnswerOptions options) {
  return std::make_unique<MessagesAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_messages_stream(MessagesAnswerOptions options) {
  return std::make_unique<MessagesStream>(std::move(options));
}

}  // namespace coxswain::api
