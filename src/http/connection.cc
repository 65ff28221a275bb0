#include "http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <boost/asio/buffer.hpp>

#include "http/syntax.h"

namespace coxswain::http {
namespace {

using Socket = boost::asio::generic::stream_protocol::socket;
using boost::system::error_code;

// An idle connection does not hold on to the memory of a large answer.
constexpr std::size_t kKeptBytesMax = 16 << 10;
constexpr std::size_t kSealedAtOnce = 64 << 10;
constexpr std::size_t kRecordBytesMax = 16 << 10;  // text in one record of TLS

constexpr auto kNever = std::chrono::steady_clock::time_point::max();

}  // namespace

Connection::Connection(std::shared_ptr<ServerCore> core,
                       std::shared_ptr<Loop> loop,
                       Socket socket,
                       std::string address,
                       std::string_view refusal)
    : core_(std::move(core)),
      loop_(std::move(loop)),
      socket_(std::move(socket)),
      timer_(loop_->io),
      address_(std::move(address)),
      refusal_(refusal),
      tls_(core_->options.tls ? core_->options.tls->new_session() : nullptr),
      parser_(core_->parser_limits) {}

Connection::~Connection() {
  core_->bodies_bytes.fetch_sub(counted_body_bytes_, std::memory_order_relaxed);
  if (refusal_.empty()) {
    core_->census.leave(address_);
  } else {
    core_->refusing.fetch_sub(1, std::memory_order_relaxed);
  }
}

void Connection::start() {
  phase_began_ = last_input_ = last_progress_ = Clock::now();
  if (!refusal_.empty()) {
    refuse(503, {Code::kResourceExhausted, ErrorKind::kUnavailable, std::string(refusal_)});
    write_more();
  }
  wait_readable();
  update_deadline();
}

// ---- input

bool Connection::may_parse() const {
  return phase_ == Phase::kServing && exchange_ == nullptr && !close_after_answer_ &&
         queued_bytes() <= core_->options.unsent_bytes_max;
}

void Connection::wait_readable() {
  if (waiting_readable_ || input_ended_ || phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kServing && input_.size() >= kPipelinedBytesMax) return;
  waiting_readable_ = true;
  socket_.async_wait(Socket::wait_read, [self = shared_from_this()](const error_code& error) {
    self->waiting_readable_ = false;
    if (self->phase_ == Phase::kClosed) return;
    if (error) return self->close();
    self->on_readable();
  });
}

void Connection::on_readable() {
  error_code error;
  const std::size_t n = socket_.read_some(boost::asio::buffer(loop_->scratch), error);
  bool ended = error == boost::asio::error::eof;
  if (error && !ended && error != boost::asio::error::would_block) return close();
  const std::string_view bytes(loop_->scratch.data(), n);
  if (phase_ == Phase::kLingering) {
    lingered_bytes_ += n;
    if (lingered_bytes_ > kLingerBytesMax) return close();
  } else if (tls_ != nullptr && n > 0) {
    ended = on_sealed(bytes);
    if (phase_ == Phase::kClosed) return;
  } else if (n > 0) {
    on_bytes(bytes);
  }
  if (ended && phase_ == Phase::kServing && exchange_ == nullptr && queued_bytes() > 0) {
    // The client has said all it wants to and reads on: it gets the answers that are ready.
    input_ended_ = true;
    close_after_answer_ = true;
    return;
  }
  if (ended) return close();
  wait_readable();
  update_deadline();
}

void Connection::on_bytes(std::string_view bytes) {
  last_input_ = Clock::now();
  if (parser_.idle() && input_.empty() && exchange_ == nullptr) phase_began_ = last_input_;
  if (!input_.empty() || !may_parse()) {
    input_ += bytes;
    resume_input();
  } else {
    const std::size_t used = process(bytes);
    input_ = bytes.substr(used);
  }
}

// Bytes of TLS. True if they were the client's last.
bool Connection::on_sealed(std::string_view bytes) {
  const bool was_established = tls_->established();
  loop_->opened.resize(kRecordBytesMax);
  tls_->receive(bytes);
  while (const std::size_t n = tls_->read(loop_->opened)) {
    on_bytes({loop_->opened.data(), n});
    if (phase_ != Phase::kServing) return false;
  }
  if (!was_established && tls_->established()) phase_began_ = Clock::now();
  if (tls_->state() != security::TlsSession::State::kBroken) {
    write_more();  // what TLS itself has to say, and what waited for the handshake
    return tls_->state() == security::TlsSession::State::kEnded;
  }
  if (exchange_ != nullptr || has_unsent()) {
    close();
    return false;
  }
  say_goodbye();  // why not
  begin_linger();
  return false;
}

void Connection::resume_input() {
  if (input_.empty() || !may_parse()) return;
  const std::string bytes = std::exchange(input_, {});
  input_ = bytes.substr(process(bytes));
}

// Serves what the bytes hold, up to the first request that a handler keeps. Returns the bytes used.
std::size_t Connection::process(std::string_view bytes) {
  processing_ = true;
  std::size_t used = 0;
  while (may_parse()) {
    const RequestParser::Step step = parser_.parse(bytes.substr(used));
    used += step.consumed;
    if (!count_body()) {
      refuse(429, {Code::kResourceExhausted, ErrorKind::kOverloaded, "too many bodies at once"});
    } else if (step.event == RequestParser::Event::kNeedMore) {
      break;
    } else if (step.event == RequestParser::Event::kHead) {
      on_head();
    } else if (step.event == RequestParser::Event::kComplete) {
      on_complete();
    } else {
      const Refusal& refusal = parser_.refusal();
      refuse(refusal.status, refusal.why);
    }
    if (std::exchange(output_pending_, false)) take_output();
    if (used == bytes.size() && parser_.idle()) break;
  }
  processing_ = false;
  write_more();
  return used;
}

// ---- requests

void Connection::on_head() {
  body_began_ = Clock::now();
  prepare_request();
  early_ = early_answer();
  const ParsedHead& head = parser_.head();
  if (!head.has_body()) return;
  if (early_ != nullptr) {
    parser_.discard_body();
    if (!head.expects_continue) return;
    close_after_answer_ = true;  // the body may or may not come now
    answer(std::move(*std::exchange(early_, nullptr)));
  } else if (head.expects_continue) {
    queued_ += "HTTP/1.1 100 Continue\r\n\r\n";
  }
}

void Connection::prepare_request() {
  ParsedHead& head = parser_.head();
  ++n_requests_;
  request_ = std::make_shared<Request>();
  request_->method = std::move(head.method);
  request_->path = std::move(head.path);
  request_->query = std::move(head.query);
  request_->headers = std::move(head.headers);
  request_->remote_address = address_;
  const std::string_view id = request_->header("x-request-id");
  request_->request_id = is_request_id(id) ? std::string(id) : core_->next_request_id();
}

// Whatever can be answered without the body. CORS preflights carry no key, so they come before the gate.
std::unique_ptr<Response> Connection::early_answer() {
  if (auto preflight = preflight_answer()) return preflight;
  try {
    if (core_->gate) {
      if (auto refused = core_->gate(*request_)) return refused;
    }
  } catch (const std::exception&) {
    return std::make_unique<Response>(refusal_of(500, internal_error("the request failed")));
  }
  if (!core_->routes.has_path(request_->path)) {
    std::string text = "there is no such path";
    const std::string_view nearest = core_->routes.nearest(request_->path);
    if (!nearest.empty()) text.append("; the nearest is ").append(nearest);
    const Status why{Code::kNotFound, ErrorKind::kNotFound, std::move(text)};
    return std::make_unique<Response>(refusal_of(404, why));
  }
  if (core_->routes.find(request_->path, request_->method) == nullptr) {
    const std::string allowed = core_->routes.allowed(request_->path);
    const Status why{
        Code::kInvalidArgument, ErrorKind::kMethodNotAllowed, "this path takes " + allowed};
    auto response = std::make_unique<Response>(refusal_of(405, why));
    response->headers.emplace_back("allow", allowed);
    return response;
  }
  const bool coded =
      std::any_of(request_->headers.begin(), request_->headers.end(), [](const Header& header) {
        return equal_ignoring_case(header.first, "content-encoding") && !header.second.empty() &&
               !equal_ignoring_case(header.second, "identity");
      });
  if (!coded) return nullptr;
  const Status why{Code::kInvalidArgument,
                   ErrorKind::kUnsupportedMediaType,
                   "Content-Encoding must be identity or absent"};
  return std::make_unique<Response>(refusal_of(415, why));
}

std::unique_ptr<Response> Connection::preflight_answer() const {
  if (request_->method != "OPTIONS" || !core_->cors.enabled() ||
      !core_->routes.has_path(request_->path) ||
      core_->routes.find(request_->path, "OPTIONS") != nullptr) {
    return nullptr;
  }
  auto response = std::make_unique<Response>();
  response->status = 204;
  response->headers.emplace_back("allow", core_->routes.allowed(request_->path) + ", OPTIONS");
  CorsPolicy::append_preflight_headers(response->headers);
  return response;
}

Response Connection::refusal_of(int status, const Status& why) const {
  const std::string& path = request_ != nullptr ? request_->path : parser_.head().path;
  return core_->refusal(path, status, why);
}

void Connection::on_complete() {
  const bool last = n_requests_ >= core_->options.requests_per_connection_max ||
                    core_->draining.load(std::memory_order_relaxed);
  if (!parser_.head().keep_alive || last) close_after_answer_ = true;
  if (early_ != nullptr) {
    answer(std::move(*std::exchange(early_, nullptr)));
    return;
  }
  request_->body = std::exchange(parser_.body(), {});
  count_body();
  request_->received = Clock::now();
  run_handler(*core_->routes.find(request_->path, request_->method));
}

void Connection::run_handler(const Handler& handler) {
  const Exchange::Form form{
      .chunked = parser_.head().minor_version == 1,
      .head_only = request_->method == "HEAD",
      .unsent_bytes_hard_max = core_->options.unsent_bytes_max * kUnsentHardFactor};
  std::optional<Exchange::Direct> direct;
  if (tls_ == nullptr && form.chunked && !form.head_only && !has_unsent() && !close_after_answer_)
    direct = {.fd = socket_.native_handle(), .core = core_, .extra_headers = extra_headers()};
  exchange_ = std::make_shared<Exchange>(loop_, weak_from_this(), form, std::move(direct));
  ahead_bytes_ = queued_bytes();
  core_->open_requests.fetch_add(1, std::memory_order_relaxed);
  try {
    handler(request_, std::make_shared<ExchangeResponder>(exchange_));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // The responder is gone with the call, which answers 500, unless the handler kept it and will answer.
  }
}

// Brings the server's count of body bytes up to date. False if this body has grown although all of
// them together are larger than they may be.
bool Connection::count_body() {
  const std::size_t held = parser_.body().size();
  const std::size_t before = std::exchange(counted_body_bytes_, held);
  if (held == before) return true;
  // The difference may be negative: sums of unsigned numbers come out right all the same.
  const std::size_t change = held - before;
  const std::size_t all = core_->bodies_bytes.fetch_add(change, std::memory_order_relaxed) + change;
  return held < before || all <= std::max(core_->options.bodies_bytes_max, held);
}

// An answer whose framing is in doubt, or a server that is full: nothing more is read.
void Connection::refuse(int status, const Status& why) {
  close_after_answer_ = true;
  early_ = nullptr;
  answer(refusal_of(status, why));
}

// ---- output

// An answer made here, without a handler.
void Connection::answer(Response response) {
  const Exchange::Form form{.chunked = parser_.head().minor_version == 1,
                            .head_only = request_ != nullptr && request_->method == "HEAD"};
  queue_head(response, true, form);
  finish_exchange();
}

// What the request said about where it comes from, as far as it has been read.
std::string_view Connection::origin() const {
  const auto& headers = request_ != nullptr ? request_->headers : parser_.head().headers;
  const auto found = std::find_if(headers.begin(), headers.end(), [](const Header& header) {
    return equal_ignoring_case(header.first, "origin");
  });
  return found == headers.end() ? std::string_view() : found->second;
}

// Those that an answer has beside its own.
std::vector<Header> Connection::extra_headers() const {
  std::vector<Header> out;
  out.emplace_back("x-request-id",
                   request_ != nullptr ? request_->request_id : core_->next_request_id());
  core_->cors.append_headers(origin(), out);
  return out;
}

void Connection::queue_head(Response& head, bool whole, const Exchange::Form& form) {
  const bool old_client = parser_.head().minor_version == 0;
  if (old_client && !whole) close_after_answer_ = true;
  if (core_->draining.load(std::memory_order_relaxed)) close_after_answer_ = true;
  Framing framing{.chunked = form.chunked && !whole,
                  .content_length = std::nullopt,
                  .close = close_after_answer_,
                  .keep_alive_to_old = old_client};
  if (whole) framing.content_length = head.body.size();
  if (head.held) held_.push_back(std::move(head.held));
  append_head(queued_, head, framing, http_date_now(), extra_headers());
  if (form.head_only || is_bodiless(head.status)) return;
  if (framing.chunked) {
    append_chunk(queued_, head.body);
  } else {
    queued_ += head.body;
  }
}

void Connection::on_output() {
  if (processing_) {
    output_pending_ = true;
    return;
  }
  take_output();
  after_output();
}

void Connection::take_output() {
  if (exchange_ == nullptr || phase_ != Phase::kServing) return;
  Exchange::Output output = exchange_->take();
  if (output.dropped) output.head = refusal_of(500, internal_error("the request was dropped"));
  const std::size_t before = queued_.size();
  if (output.head) queue_head(*output.head, output.whole, exchange_->form());
  exchange_->bytes_added(queued_.size() - before);
  queued_ += output.bytes;
  if (output.broken) return close();
  if (output.ended) finish_exchange();
}

void Connection::after_output() {
  write_more();
  resume_input();
  wait_readable();
  update_deadline();
}

// The answer is queued in full: on to the next request, or to the end.
void Connection::finish_exchange() {
  if (exchange_ != nullptr) {
    exchange_ = nullptr;
    core_->open_requests.fetch_sub(1, std::memory_order_relaxed);
  }
  if (core_->draining.load(std::memory_order_relaxed)) close_after_answer_ = true;
  request_ = nullptr;
  parser_.reset();
  count_body();
  phase_began_ = Clock::now();
}

void Connection::write_more() {
  if (writing_ || processing_ || phase_ != Phase::kServing) return;
  if (sent_ == sending_.size() && may_send_text()) {
    sending_.clear();
    if (sending_.capacity() > kKeptBytesMax) sending_ = std::string();
    sent_ = 0;
    std::swap(sending_, queued_);
    last_progress_ = Clock::now();
  }
  const std::string_view next = next_to_send();
  if (next.empty()) {
    if (queued_bytes() > 0) return;  // waits for the handshake, or cannot be sent
    held_.clear();
    linger_when_sent();
    return;
  }
  writing_ = true;
  socket_.async_write_some(boost::asio::buffer(next.data(), next.size()),
                           [self = shared_from_this()](const error_code& error, std::size_t n) {
                             self->writing_ = false;
                             if (self->phase_ == Phase::kClosed) return;
                             if (error) return self->close();
                             self->on_sent(n);
                           });
}

// What the socket is to be given.
std::string_view Connection::next_to_send() {
  if (tls_ == nullptr) return std::string_view(sending_).substr(sent_);
  if (sealed_sent_ == sealed_.size()) {
    sealed_.clear();
    if (sealed_.capacity() > kKeptBytesMax && sent_ == sending_.size()) sealed_ = std::string();
    sealed_sent_ = 0;
    const std::string_view text = std::string_view(sending_).substr(sent_, kSealedAtOnce);
    sealed_text_bytes_ = text.size();
    if (!text.empty() && !tls_->write(text)) {
      close();
      return {};
    }
    tls_->take_output(sealed_);
    last_progress_ = Clock::now();
  }
  return std::string_view(sealed_).substr(sealed_sent_);
}

// The operating system has taken `n` bytes. Text counts as written once all of it that was sealed together is.
void Connection::on_sent(std::size_t n) {
  if (tls_ == nullptr) return on_written(n);
  sealed_sent_ += n;
  on_written(sealed_sent_ == sealed_.size() ? std::exchange(sealed_text_bytes_, 0) : 0);
}

void Connection::on_written(std::size_t n) {
  last_progress_ = Clock::now();
  sent_ += n;
  const std::size_t earlier = std::min(n, ahead_bytes_);
  ahead_bytes_ -= earlier;
  if (exchange_ != nullptr) exchange_->bytes_sent(n - earlier);
  after_output();
}

void Connection::linger_when_sent() {
  if (!close_after_answer_ || exchange_ != nullptr) return;
  say_goodbye();
  begin_linger();
}

// The last word of TLS, if the operating system has room for it: so the client knows that nothing was cut off.
void Connection::say_goodbye() {
  if (tls_ == nullptr) return;
  tls_->end();
  std::string last;
  tls_->take_output(last);
  error_code ignored;
  if (!last.empty()) socket_.write_some(boost::asio::buffer(last), ignored);
}

// Half-closes and waits for the client to do the same, so that it can read the answer before a
// reset could destroy it.
void Connection::begin_linger() {
  error_code error;
  socket_.shutdown(Socket::shutdown_send, error);
  if (error) return close();
  phase_ = Phase::kLingering;
  phase_began_ = Clock::now();
  input_.clear();
  wait_readable();
  update_deadline();
}

void Connection::drain() {
  const bool idle = exchange_ == nullptr && parser_.idle() && input_.empty() && queued_bytes() == 0;
  if (phase_ == Phase::kServing && idle) close();
}

void Connection::close() {
  if (phase_ == Phase::kClosed) return;
  if (phase_ == Phase::kServing && exchange_ == nullptr && !has_unsent()) say_goodbye();
  phase_ = Phase::kClosed;
  const auto self = shared_from_this();  // the loop's reference may be the last
  if (exchange_ != nullptr) exchange_->end_direct();
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  held_.clear();
  loop_->connections.erase(self);
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    core_->open_requests.fetch_sub(1, std::memory_order_relaxed);
    exchange->client_gone();
  }
}

