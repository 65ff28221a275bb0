#include "http/server.h"

#include <condition_variable>
#include <deque>
#include <fcntl.h>
#include <future>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "http/test_client.h"

namespace coxswain::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string post(const std::string& path,
                 const std::string& body,
                 const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

// A server with small routes, and the requests that /later keeps for the test to answer.
class ServerTest : public ::testing::Test {
 protected:
  using Kept = std::pair<std::shared_ptr<const Request>, std::shared_ptr<Responder>>;

  void start(ServerOptions options = {}) {
    options.address = options.address == "0.0.0.0" ? "127.0.0.1" : options.address;
    options.port = 0;
    auto made = Server::create(std::move(options));
    ASSERT_TRUE(made.ok()) << made.status().message();
    server_ = std::move(made).value();
    server_->add_route("GET", "/hello", [](const auto&, const auto& responder) {
      responder->send({.headers = {{"x-a", "b"}}, .content_type = "text/plain", .body = "hello"});
    });
    server_->add_route("POST", "/echo", [](const auto& request, const auto& responder) {
      responder->send({.headers = {}, .content_type = "text/plain", .body = request->body});
    });
    server_->add_route("GET", "/show", [](const auto& request, const auto& responder) {
      responder->send({.headers = {},
                       .content_type = "text/plain",
                       .body = request->method + " " + request->path + " " + request->query + " " +
                               request->remote_address + " " + request->request_id + " " +
                               std::string(request->header("X-TEST"))});
    });
    server_->add_route("GET", "/large", [](const auto&, const auto& responder) {
      responder->send({.headers = {}, .body = std::string(1 << 20, 'L')});
    });
    server_->add_route("GET", "/drop", [](const auto&, const auto&) {});
    server_->add_route(
        "GET", "/throw", [](const auto&, const auto&) { throw std::runtime_error("no"); });
    for (const char* method : {"GET", "POST"}) {
      server_->add_route(method, "/later", [this](const auto& request, const auto& responder) {
        const std::lock_guard lock(mutex_);
        kept_.emplace_back(request, responder);
        changed_.notify_all();
      });
    }
    const Status status = server_->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Kept wait_for_request() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !kept_.empty(); });
    Kept first = std::move(kept_.front());
    kept_.pop_front();
    return first;
  }

  TestClient client() { return TestClient(server_->port()); }
  Answer ask(const std::string& bytes) {
    TestClient one(server_->port());
    EXPECT_TRUE(one.connected());
    one.send(bytes);
    return one.receive();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Kept> kept_;
  std::unique_ptr<Server> server_;
};

