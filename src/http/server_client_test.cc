// Clients that leave, read slowly or send slowly.

#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/server.h"
#include "http/test_client.h"
#include "http/test_server.h"

namespace coxswain::http {
namespace {

using ::testing::HasSubstr;

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

TEST_F(ServerTest, WhatAnAnswerHoldsIsLetGoWhenItHasLeft) {
  start();
  for (const bool reads : {true, false}) {
    TestClient one(server_->port(), "127.0.0.1", 4096);
    one.send(get("/later"));
    std::promise<void> let_go;
    auto done = let_go.get_future();
    Response response{.headers = {}, .body = std::string(std::size_t{32} << 20, 'a')};
    response.held = std::shared_ptr<const void>(&let_go, [&](const void*) { let_go.set_value(); });
    wait_for_request().second->send(std::move(response));
    if (reads) {
      EXPECT_EQ(one.receive().body.size(), std::size_t{32} << 20);
    } else {
      EXPECT_NE(done.wait_for(std::chrono::seconds(0)), std::future_status::ready);
      one.close();
    }
    done.wait();
  }
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
  EXPECT_EQ(answer.body, refusal_of(ErrorKind::kTimeout, "the request came too slowly"));
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

}  // namespace
}  // namespace coxswain::http
