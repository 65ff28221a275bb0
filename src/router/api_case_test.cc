// Runs every file of tests/api: a request, what the engine does, and the exact answer.
// The format: tests/api/README.md.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <regex>

#include <gtest/gtest.h>

#include "chat/template_set.h"
#include "grammar/token_masks.h"
#include "json/json.h"
#include "reply/parser.h"
#include "request/sampling_rules.h"
#include "router/test_api.h"

namespace coxswain::router {
namespace {

namespace fs = std::filesystem;

const json::Value& member(const json::Value& object, std::string_view name) {
  static const json::Value none;
  const json::Value* found = object.find(name);
  return found == nullptr ? none : *found;
}

std::string text_or(const json::Value& object, std::string_view name, const std::string& fallback) {
  const json::Value& value = member(object, name);
  return value.is_string() ? value.as_string() : fallback;
}

bool flag(const json::Value& object, std::string_view name) {
  const json::Value& value = member(object, name);
  return value.is_bool() && value.as_bool();
}

std::size_t number_or(const json::Value& object, std::string_view name, std::size_t fallback) {
  const auto value = member(object, name).to_uint64();
  return value ? *value : fallback;
}

float real(const json::Value& object, std::string_view name) {
  return static_cast<float>(member(object, name).to_double().value_or(0));
}

ErrorKind kind_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(ErrorKind::kContextLength); ++i) {
    if (api::error_row(static_cast<ErrorKind>(i)).name == name) return static_cast<ErrorKind>(i);
  }
  return ErrorKind::kNone;
}

Status status_of(const json::Value& value) {
  if (!value.is_object()) return {};
  return {Code::kUnavailable, kind_of(text_or(value, "kind", "")), text_or(value, "message", "")};
}

std::vector<TokenAlternative> alternatives_of(const json::Value& token) {
  std::vector<TokenAlternative> out;
  if (!member(token, "top").is_array()) return out;
  for (const json::Value& top : member(token, "top").as_array()) {
    out.push_back({static_cast<TokenId>(number_or(top, "id", 0)),
                   real(top, "logprob"),
                   flag(top, "special"),
                   text_or(top, "text", "")});
  }
  return out;
}

OutputToken token_of(const json::Value& value) {
  OutputToken out;
  out.id = static_cast<TokenId>(number_or(value, "id", 0));
  out.text = text_or(value, "text", "");
  out.logprob = real(value, "logprob");
  out.special = flag(value, "special");
  out.alternatives = alternatives_of(value);
  return out;
}

batch::ScriptedSequence sequence_of(const json::Value& value) {
  batch::ScriptedSequence out;
  if (member(value, "tokens").is_array()) {
    for (const json::Value& token : member(value, "tokens").as_array()) {
      out.tokens.push_back(token_of(token));
    }
  }
  if (member(value, "prompt").is_array()) {
    for (const json::Value& token : member(value, "prompt").as_array()) {
      const bool first = out.prompt.empty();
      out.prompt.push_back(
          {static_cast<TokenId>(number_or(token, "id", 0)),
           first ? std::numeric_limits<float>::quiet_NaN() : real(token, "logprob"),
           text_or(token, "text", ""),
           alternatives_of(token)});
    }
  }
  const std::string finish = text_or(value, "finish", "length");
  if (finish == "eos_token") out.finish = FinishReason::kEosToken;
  if (finish == "stop_sequence") out.finish = FinishReason::kStopSequence;
  out.stop_text_begin = number_or(value, "stop_text_begin", 0);
  out.refusal = status_of(member(value, "refusal"));
  out.error = status_of(member(value, "error"));
  return out;
}

ApiOptions options_of(const json::Value& value) {
  ApiOptions out = TestApi::default_options();
  if (const std::string key = text_or(value, "api_key", ""); !key.empty())
    out.auth.keys = std::make_shared<KeyRing>(key);
  if (member(value, "api_keys").is_array()) {
    out.auth.keys = std::make_shared<KeyRing>();
    auto keys = security::parse_api_keys(member(value, "api_keys"));
    EXPECT_TRUE(keys.ok() && out.auth.keys->replace(std::move(keys).value()).ok());
  }
  out.auth.protect_all = flag(value, "protect_all");
  if (text_or(value, "v1_dialect", "openai") == "tgi") out.auth.v1 = api::ApiStyle::kTgi;
  out.strict_model = flag(value, "strict_model");
  out.documents.strict_fields = flag(value, "strict_fields");
  out.parse_special_in_content = flag(value, "parse_special_in_content");
  out.concurrent_requests_max = number_or(value, "concurrent_requests_max", 128);
  out.stored_responses_bytes_max =
      number_or(value, "stored_responses_bytes_max", out.stored_responses_bytes_max);
  out.limits.allows_grammars = !flag(value, "disable_grammar_support");
  out.limits.input_tokens_max =
      static_cast<std::uint32_t>(number_or(value, "input_tokens_max", out.limits.input_tokens_max));
  out.limits.total_tokens_max =
      static_cast<std::uint32_t>(number_or(value, "total_tokens_max", out.limits.total_tokens_max));
  return out;
}

