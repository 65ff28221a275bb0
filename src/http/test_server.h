#pragma once
// A server with small routes for tests, and the requests that /later keeps for the test to answer.

#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "http/server.h"
#include "http/test_client.h"

namespace coxswain::http {

inline std::string post(const std::string& path,
                        const std::string& body,
                        const std::string& headers = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// What the tests' server says where it refuses: the number of the kind, and the message.
inline std::string refusal_of(ErrorKind kind, std::string_view message) {
  return std::to_string(static_cast<int>(kind)) + ": " + std::string(message);
}
inline Response refusal_text(std::string_view, const Status& why) {
  return {.headers = {{"x-refused", "1"}},
          .content_type = "text/plain",
          .body = refusal_of(why.kind(), why.message())};
}

inline std::string get(const std::string& path, const std::string& headers = "") {
  return "GET " + path + " HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n";
}

class ServerTest : public ::testing::Test {
 protected:
  using Kept = std::pair<std::shared_ptr<const Request>, std::shared_ptr<Responder>>;

  void start(ServerOptions options = {}) {
    options.address = options.address == "0.0.0.0" ? "127.0.0.1" : options.address;
    options.port = 0;
    if (!options.refusal) options.refusal = refusal_text;
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
    server_->add_route("GET", "/run", [this](const auto&, const auto& responder) {
      run_();
      responder->send({});
    });
    server_->add_route("GET", "/drop", [](const auto&, const auto&) {});
    server_->add_route(
        "GET", "/throw", [](const auto&, const auto&) { throw std::runtime_error("no"); });
    for (const char* method : {"GET", "POST"}) {
      server_->add_route(method, "/later", [this](const auto& request, const auto& responder) {
        const base::MutexLock lock(mutex_);
        kept_.emplace_back(request, responder);
        changed_.notify_all();
      });
    }
    const Status status = server_->start();
    ASSERT_TRUE(status.ok()) << status.message();
  }

  Kept wait_for_request() {
    base::MutexLock lock(mutex_);
    changed_.wait(lock, [this]() REQUIRES(mutex_) { return !kept_.empty(); });
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

  std::function<void()> run_;  // on the loop, for /run
  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Kept> kept_ GUARDED_BY(mutex_);
  std::unique_ptr<Server> server_;
};

}  // namespace coxswain::http
