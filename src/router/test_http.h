#pragma once
// An HTTP server for tests: keeps the routes and calls their handlers directly.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "http/routes.h"
#include "http/server.h"

namespace coxswain::router {

class FakeResponder final : public http::Responder {
 public:
  void send(http::Response response) override {
    base::MutexLock lock(mu_);
    if (answered_) return;
    answered_ = ended_ = true;
    response_ = std::move(response);
    changed_.notify_all();
  }
  void begin_stream(http::Response head) override {
    const std::string first = std::exchange(head.body, {});
    {
      base::MutexLock lock(mu_);
      if (answered_) return;
      answered_ = streaming_ = true;
      response_ = std::move(head);
      changed_.notify_all();
    }
    if (!first.empty()) write(first);
  }
  void write(std::string_view bytes) override {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return !writes_held_; });
    if (ended_) return;
    chunks_.emplace_back(bytes);
    changed_.notify_all();
  }
  void end() override {
    base::MutexLock lock(mu_);
    ended_ = true;
    changed_.notify_all();
  }
  std::size_t unsent_bytes() const override {
    base::MutexLock lock(mu_);
    return unsent_;
  }
  bool closed() const override {
    base::MutexLock lock(mu_);
    return closed_;
  }
  void on_close(std::function<void()> callback) override {
    {
      base::MutexLock lock(mu_);
      if (!closed_) {
        callback_ = std::move(callback);
        return;
      }
    }
    callback();
  }

  // The client goes away.
  void close() {
    std::function<void()> callback;
    {
      base::MutexLock lock(mu_);
      closed_ = true;
      callback = std::move(callback_);
    }
    if (callback) callback();
  }
  void set_unsent(std::size_t bytes) {
    base::MutexLock lock(mu_);
    unsent_ = bytes;
  }
  // While held, write() does not return.
  void hold_writes(bool hold) {
    base::MutexLock lock(mu_);
    writes_held_ = hold;
    changed_.notify_all();
  }
  void wait_for_end() {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return ended_; });
  }
  void wait_for_chunks(std::size_t n) {
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return chunks_.size() >= n; });
  }
  bool streaming() const {
    base::MutexLock lock(mu_);
    return streaming_;
  }
  http::Response response() const {
    base::MutexLock lock(mu_);
    return response_;
  }
  std::vector<std::string> chunks() const {
    base::MutexLock lock(mu_);
    return chunks_;
  }
  std::string header(std::string_view name) const {
    base::MutexLock lock(mu_);
    for (const auto& [key, value] : response_.headers) {
      if (key == name) return value;
    }
    return {};
  }

 private:
  mutable base::Mutex mu_;
  base::CondVar changed_;
  bool answered_ GUARDED_BY(mu_) = false;
  bool streaming_ GUARDED_BY(mu_) = false;
  bool ended_ GUARDED_BY(mu_) = false;
  bool closed_ GUARDED_BY(mu_) = false;
  bool writes_held_ GUARDED_BY(mu_) = false;
  std::size_t unsent_ GUARDED_BY(mu_) = 0;
  http::Response response_ GUARDED_BY(mu_);
  std::vector<std::string> chunks_ GUARDED_BY(mu_);
  std::function<void()> callback_ GUARDED_BY(mu_);
};

class FakeServer final : public http::Server {
 public:
  void add_route(std::string method, std::string path, http::Handler handler) override {
    routes_.add(std::move(method), std::move(path), std::move(handler));
  }
  void set_gate(
      std::function<std::unique_ptr<http::Response>(const http::Request&)> gate) override {
    gate_ = std::move(gate);
  }
  Status start() override { return {}; }
  std::uint16_t port() const override { return 0; }
  void stop_accepting() override {}
  std::size_t open_requests() const override { return 0; }
  void stop() override {}

  // Hands the request to its handler, past the gate. Null if there is no such route.
  std::shared_ptr<FakeResponder> call(http::Request request) {
    auto responder = std::make_shared<FakeResponder>();
    const http::Handler* handler = routes_.find(request.path, request.method);
    if (handler == nullptr) return nullptr;
    request.received = std::chrono::steady_clock::now();
    if (gate_) {
      if (auto refusal = gate_(request)) {
        responder->send(std::move(*refusal));
        return responder;
      }
    }
    (*handler)(std::make_shared<const http::Request>(std::move(request)), responder);
    return responder;
  }
  std::shared_ptr<FakeResponder> post(std::string path, std::string body) {
    http::Request request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"content-type", "application/json"}};
    request.body = std::move(body);
    return call(std::move(request));
  }
  std::shared_ptr<FakeResponder> get(std::string path) {
    http::Request request;
    request.method = "GET";
    request.path = std::move(path);
    return call(std::move(request));
  }

 private:
  http::RouteTable routes_;
  std::function<std::unique_ptr<http::Response>(const http::Request&)> gate_;
};

}  // namespace coxswain::router
