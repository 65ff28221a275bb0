// What case files cannot say: order in time, lost clients, limits and shutdown.

#include "router/api.h"

#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "router/test_api.h"

namespace coxswain::router {
namespace {

using telemetry::FailureLabel;

OutputToken token(std::string text) {
  OutputToken out;
  out.id = 1;
  out.text = std::move(text);
  return out;
}

batch::ScriptedSequence held() {
  batch::ScriptedSequence out;
  out.hold = true;
  return out;
}

batch::ScriptedSequence finished() {
  batch::ScriptedSequence out;
  out.tokens = {token("x")};
  return out;
}

batch::ScriptedSequence one_more_token() {
  batch::ScriptedSequence out = finished();
  out.hold = true;
  return out;
}

constexpr const char* kBody = R"({"inputs":"I","parameters":{}})";

TEST(Api, PermitsAreRefusedWhenAllAreTakenAndComeBack) {
  ApiOptions options = TestApi::default_options();
  options.concurrent_requests_max = 1;
  TestApi test(std::move(options));
  test.engine.script = {held()};
  const auto first = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(1);
  const auto second = test.server.post("/generate", kBody);
  second->wait_for_end();
  EXPECT_EQ(second->response().status, 429);
  EXPECT_EQ(second->response().body,
            R"({"error":"Model is overloaded","error_type":"overloaded"})");
  EXPECT_EQ(second->header("retry-after"), "1");
  test.engine.play_held(finished());
  first->wait_for_end();
  EXPECT_EQ(first->response().body, R"({"generated_text":"x"})");
  const auto third = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(2);
  test.engine.play_held(finished());
  third->wait_for_end();
  EXPECT_EQ(third->response().status, 200);
  EXPECT_EQ(test.metrics.request_failure[FailureLabel::kOverloaded].value(), 1u);
  EXPECT_EQ(test.metrics.request_success.value(), 2u);
}

TEST(Api, OpenRequestsAreListedWithoutTheirTexts) {
  TestApi test;
  EXPECT_TRUE(test.api->open_requests().empty());
  test.engine.script = {held()};
  http::Request request;
  request.method = "POST";
  request.path = "/v1/completions";
  request.headers = {{"content-type", "application/json"}};
  request.request_id = "mine";
  request.body = R"({"prompt":"secret","stream":true})";
  const auto answer = test.server.call(std::move(request));
  test.engine.wait_for_submissions(1);
  const std::vector<OpenRequest> open = test.api->open_requests();
  ASSERT_EQ(open.size(), 1U);
  EXPECT_EQ(open[0].request_id, "mine");
  EXPECT_EQ(open[0].path, "/v1/completions");
  EXPECT_TRUE(open[0].answer_id.starts_with("cmpl-"));
  EXPECT_EQ(open[0].prompt_tokens, 7U);
  EXPECT_EQ(open[0].generated_tokens, 0U);
  EXPECT_EQ(open[0].requests, std::vector{test.engine.submitted()[0].id});
  EXPECT_FALSE(test.api->cancel("another"));
  test.engine.play_held(one_more_token());
  answer->wait_for_chunks(1);
  EXPECT_EQ(test.api->open_requests()[0].generated_tokens, 1U);
  EXPECT_TRUE(test.api->cancel("mine"));
  answer->wait_for_end();
}

// By its id, and by nobody but its owner.
TEST(Api, ARunningResponseIsCancelled) {
  ApiOptions options = TestApi::default_options();
  options.auth.keys = std::make_shared<KeyRing>();
  ASSERT_TRUE(
      options.auth.keys->replace({{.name = "a", .key = "ka"}, {.name = "b", .key = "kb"}}).ok());
  TestApi test(std::move(options));
  test.engine.script = {held()};
  const auto ask = [&](std::string method, std::string path, std::string body, std::string key) {
    http::Request request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.headers = {{"content-type", "application/json"}, {"x-api-key", std::move(key)}};
    request.request_id = "mine";
    request.body = std::move(body);
    return test.server.call(std::move(request));
  };
  const auto answer = ask("POST", "/v1/responses", R"({"input":"Hi"})", "ka");
  test.engine.wait_for_submissions(1);
  const std::string id = test.api->open_requests()[0].answer_id;
  for (const auto& [method, path] : {std::pair{"POST", "/v1/responses/" + id + "/cancel"},
                                     std::pair{"DELETE", "/v1/requests/" + id},
                                     std::pair{"DELETE", std::string("/v1/requests/mine")}}) {
    EXPECT_EQ(ask(method, path, "", "kb")->response().status, 404) << path;
  }
  // What is no response is not looked for by that route.
  EXPECT_EQ(ask("POST", "/v1/responses/mine/cancel", "", "ka")->response().status, 404);
  const auto cancelled = ask("POST", "/v1/responses/" + id + "/cancel", "", "ka");
  EXPECT_EQ(cancelled->response().status, 200);
  EXPECT_EQ(
      cancelled->response().body,
      R"({"id":")" + id +
          R"(","object":"response","created_at":1700000000,"status":"cancelled","error":null,)"
          R"("incomplete_details":null,"model":"tiny","output":[],"parallel_tool_calls":true,)"
          R"("tool_choice":"auto","tools":[]})");
  answer->wait_for_end();
  EXPECT_EQ(answer->response().status, 400);
}

