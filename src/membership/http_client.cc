#include "membership/http_client.h"

#include <algorithm>
#include <array>

#include <curl/curl.h>

namespace coxswain::membership {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr long kConnectMs = 5'000;
constexpr milliseconds kHeadPatience{10'000};
// A peer is gone after 30 s of silence and three questions 10 s apart.
constexpr long kKeepAliveIdleSeconds = 30;
constexpr long kKeepAliveIntervalSeconds = 10;
constexpr std::size_t kBodyBytesMax = 32 << 20;
// Sleeps end with bytes, with stop(), or when libcurl has something to do.
constexpr milliseconds kSleepMax{3'600'000};

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

CURLM* make_multi() {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  return curl_multi_init();
}

}  // namespace

struct HttpClient::Transfer {
  const HttpRequest* request = nullptr;
  const LineSink* sink = nullptr;  // null: the body is wanted whole
  const std::function<void()>* on_open = nullptr;
  Clock::time_point head_by{};
  Clock::time_point end_by{};

  CURL* easy = nullptr;
  HttpAnswer answer{};
  bool has_head = false;
  bool is_enough = false;  // the sink has said so
  bool is_too_large = false;
  std::array<char, CURL_ERROR_SIZE> words{};

  bool is_stream() const { return sink != nullptr && answer.status == 200; }

  static std::size_t on_body(const char* bytes, std::size_t size, std::size_t n, void* to) {
    auto& self = *static_cast<Transfer*>(to);
    return self.take({bytes, size * n}) ? size * n : 0;
  }
  static std::size_t on_header(const char* bytes, std::size_t size, std::size_t n, void* to) {
    auto& self = *static_cast<Transfer*>(to);
    if (std::string_view(bytes, size * n) == "\r\n") {
      long status = 0;
      curl_easy_getinfo(self.easy, CURLINFO_RESPONSE_CODE, &status);
      self.answer.status = static_cast<int>(status);
      self.has_head = status >= 200;
      if (self.is_stream() && self.on_open != nullptr) (*self.on_open)();
    }
    return size * n;
  }

  bool take(std::string_view bytes) {
    std::string& kept = answer.body;
    is_too_large = kept.size() + bytes.size() > kBodyBytesMax;
    if (is_too_large) return false;
    kept.append(bytes);
    if (!is_stream()) return true;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = kept.find('\n', begin)) != std::string::npos;
         begin = end + 1) {
      const std::string_view line = std::string_view(kept).substr(begin, end - begin);
      if (line.empty() || (*sink)(line)) continue;
      is_enough = true;
      return false;
    }
    kept.erase(0, begin);
    return true;
  }

  Headers set_up(const TlsFiles& files) {
    curl_easy_setopt(easy, CURLOPT_URL, request->url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, long{CURL_HTTP_VERSION_1_1});
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, kConnectMs);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "coxswain");
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, kKeepAliveIdleSeconds);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, words.data());
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy, CURLOPT_CA_CACHE_TIMEOUT, 0L);  // files of authorities are renewed
    if (!files.ca.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, files.ca.c_str());
    if (!files.certificate.empty()) {
      curl_easy_setopt(easy, CURLOPT_SSLCERT, files.certificate.c_str());
      curl_easy_setopt(easy, CURLOPT_SSLKEY, files.key.c_str());
    }
    curl_slist* headers = nullptr;
    for (const std::string& header : request->headers)
      headers = curl_slist_append(headers, header.c_str());
    if (request->body) {
      headers = curl_slist_append(headers, "Content-Type: application/json");
      curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, curl_off_t(request->body->size()));
      curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body->c_str());
    }
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    return {headers, curl_slist_free_all};
  }
};

HttpClient::HttpClient(TlsFiles files) : files_(std::move(files)), multi_(make_multi()) {}

HttpClient::~HttpClient() {
  curl_multi_cleanup(multi_);
}

Result<HttpAnswer> HttpClient::ask(const HttpRequest& request, milliseconds patience) {
  const auto by = Clock::now() + patience;
  Transfer transfer{.request = &request, .head_by = by, .end_by = by};
  return run(transfer);
}

Result<HttpAnswer> HttpClient::follow(const HttpRequest& request,
                                      const LineSink& sink,
                                      milliseconds lifetime,
                                      const std::function<void()>& on_open) {
  const auto now = Clock::now();
  Transfer transfer{.request = &request,
                    .sink = &sink,
                    .on_open = on_open ? &on_open : nullptr,
                    .head_by = now + kHeadPatience,
                    .end_by = now + lifetime};
  return run(transfer);
}

Result<HttpAnswer> HttpClient::run(Transfer& transfer) {
  const Easy easy(curl_easy_init(), curl_easy_cleanup);
  if (!easy || multi_ == nullptr) return internal_error("libcurl gives no handle");
  transfer.easy = easy.get();
  const Headers headers = transfer.set_up(files_);
  curl_multi_add_handle(multi_, easy.get());
  CURLcode code = CURLE_OK;
  bool is_late = false;
  bool is_done = false;
  while (!stopped_) {
    int n_running = 0;
    curl_multi_perform(multi_, &n_running);
    int n_left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &n_left)) {
      is_done = message->msg == CURLMSG_DONE;
      code = message->data.result;
    }
    if (is_done) break;
    const auto by =
        transfer.has_head ? transfer.end_by : std::min(transfer.head_by, transfer.end_by);
    const auto left = std::chrono::ceil<milliseconds>(by - Clock::now());
    is_late = left <= milliseconds(0);
    if (is_late) break;
    curl_multi_poll(
        multi_, nullptr, 0, static_cast<int>(std::min(left, kSleepMax).count()), nullptr);
  }
  curl_multi_remove_handle(multi_, easy.get());
  if (!is_done && !is_late) return Status(Code::kCancelled, "stopped");
  if (transfer.is_too_large) {
    return Status(Code::kResourceExhausted,
                  "an answer is larger than " + std::to_string(kBodyBytesMax) + " bytes");
  }
  // A stream ends well with its last line, at the sink's wish, or when it has lasted long enough.
  if (transfer.is_stream() && (transfer.is_enough || is_late || code == CURLE_OK)) {
    transfer.answer.body.clear();
    return std::move(transfer.answer);
  }
  if (is_late) return Status(Code::kUnavailable, "no answer in time");
  if (code == CURLE_OK) return std::move(transfer.answer);
  const char* words =
      transfer.words.front() != 0 ? transfer.words.data() : curl_easy_strerror(code);
  return Status(Code::kUnavailable, words);
}

bool HttpClient::pause(milliseconds time) {
  base::MutexLock lock(mu_);
  changed_.wait_for(lock, time, [&] { return stopped_.load(); });
  return !stopped_;
}

void HttpClient::stop() {
  {
    const base::MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.notify_all();
  curl_multi_wakeup(multi_);
}

}  // namespace coxswain::membership
