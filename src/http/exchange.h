#pragma once
// Exchange: the answer to one request on its way from any thread to the connection's loop.
//
// Answering threads append under a short lock and wake the loop once; the loop takes what is there.
// The beginning of a stream, which somebody waits for, does not wait for the loop's turn: the answering thread gives it
// to the socket itself, as much as the operating system takes at once.
//
// The exchange outlives neither the bytes nor the connection it speaks to: it holds the connection
// weakly, so a Responder may be kept for as long as its owner likes, even past Server::stop().

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "http/core.h"
#include "http/server.h"

namespace coxswain::http {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // How the body will be framed, known from the request.
  struct Form {
    bool chunked = true;     // false: HTTP/1.0, a stream ends with the connection
    bool head_only = false;  // HEAD: bodies are dropped
    std::size_t unsent_bytes_hard_max = 0;
  };
  // A plain socket that nothing of an earlier answer waits for, and what a head is made of.
  struct Direct {
    int fd = -1;
    std::shared_ptr<const ServerCore> core;
    std::vector<Header> extra_headers;
    // Head, opening events and first token. All that follows is the loop's: it sends what has come meanwhile at once,
    // and there is one for each I/O thread.
    int n_writes = 3;
  };

  Exchange(std::shared_ptr<Loop> loop,
           std::weak_ptr<Connection> connection,
           Form form,
           std::optional<Direct> direct)
      : loop_(std::move(loop)),
        connection_(std::move(connection)),
        form_(form),
        direct_(std::move(direct)) {}

  const Form& form() const { return form_; }

  // From any thread: see Responder.
  void send(Response response);
  void begin_stream(Response head);
  void write(std::string_view bytes);
  void end();
  std::size_t unsent_bytes() const { return unsent_.load(std::memory_order_relaxed); }
  bool closed() const { return gone_.load(std::memory_order_acquire); }
  void on_close(std::function<void()> callback);
  // The Responder was destroyed: an answer that was not ended now never will be.
  void abandon();

  // Of the loop: what has been added since the last call.
  struct Output {
    std::optional<Response> head;  // the first time
    bool whole = false;            // head holds the complete answer
    std::string bytes;             // already framed
    bool ended = false;
    bool dropped = false;  // nobody answered
    bool broken = false;   // close without ending the answer properly
  };
  Output take();
  void bytes_sent(std::size_t n) { unsent_.fetch_sub(n, std::memory_order_relaxed); }
  void bytes_added(std::size_t n) { unsent_.fetch_add(n, std::memory_order_relaxed); }
  // Before the socket is closed: from now on no thread but the loop's touches it.
  void end_direct();
  // The client is gone; calls the callback if the answer has not ended.
  void client_gone();

 private:
  enum class Stage : std::uint8_t { kWaiting, kStreaming, kEnded };
  // After something was added: lets `lock`, which holds mutex_, go and wakes the loop. The analysis does not know what
  // a lock given by reference holds, so it looks at the callers only.
  void wake(base::MutexLock& lock) RELEASE(mutex_) NO_THREAD_SAFETY_ANALYSIS;
  // Gives bytes to the socket if it may; what it did not take waits for the loop. False: nothing waits.
  bool send_now(std::string_view bytes) REQUIRES(mutex_);

  const std::shared_ptr<Loop> loop_;
  const std::weak_ptr<Connection> connection_;
  const Form form_;
  std::atomic<std::size_t> unsent_{0};
  std::atomic<bool> gone_{false};

  base::Mutex mutex_;
  Stage stage_ GUARDED_BY(mutex_) = Stage::kWaiting;
  std::optional<Direct> direct_ GUARDED_BY(mutex_);
  Output output_ GUARDED_BY(mutex_);
  bool wake_posted_ GUARDED_BY(mutex_) = false;
  std::function<void()> on_close_ GUARDED_BY(mutex_);
};

// What a handler holds. Dropping it unanswered is answered with 500.
class ExchangeResponder final : public Responder {
 public:
  explicit ExchangeResponder(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {}
  ~ExchangeResponder() override {
    try {
      exchange_->abandon();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // Out of memory: the connection stays until its client leaves.
    }
  }
  ExchangeResponder(const ExchangeResponder&) = delete;
  ExchangeResponder& operator=(const ExchangeResponder&) = delete;

  void send(Response response) override { exchange_->send(std::move(response)); }
  void begin_stream(Response head) override { exchange_->begin_stream(std::move(head)); }
  void write(std::string_view bytes) override { exchange_->write(bytes); }
  void end() override { exchange_->end(); }
  std::size_t unsent_bytes() const override { return exchange_->unsent_bytes(); }
  bool closed() const override { return exchange_->closed(); }
  void on_close(std::function<void()> callback) override {
    exchange_->on_close(std::move(callback));
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
};

}  // namespace coxswain::http