// The engine speaks of its own request; a client is told the name that its route has for the field.
TEST(Api, RefusalsOfTheEngineNameTheFieldAsTheRouteDoes) {
  TestApi test;
  batch::ScriptedSequence sequence;
  sequence.refusal = invalid_argument("no room", std::string(batch::kMaxNewTokensField));
  test.engine.script = {sequence};
  const auto native = test.server.post("/generate", kBody);
  native->wait_for_end();
  EXPECT_EQ(
      native->response().body,
      R"({"error":"Input validation error: `max_new_tokens`: no room","error_type":"validation"})");
  const auto completion = test.server.post("/v1/completions", R"({"prompt":"ab"})");
  completion->wait_for_end();
  EXPECT_EQ(completion->response().status, 400);
  EXPECT_EQ(
      completion->response().body,
      R"({"error":{"message":"Input validation error: `max_tokens`: no room","type":"invalid_request_error","param":"max_tokens","code":"invalid_value"},"error_type":"validation"})");
  sequence.refusal = invalid_argument("it is empty", std::string(batch::kPromptField));
  test.engine.script = {sequence};
  const auto prompt = test.server.post("/generate", kBody);
  prompt->wait_for_end();
  EXPECT_EQ(
      prompt->response().body,
      R"({"error":"Input validation error: `inputs`: it is empty","error_type":"validation"})");
}

// Unread answers of /tokenize hold permits by their size, so they cannot fill the memory.
TEST(Api, LargeTokenListsHoldPermitsUntilTheyHaveLeft) {
  ApiOptions options = TestApi::default_options();
  options.tokenize_jobs_max = 3;
  TestApi test(std::move(options));
  const std::string small = R"({"inputs":"abc"})";
  const std::string large = R"({"inputs":")" + std::string(100'000, 'x') + R"("})";  // > 5 MB
  auto unread = test.server.post("/tokenize", large);
  unread->wait_for_end();
  EXPECT_EQ(unread->response().status, 200);
  EXPECT_GT(unread->response().body.size(), std::size_t{4} << 20);
  const auto refused = test.server.post("/tokenize", small);
  refused->wait_for_end();
  EXPECT_EQ(refused->response().status, 429);
  const std::weak_ptr<FakeResponder> leaving = unread;
  unread.reset();  // the answer has left, once the worker has let go, too
  while (!leaving.expired()) std::this_thread::yield();
  const auto next = test.server.post("/tokenize", small);
  next->wait_for_end();
  EXPECT_EQ(next->response().status, 200);
  const auto no_room = test.server.post("/tokenize", large);  // `next` holds one of the three
  no_room->wait_for_end();
  EXPECT_EQ(no_room->response().status, 429);
}

// Counted from the arrival, and never above the limit of the server.
TEST(Api, ATimeoutOfTheRequestIsItsDeadline) {
  using std::chrono::milliseconds;
  ApiOptions options = TestApi::default_options();
  options.request_timeout = milliseconds(3000);
  TestApi test(std::move(options));
  test.engine.script = {finished()};
  const auto deadline_of = [&](const char* body) {
    const TimePoint begin = Clock::now();
    test.server.post("/generate", body)->wait_for_end();
    const auto limit = test.engine.submitted().back().deadline.value() - begin;
    const auto late = Clock::now() - begin;
    return std::pair(limit - late, limit);  // the arrival lies in between
  };
  const auto expect = [&](const char* body, milliseconds limit) {
    const auto [least, most] = deadline_of(body);
    EXPECT_LE(least, limit);
    EXPECT_GE(most, limit);
  };
  expect(R"({"inputs":"I","parameters":{"timeout_ms":2000}})", milliseconds(2000));
  expect(R"({"inputs":"I","parameters":{"timeout_ms":4000}})", milliseconds(3000));
  expect(R"({"inputs":"I","parameters":{}})", milliseconds(3000));
}

