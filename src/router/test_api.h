#pragma once
// An Api over a scripted engine, a byte tokenizer and a plain template, for tests.

#include <memory>
#include <string>

#include "batch/testing/scripted_engine.h"
#include "router/api.h"
#include "router/test_http.h"
#include "router/test_tokenizer.h"

namespace coxswain::router {

// "<role>content</s>" for each message, then "<assistant>"; contents are the users'.
inline Result<chat::Rendered> render_plainly(const chat::RenderInput& input) {
  chat::Rendered out;
  for (const json::Value& message : input.messages.as_array()) {
    const std::string& role = message.find("role")->as_string();
    if (role == "raise") {
      return Status(Code::kInvalidArgument, ErrorKind::kTemplateError, "roles must alternate");
    }
    out.text += "<" + role + ">";
    const std::size_t begin = out.text.size();
    out.text += message.find("content")->as_string();
    out.untrusted.push_back({begin, out.text.size()});
    const bool last = &message == &input.messages.as_array().back();
    if (!(last && input.continue_final_message)) out.text += "</s>";
  }
  if (input.add_generation_prompt.value_or(false)) out.text += "<assistant>";
  return out;
}

struct TestApi {
  static ApiOptions default_options() {
    ApiOptions out;
    out.model_id = "tiny";
    out.version = "1.0";
    out.limits.input_tokens_max = 100;
    out.limits.total_tokens_max = 200;
    out.limits.vocab_size = 258;
    out.limits.eos_token_ids = {ByteTokenizer::kEos};
    return out;
  }

  explicit TestApi(ApiOptions options = default_options(), ChatModel chat = {render_plainly}) {
    options.unix_time = [] { return std::int64_t{1'700'000'000}; };
    options.random = [this] { return next_random.fetch_add(1); };
    api = std::make_unique<Api>(
        std::move(options),
        ApiParts{engine, std::make_shared<ByteTokenizer>(), std::move(chat), &metrics, log});
    api->add_routes(server);
  }
  ~TestApi() { api->stop(); }

  std::uint64_t ended() {
    using telemetry::FailureLabel;
    std::uint64_t n = metrics.request_success.value();
    for (FailureLabel label : {FailureLabel::kOverloaded,
                               FailureLabel::kValidation,
                               FailureLabel::kGeneration,
                               FailureLabel::kIncomplete,
                               FailureLabel::kDropped,
                               FailureLabel::kTemplate,
                               FailureLabel::kDeadline,
                               FailureLabel::kUnavailable}) {
      n += metrics.request_failure[label].value();
    }
    return n;
  }

  std::atomic<std::uint64_t> next_random{1};
  telemetry::Logger log{{.level = telemetry::Level::kError, .target = "test"}};
  telemetry::Metrics metrics{telemetry::MetricsOptions{}};
  batch::ScriptedEngine engine;
  FakeServer server;
  std::unique_ptr<Api> api;
};

}  // namespace coxswain::router
