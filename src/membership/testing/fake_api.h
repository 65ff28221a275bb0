#pragma once
// An API server whose every answer the test gives, and a listener that keeps what a source tells.

#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "http/server.h"
#include "membership/membership.h"

namespace coxswain::membership {

inline constexpr std::chrono::seconds kTestPatience{
    60};  // a bug fails the test, it does not hang it

class FakeApi {
 public:
  struct Call {
    std::shared_ptr<const http::Request> request;
    std::shared_ptr<http::Responder> responder;

    void answer(int status, std::string body) const {
      responder->send({.status = status, .body = std::move(body)});
    }
    // Begins a stream, with a first line if there is one.
    void stream(const std::string& line = "") const {
      responder->begin_stream({});
      if (!line.empty()) responder->write(line + "\n");
    }
    void line(const std::string& text) const { responder->write(text + "\n"); }
  };

  FakeApi() { start(); }
  ~FakeApi() { stop(); }
  FakeApi(const FakeApi&) = delete;
  FakeApi& operator=(const FakeApi&) = delete;

  // The port is the same after stop() and start().
  void start() {
    auto made = http::Server::create({.address = "127.0.0.1", .port = port_});
    ASSERT_TRUE(made.ok());
    server_ = std::move(made).value();
    for (const char* method : {"GET", "POST"}) {
      server_->add_route(method, "/*", [this](auto request, auto responder) {
        {
          const base::MutexLock lock(mu_);
          calls_.push_back({std::move(request), std::move(responder)});
        }
        changed_.notify_all();
      });
    }
    const Status status = server_->start();
    ASSERT_TRUE(status.ok()) << status.message();
    port_ = server_->port();
  }
  void stop() {
    if (server_) server_->stop();
    server_.reset();
  }
  // REQUIRES: that somebody calls. Who lets go of it before it is answered ends the connection.
  Call next() {
    base::MutexLock lock(mu_);
    if (!changed_.wait_for(
            lock, kTestPatience, [this]() REQUIRES(mu_) { return !calls_.empty(); })) {
      ADD_FAILURE() << "nobody calls";
      std::abort();
    }
    Call first = std::move(calls_.front());
    calls_.pop_front();
    return first;
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  std::unique_ptr<http::Server> server_;
  std::uint16_t port_ = 0;
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<Call> calls_ GUARDED_BY(mu_);
};

class ToldLists {
 public:
  OnChange listener() {
    return [this](const Members& members) {
      {
        const base::MutexLock lock(mu_);
        lists_.push_back(members);
      }
      changed_.notify_all();
    };
  }
  // The next list, as "name=address/role#incarnation" with blanks between.
  std::string next() {
    base::MutexLock lock(mu_);
    if (!changed_.wait_for(lock, kTestPatience, [this]() REQUIRES(mu_) { return !lists_.empty(); }))
      return "nothing told";
    std::string out;
    for (const Member& member : lists_.front()) {
      out += (out.empty() ? "" : " ") + member.name + "=" + member.address + "/" +
             std::string(name_of(member.role)) + "#" + member.incarnation;
    }
    lists_.pop_front();
    return out;
  }
  std::size_t n_waiting() {
    const base::MutexLock lock(mu_);
    return lists_.size();
  }

 private:
  base::Mutex mu_;
  base::CondVar changed_;
  std::deque<Members> lists_ GUARDED_BY(mu_);
};

// Until `holds` does. False after kTestPatience.
template <typename Holds>
bool eventually(const Holds& holds) {
  const auto by = std::chrono::steady_clock::now() + kTestPatience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > by) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace coxswain::membership
