#include "http/exchange.h"

#include <utility>

#include <boost/asio/post.hpp>
#include <sys/socket.h>

#include "http/connection.h"
#include "http/response_text.h"

namespace coxswain::http {

namespace {

constexpr std::size_t kHeadBytes = 512;  // that most heads do not exceed

}  // namespace

void Exchange::wake(base::MutexLock& lock) {
  const bool post = !std::exchange(wake_posted_, true);
  lock.unlock();
  if (!post) return;
  if (loop_->in_loop()) {
    if (const auto connection = connection_.lock()) connection->on_output();
    return;
  }
  // Nothing in the queue may keep the connection alive: the loop may already have ended.
  boost::asio::post(loop_->io, [connection = connection_] {
    if (const auto alive = connection.lock()) alive->on_output();
  });
}

void Exchange::send(Response response) {
  base::MutexLock lock(mutex_);
  if (stage_ != Stage::kWaiting || closed()) return;
  stage_ = Stage::kEnded;
  direct_.reset();
  output_.head = std::move(response);
  output_.whole = true;
  output_.ended = true;
  const auto dropped = std::exchange(on_close_, nullptr);
  wake(lock);
}

void Exchange::begin_stream(Response head) {
  base::MutexLock lock(mutex_);
  if (stage_ != Stage::kWaiting || closed()) return;
  stage_ = Stage::kStreaming;
  if (direct_ && !direct_->core->draining.load(std::memory_order_relaxed)) {
    std::string text;
    text.reserve(kHeadBytes + head.body.size());
    const Framing framing{.chunked = true, .content_length = std::nullopt};
    append_head(text, head, framing, http_date_now(), direct_->extra_headers);
    append_chunk(text, head.body);
    if (send_now(text)) wake(lock);
    return;
  }
  direct_.reset();
  output_.head = std::move(head);
  wake(lock);
}

bool Exchange::send_now(std::string_view bytes) {
  const ssize_t n = ::send(direct_->fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  bytes.remove_prefix(n > 0 ? static_cast<std::size_t>(n) : 0);
  // An error is the loop's to find.
  if (--direct_->n_writes == 0 || !bytes.empty()) direct_.reset();
  if (bytes.empty()) return false;
  output_.bytes += bytes;
  bytes_added(bytes.size());
  return true;
}

void Exchange::end_direct() {
  const base::MutexLock lock(mutex_);
  direct_.reset();
}

void Exchange::write(std::string_view bytes) {
  base::MutexLock lock(mutex_);
  if (stage_ != Stage::kStreaming || closed() || bytes.empty() || form_.head_only) return;
  if (direct_) {
    std::string text;
    append_chunk(text, bytes);
    if (send_now(text)) wake(lock);
    return;
  }
  const std::size_t before = output_.bytes.size();
  if (form_.chunked) {
    append_chunk(output_.bytes, bytes);
  } else {
    output_.bytes += bytes;
  }
  bytes_added(output_.bytes.size() - before);
  if (unsent_bytes() > form_.unsent_bytes_hard_max) output_.broken = true;
  wake(lock);
}

void Exchange::end() {
  base::MutexLock lock(mutex_);
  if (stage_ != Stage::kStreaming) return;
  stage_ = Stage::kEnded;
  if (closed()) return;
  if (form_.chunked && !form_.head_only) {
    output_.bytes += kLastChunk;
    bytes_added(kLastChunk.size());
  }
  output_.ended = true;
  const auto dropped = std::exchange(on_close_, nullptr);
  wake(lock);
}

void Exchange::abandon() {
  base::MutexLock lock(mutex_);
  if (stage_ == Stage::kWaiting) {
    stage_ = Stage::kEnded;
    if (closed()) return;
    output_.dropped = true;
    output_.whole = true;
    output_.ended = true;
    const auto dropped = std::exchange(on_close_, nullptr);
    wake(lock);
  } else if (stage_ == Stage::kStreaming) {
    stage_ = Stage::kEnded;
    if (closed()) return;
    output_.broken = true;
    const auto dropped = std::exchange(on_close_, nullptr);
    wake(lock);
  }
}

void Exchange::on_close(std::function<void()> callback) {
  {
    const base::MutexLock lock(mutex_);
    if (stage_ == Stage::kEnded) return;
    if (!closed()) {
      on_close_ = std::move(callback);
      return;
    }
  }
  callback();
}

Exchange::Output Exchange::take() {
  const base::MutexLock lock(mutex_);
  wake_posted_ = false;
  return std::exchange(output_, Output());
}

void Exchange::client_gone() {
  std::function<void()> callback;
  {
    const base::MutexLock lock(mutex_);
    gone_.store(true, std::memory_order_release);
    callback = std::exchange(on_close_, nullptr);
    output_ = Output();
  }
  if (callback) callback();
}

}  // namespace coxswain::http
