// Answers of POST /v1/responses.

#include <optional>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/openai_parts.h"
#include "api/reply_reader.h"
#include "api/sse.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

using Kind = reply::Part::Kind;

// What the model wrote, in order: parts that go on belong to one item.
struct Item {
  Kind kind = Kind::kText;
  std::string text = {};  // of a call: its arguments
  std::string call_id = {};
  std::string name = {};
  std::vector<OutputToken> tokens = {};  // of the text, where log-probabilities are asked for
};

bool goes_on(const Item& item, const reply::Part& part) {
  if (part.kind == Kind::kArguments) return true;
  return part.kind != Kind::kCall && part.kind == item.kind;
}

// [{"token","logprob","bytes","top_logprobs"}, ...]
void append_tokens(std::string& out, std::span<const OutputToken> tokens) {
  append_logprob_list(out, ApiStyle::kOpenAi, tokens);
}

// {"type":"output_text",...} or {"type":"reasoning_text",...}
void append_part(std::string& out,
                 Kind kind,
                 std::string_view text,
                 std::span<const OutputToken> tokens) {
  out += kind == Kind::kText ? R"({"type":"output_text","text":)"
                             : R"({"type":"reasoning_text","text":)";
  json::append_quoted(out, text);
  if (kind == Kind::kText) {
    out += R"(,"annotations":[],"logprobs":)";
    append_tokens(out, tokens);
  }
  out += '}';
}

class Response {
 public:
  explicit Response(ResponsesAnswerOptions options) : options_(std::move(options)) {}

  const ResponsesAnswerOptions& options() const { return options_; }
  const std::vector<Item>& items() const { return items_; }

  // The next token's parts, each given to `on_part` with whether it begins an item, before it is part of one.
  template <typename OnPart>
  void push(const SequenceAnswer& sequence,
            const OutputToken& token,
            const SequenceFinish* finish,
            OnPart on_part) {
    if (!reader_) reader_.emplace(options_.reply, 0, sequence.stops);
    if (options_.logprobs) waiting_.push_back(token);
    for (const reply::Part& part : reader_->push(token, finish)) {
      const bool begins = items_.empty() || !goes_on(items_.back(), part);
      std::vector<OutputToken> tokens = std::exchange(waiting_, {});
      if (part.kind != Kind::kText) tokens.clear();
      on_part(part, begins, std::span<const OutputToken>(tokens));
      if (begins) items_.push_back({.kind = part.kind});
      Item& item = items_.back();
      if (part.kind == Kind::kCall) {
        item.call_id = part.id;
        item.name = part.text;
      } else {
        item.text += part.text;
      }
      item.tokens.insert(item.tokens.end(), tokens.begin(), tokens.end());
    }
  }
  // An answer has an item, however short it is.
  void add_missing() {
    if (items_.empty()) items_.emplace_back();
  }

  std::string item_id(std::size_t index, Kind kind) const {
    std::string out = "fc_";
    if (kind == Kind::kText) out = "msg_";
    if (kind == Kind::kReasoning) out = "rs_";
    out += std::string_view(options_.id).substr(options_.id.find('_') + 1);
    out += '_';
    return out + std::to_string(index);
  }

  // `status`: "in_progress" items are as they are before their text.
  void append_item(std::string& out,
                   std::size_t index,
                   const Item& item,
                   std::string_view status) const {
    const bool empty = status == "in_progress";
    out += R"({"id":)";
    json::append_quoted(out, item_id(index, item.kind));
    if (item.kind == Kind::kText) {
      out += R"(,"type":"message","role":"assistant","content":[)";
      if (!empty) append_part(out, item.kind, item.text, item.tokens);
      out += ']';
    } else if (item.kind == Kind::kReasoning) {
      out += R"(,"type":"reasoning","summary":[],"content":[)";
      if (!empty) append_part(out, item.kind, item.text, {});
      out += ']';
    } else {
      out += R"(,"type":"function_call","call_id":)";
      json::append_quoted(out, item.call_id);
      out += R"(,"name":)";
      json::append_quoted(out, item.name);
      out += R"(,"arguments":)";
      json::append_quoted(out, empty ? std::string_view() : item.text);
    }
    out += R"(,"status":)";
    json::append_quoted(out, status);
    out += '}';
  }

  // Of the item at `index` once the answer has ended.
  static std::string_view status_of(const SequenceAnswer& sequence) {
    return sequence.finish.reason == FinishReason::kLength ? "incomplete" : "completed";
  }