TEST(Api, AClientThatGoesAwayCancelsEverySequence) {
  TestApi test;
  test.engine.script = {held()};
  const auto responder = test.server.post("/v1/chat/completions",
                                          R"({"messages":[{"role":"u","content":"x"}],"n":3})");
  test.engine.wait_for_submissions(1);
  EXPECT_EQ(test.engine.submitted()[0].n_sequences(), 3U);
  responder->close();
  test.engine.wait_for_cancels(1);
  test.api->stop();
  EXPECT_EQ(test.metrics.request_failure[FailureLabel::kDropped].value(), 1u);
  EXPECT_EQ(test.ended(), test.metrics.request_count.value());
}

TEST(Api, AFailedSequenceCancelsItsSiblings) {
  TestApi test;
  batch::ScriptedSequence failing;
  failing.error = Status(Code::kUnavailable, ErrorKind::kGeneration, "shard lost");
  test.engine.script = {held(), failing};
  const auto responder = test.server.post("/v1/completions", R"({"prompt":["a","b"]})");
  responder->wait_for_end();
  EXPECT_EQ(responder->response().status, 500);
  test.engine.wait_for_cancels(2);
}

TEST(Api, StreamsStartWithTheirFirstToken) {
  TestApi test;
  test.engine.script = {held()};
  const auto responder = test.server.post("/generate_stream", kBody);
  test.engine.wait_for_submissions(1);
  EXPECT_FALSE(responder->streaming());
  test.engine.play_held(one_more_token());
  responder->wait_for_chunks(1);
  EXPECT_TRUE(responder->streaming());
  test.engine.play_held(finished());
  responder->wait_for_end();
  EXPECT_EQ(responder->chunks().size(), 2u);
}

TEST(Api, SilentStreamsGetComments) {
  ApiOptions options = TestApi::default_options();
  options.keep_alive_interval = std::chrono::milliseconds(1);
  TestApi test(std::move(options));
  test.engine.script = {held()};
  const auto responder = test.server.post("/generate_stream", kBody);
  responder->wait_for_chunks(2);
  EXPECT_EQ(responder->chunks()[0], ":\n\n");
  EXPECT_EQ(responder->chunks()[1], ":\n\n");
  test.engine.play_held(finished());
  responder->wait_for_end();
  EXPECT_TRUE(responder->chunks().back().starts_with("data: {\"index\":1,"));
}

// Between lines of JSON there is room for a blank, none for a comment.
TEST(Api, SilentStreamsOfLinesGetBlanks) {
  ApiOptions options = TestApi::default_options();
  options.keep_alive_interval = std::chrono::milliseconds(1);
  TestApi test(std::move(options));
  test.engine.script = {held()};
  const auto responder =
      test.server.post("/api/chat", R"({"model":"m","messages":[{"role":"user","content":"a"}]})");
  responder->wait_for_chunks(1);
  EXPECT_EQ(responder->chunks()[0], " ");
  test.engine.play_held(finished());
  responder->wait_for_end();
  EXPECT_TRUE(responder->chunks().back().ends_with("}\n"));
}

// By the id that the client chose and by that of the answer; the client is told, and no retry is asked for.
TEST(Api, ARunningRequestIsCancelledByItsIds) {
  for (const std::string id : {"mine", "chatcmpl-00000000000000020000000000000003"}) {
    TestApi test;
    test.engine.script = {held()};
    http::Request request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.headers = {{"content-type", "application/json"}};
    request.request_id = "mine";
    request.body = R"({"messages":[{"role":"user","content":"a"}]})";
    const auto responder = test.server.call(std::move(request));
    test.engine.wait_for_submissions(1);
    const auto remove = [&] {
      http::Request cancel;
      cancel.method = "DELETE";
      cancel.path = "/v1/requests/" + id;
      return test.server.call(std::move(cancel));
    };
    EXPECT_EQ(remove()->response().body,
              R"({"id":")" + id + R"(","object":"request","cancelled":true})");
    responder->wait_for_end();
    EXPECT_EQ(responder->response().status, 400) << id;
    EXPECT_NE(responder->response().body.find(R"("code":"bad_request")"), std::string::npos);
    EXPECT_EQ(test.metrics.request_failure[telemetry::FailureLabel::kDropped].value(), 1U);
    EXPECT_EQ(responder->header("retry-after"), "");
  }
}