// ---- time

Connection::Clock::time_point Connection::next_deadline() const {
  const ServerOptions& options = core_->options;
  if (phase_ == Phase::kLingering) return phase_began_ + kLingerTime;
  if (!may_send_text()) return phase_began_ + options.header_timeout;
  Clock::time_point deadline = kNever;
  if (has_unsent()) deadline = last_progress_ + options.stall_timeout;
  if (exchange_ != nullptr || close_after_answer_) return deadline;
  if (parser_.idle()) return std::min(deadline, phase_began_ + options.idle_timeout);
  if (!parser_.in_body()) return std::min(deadline, phase_began_ + options.header_timeout);
  return std::min(
      {deadline, body_began_ + options.body_timeout, last_input_ + options.body_gap_timeout});
}

// The timer is moved only when the deadline comes closer; a later one is noticed when the timer fires.
void Connection::update_deadline() {
  if (phase_ != Phase::kClosed && next_deadline() < armed_until_) arm_timer();
}

void Connection::arm_timer() {
  armed_until_ = next_deadline();
  if (armed_until_ == kNever) return;
  timer_.expires_at(armed_until_);
  timer_.async_wait([self = shared_from_this()](const error_code& error) {
    if (!error && self->phase_ != Phase::kClosed) self->on_timer();
  });
}

void Connection::on_timer() {
  const Clock::time_point now = Clock::now();
  if (next_deadline() > now) return arm_timer();
  armed_until_ = kNever;
  if (!may_send_text()) return close();
  const bool stalled = has_unsent() && last_progress_ + core_->options.stall_timeout <= now;
  if (phase_ == Phase::kLingering || stalled || parser_.idle()) return close();
  refuse(408, {Code::kDeadlineExceeded, ErrorKind::kTimeout, "the request came too slowly"});
  write_more();
  update_deadline();
}

}  // namespace coxswain::http