  std::string output(const SequenceAnswer& sequence) const {
    std::string out = "[";
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (i > 0) out += ',';
      append_item(out, i, items_[i], i + 1 == items_.size() ? status_of(sequence) : "completed");
    }
    return out + "]";
  }

  // The whole document. Without a sequence: of an answer that has not ended.
  std::string document(std::string_view status,
                       std::string_view error,
                       const SequenceAnswer* sequence,
                       std::string_view output) const {
    std::string out = R"({"id":)";
    json::append_quoted(out, options_.id);
    out += R"(,"object":"response","created_at":)";
    json::append_integer(out, options_.created);
    out += R"(,"status":)";
    json::append_quoted(out, status);
    out += R"(,"background":false,"error":)";
    out += error;
    out += R"(,"incomplete_details":)";
    out += status == "incomplete" ? R"({"reason":"max_output_tokens"})" : "null";
    out += R"(,"model":)";
    json::append_quoted(out, options_.model);
    out += R"(,"output":)";
    out += output;
    out += R"(,"usage":)";
    if (sequence != nullptr) {
      append_usage(out, *sequence);
    } else {
      out += "null";
    }
    out += options_.echo;
    out += '}';
    return out;
  }

 private:
  void append_usage(std::string& out, const SequenceAnswer& sequence) const {
    out += R"({"input_tokens":)";
    json::append_unsigned(out, sequence.n_prompt);
    out += R"(,"input_tokens_details":{"cached_tokens":)";
    json::append_unsigned(out, sequence.n_cached);
    out += R"(,"cache_write_tokens":0},"output_tokens":)";
    json::append_unsigned(out, sequence.n_generated);
    out += R"(,"output_tokens_details":{"reasoning_tokens":)";
    json::append_unsigned(out, reader_ ? reader_->n_reasoning_tokens() : 0);
    out += R"(},"total_tokens":)";
    json::append_unsigned(out, sequence.n_prompt + sequence.n_generated);
    out += '}';
  }

  ResponsesAnswerOptions options_;
  std::optional<ReplyReader> reader_;  // from the first token on
  std::vector<OutputToken> waiting_;   // for the text that they are part of
  std::vector<Item> items_;
};

class ResponsesAnswer final : public WholeAnswer {
 public:
  explicit ResponsesAnswer(ResponsesAnswerOptions options) : response_(std::move(options)) {}

  bool keeps_tokens() const override { return true; }

  std::string body(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& sequence = sequences.front();
    for (std::size_t i = 0; i < sequence.tokens.size(); ++i) {
      const bool last = i + 1 == sequence.tokens.size();
      response_.push(sequence,
                     sequence.tokens[i],
                     last ? &sequence.finish : nullptr,
                     [](const reply::Part&, bool, std::span<const OutputToken>) {});
    }
    response_.add_missing();
    const std::string output = response_.output(sequence);
    std::string out = response_.document(Response::status_of(sequence), "null", &sequence, output);
    if (response_.options().keep) response_.options().keep(out, output);
    return out;
  }

 private:
  Response response_;
};

