#include "hub/curl_fetcher.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include <curl/curl.h>

namespace coxswain::hub {
namespace {

constexpr long kRedirectsMax = 5;
constexpr long kConnectSeconds = 10;
constexpr long kSilenceSeconds = 30;
constexpr std::size_t kMessageBytesMax = 256;

using Easy = std::unique_ptr<CURL, decltype(&curl_easy_cleanup)>;
using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

struct Transfer {
  CURL* easy = nullptr;
  const FetchSink* sink = nullptr;
  FetchHead head{};
  Status failure{};
};

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The value of the header line if it has this name, which is in lower case.
std::string_view value_of(std::string_view line, std::string_view name) {
  if (line.size() <= name.size() || line[name.size()] != ':') return {};
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (lower(line[i]) != name[i]) return {};
  }
  line.remove_prefix(name.size() + 1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  while (!line.empty() && (line.back() == '\r' || line.back() == '\n' || line.back() == ' ')) {
    line.remove_suffix(1);
  }
  return line;
}

std::size_t on_header(const char* bytes, std::size_t size, std::size_t n, void* to) {
  FetchHead& head = static_cast<Transfer*>(to)->head;
  const std::string_view line(bytes, size * n);
  if (line.starts_with("HTTP/")) head = {};  // of the redirect before
  if (std::string_view range = value_of(line, "content-range"); range.starts_with("bytes ")) {
    range.remove_prefix(6);
    std::from_chars(range.data(), range.data() + range.size(), head.offset);
    const std::string_view total = range.substr(std::min(range.find('/'), range.size() - 1) + 1);
    std::uint64_t value = 0;  // "*" is none
    const auto read = std::from_chars(total.data(), total.data() + total.size(), value);
    if (read.ec == std::errc() && read.ptr == total.data() + total.size()) head.total = value;
  }
  for (const char c : value_of(line, "x-error-message").substr(0, kMessageBytesMax)) {
    head.message += c >= ' ' && c <= '~' ? c : '?';
  }
  return size * n;
}

std::size_t on_body(const char* bytes, std::size_t size, std::size_t n, void* to) {
  auto& transfer = *static_cast<Transfer*>(to);
  long status = 0;
  curl_easy_getinfo(transfer.easy, CURLINFO_RESPONSE_CODE, &status);
  transfer.head.status = static_cast<int>(status);
  if (status != 200 && status != 206) return 0;  // its text is not wanted: ends the transfer
  transfer.failure = (*transfer.sink)(transfer.head, {bytes, size * n});
  return transfer.failure.ok() ? size * n : 0;
}

class CurlFetcher final : public Fetcher {
 public:
  explicit CurlFetcher(bool plain_http) : protocols_(plain_http ? "http,https" : "https") {
    curl_global_init(CURL_GLOBAL_DEFAULT);
    easy_.reset(curl_easy_init());
  }

  Result<FetchHead> get(const FetchRequest& request, const FetchSink& sink) override {
    if (!easy_) return internal_error("libcurl gives no handle");
    Transfer transfer{.easy = easy_.get(), .sink = &sink};
    const Headers headers = set_up(request, transfer);
    const CURLcode code = curl_easy_perform(easy_.get());
    if (!transfer.failure.ok()) return transfer.failure;
    long status = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    transfer.head.status = static_cast<int>(status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_.get(), CURLINFO_RETRY_AFTER, &seconds);
    transfer.head.retry_after = std::chrono::seconds(seconds);
    const bool is_body = status == 200 || status == 206;
    if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && !is_body)) return transfer.head;
    return Status(Code::kUnavailable, curl_easy_strerror(code));
  }

 private:
  Headers set_up(const FetchRequest& request, Transfer& transfer) {
    CURL* easy = easy_.get();
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, protocols_);
    curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, protocols_);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, kRedirectsMax);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, kSilenceSeconds);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "coxswain");
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);
    // As a range, not as RESUME_FROM: a server that ignores it is seen in the head, not as an error.
    std::string range = std::to_string(request.offset) + "-";
    if (request.end > 0) range += std::to_string(request.end - 1);
    if (request.offset > 0 || request.end > 0) curl_easy_setopt(easy, CURLOPT_RANGE, range.c_str());
    curl_slist* headers = nullptr;
    if (!request.token.empty()) {
      // libcurl keeps a header of this name from other hosts, ports and protocols (since 7.58 and 7.83).
      headers = curl_slist_append(headers, ("Authorization: Bearer " + request.token).c_str());
      curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    }
    return {headers, curl_slist_free_all};
  }

  const char* protocols_;
  Easy easy_{nullptr, curl_easy_cleanup};
};

}  // namespace

std::unique_ptr<Fetcher> make_curl_fetcher(bool plain_http) {
  return std::make_unique<CurlFetcher>(plain_http);
}

}  // namespace coxswain::hub
