// Requests, their answers and the routes.

#include "http/server.h"

#include <future>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/routes.h"
#include "http/test_client.h"
#include "http/test_server.h"

namespace coxswain::http {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(ServerTest, APathMayStandForAllBelowIt) {
  RouteTable routes;
  for (const char* path : {"/a", "/a/*", "/a/b"})
    routes.add("GET", path, [](const auto&, const auto&) {});
  const auto handler = [&](const char* path) { return routes.find(path, "GET"); };
  EXPECT_NE(handler("/a/b"), handler("/a/c"));
  EXPECT_EQ(handler("/a/c"), handler("/a/c/d"));
  EXPECT_NE(handler("/a"), handler("/a/c"));
  EXPECT_EQ(handler("/a/"), nullptr);
  EXPECT_EQ(handler("/ab"), nullptr);
  EXPECT_EQ(routes.allowed("/a/c"), "GET, HEAD");
  EXPECT_EQ(routes.find("/a/c", "POST"), nullptr);
  EXPECT_EQ(routes.nearest("/a*"), "/a");
}

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

// Its loop is busy with another request; what follows the beginning needs it.
TEST_F(ServerTest, TheBeginningOfAStreamWaitsForNoLoop) {
  std::promise<void> busy;
  std::promise<void> go_on;
  run_ = [&] {
    busy.set_value();
    go_on.get_future().wait();
  };
  start();
  TestClient one = client();
  one.send(get("/later"));
  auto responder = wait_for_request().second;
  TestClient other = client();
  other.send(get("/run"));
  busy.get_future().wait();
  responder->begin_stream({.headers = {{"x-a", "b"}}, .content_type = "text/plain", .body = "a"});
  responder->write("b");
  responder->write("c");
  const Answer head = one.receive_head();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.header("x-a"), "b");
  EXPECT_FALSE(head.header("x-request-id").empty());
  EXPECT_EQ(head.header("connection"), "");
  for (const char* text : {"a", "b", "c"}) EXPECT_EQ(one.receive_chunk(), text);
  EXPECT_EQ(responder->unsent_bytes(), 0U);
  responder->write("d");
  EXPECT_GT(responder->unsent_bytes(), 0U);
  go_on.set_value();
  responder->end();
  for (const char* text : {"d", ""}) EXPECT_EQ(one.receive_chunk(), text);
  EXPECT_EQ(other.receive().status, 200);
}

// More than the system takes at once, behind an answer that waits for its reader.
TEST_F(ServerTest, BeginningsKeepTheirPlace) {
  start({.unsent_bytes_max = 4 << 20});  // so that the next request is looked at
  TestClient one(server_->port(), "127.0.0.1", 4096);
  one.send(get("/large") + get("/later") + get("/hello"));
  auto responder = wait_for_request().second;
  const std::string first(8 << 20, 'f');
  responder->begin_stream({.headers = {}, .body = first});
  responder->write("second");
  responder->end();
  EXPECT_EQ(one.receive().body, std::string(1 << 20, 'L'));
  EXPECT_TRUE(one.receive().body == first + "second");
  EXPECT_EQ(one.receive().body, "hello");

  TestClient alone(server_->port(), "127.0.0.1", 4096);
  alone.send(get("/later"));
  responder = wait_for_request().second;
  responder->begin_stream({.headers = {}, .body = first});
  responder->write("second");
  responder->end();
  EXPECT_TRUE(alone.receive().body == first + "second");
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
  EXPECT_EQ(answer.body, refusal_of(ErrorKind::kInternal, "the request was dropped"));
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
       {"/", "/hell", "/hello/", "//hello", "/./hello", "/x/../hello", "/HELLO", "/favicon.ico"}) {
    one.send(get(path));
    const Answer answer = one.receive();
    EXPECT_EQ(answer.status, 404) << path;
    const bool alike = std::string_view(path).find("hell") != std::string_view::npos;
    EXPECT_EQ(answer.body,
              refusal_of(
                  ErrorKind::kNotFound,
                  alike ? "there is no such path; the nearest is /hello" : "there is no such path"))
        << path;
    EXPECT_EQ(answer.header("content-type"), "text/plain");
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

}  // namespace
}  // namespace coxswain::http
