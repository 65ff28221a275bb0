// The answers of the routes below /v2.

#include <utility>

#include "api/kserve.h"
#include "api/sse.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

std::string_view finish_name(FinishReason reason) {
  if (reason == FinishReason::kEosToken) return "eos_token";
  return reason == FinishReason::kStopSequence ? "stop_sequence" : "length";
}

// [1,len] bytes, or [n] strings.
void append_tensor(std::string& out,
                   const KserveTensor& tensor,
                   std::span<const std::string_view> texts) {
  out += R"({"name":)";
  json::append_quoted(out, tensor.name);
  out += R"(,"shape":[)";
  if (tensor.as_bytes) out += "1,";
  json::append_unsigned(out, tensor.as_bytes ? texts.front().size() : texts.size());
  out += R"(],"datatype":"BYTES","data":[)";
  bool first = true;
  const auto next = [&] {
    if (!std::exchange(first, false)) out += ',';
  };
  for (const std::string_view text : texts) {
    if (!tensor.as_bytes) {
      next();
      json::append_quoted(out, text);
      continue;
    }
    for (const char c : text) {
      next();
      json::append_unsigned(out, static_cast<unsigned char>(c));
    }
  }
  out += "]}";
}

void append_names(std::string& out, const KserveAnswerOptions& options) {
  out += R"("model_name":)";
  json::append_quoted(out, options.model);
  out += R"(,"model_version":)";
  json::append_quoted(out, options.version);
  out += R"(,"id":)";
  json::append_quoted(out, options.id);
}

class InferAnswer final : public WholeAnswer {
 public:
  explicit InferAnswer(KserveAnswerOptions options) : options_(std::move(options)) {}

  bool keeps_tokens() const override { return false; }
  std::string body(std::span<const SequenceAnswer> sequences) override {
    std::string out = "{";
    append_names(out, options_);
    out += R"(,"outputs":[)";
    for (const KserveTensor& tensor : options_.outputs) {
      if (out.back() == '}') out += ',';
      std::vector<std::string_view> texts;
      for (std::size_t i = 0; i < tensor.n_texts; ++i) {
        const auto own = sequences.first(options_.per_text);
        sequences = sequences.subspan(options_.per_text);
        texts.emplace_back(own[best_sequence(own)].finish.generated_text);
      }
      append_tensor(out, tensor, texts);
    }
    return out + "]}";
  }

 private:
  const KserveAnswerOptions options_;
};

// {"finish_reason","logprobs"}
void append_details(std::string& out,
                    const SequenceAnswer& sequence,
                    std::span<const OutputToken> tokens,
                    bool ended) {
  out += R"(,"details":{"finish_reason":)";
  if (ended) {
    json::append_quoted(out, finish_name(sequence.finish.reason));
  } else {
    out += "null";
  }
  out += R"(,"logprobs":[)";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    out += R"({"id":)";
    json::append_integer(out, tokens[i].id);
    out += R"(,"text":)";
    json::append_quoted(out, tokens[i].text);
    out += R"(,"logprob":)";
    json::append_real32(out, tokens[i].logprob);
    out += R"(,"special":)";
    out += tokens[i].special ? "true}" : "false}";
  }
  out += "]}";
}

class GenerateAnswer final : public WholeAnswer {
 public:
  explicit GenerateAnswer(KserveAnswerOptions options) : options_(std::move(options)) {}

  bool keeps_tokens() const override { return options_.details; }
  std::string body(std::span<const SequenceAnswer> sequences) override {
    const SequenceAnswer& best = sequences[best_sequence(sequences)];
    std::string out = "{";
    append_names(out, options_);
    out += R"(,"text_output":)";
    json::append_quoted(out, best.finish.generated_text);
    if (options_.details) append_details(out, best, best.tokens, true);
    return out + "}";
  }

 private:
  const KserveAnswerOptions options_;
};

class GenerateStream final : public StreamedAnswer {
 public:
  explicit GenerateStream(KserveAnswerOptions options) : options_(std::move(options)) {}

  // Special tokens are no text, and what is left of a stop string is told at the end, as on the native routes.
  std::vector<std::string> events(const SequenceAnswer& sequence,
                                  std::size_t,
                                  const AnswerPiece& piece) override {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < piece.tokens.size(); ++i) {
      const OutputToken& token = piece.tokens[i];
      std::string event = "{";
      append_names(event, options_);
      event += R"(,"text_output":)";
      json::append_quoted(event, token.special ? std::string_view() : std::string_view(token.text));
      const bool last = piece.final && i + 1 == piece.tokens.size();
      if (options_.details) append_details(event, sequence, piece.tokens.subspan(i, 1), last);
      out.push_back(sse_event(event + "}"));
    }
    return out;
  }
  std::vector<std::string> closing(std::span<const SequenceAnswer>) override { return {}; }

 private:
  const KserveAnswerOptions options_;
};

}  // namespace

std::unique_ptr<AnswerFormat> make_kserve_infer_answer(KserveAnswerOptions options) {
  return std::make_unique<InferAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_kserve_generate_answer(KserveAnswerOptions options) {
  return std::make_unique<GenerateAnswer>(std::move(options));
}
std::unique_ptr<AnswerFormat> make_kserve_generate_stream(KserveAnswerOptions options) {
  return std::make_unique<GenerateStream>(std::move(options));
}

std::string kserve_server_document(std::string_view version) {
  std::string out = R"({"name":"text-generation-inference","version":)";
  json::append_quoted(out, version);
  return out + R"(,"extensions":["health","models","metrics"]})";
}

std::string kserve_model_document(std::string_view model) {
  const auto tensor = [](std::string_view name) {
    return R"([{"name":")" + std::string(name) + R"(","datatype":"BYTES","shape":[-1]}])";
  };
  std::string out = R"({"name":)";
  json::append_quoted(out, model);
  out += R"(,"version":"1","versions":["1"],"platform":"coxswain","extensions":["infer","ready"])";
  out += R"(,"inputs":)" + tensor(kKserveInput);
  return out + R"(,"outputs":)" + tensor(kKserveOutput) + "}";
}

}  // namespace coxswain::api