class ResponsesStream final : public StreamedAnswer {
 public:
  explicit ResponsesStream(ResponsesAnswerOptions options) : response_(std::move(options)) {}

  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    open();
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const bool last = piece.final && i + 1 == piece.tokens.size();
      response_.push(sequence,
                     piece.tokens[i],
                     last ? &sequence.finish : nullptr,
                     [this](const reply::Part& part, bool begins, auto tokens) {
                       if (begins) begin_item(part);
                       if (part.kind != Kind::kCall) add_delta(part, tokens);
                     });
    }
    return std::exchange(out_, {});
  }

  std::vector<std::string> closing(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& sequence = sequences.front();
    const std::string_view status = Response::status_of(sequence);
    open();
    if (response_.items().empty()) begin_item({});
    response_.add_missing();
    end_item(status);
    const std::string output = response_.output(sequence);
    const std::string document = response_.document(status, "null", &sequence, output);
    if (response_.options().keep) response_.options().keep(document, output);
    add("response." + std::string(status), R"("response":)" + document);
    return std::exchange(out_, {});
  }

  std::vector<std::string> failure(const Status& status) override {
    open();
    std::string error = R"({"code":"server_error","message":)";
    json::append_quoted(error, client_text(status));
    add("response.failed",
        R"("response":)" + response_.document("failed", error + "}", nullptr, "[]"));
    return std::exchange(out_, {});
  }

 private:
  // {"type":...,"sequence_number":...,MEMBERS}
  void add(std::string_view type, std::string_view members) {
    std::string event = R"({"type":)";
    json::append_quoted(event, type);
    event += R"(,"sequence_number":)";
    json::append_unsigned(event, n_events_++);
    event += ',';
    event += members;
    out_.push_back(sse_event(type, event + "}"));
  }

  // An event of the last item, or the one that comes next.
  void add_of_item(std::string_view type, std::size_t index, Kind kind, std::string_view members) {
    std::string place = R"("item_id":)";
    json::append_quoted(place, response_.item_id(index, kind));
    place += R"(,"output_index":)";
    json::append_unsigned(place, index);
    if (kind == Kind::kText || kind == Kind::kReasoning) place += R"(,"content_index":0)";
    place += ',';
    place += members;
    add(type, place);
  }

  void add_item(std::string_view type,
                std::size_t index,
                const Item& item,
                std::string_view status) {
    std::string members = R"("output_index":)";
    json::append_unsigned(members, index);
    members += R"(,"item":)";
    response_.append_item(members, index, item, status);
    add(type, members);
  }

  void open() {
    if (n_events_ > 0) return;
    const std::string document =
        R"("response":)" + response_.document("in_progress", "null", nullptr, "[]");
    add("response.created", document);
    add("response.in_progress", document);
  }

  void begin_item(const reply::Part& part) {
    end_item("completed");
    const std::size_t index = response_.items().size();
    Item item{.kind = part.kind};
    if (part.kind == Kind::kCall) {
      item.call_id = part.id;
      item.name = part.text;
    }
    add_item("response.output_item.added", index, item, "in_progress");
    is_open_ = true;
    if (part.kind == Kind::kCall) return;
    std::string members = R"("part":)";
    append_part(members, part.kind, "", {});
    add_of_item("response.content_part.added", index, part.kind, members);
  }

  void add_delta(const reply::Part& part, std::span<const OutputToken> tokens) {
    const bool begins = response_.items().empty() || !goes_on(response_.items().back(), part);
    const std::size_t index = response_.items().size() - (begins ? 0 : 1);
    std::string members = R"("delta":)";
    json::append_quoted(members, part.text);
    if (part.kind == Kind::kText) {
      members += R"(,"logprobs":)";
      append_tokens(members, tokens);
      add_of_item("response.output_text.delta", index, part.kind, members);
    } else if (part.kind == Kind::kReasoning) {
      add_of_item("response.reasoning_text.delta", index, part.kind, members);
    } else {
      add_of_item("response.function_call_arguments.delta", index, Kind::kCall, members);
    }
  }

  void end_item(std::string_view status) {
    if (!std::exchange(is_open_, false)) return;
    const std::size_t index = response_.items().size() - 1;
    const Item& item = response_.items().back();
    if (item.kind == Kind::kCall) {
      std::string members = R"("name":)";
      json::append_quoted(members, item.name);
      members += R"(,"arguments":)";
      json::append_quoted(members, item.text);
      add_of_item("response.function_call_arguments.done", index, item.kind, members);
    } else {
      std::string text = R"("text":)";
      json::append_quoted(text, item.text);
      if (item.kind == Kind::kText) {
        text += R"(,"logprobs":)";
        append_tokens(text, item.tokens);
      }
      const bool is_text = item.kind == Kind::kText;
      add_of_item(is_text ? "response.output_text.done" : "response.reasoning_text.done",
                  index,
                  item.kind,
                  text);
      std::string part = R"("part":)";
      append_part(part, item.kind, item.text, item.tokens);
      add_of_item("response.content_part.done", index, item.kind, part);
    }
    add_item("response.output_item.done", index, item, status);
  }

  Response response_;
  std::vector<std::string> out_;
  std::uint64_t n_events_ = 0;
  bool is_open_ = false;  // the last item
};

}  // namespace

std::unique_ptr<AnswerFormat> make_responses_answer(ResponsesAnswerOptions options) {
  return std::make_unique<ResponsesAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_responses_stream(ResponsesAnswerOptions options) {
  return std::make_unique<ResponsesStream>(std::move(options));
}

}  // namespace coxswain::api
