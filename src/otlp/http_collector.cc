#include <utility>

#include <curl/curl.h>

#include "otlp/collector.h"
#include "proto/otlp_trace.pb.h"

namespace coxswain::otlp {
namespace {

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

std::size_t ignore_body(const char*, std::size_t size, std::size_t n, void*) {
  return size * n;
}

bool may_pass(long status) {
  return status == 429 || (status >= 502 && status <= 504);
}

class HttpCollector final : public Collector {
 public:
  explicit HttpCollector(std::string url)
      : url_(std::move(url)),
        headers_(curl_slist_append(nullptr, "Content-Type: application/x-protobuf"),
                 curl_slist_free_all) {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    easy_.reset(curl_easy_init());
  }

  Status send(const TraceRequest& request, std::chrono::milliseconds patience) override {
    if (!easy_ || !headers_) return internal_error("libcurl gives no handle");
    const std::string body = request.SerializeAsString();
    CURL* easy = easy_.get();
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(patience.count()));
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "coxswain");
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ignore_body);
    if (const CURLcode code = curl_easy_perform(easy); code != CURLE_OK)
      return {Code::kUnavailable, curl_easy_strerror(code)};
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300) return {};
    return {may_pass(status) ? Code::kUnavailable : Code::kInvalidArgument,
            "the collector answers " + std::to_string(status)};
  }

 private:
  std::string url_;
  Headers headers_;
  Easy easy_{nullptr, curl_easy_cleanup};
};

}  // namespace

std::unique_ptr<Collector> make_http_collector(std::string endpoint) {
  return std::make_unique<HttpCollector>(std::move(endpoint));
}

}  // namespace coxswain::otlp
