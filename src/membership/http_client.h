#pragma once
// HttpClient: requests to an API next door, whole answers and streams of lines, by libcurl.
//
// A call sleeps until bytes come: a stream on which nothing happens costs nothing. A peer that vanished without a word
// is found by TCP keep-alive after about a minute. No redirects, and no proxy: what is asked here is in the same
// network. Certificates are read again for each new connection.
//
// Thread rule: one thread at a time, and the first of a process is made before there are others; stop(): any thread.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "base/mutex.h"

namespace coxswain::membership {

// PEM files; empty: the system's authorities, no certificate of our own.
struct TlsFiles {
  std::string ca{};
  std::string certificate{};
  std::string key{};
};

struct HttpRequest {
  std::string url;
  std::optional<std::string> body{};   // a POST of JSON
  std::vector<std::string> headers{};  // "Name: value"
};

struct HttpAnswer {
  int status = 0;
  std::string body{};
};

// One line of a stream, without its end. False: it is enough.
using LineSink = std::function<bool(std::string_view line)>;

class HttpClient {
 public:
  explicit HttpClient(TlsFiles files);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // Errors: kUnavailable if nobody answers within `patience`; kResourceExhausted above 32 MiB; kCancelled after stop().
  Result<HttpAnswer> ask(const HttpRequest& request, std::chrono::milliseconds patience);
  // Gives the lines of a 200 to `sink` until the peer or the sink ends it, for `lifetime` at most; then the answer has
  // no body. Any other status is an answer as of ask(). Errors: those of ask(), where the head of the answer has 10 s;
  // kUnavailable if the stream breaks off.
  // `on_open` is called with the head of a 200.
  Result<HttpAnswer> follow(const HttpRequest& request,
                            const LineSink& sink,
                            std::chrono::milliseconds lifetime,
                            const std::function<void()>& on_open = {});

  // Sleeps. False at once after stop().
  bool pause(std::chrono::milliseconds time) EXCLUDES(mu_);
  // Ends what runs and whatever is called later.
  void stop() EXCLUDES(mu_);
  bool stopped() const { return stopped_.load(); }

 private:
  struct Transfer;
  Result<HttpAnswer> run(Transfer& transfer);

  const TlsFiles files_;
  void* const multi_;  // libcurl's; its connections stay open between calls
  std::atomic<bool> stopped_{false};
  base::Mutex mu_;
  base::CondVar changed_;
};

}  // namespace coxswain::membership