speech::Renderer renderer_of(const json::Value& options) {
  if (flag(options, "no_template")) return {};
  if (!member(options, "template").is_string()) return render_plainly;
  auto compiled =
      chat::TemplateSet::compile({{"default", member(options, "template").as_string()}});
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  const auto set = std::make_shared<const chat::TemplateSet>(std::move(compiled).value());
  return [set](const chat::RenderInput& input) { return set->render(input); };
}

ChatModel model_of(const json::Value& options) {
  ChatModel out{renderer_of(options)};
  out.manner.reads_tools = flag(options, "reads_tools");
  const auto tools = reply::tool_format_named(text_or(options, "tool_call_parser", "none"));
  const auto reasoning =
      reply::reasoning_format_named(text_or(options, "reasoning_parser", "none"));
  EXPECT_TRUE(tools && reasoning);
  out.manner.formats = {tools.value_or(reply::ToolFormat::kNone),
                        reasoning.value_or(reply::ReasoningFormat::kNone)};
  return out;
}

http::Request request_of(const json::Value& value) {
  http::Request out;
  out.method = text_or(value, "method", "POST");
  out.path = text_or(value, "path", "/");
  out.query = text_or(value, "query", "");
  const json::Value& headers = member(value, "headers");
  if (headers.is_object()) {
    for (const auto& [name, text] : headers.as_object()) {
      out.headers.emplace_back(name, text.as_string());
      if (name == "x-request-id") out.request_id = text.as_string();
    }
  } else {
    out.headers.emplace_back("content-type", "application/json");
  }
  const json::Value* body = value.find("body");
  out.body = body != nullptr ? json::write(*body) : text_or(value, "text", "");
  return out;
}

// The exact bytes of one expected chunk.
std::string chunk_of(const json::Value& value) {
  if (value.is_string()) return value.as_string();
  return "data: " + json::write(value) + "\n\n";
}

// Whether `text` is whole by the grammar that an engine got, whatever the tokens.
bool follows(const CompiledGrammar& compiled, std::string_view text) {
  auto program = grammar::Program::from_bytes(*compiled.bytes);
  if (!program.ok()) {
    ADD_FAILURE() << program.status().message();
    return false;
  }
  const auto bytes = std::make_shared<const grammar::TokenTrie>(
      256, [](TokenId id) { return std::string(1, static_cast<char>(id)); });
  const grammar::TokenMasks masks(std::move(program).value(), bytes);
  grammar::TokenMasks::Position position = masks.begin();
  return masks.advance(position, text) && masks.is_whole(position);
}

void check_texts(const CompiledGrammar& compiled, const json::Value& texts, bool should_follow) {
  ASSERT_TRUE(compiled) << "the engine got no grammar";
  for (const json::Value& text : texts.as_array()) {
    EXPECT_EQ(follows(compiled, text.as_string()), should_follow) << text.as_string();
  }
}

void expect_texts(const std::vector<std::string>& got, const json::Value& want) {
  EXPECT_EQ(json::write(json::Value(json::Array(got.begin(), got.end()))), json::write(want));
}

void expect_ids(std::span<const TokenId> got, const json::Value& want) {
  EXPECT_TRUE(std::ranges::equal(got, want.as_array(), {}, {}, [](const json::Value& id) {
    return id.to_int64();
  })) << json::write(want);
}