TEST_F(ServerTest, AnswersRequests) {
  start();
  TestClient one = client();
  one.send(get("/hello"));
  const Answer hello = one.receive();
  EXPECT_EQ(hello.status, 200);
  EXPECT_THAT(hello.head, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_EQ(hello.body, "hello");
  EXPECT_EQ(hello.header("content-type"), "text/plain");
  EXPECT_EQ(hello.header("x-a"), "b");
  EXPECT_EQ(hello.header("connection"), "");
  EXPECT_EQ(hello.header("date").size(), 29U);
  one.send(post("/echo", "body \r\n\r\n with ends"));
  EXPECT_EQ(one.receive().body, "body \r\n\r\n with ends");
  one.send(
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(one.receive().body, "abcde");
  one.send(get("/show?x=%20", "x-test: T\r\nx-request-id: id-1\r\n"));
  const Answer shown = one.receive();
  EXPECT_EQ(shown.body, "GET /show x=%20 127.0.0.1 id-1 T");
  EXPECT_EQ(shown.header("x-request-id"), "id-1");
}

TEST_F(ServerTest, EveryCutGivesTheSameAnswer) {
  start();
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
  TestClient one = client();
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    ASSERT_TRUE(one.send(request.substr(0, cut)));
    ASSERT_TRUE(one.send(request.substr(cut)));
    ASSERT_EQ(one.receive().body, "abc") << cut;
  }
  TestClient bytewise = client();
  for (const char c : request) ASSERT_TRUE(bytewise.send({&c, 1}));
  EXPECT_EQ(bytewise.receive().body, "abc");
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  std::string all;
  for (int i = 0; i < 200; ++i) all += post("/echo", std::to_string(i));
  TestClient one = client();
  one.send(all);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(one.receive().body, std::to_string(i));
}

TEST_F(ServerTest, PipelinedRequestsWaitForASlowOne) {
  start();
  TestClient one = client();
  one.send(get("/later") + get("/hello") + get("/later"));
  auto [request, responder] = wait_for_request();
  responder->send({.headers = {}, .body = "first"});
  EXPECT_EQ(one.receive().body, "first");
  EXPECT_EQ(one.receive().body, "hello");
  wait_for_request().second->send({.headers = {}, .body = "third"});
  EXPECT_EQ(one.receive().body, "third");
}

TEST_F(ServerTest, LargePipelinedAnswersAreNotKeptInMemory) {
  start();
  std::string all;
  for (int i = 0; i < 20; ++i) all += get("/large");
  TestClient one = client();
  one.send(all + get("/hello"));
  for (int i = 0; i < 20; ++i) ASSERT_EQ(one.receive().body.size(), std::size_t{1} << 20);
  EXPECT_EQ(one.receive().body, "hello");
}

TEST_F(ServerTest, StreamsOneChunkForEachWrite) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  auto [request, responder] = wait_for_request();
  EXPECT_EQ(server_->open_requests(), 1U);
  responder->begin_stream(
      {.headers = {{"cache-control", "no-cache"}}, .content_type = "text/event-stream"});
  const Answer head = one.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("transfer-encoding"), "chunked");
  EXPECT_EQ(head.header("content-type"), "text/event-stream");
  for (int i = 0; i < 10; ++i) {
    responder->write("data: " + std::to_string(i) + "\n\n");
    EXPECT_EQ(one.receive_chunk(), "data: " + std::to_string(i) + "\n\n");
  }
  responder->write("a");
  responder->write("b");
  responder->write("");
  responder->end();
  responder->write("after the end");
  EXPECT_EQ(one.receive_chunk(), "a");
  EXPECT_EQ(one.receive_chunk(), "b");
  EXPECT_EQ(one.receive_chunk(), "") << "the last chunk";
  one.send(get("/hello"));
  EXPECT_EQ(one.receive().body, "hello");
  EXPECT_EQ(server_->open_requests(), 0U);
}

TEST_F(ServerTest, OnlyTheFirstAnswerCounts) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  auto responder = wait_for_request().second;
  responder->send({.headers = {}, .body = "one"});
  responder->send({.headers = {}, .body = "two"});
  responder->begin_stream({});
  responder->write("three");
  responder->end();
  EXPECT_EQ(one.receive().body, "one");
  one.send(get("/hello"));
  EXPECT_EQ(one.receive().body, "hello");
}

TEST_F(ServerTest, AnUnansweredRequestIs500) {
  start();
  TestClient one = client();
  one.send(get("/drop"));
  EXPECT_EQ(one.receive().status, 500);
  one.send(get("/throw"));
  const Answer answer = one.receive();
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("\"error_type\":\"internal\""));
  one.send(get("/hello"));
  EXPECT_EQ(one.receive().status, 200);
  EXPECT_EQ(server_->open_requests(), 0U);
}

TEST_F(ServerTest, AnAbandonedStreamIsCutWithoutItsEnd) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  {
    auto [request, responder] = wait_for_request();
    responder->begin_stream({});
    responder->write("part");
    EXPECT_EQ(one.receive_head().status, 200);
    EXPECT_EQ(one.receive_chunk(), "part");
  }
  EXPECT_TRUE(one.at_end());
}

