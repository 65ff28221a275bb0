// TGI's routes and documents, and those of tokens.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr std::array kParameters{
    Member{"best_of", "u64", "1 to --max-best-of; above 1 with sampling alone.", "1"},
    Member{"temperature", "number > 0", "Below 1e-6 is greedy.", "1"},
    Member{"repetition_penalty", "number > 0", "Over prompt and output.", "1"},
    Member{"frequency_penalty", "number >= -2 <= 2", "Relative: value x count / length.", "0"},
    Member{"top_k", "i32 >= 1", "Only so many of the best tokens."},
    Member{"top_p", "number > 0 < 1", "Only the best tokens that have this probability in sum."},
    Member{"typical_p", "number > 0 < 1", "Only tokens of typical information."},
    Member{"do_sample",
           "bool",
           "Other fields that shape the distribution ask for sampling, too.",
           "false"},
    Member{"max_new_tokens", "u32 >= 1", "Without it: all that fits."},
    Member{"return_full_text", "bool", "The prompt in front; true by default on POST /."},
    Member{"stop", "[string >= 1 <= 1024]", "At most --max-stop-sequences; they stay in the text."},
    Member{"truncate", "u64 >= 1", "The last so many tokens of the prompt."},
    Member{"details", "bool", "Tokens and figures in the answer.", "false"},
    Member{"decoder_input_details", "bool", "Prompt tokens, too; not on streams.", "false"},
    Member{"seed", "u64", "Without it: drawn."},
    Member{"top_n_tokens", "u32", "Alternatives of each token, up to --max-top-n-tokens.", "0"},
    Member{"grammar", "GrammarType", "The form of the answer."},
};

constexpr std::array kRequest{
    Member{.name = "inputs", .type = "string", .about = "The prompt.", .presence = kRequired},
    Member{"stream", "bool", "Decides on POST / alone.", "false"},
    Member{"parameters", "GenerateParameters", "Without it the request samples."},
};

constexpr std::array kGrammar{
    Member{.name = "type",
           .type = "'json'|'json_object'|'json_schema'|'regex'",
           .presence = kRequired},
    Member{"value",
           "any",
           "A schema or its text; of json_schema {\"name\",\"schema\"}; of regex a pattern."},
};

constexpr std::array kToken{
    Member{"id", "i32 >= 0"},
    Member{"text", "string"},
    Member{"logprob", "number|null"},
    Member{"special", "bool"},
};
constexpr std::array kPrefillToken{
    Member{"id", "i32 >= 0"},
    Member{"text", "string"},
    Member{"logprob", "number|null", "Null of the first."},
};
constexpr std::array kFinish{
    Member{"finish_reason", "'length'|'eos_token'|'stop_sequence'"},
    Member{"generated_tokens", "u32"},
    Member{"seed", "u64|null", "Null of a greedy answer."},
};
constexpr std::array kDrafts{
    Member{
        .name = "draft_n", .type = "u32", .about = "With --speculate.", .presence = kMayBeAbsent},
    Member{.name = "draft_n_accepted", .type = "u32", .presence = kMayBeAbsent},
};
constexpr std::array kTokens{
    Member{"prefill", "[PrefillToken]"},
    Member{"tokens", "[Token]"},
    Member{.name = "top_tokens", .type = "[[Token]]", .presence = kMayBeAbsent},
};
constexpr std::array kOthers{
    Member{.name = "best_of_sequences", .type = "[BestOfSequence]", .presence = kMayBeAbsent},
};
constexpr std::array kText{Member{"generated_text", "string"}};
constexpr std::array kDetailsOfAnswer{
    Member{.name = "details", .type = "Details", .presence = kMayBeAbsent},
};
constexpr std::array kInputLength{Member{"input_length", "u32"}};
constexpr std::array kStream{
    Member{"index", "u64", "Counts from 1."},
    Member{"token", "Token"},
    Member{.name = "top_tokens", .type = "[Token]", .presence = kMayBeAbsent},
    Member{"generated_text", "string|null", "In the last event."},
    Member{"details", "StreamDetails|null", "In the last event, if asked for."},
};

constexpr std::array kPredict{
    Member{.name = "instances",
           .type = "[object] >= 1",
           .about =
               "Each a GenerateRequest or a ChatRequest, without `stream` and `tools`; at most "
               "--max-client-batch-size.",
           .presence = kRequired},
};
constexpr std::array kPredictions{
    Member{"predictions", "[string]", "In the order of the instances."},
};