TEST(Api, AnErrorAfterAKeepAliveIsAnEvent) {
  ApiOptions options = TestApi::default_options();
  options.keep_alive_interval = std::chrono::milliseconds(1);
  TestApi test(std::move(options));
  test.engine.script = {held()};
  const auto responder = test.server.post("/v1/completions", R"({"prompt":"a","stream":true})");
  responder->wait_for_chunks(1);
  batch::ScriptedSequence failing;
  failing.error = Status(Code::kUnavailable, ErrorKind::kGeneration, "shard lost");
  test.engine.play_held(failing);
  responder->wait_for_end();
  const auto chunks = responder->chunks();
  ASSERT_GE(chunks.size(), 3u);
  EXPECT_EQ(
      chunks[chunks.size() - 2],
      R"(data: {"error":{"message":"Request failed during generation: the shard was lost",)"
      R"("type":"server_error","param":null,"code":"generation_failed","http_status_code":500}})"
      "\n\n");
  EXPECT_EQ(chunks.back(), "data: [DONE]\n\n");
}

TEST(Api, SlowReadersStallTheirOwnStreamOnly) {
  TestApi test;
  test.engine.script = {held()};
  const auto stream = test.server.post("/generate_stream", kBody);
  test.engine.wait_for_submissions(1);
  const auto sink = test.engine.held_sink();
  EXPECT_FALSE(sink->stalled());
  stream->set_unsent((std::size_t{256} << 10) + 1);
  EXPECT_TRUE(sink->stalled());
  stream->set_unsent(0);
  EXPECT_FALSE(sink->stalled());
  test.engine.play_held(finished());
  stream->wait_for_end();

  const auto whole = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(2);
  whole->set_unsent(std::size_t{1} << 30);
  EXPECT_FALSE(test.engine.held_sink()->stalled());
  test.engine.play_held(finished());
  whole->wait_for_end();
}

// With the delivery thread held up by one client, a stream is stalled after a few events, and a whole answer queues
// nothing before its end.
TEST(Api, WhatWaitsToBeDeliveredIsBounded) {
  TestApi test;
  test.engine.script = {held()};
  const auto slow = test.server.post("/generate_stream", kBody);
  test.engine.wait_for_submissions(1);
  slow->hold_writes(true);
  test.engine.play_held(finished());
  while (!slow->streaming()) std::this_thread::yield();

  const auto stream = test.server.post("/generate_stream", kBody);
  test.engine.wait_for_submissions(2);
  const auto streaming = test.engine.held_sink();
  std::size_t n_streamed = 0;
  for (; !streaming->stalled(); ++n_streamed) test.engine.play_held(one_more_token());
  EXPECT_EQ(n_streamed, 65U);
  EXPECT_EQ(test.api->n_undelivered(), n_streamed);
  test.engine.play_held(finished());

  const auto whole =
      test.server.post("/generate", R"({"inputs":"I","parameters":{"details":true}})");
  test.engine.wait_for_submissions(3);
  const auto gathering = test.engine.held_sink();
  for (int i = 0; i < 1000; ++i) test.engine.play_held(one_more_token());
  EXPECT_FALSE(gathering->stalled());
  EXPECT_EQ(test.api->n_undelivered(), n_streamed + 1);
  test.engine.play_held(finished());
  EXPECT_EQ(test.api->n_undelivered(), n_streamed + 2);

  slow->hold_writes(false);
  whole->wait_for_end();
  stream->wait_for_end();
  EXPECT_EQ(stream->chunks().size(), n_streamed + 1);
  EXPECT_NE(whole->response().body.find("\"generated_tokens\":1001,"), std::string::npos);
  EXPECT_EQ(test.api->n_undelivered(), 0U);
}

TEST(Api, AFirstTokenGoesBeforeThoseOfAnswersThatRun) {
  TestApi test;
  test.engine.script = {held()};
  const auto running = test.server.post("/generate_stream", kBody);
  test.engine.wait_for_submissions(1);
  test.engine.play_held(one_more_token());
  running->wait_for_chunks(1);
  running->hold_writes(true);
  test.engine.play_held(one_more_token());
  while (test.api->n_undelivered() > 0) std::this_thread::yield();
  test.engine.play_held(one_more_token());
  test.engine.script = {finished()};
  const auto waiting = test.server.post("/generate_stream", kBody);
  while (test.api->n_undelivered() < 2) std::this_thread::yield();
  waiting->hold_writes(true);
  running->hold_writes(false);
  while (!waiting->streaming()) std::this_thread::yield();
  EXPECT_EQ(running->chunks().size(), 2U);
  waiting->hold_writes(false);
  test.engine.play_held(finished());
  running->wait_for_end();
  waiting->wait_for_end();
  EXPECT_EQ(running->chunks().size(), 4U);
  EXPECT_EQ(waiting->chunks().size(), 1U);
}