TEST_F(ServerTest, HeadIsGetWithoutABody) {
  start();
  TestClient one = client();
  one.send("HEAD /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  const Answer answer = one.receive(true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("content-length"), "5");
  one.send("HEAD /later HTTP/1.1\r\nHost: a\r\n\r\n");
  auto responder = wait_for_request().second;
  responder->begin_stream({});
  responder->write("nothing");
  responder->end();
  EXPECT_EQ(one.receive(true).status, 200);
  one.send(get("/hello"));
  EXPECT_EQ(one.receive().body, "hello");
}

TEST_F(ServerTest, UnknownPathsAndMethods) {
  start();
  TestClient one = client();
  for (const char* path :
       {"/", "/hell", "/hello/", "//hello", "/./hello", "/x/../hello", "/HELLO"}) {
    one.send(get(path));
    const Answer answer = one.receive();
    EXPECT_EQ(answer.status, 404) << path;
    EXPECT_EQ(answer.body, R"({"error":"there is no such path","error_type":"not_found"})");
    EXPECT_EQ(answer.header("content-type"), "application/json");
  }
  one.send(get("/%68ello"));
  EXPECT_EQ(one.receive().status, 200) << "decoded once";
  one.send(get("/%2568ello"));
  EXPECT_EQ(one.receive().status, 404) << "not twice";
  one.send(post("/hello", "the body is read, not kept"));
  const Answer wrong = one.receive();
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "GET, HEAD");
  one.send("DELETE /later HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(one.receive().header("allow"), "GET, HEAD, POST");
  one.send("OPTIONS /hello HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(one.receive().status, 405) << "CORS is off";
  one.send(get("/hello"));
  EXPECT_EQ(one.receive().status, 200) << "the connection lives on";
}

TEST_F(ServerTest, RefusalsOfDoubtfulFramingCloseTheConnection) {
  start({.request_line_bytes_max = 100,
         .header_line_bytes_max = 100,
         .header_count_max = 5,
         .body_bytes_max = 10});
  const std::string host = "Host: a\r\n";
  for (const auto& [bytes, status] : std::vector<std::pair<std::string, int>>{
           {"BAD\r\n\r\n", 400},
           {"\x16\x03\x01\x02", 400},
           {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400},
           {"GET /hello HTTP/1.1\nHost: a\n\n", 400},
           {"POST /echo HTTP/1.1\r\n" + host +
                "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400},
           {get("/" + std::string(200, 'x')), 414},
           {get("/hello", "X: " + std::string(200, 'x') + "\r\n"), 431},
           {get("/hello", "A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\n"), 431},
           {"POST /echo HTTP/1.1\r\n" + host + "Content-Length: 11\r\n\r\n", 413},
           {"POST /echo HTTP/1.1\r\n" + host + "Content-Length: 11\r\nExpect: 100-continue\r\n\r\n",
            413},
           {"POST /echo HTTP/1.1\r\n" + host +
                "Transfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n3\r\n",
            413},
           {get("/hello", "Expect: magic\r\n"), 417}}) {
    TestClient one = client();
    one.send(bytes);
    const Answer answer = one.receive();
    EXPECT_EQ(answer.status, status) << bytes;
    EXPECT_EQ(answer.header("connection"), "close") << bytes;
    EXPECT_THAT(answer.body, StartsWith("{\"error\":"));
    EXPECT_EQ(one.n_continues(), 0);
    EXPECT_TRUE(one.at_end()) << bytes;
  }
}

TEST_F(ServerTest, ARefusalCanBeReadWhileTheBodyIsStillSent) {
  start({.body_bytes_max = 1000});
  TestClient one = client();
  one.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n" +
           std::string(60'000, 'x'));
  EXPECT_EQ(one.receive().status, 413);
}

TEST_F(ServerTest, ContinueIsSentOnlyForWhatWillBeRead) {
  start();
  TestClient one = client();
  one.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(one.receive_head().status, 100);
  one.send("abc");
  EXPECT_EQ(one.receive().body, "abc");
  one.send(
      "POST /nowhere HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  const Answer refused = one.receive();
  EXPECT_EQ(refused.status, 404);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(one.n_continues(), 0);
}

TEST_F(ServerTest, CodedBodiesAre415) {
  start();
  TestClient one = client();
  one.send(post("/echo", "xx", "Content-Encoding: gzip\r\n"));
  const Answer answer = one.receive();
  EXPECT_EQ(answer.status, 415);
  EXPECT_THAT(answer.body, HasSubstr("unsupported_media_type"));
  one.send(post("/echo", "xx", "Content-Encoding: Identity\r\n"));
  EXPECT_EQ(one.receive().body, "xx");
}

TEST_F(ServerTest, TheGateDecidesBeforeTheRoutes) {
  auto made = Server::create({.address = "127.0.0.1", .port = 0});
  ASSERT_TRUE(made.ok());
  server_ = std::move(made).value();
  server_->add_route("POST", "/a", [](const auto&, const auto& responder) { responder->send({}); });
  server_->set_gate([](const Request& request) -> std::unique_ptr<Response> {
    if (request.header("authorization") == "Bearer k") return nullptr;
    return std::make_unique<Response>(Response{.status = 401, .headers = {}, .body = "{}"});
  });
  ASSERT_TRUE(server_->start().ok());
  TestClient one = client();
  one.send(post("/a", "secret"));
  EXPECT_EQ(one.receive().status, 401);
  one.send(get("/nowhere"));
  EXPECT_EQ(one.receive().status, 401) << "paths are not disclosed";
  one.send(post("/a", "", "Authorization: Bearer k\r\n"));
  EXPECT_EQ(one.receive().status, 200);
}

TEST_F(ServerTest, CorsForAnyOrigin) {
  start({.cors_allow_origins = {"*"}});
  TestClient one = client();
  one.send(
      "OPTIONS /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://x\r\nAccess-Control-Request-Method: "
      "POST\r\n"
      "Access-Control-Request-Headers: authorization, content-type\r\n\r\n");
  const Answer preflight = one.receive();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "*");
  EXPECT_EQ(preflight.header("access-control-allow-credentials"), "");
  EXPECT_THAT(preflight.header("access-control-allow-headers"), HasSubstr("authorization"));
  EXPECT_THAT(preflight.header("access-control-allow-methods"), HasSubstr("POST"));
  EXPECT_EQ(preflight.header("content-length"), "");
  one.send(get("/hello", "Origin: http://x\r\n"));
  EXPECT_EQ(one.receive().header("access-control-allow-origin"), "*");
  one.send(get("/nowhere", "Origin: http://x\r\n"));
  EXPECT_EQ(one.receive().header("access-control-allow-origin"), "*") << "errors can be read too";
}

TEST_F(ServerTest, CorsForListedOrigins) {
  start({.cors_allow_origins = {"http://good", "http://other"}});
  TestClient one = client();
  one.send(get("/hello", "Origin: http://good\r\n"));
  const Answer good = one.receive();
  EXPECT_EQ(good.header("access-control-allow-origin"), "http://good");
  EXPECT_EQ(good.header("vary"), "origin");
  one.send(get("/hello", "Origin: http://bad\r\n"));
  EXPECT_EQ(one.receive().header("access-control-allow-origin"), "");
}

TEST_F(ServerTest, ErrorBodiesHaveTheShapeAskedFor) {
  start(
      {.body_bytes_max = 4, .error_body = [](std::string_view path, int status, const Status& why) {
         return std::string(path) + "|" + std::to_string(status) + "|" + why.message();
       }});
  EXPECT_EQ(ask(get("/v1/x")).body, "/v1/x|404|there is no such path");
  EXPECT_EQ(ask(post("/echo", "12345")).body, "/echo|413|the body is larger than 4 bytes");
}

TEST_F(ServerTest, RequestIdsOfClientsAreChecked) {
  start();
  TestClient one = client();
  one.send(get("/show", "x-request-id: bad id\r\n"));
  const Answer answer = one.receive();
  EXPECT_THAT(answer.body, Not(HasSubstr("bad id")));
  EXPECT_NE(answer.header("x-request-id"), "");
  one.send(get("/show"));
  EXPECT_NE(one.receive().header("x-request-id"), answer.header("x-request-id"));
}

TEST_F(ServerTest, HeadersOfHandlersCannotSplitTheAnswer) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  wait_for_request().second->send({.headers = {{"x-evil", "a\r\nx-injected: 1"},
                                               {"bad name", "1"},
                                               {"content-length", "999"},
                                               {"x-good", "1"}},
                                   .body = "ok"});
  const Answer answer = one.receive();
  EXPECT_EQ(answer.body, "ok");
  EXPECT_THAT(answer.head, Not(HasSubstr("injected")));
  EXPECT_THAT(answer.head, Not(HasSubstr("bad name")));
  EXPECT_EQ(answer.header("x-good"), "1");
}

TEST_F(ServerTest, ConnectionCloseIsHeeded) {
  start();
  TestClient one = client();
  one.send(get("/hello", "Connection: close\r\n"));
  const Answer answer = one.receive();
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(one.at_end());
}

TEST_F(ServerTest, OldClients) {
  start();
  TestClient one = client();
  one.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(one.receive().header("connection"), "close");
  EXPECT_TRUE(one.at_end());
  TestClient keep = client();
  keep.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(keep.receive().header("connection"), "keep-alive");
  keep.send("GET /later HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  auto responder = wait_for_request().second;
  responder->begin_stream({});
  responder->write("no ");
  responder->write("chunks");
  responder->end();
  const Answer stream = keep.receive();
  EXPECT_EQ(stream.header("transfer-encoding"), "");
  EXPECT_EQ(stream.header("connection"), "close");
  EXPECT_EQ(stream.body, "no chunks");
}

TEST_F(ServerTest, TheLastRequestOfAConnectionSaysSo) {
  start({.requests_per_connection_max = 3});
  TestClient one = client();
  for (int i = 0; i < 3; ++i) {
    one.send(get("/hello"));
    EXPECT_EQ(one.receive().header("connection"), i == 2 ? "close" : "");
  }
  EXPECT_TRUE(one.at_end());
}

TEST_F(ServerTest, ADisconnectIsNoticedWhileAHandlerWorks) {
  start();
  for (const bool streaming : {false, true}) {
    for (const bool reset : {false, true}) {
      TestClient one = client();
      one.send(get("/later"));
      auto responder = wait_for_request().second;
      std::promise<void> gone;
      responder->on_close([&] { gone.set_value(); });
      if (streaming) {
        responder->begin_stream({});
        responder->write("x");
        EXPECT_EQ(one.receive_head().status, 200);
      }
      EXPECT_FALSE(responder->closed());
      reset ? one.reset() : one.close();
      gone.get_future().wait();
      EXPECT_TRUE(responder->closed());
      EXPECT_EQ(server_->open_requests(), 0U);
      responder->write("to nobody");
      responder->end();
      responder->send({});
    }
  }
}

TEST_F(ServerTest, OnCloseAfterTheDisconnectIsCalledAtOnce) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  auto responder = wait_for_request().second;
  std::promise<void> gone;
  responder->on_close([&] { gone.set_value(); });
  one.close();
  gone.get_future().wait();
  bool called = false;
  responder->on_close([&] { called = true; });
  EXPECT_TRUE(called);
}

TEST_F(ServerTest, OnCloseIsNotCalledAfterTheEnd) {
  start();
  std::atomic<int> calls = 0;
  {
    TestClient one = client();
    one.send(get("/later"));
    auto responder = wait_for_request().second;
    responder->on_close([&] { ++calls; });
    responder->send({.headers = {}, .body = "done"});
    EXPECT_EQ(one.receive().body, "done");
    responder->on_close([&] { ++calls; });
  }
  server_->stop();
  EXPECT_EQ(calls, 0);
}

TEST_F(ServerTest, SlowReadersShowInUnsentBytes) {
  start();
  TestClient slow(server_->port(), "127.0.0.1", 4096);
  slow.send(get("/later"));
  auto responder = wait_for_request().second;
  responder->begin_stream({});
  const std::string piece(10'000, 'p');
  std::size_t written = 0;
  while (responder->unsent_bytes() <= std::size_t{256} << 10) {
    responder->write(piece);
    written += piece.size();
    ASSERT_LT(written, std::size_t{64} << 20);
  }
  responder->end();
  const Answer answer = slow.receive();
  EXPECT_EQ(answer.body.size(), written) << "nothing is lost";
}

TEST_F(ServerTest, AStreamWhoseOwnerDoesNotHeedTheLimitIsCut) {
  start({.unsent_bytes_max = 1024});
  TestClient slow(server_->port(), "127.0.0.1", 4096);
  slow.send(get("/later"));
  auto responder = wait_for_request().second;
  std::promise<void> gone;
  responder->on_close([&] { gone.set_value(); });
  responder->begin_stream({});
  const std::string piece(10'000, 'p');
  std::size_t written = 0;
  while (!responder->closed() && written < std::size_t{256} << 20) {
    responder->write(piece);
    written += piece.size();
  }
  gone.get_future().wait();
  EXPECT_TRUE(responder->closed());
}

TEST_F(ServerTest, AStalledClientIsCutOff) {
  start({.stall_timeout = std::chrono::milliseconds(50)});
  TestClient slow(server_->port(), "127.0.0.1", 4096);
  slow.send(get("/later"));
  auto responder = wait_for_request().second;
  std::promise<void> gone;
  responder->on_close([&] { gone.set_value(); });
  responder->begin_stream({});
  while (responder->unsent_bytes() < 200'000 && !responder->closed()) {
    responder->write(std::string(10'000, 'p'));
  }
  gone.get_future().wait();
}

TEST_F(ServerTest, SlowHeadsAndBodiesGet408) {
  start({.header_timeout = std::chrono::milliseconds(30),
         .body_gap_timeout = std::chrono::milliseconds(30)});
  TestClient head = client();
  head.send("GET /hello HTTP/1.1\r\nHost");
  EXPECT_EQ(head.receive().status, 408);
  EXPECT_TRUE(head.at_end());
  TestClient body = client();
  body.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
  const Answer answer = body.receive();
  EXPECT_EQ(answer.status, 408);
  EXPECT_THAT(answer.body, HasSubstr("\"error_type\":\"timeout\""));
  EXPECT_TRUE(body.at_end());
}

TEST_F(ServerTest, ABodyThatDripsGets408) {
  start({.body_timeout = std::chrono::milliseconds(50)});
  TestClient one = client();
  one.send("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  std::thread dripping([&one] {
    for (int i = 0; i < 1'000'000 && one.send("x"); ++i) std::this_thread::yield();
  });
  EXPECT_EQ(one.receive().status, 408);
  dripping.join();
}

TEST_F(ServerTest, IdleConnectionsAreClosed) {
  start({.idle_timeout = std::chrono::milliseconds(30)});
  TestClient fresh = client();
  EXPECT_TRUE(fresh.at_end());
  TestClient used = client();
  used.send(get("/hello"));
  EXPECT_EQ(used.receive().body, "hello");
  EXPECT_TRUE(used.at_end());
}

TEST_F(ServerTest, TooManyConnectionsGet503) {
  start({.connections_max = 3});
  {
    std::deque<TestClient> open;
    for (int i = 0; i < 3; ++i) {
      open.emplace_back(server_->port());
      open.back().send(get("/hello"));
      ASSERT_EQ(open.back().receive().status, 200);
    }
    const Answer answer = ask("");
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.header("retry-after"), "1");
    EXPECT_EQ(answer.header("connection"), "close");
    open.back().send(get("/hello"));
    EXPECT_EQ(open.back().receive().status, 200);
  }
  int status = 503;  // the places are free once the server has seen the closes
  while (status == 503) status = ask(get("/hello")).status;
  EXPECT_EQ(status, 200);
}

TEST_F(ServerTest, ConnectionsOfOneAddressAreLimited) {
  start({.connections_per_address_max = 2});
  TestClient a = client();
  TestClient b = client();
  for (TestClient* one : {&a, &b}) {
    one->send(get("/hello"));
    ASSERT_EQ(one->receive().status, 200);
  }
  EXPECT_EQ(ask("").status, 503);
  TestClient elsewhere(server_->port(), "127.0.0.1");
  EXPECT_EQ(elsewhere.receive().status, 503);
}

TEST_F(ServerTest, RunningOutOfDescriptorsOnlyDelaysAccepting) {
  start();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{.rlim_cur = 128, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  std::vector<int> fillers;
  for (int fd = 0; (fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) {
    fillers.push_back(fd);
  }
  ASSERT_FALSE(fillers.empty());
  close(fillers.back());  // one place, which the client takes
  fillers.pop_back();
  TestClient one = client();
  EXPECT_TRUE(one.send(get("/hello")));
  for (const int fd : fillers) close(fd);
  EXPECT_EQ(one.receive().body, "hello");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(ServerTest, SpeaksIpv6) {
  const int probe = socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 loopback{};
  loopback.sin6_family = AF_INET6;
  loopback.sin6_addr = in6addr_loopback;
  const bool there =
      probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&loopback), sizeof(loopback)) == 0;
  if (probe >= 0) close(probe);
  if (!there) GTEST_SKIP() << "this machine has no IPv6";
  start({.address = "::"});
  TestClient six(server_->port(), "::1");
  six.send(get("/show"));
  EXPECT_THAT(six.receive().body, HasSubstr(" ::1 "));
  TestClient four(server_->port(), "127.0.0.1");
  four.send(get("/show"));
  EXPECT_THAT(four.receive().body, HasSubstr(" 127.0.0.1 "));
}

TEST_F(ServerTest, StartFailsClearly) {
  start();
  auto second = Server::create({.address = "127.0.0.1", .port = server_->port()});
  ASSERT_TRUE(second.ok());
  const Status status = (*second)->start();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1 port " + std::to_string(server_->port())));
  EXPECT_THAT(status.message(), HasSubstr("in use"));
  EXPECT_EQ(Server::create({.address = "nowhere"}).status().code(), Code::kInvalidArgument);
}

TEST_F(ServerTest, StopAcceptingLetsRequestsFinish) {
  start();
  TestClient idle = client();
  idle.send(get("/hello"));
  EXPECT_EQ(idle.receive().status, 200);
  TestClient busy = client();
  busy.send(get("/later"));
  auto responder = wait_for_request().second;
  TestClient streaming = client();
  streaming.send(get("/later"));
  auto stream = wait_for_request().second;
  stream->begin_stream({});
  EXPECT_EQ(streaming.receive_head().status, 200);
  server_->stop_accepting();
  EXPECT_TRUE(idle.at_end());
  EXPECT_FALSE(TestClient(server_->port()).connected());
  EXPECT_EQ(server_->open_requests(), 2U);
  responder->send({.headers = {}, .body = "finished"});
  const Answer answer = busy.receive();
  EXPECT_EQ(answer.body, "finished");
  EXPECT_EQ(answer.header("connection"), "close");
  EXPECT_TRUE(busy.at_end());
  stream->write("last");
  stream->end();
  EXPECT_EQ(streaming.receive_chunk(), "last");
  EXPECT_EQ(streaming.receive_chunk(), "");
  EXPECT_TRUE(streaming.at_end());
  EXPECT_EQ(server_->open_requests(), 0U);
}

TEST_F(ServerTest, StopTellsOpenRequestsAndOutlivingResponders) {
  start();
  TestClient one = client();
  one.send(get("/later"));
  auto responder = wait_for_request().second;
  int calls = 0;
  responder->on_close([&] { ++calls; });
  server_->stop();
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(one.at_end());
  server_ = nullptr;
  responder->send({});
  responder->begin_stream({});
  responder->write("late");
  responder->end();
  EXPECT_TRUE(responder->closed());
}

// Ten rounds over 25 connections; the number of right answers.
int right_echoes(std::uint16_t port, int seed) {
  std::deque<TestClient> clients;
  for (int i = 0; i < 25; ++i) clients.emplace_back(port);
  int right = 0;
  for (int round = 0; round < 10; ++round) {
    const std::string body = std::to_string(seed * 100 + round);
    for (TestClient& one : clients) one.send(post("/echo", body));
    for (TestClient& one : clients) right += one.receive().body == body ? 1 : 0;
  }
  return right;
}

TEST_F(ServerTest, ManyConnectionsAndThreads) {
  start({.threads = 2});
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] { right += right_echoes(server_->port(), t); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 1000);
  EXPECT_EQ(server_->open_requests(), 0U);
}

TEST_F(ServerTest, StreamsFromOtherThreadsWhileClientsLeave) {
  start({.threads = 2});
  std::atomic<int> gone = 0;
  std::thread producer([&] {
    for (int i = 0; i < 60; ++i) {
      auto responder = wait_for_request().second;
      responder->on_close([&gone] { ++gone; });
      responder->begin_stream({});
      for (int n = 0; n < 50; ++n) responder->write("piece\n");
      if (i % 3 != 0) responder->end();
    }
  });
  for (int i = 0; i < 60; ++i) {
    TestClient one = client();
    one.send(get("/later"));
    if (i % 2 == 0) one.receive();
    if (i % 4 == 1) {
      one.receive_head();  // a reset at once could destroy the request before it is read
      one.reset();
    }
  }
  producer.join();
  server_->stop();
  EXPECT_EQ(server_->open_requests(), 0U);
}

}  // namespace
}  // namespace coxswain::http