// False for a name that is none of a step.
bool check_step(const SamplingParams& got, std::string_view name, const json::Value& value) {
  const auto rule = std::ranges::find(request::kSamplingRules, name, &request::SamplingRule::field);
  if (rule != request::kSamplingRules.end()) {
    EXPECT_EQ(got.*rule->value, static_cast<float>(value.to_double().value_or(NAN))) << name;
  } else if (name == "watermark") {
    EXPECT_EQ(got.watermark, value.as_bool());
  } else if (name == "no_repeat_ngram_size") {
    EXPECT_EQ(got.no_repeat_ngram_size, value.to_uint64());
  } else if (name == "dry_allowed_length") {
    EXPECT_EQ(got.dry_allowed_length, value.to_uint64());
  } else if (name == "dry_penalty_last_n") {
    EXPECT_EQ(got.dry_penalty_last_n, value.to_uint64());
  } else if (name == "dry_sequence_breakers") {
    expect_texts(got.dry_sequence_breakers, value);
  } else if (name == "samplers") {
    std::vector<std::string> names;
    names.reserve(got.samplers.size());
    for (const SamplerStep step : got.samplers)
      names.emplace_back(request::kSamplerNames[static_cast<std::size_t>(step)]);
    expect_texts(names, value);
  } else if (name == "bad_words") {
    std::vector<std::string> words;
    words.reserve(got.bad_words.size());
    for (const auto& ids : got.bad_words) words.push_back(ByteTokenizer().decode(ids, false));
    expect_texts(words, value);
  } else if (name == "allowed_token_ids") {
    expect_ids(got.allowed_tokens, value);
  } else {
    return false;
  }
  return true;
}

void check_submissions(const json::Value& expected, const batch::ScriptedEngine& engine) {
  std::vector<batch::GenerationRequest> submitted;  // one for each sequence
  for (const batch::GenerationRequest& request : engine.submitted()) {
    submitted.push_back(request);
    for (const std::uint64_t seed : request.more_seeds) {
      submitted.push_back(request);
      submitted.back().sampling.seed = seed;
    }
  }
  ASSERT_EQ(submitted.size(), expected.as_array().size());
  for (std::size_t i = 0; i < submitted.size(); ++i) {
    const json::Value& want = expected.as_array()[i];
    const batch::GenerationRequest& got = submitted[i];
    for (const auto& [name, value] : want.as_object()) {
      if (name == "prompt") {
        EXPECT_EQ(ByteTokenizer().decode(got.prompt, false), value.as_string());
      } else if (name == "n_prompt") {
        EXPECT_EQ(got.prompt.size(), value.to_uint64());
      } else if (name == "max_new_tokens") {
        EXPECT_EQ(got.stopping.max_new_tokens, value.to_uint64());
      } else if (name == "min_new_tokens") {
        EXPECT_EQ(got.stopping.min_new_tokens, value.to_uint64());
      } else if (name == "end_ids") {
        expect_ids(got.stopping.end_ids, value);
      } else if (name == "stop_token_ids") {
        std::vector<TokenId> ids;
        for (const std::vector<TokenId>& one : got.stopping.stop_token_sequences)
          ids.insert(ids.end(), one.begin(), one.end());
        expect_ids(ids, value);
      } else if (name == "repetition_penalty") {
        EXPECT_EQ(got.sampling.repetition_penalty, real(want, name));
      } else if (name == "cache_prompt") {
        EXPECT_EQ(got.cache_prompt, value.as_bool());
      } else if (name == "do_sample") {
        EXPECT_EQ(got.sampling.do_sample, value.as_bool());
      } else if (name == "seed") {
        EXPECT_EQ(got.sampling.seed, value.to_uint64());
      } else if (name == "prompt_logprobs") {
        EXPECT_EQ(got.prompt_logprobs, value.as_bool());
      } else if (name == "n_top_tokens") {
        EXPECT_EQ(got.sampling.n_top_tokens, value.to_uint64());
      } else if (name == "stop_first") {
        EXPECT_EQ(got.stopping.order == FinishOrder::kStopFirst, value.as_bool());
      } else if (name == "ignore_eos") {
        EXPECT_EQ(got.stopping.ignore_eos, value.as_bool());
      } else if (name == "priority") {
        EXPECT_EQ(got.priority, value.to_int64());
      } else if (name == "cache_salt") {
        EXPECT_EQ(got.cache_salt, value.as_string());
      } else if (name == "has_deadline") {
        EXPECT_EQ(got.deadline.has_value(), value.as_bool());
      } else if (name == "frequency_penalty") {  // OpenAI's
        EXPECT_EQ(static_cast<double>(got.sampling.frequency_penalty), value.to_double());
      } else if (name == "relative_frequency_penalty") {
        EXPECT_EQ(static_cast<double>(got.sampling.relative_frequency_penalty), value.to_double());
      } else if (name == "thoughts_tokens_max") {
        ASSERT_TRUE(got.sampling.thoughts);
        EXPECT_EQ(got.sampling.thoughts->tokens_max, value.to_uint64());
      } else if (name == "has_grammar") {
        EXPECT_EQ(static_cast<bool>(got.sampling.grammar), value.as_bool());
      } else if (name == "follows" || name == "does_not_follow") {
        check_texts(got.sampling.grammar, value, name == "follows");
      } else if (!check_step(got.sampling, name, value)) {
        ADD_FAILURE() << "the case expects an unknown member " << name;
      }
    }
  }
}

