// What the server refuses or decides before a handler sees it, and the headers of answers.

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/response_text.h"
#include "http/server.h"
#include "http/test_client.h"
#include "http/test_server.h"

namespace coxswain::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
    EXPECT_EQ(answer.header("x-refused"), "1") << bytes;
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

TEST_F(ServerTest, BodiesOfAllConnectionsTogetherHaveALimit) {
  start({.body_bytes_max = 1000, .bodies_bytes_max = 1500});
  const std::string head = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n";
  TestClient first = client();
  first.send(head + "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(first.receive_head().status, 100);
  first.send(std::string(800, 'x'));
  EXPECT_EQ(ask(get("/hello")).body, "hello");  // sent later, so the 800 bytes have been read
  TestClient second = client();
  second.send(head + "\r\n" + std::string(800, 'y'));
  const Answer refused = second.receive();
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("x-refused"), "1");
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(refused.body, refusal_of(ErrorKind::kOverloaded, "too many bodies at once"));
  EXPECT_TRUE(second.at_end());
  first.send(std::string(200, 'x'));
  EXPECT_EQ(first.receive().body, std::string(1000, 'x'));
  first.send(head + "\r\n" + std::string(1000, 'z'));  // what was held has been given back
  EXPECT_EQ(first.receive().body, std::string(1000, 'z'));
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
  EXPECT_EQ(
      answer.body,
      refusal_of(ErrorKind::kUnsupportedMediaType, "Content-Encoding must be identity or absent"));
  for (const char* plain : {"Content-Encoding: Identity\r\n", "Content-Encoding:\r\n"}) {
    one.send(post("/echo", "xx", plain));
    EXPECT_EQ(one.receive().body, "xx") << plain;
  }
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

// Also those of requests that were never understood.
TEST_F(ServerTest, RefusalsCarryAnIdAndCanBeReadByPages) {
  start({.body_bytes_max = 1000, .cors_allow_origins = {"http://x"}});
  const Answer large =
      ask("POST /echo HTTP/1.1\r\nHost: a\r\nOrigin: http://x\r\nContent-Length: 60000\r\n\r\n");
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.header("access-control-allow-origin"), "http://x");
  EXPECT_NE(large.header("x-request-id"), "");
  const Answer noise = ask("noise\r\n\r\n");
  EXPECT_EQ(noise.status, 400);
  EXPECT_EQ(noise.header("access-control-allow-origin"), "");
  EXPECT_NE(noise.header("x-request-id"), large.header("x-request-id"));
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

TEST_F(ServerTest, RefusalsHaveTheFormAskedFor) {
  start({.body_bytes_max = 4, .refusal = [](std::string_view path, const Status& why) {
           return Response{.status = 200,
                           .headers = {{"x-why", "here"}},
                           .body = std::string(path) + "|" + why.message()};
         }});
  const Answer unknown = ask(get("/v1/x"));
  EXPECT_EQ(unknown.status, 404) << "the status is not the form's to choose";
  EXPECT_EQ(unknown.header("x-why"), "here");
  EXPECT_EQ(unknown.header("content-type"), "application/json");
  EXPECT_EQ(unknown.body, "/v1/x|there is no such path");
  const Answer large = ask(post("/echo", "12345"));
  EXPECT_EQ(large.status, 413);
  EXPECT_EQ(large.body, "/echo|the body must have at most 4 bytes. Given: 5");
}

TEST(PlainRefusal, IsTheMessage) {
  const Response plain = plain_refusal(Status(Code::kNotFound, ErrorKind::kNotFound, "no \"x\""));
  EXPECT_EQ(plain.content_type, "text/plain; charset=utf-8");
  EXPECT_EQ(plain.body, "no \"x\"");
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

}  // namespace
}  // namespace coxswain::http
