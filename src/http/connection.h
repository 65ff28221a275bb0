#pragma once
// Connection: one client's socket, from accept to close. Requests are served one after the other; pipelined bytes wait.
//
//   idle -> head -> body -> handling -> idle ...
//                               |
//                               '--> lingering -> closed
//
// It lingers after the answer to a request that was refused with its framing in doubt, after the last request
// that it may serve, and when the server drains: what the client still sends is read and dropped, so that it can
// read the answer.
//
// Reading goes on while a handler works, so a client that leaves is noticed at once; it stops while kPipelinedBytesMax
// wait or the client does not take its answers.
//
// With TLS the same bytes pass through a TlsSession first and last. Until the handshake is done nothing is parsed or
// sent but its own, within the time that the headers of a request have; who does not speak TLS is let go unanswered.
//
// Thread rule: every member runs on the loop's thread.

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>

#include "http/core.h"
#include "http/exchange.h"
#include "http/request_parser.h"
#include "security/tls.h"

namespace coxswain::http {

inline constexpr std::size_t kPipelinedBytesMax = 64 << 10;
inline constexpr std::size_t kLingerBytesMax = 64 << 10;
inline constexpr std::chrono::milliseconds kLingerTime{1000};
// A stream whose owner does not heed unsent_bytes_max is cut at so many times that.
inline constexpr std::size_t kUnsentHardFactor = 64;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // `refusal`: the census has let it in if it is empty; otherwise this is what the client is told before the connection
  // closes, a literal.
  Connection(std::shared_ptr<ServerCore> core,
             std::shared_ptr<Loop> loop,
             boost::asio::generic::stream_protocol::socket socket,
             std::string address,
             std::string_view refusal);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();
  // An exchange has something to send.
  void on_output();
  // Closes at once if idle; otherwise after the answer.
  void drain();
  void close();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase : std::uint8_t { kServing, kLingering, kClosed };

  // Input.
  void wait_readable();
  void on_readable();
  void on_bytes(std::string_view bytes);
  bool on_sealed(std::string_view bytes);
  void resume_input();
  std::size_t process(std::string_view bytes);
  bool may_parse() const;

  // Requests.
  void on_head();
  void on_complete();
  void prepare_request();
  std::unique_ptr<Response> early_answer();
  std::unique_ptr<Response> preflight_answer() const;
  Response refusal_of(int status, const Status& why) const;
  void run_handler(const Handler& handler);
  void refuse(int status, const Status& why);
  bool count_body();

  // Output.
  void answer(Response response);
  void take_output();
  void after_output();
  std::string_view origin() const;
  std::vector<Header> extra_headers() const;
  void queue_head(Response& head, bool whole, const Exchange::Form& form);
  void finish_exchange();
  void write_more();
  std::string_view next_to_send();
  void on_sent(std::size_t n);
  void on_written(std::size_t n);
  std::size_t queued_bytes() const { return sending_.size() - sent_ + queued_.size(); }
  bool has_unsent() const { return queued_bytes() > 0 || sealed_sent_ < sealed_.size(); }
  bool may_send_text() const { return tls_ == nullptr || tls_->established(); }
  void say_goodbye();
  void linger_when_sent();
  void begin_linger();

  // Time.
  void update_deadline();
  Clock::time_point next_deadline() const;
  void arm_timer();
  void on_timer();

  const std::shared_ptr<ServerCore> core_;
  const std::shared_ptr<Loop> loop_;
  boost::asio::generic::stream_protocol::socket socket_;
  boost::asio::steady_timer timer_;
  const std::string address_;
  const std::string_view refusal_;
  const std::unique_ptr<security::TlsSession> tls_;  // null: plain HTTP

  Phase phase_ = Phase::kServing;
  RequestParser parser_;
  std::string input_;  // received, not yet parsed
  bool waiting_readable_ = false;
  bool input_ended_ = false;  // the client has half-closed
  bool processing_ = false;
  bool close_after_answer_ = false;  // no further request is read
  std::size_t n_requests_ = 0;
  std::size_t lingered_bytes_ = 0;
  std::size_t counted_body_bytes_ = 0;  // in core_->bodies_bytes

  std::shared_ptr<Request> request_;    // from head to answer
  std::unique_ptr<Response> early_;     // decided before the body was read
  std::shared_ptr<Exchange> exchange_;  // while a handler works
  bool output_pending_ = false;         // on_output() was called while processing_

  std::string sending_;  // given to the socket
  std::size_t sent_ = 0;
  std::string queued_;  // next
  std::string sealed_;  // of TLS: what the socket is given in place of sending_
  std::size_t sealed_sent_ = 0;
  std::size_t sealed_text_bytes_ = 0;  // of sending_ that are in sealed_
  std::size_t ahead_bytes_ = 0;        // of earlier answers, before those of exchange_
  bool writing_ = false;
  std::vector<std::shared_ptr<const void>> held_;  // until all of the above is sent

  Clock::time_point phase_began_{};  // of idle, head, or lingering
  Clock::time_point body_began_{};
  Clock::time_point last_input_{};
  Clock::time_point last_progress_{};  // of output
  Clock::time_point armed_until_ = Clock::time_point::max();
};

}  // namespace coxswain::http