void check_headers(const json::Value& expected, const FakeResponder& responder) {
  if (!expected.is_object()) return;
  for (const auto& [name, value] : expected.as_object()) {
    const std::string got =
        name == "content-type" ? responder.response().content_type : responder.header(name);
    if (value.is_null()) {
      EXPECT_EQ(got, "") << name;
    } else if (value.is_bool()) {
      EXPECT_NE(got, "") << name;  // present, value not known beforehand
    } else {
      EXPECT_EQ(got, value.as_string()) << name;
    }
  }
}

// Measured times are nobody's to know beforehand: "..._duration":0 and so on, whatever they are.
std::string without_durations(const std::string& text) {
  static const std::regex measured(R"re((_(?:duration|ms|per_second)":)[0-9.e+-]+)re");
  return std::regex_replace(text, measured, "$010");
}

void run_case(const json::Value& file) {
  const json::Value& options = member(file, "options");
  TestApi test(options_of(options), model_of(options));
  if (member(file, "engine").is_array()) {
    for (const json::Value& sequence : member(file, "engine").as_array()) {
      test.engine.script.push_back(sequence_of(sequence));
    }
  }
  if (const json::Value* before = file.find("before")) {
    for (const json::Value& request : before->as_array()) {
      const auto earlier = test.server.call(request_of(request));
      ASSERT_NE(earlier, nullptr) << "no such route";
      earlier->wait_for_end();
    }
  }
  const auto responder = test.server.call(request_of(member(file, "request")));
  ASSERT_NE(responder, nullptr) << "no such route";
  responder->wait_for_end();
  const json::Value& expected = member(file, "response");
  EXPECT_EQ(static_cast<std::uint64_t>(responder->response().status),
            member(expected, "status").to_uint64());
  check_headers(member(expected, "headers"), *responder);
  if (const json::Value* body = expected.find("body")) {
    EXPECT_EQ(without_durations(responder->response().body), json::write(*body));
    EXPECT_FALSE(responder->streaming());
  }
  if (const json::Value* text = expected.find("text")) {
    EXPECT_EQ(without_durations(responder->response().body), text->as_string());
  }
  if (const json::Value* lines = expected.find("lines")) {
    std::vector<std::string> want;
    for (const json::Value& line : lines->as_array())
      want.push_back(line.is_string() ? line.as_string() : json::write(line) + "\n");
    std::vector<std::string> got = responder->chunks();
    std::ranges::transform(got, got.begin(), without_durations);
    EXPECT_EQ(got, want);
    EXPECT_TRUE(responder->streaming());
  }
  if (const json::Value* chunks = expected.find("chunks")) {
    std::vector<std::string> want;
    for (const json::Value& chunk : chunks->as_array()) want.push_back(chunk_of(chunk));
    std::vector<std::string> got = responder->chunks();
    std::ranges::transform(got, got.begin(), without_durations);
    EXPECT_EQ(got, want);
    EXPECT_TRUE(responder->streaming());
  }
  if (const json::Value* submissions = file.find("submissions")) {
    check_submissions(*submissions, test.engine);
  }
  test.api->stop();
  EXPECT_EQ(test.ended(), test.metrics.request_count.value());
}

std::vector<fs::path> case_files() {
  const char* source_dir = std::getenv("COXSWAIN_SOURCE_DIR");  // NOLINT(concurrency-mt-unsafe)
  std::vector<fs::path> out;
  if (source_dir == nullptr) return out;
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir) / "tests" / "api")) {
    if (entry.path().extension() == ".json") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(ApiCases, EveryFileAnswersExactlyAsItSays) {
  const auto files = case_files();
  if (files.empty()) GTEST_SKIP() << "COXSWAIN_SOURCE_DIR is not set";
  EXPECT_GE(files.size(), 30u);
  for (const fs::path& path : files) {
    SCOPED_TRACE(path.filename().string());
    const auto file = json::parse_file(path.string(), std::size_t{1} << 20);
    ASSERT_TRUE(file.ok()) << file.status().message();
    run_case(file.value());
  }
}

}  // namespace
}  // namespace coxswain::router