TEST(Api, DrainingRefusesNewWorkAndFinishesTheOld) {
  TestApi test;
  test.engine.script = {held()};
  const auto running = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(1);
  test.api->begin_draining();
  const auto refused = test.server.post("/v1/completions", R"({"prompt":"a"})");
  refused->wait_for_end();
  EXPECT_EQ(refused->response().status, 503);
  EXPECT_EQ(refused->header("retry-after"), "1");
  EXPECT_EQ(
      refused->response().body,
      R"({"error":{"message":"the server is shutting down","type":"server_error","param":null,"code":"service_unavailable"},"error_type":"unavailable"})");
  EXPECT_EQ(test.server.get("/health")->response().status, 503);
  test.engine.play_held(finished());
  running->wait_for_end();
  EXPECT_EQ(running->response().status, 200);
}

TEST(Api, WhatIsLeftAtTheEndOfTheGraceGetsOneClearError) {
  TestApi test;
  test.engine.script = {held()};
  const auto running = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(1);
  test.api->fail_open_calls(
      Status(Code::kUnavailable, ErrorKind::kUnavailable, "the server is shutting down"));
  running->wait_for_end();
  EXPECT_EQ(running->response().status, 503);
  test.engine.wait_for_cancels(1);
}

TEST(Api, HealthTellsTheStateOfTheReplica) {
  TestApi test;
  EXPECT_EQ(test.server.get("/health")->response().status, 200);
  test.api->set_health(Status(Code::kUnavailable, "the shard is lost"));
  const auto down = test.server.get("/health");
  EXPECT_EQ(down->response().status, 503);
  EXPECT_EQ(down->response().body, R"({"error":"unhealthy","error_type":"healthcheck"})");
  const auto refused = test.server.post("/generate", kBody);
  refused->wait_for_end();
  EXPECT_EQ(refused->response().status, 503);
  EXPECT_EQ(refused->response().body,
            R"({"error":"no shard serves right now","error_type":"unavailable"})");
  test.api->set_health(Status());
  EXPECT_EQ(test.server.get("/ping")->response().status, 200);
}

TEST(Api, ASequenceThatEndsWithoutATokenIsAnError) {
  TestApi test;
  test.engine.script = {held()};
  const auto responder = test.server.post("/generate", kBody);
  test.engine.wait_for_submissions(1);
  batch::TokenEvent event;
  event.final = true;
  test.engine.held_sink()->on_event(std::move(event));
  responder->wait_for_end();
  EXPECT_EQ(responder->response().status, 500);
  EXPECT_EQ(responder->response().body,
            R"({"error":"Incomplete generation","error_type":"incomplete_generation"})");
}

TEST(Api, MetricsPage) {
  TestApi test;
  const auto responder = test.server.get("/metrics");
  EXPECT_TRUE(responder->response().content_type.starts_with("text/plain"));
  EXPECT_NE(responder->response().body.find("tgi_request_count"), std::string::npos);
}

TEST(Api, ContentTypes) {
  for (const char* good : {"application/json",
                           "Application/JSON",
                           "application/json; charset=utf-8",
                           "application/json;charset=\"UTF-8\"",
                           "application/problem+json",
                           "application/json; v=1"}) {
    EXPECT_TRUE(is_json_content_type(good)) << good;
  }
  for (const char* bad : {"",
                          "text/json",
                          "application/jsonx",
                          "application/+json",
                          "application",
                          "json",
                          "application/json; charset=latin1",
                          "application/x-www-form-urlencoded"}) {
    EXPECT_FALSE(is_json_content_type(bad)) << bad;
  }
}

TEST(Api, IgnoredFieldsHeaderIsSafe) {
  EXPECT_EQ(ignored_fields_header({"a", "b\r\nx: y", "\xC3\xA9"}), "a,b__x__y,__");
  const api::IgnoredFields many(1000, "name");
  EXPECT_LE(ignored_fields_header(many).size(), 512u);
}

}  // namespace
}  // namespace coxswain::router