constexpr std::array kSimpleToken{
    Member{"id", "i32 >= 0"},
    Member{"text", "string"},
    Member{"start", "u64", "Bytes."},
    Member{"stop", "u64"},
};
constexpr std::array kDetokenizeRequest{
    Member{"model", "string <= 256"},
    Member{.name = "tokens", .type = "[i32 >= 0]", .presence = kRequired},
    Member{"skip_special_tokens", "bool", "", "false"},
};
constexpr std::array kDetokenized{
    Member{"prompt", "string"},
    Member{"content", "string", "The same text."},
};

void describe_answers(Description& out) {
  out.answer("Token", {kToken});
  out.answer("PrefillToken", {kPrefillToken});
  out.answer("BestOfSequence", {kText, kFinish, kTokens, kDrafts});
  out.answer("Details", {kFinish, kTokens, kDrafts, kOthers});
  out.answer("GenerateResponse", {kText, kDetailsOfAnswer});
  out.answer("StreamDetails", {kFinish, kInputLength, kDrafts});
  out.answer("StreamResponse", {kStream}, "An event of a stream.");
  out.answer("PredictResponse", {kPredictions});
  out.answer("SimpleToken", {kSimpleToken});
  out.alias("TokenizeResponse", Object::Side::kAnswer, "[SimpleToken]");
  out.answer("DetokenizeResponse", {kDetokenized});
}

}  // namespace

std::span<const Member> native_parameters() {
  return kParameters;
}

void describe_native(Description& out) {
  using Kind = Operation::Kind;
  out.begin_family("native", "The routes of text-generation-inference, and those of tokens.");
  out.request("GenerateParameters", {kParameters, sampling_steps(), scheduling()});
  out.request("GrammarType", {kGrammar}, "", R"({"type":"regex","value":"a+"})");
  out.request("GenerateRequest", {kRequest}, "", R"({"inputs":"a"})");
  out.request("PredictRequest", {kPredict}, "", R"({"instances":[{"inputs":"a"}]})");
  describe_answers(out);
  constexpr std::string_view kExample =
      R"({"inputs":"The capital of France is","parameters":{"max_new_tokens":8}})";
  out.operation({.method = "POST",
                 .path = "/",
                 .id = "compat_generate",
                 .about =
                     "An array with one answer, or a stream if `stream` is true. /invocations is "
                     "for Amazon SageMaker: the same for a body with `inputs`; one with "
                     "`messages` or `prompt` is a ChatRequest or a CompletionRequest.",
                 .also = "/invocations",
                 .kind = Kind::kGenerates,
                 .request = "GenerateRequest",
                 .example = kExample,
                 .answer = "[GenerateResponse] >= 1 <= 1",
                 .event = "StreamResponse"});
  out.operation({.method = "POST",
                 .path = "/generate",
                 .id = "generate",
                 .about = "One answer.",
                 .kind = Kind::kGenerates,
                 .request = "GenerateRequest",
                 .example = kExample,
                 .answer = "GenerateResponse"});
  out.operation({.method = "POST",
                 .path = "/vertex",
                 .id = "predict",
                 .about = "A text for each instance, as Google Vertex AI asks for them.",
                 .kind = Kind::kGenerates,
                 .request = "PredictRequest",
                 .example = R"({"instances":[{"inputs":"a","parameters":{"max_new_tokens":4}}]})",
                 .answer = "PredictResponse",
                 .refusals = {ErrorKind::kTemplateError, ErrorKind::kNotFound}});
  out.operation({.method = "POST",
                 .path = "/generate_stream",
                 .id = "generate_stream",
                 .about = "A stream.",
                 .kind = Kind::kGenerates,
                 .request = "GenerateRequest",
                 .example = kExample,
                 .event = "StreamResponse",
                 .always_streams = true});
  out.operation({.method = "POST",
                 .path = "/tokenize",
                 .id = "tokenize",
                 .about = "The tokens of `inputs`.",
                 .kind = Kind::kTokens,
                 .request = "GenerateRequest",
                 .example = R"({"inputs":"The capital of France is"})",
                 .answer = "TokenizeResponse"});
  out.operation({.method = "POST",
                 .path = "/detokenize",
                 .id = "detokenize",
                 .about = "The text of token ids.",
                 .kind = Kind::kTokens,
                 .request = "DetokenizeRequest",
                 .example = R"({"tokens":[1,2,3]})",
                 .answer = "DetokenizeResponse",
                 .refusals = {ErrorKind::kNotFound}});
  out.request("DetokenizeRequest", {kDetokenizeRequest}, "", R"({"tokens":[1]})");
}

}  // namespace coxswain::openapi
