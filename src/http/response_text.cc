#include "http/response_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "http/syntax.h"

namespace coxswain::http {
namespace {

void append_header(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

bool belongs_to_framing(std::string_view name) {
  constexpr std::array<std::string_view, 6> kNames{
      "content-length", "transfer-encoding", "connection", "content-type", "date", "keep-alive"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) {
    return equal_ignoring_case(name, known);
  });
}

}  // namespace

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 424:
      return "Failed Dependency";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 529:  // Anthropic's
      return "Overloaded";
    default:
      return "Status";
  }
}

Response plain_refusal(const Status& why) {
  return {.content_type = "text/plain; charset=utf-8", .body = why.message()};
}

bool is_bodiless(int status) {
  return status == 204 || status == 304 || status < 200;
}

void append_head(std::string& out,
                 const Response& response,
                 const Framing& framing,
                 std::string_view date,
                 const std::vector<Header>& extra) {
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(reason_phrase(response.status)).append("\r\n");
  append_header(out, "date", date);
  if (!is_bodiless(response.status)) {
    if (!response.content_type.empty() && is_printable(response.content_type)) {
      append_header(out, "content-type", response.content_type);
    }
    if (framing.chunked) {
      append_header(out, "transfer-encoding", "chunked");
    } else if (framing.content_length) {
      append_header(out, "content-length", std::to_string(*framing.content_length));
    }
  }
  if (framing.close) {
    append_header(out, "connection", "close");
  } else if (framing.keep_alive_to_old) {
    append_header(out, "connection", "keep-alive");
  }
  for (const std::vector<Header>* headers : {&response.headers, &extra}) {
    for (const auto& [name, value] : *headers) {
      if (is_token(name) && is_printable(value) && !belongs_to_framing(name)) {
        append_header(out, name, value);
      }
    }
  }
  out += "\r\n";
}

void append_chunk(std::string& out, std::string_view bytes) {
  if (bytes.empty()) return;
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16);
  out.append(digits.data(), end.ptr).append("\r\n").append(bytes).append("\r\n");
}

std::string http_date(std::int64_t seconds_since_epoch) {
  constexpr std::array<const char*, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths{
      "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto seconds = static_cast<std::time_t>(seconds_since_epoch);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 40> text{};
  const std::size_t length =
      std::strftime(text.data(), text.size(), ", %d MMM %Y %H:%M:%S GMT", &parts);
  std::string out = kDays[static_cast<std::size_t>(parts.tm_wday)];
  out.append(text.data(), length);
  return out.replace(out.find("MMM"), 3, kMonths[static_cast<std::size_t>(parts.tm_mon)]);
}

const std::string& http_date_now() {
  thread_local std::int64_t second = -1;
  thread_local std::string date;
  const std::int64_t now = std::time(nullptr);
  if (std::exchange(second, now) != now) date = http_date(now);
  return date;
}

}  // namespace coxswain::http
