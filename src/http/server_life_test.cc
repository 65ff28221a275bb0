// Limits of connections, addresses, start and stop, many threads.

#include <fcntl.h>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/un.h>

#include "http/server.h"
#include "http/test_client.h"
#include "http/test_server.h"

namespace coxswain::http {
namespace {

using ::testing::HasSubstr;

TEST_F(ServerTest, AUnixSocketThatItIsGiven) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  // The system chooses a name that is no file's.
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(sa_family_t)), 0);
  socklen_t size = sizeof(address);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  start({.bound_socket = listener});
  EXPECT_EQ(server_->port(), 0);
  const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
  const std::string request = get("/show", "Connection: close\r\nx-request-id: 7\r\n");
  ASSERT_EQ(send(client, request.data(), request.size(), 0), static_cast<ssize_t>(request.size()));
  std::string answer(1000, '\0');
  answer.resize(static_cast<std::size_t>(recv(client, answer.data(), answer.size(), MSG_WAITALL)));
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_THAT(answer, HasSubstr("GET /show  unix 7 "));
  close(client);
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
    EXPECT_EQ(answer.header("x-refused"), "1");
    EXPECT_EQ(answer.header("connection"), "close");
    EXPECT_THAT(answer.body, HasSubstr("--connections-max"));
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
  const Answer third = ask("");
  EXPECT_EQ(third.status, 503);
  EXPECT_THAT(third.body, HasSubstr("--connections-per-address-max"));
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
