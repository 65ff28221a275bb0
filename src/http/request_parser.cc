#include "http/request_parser.h"

#include <algorithm>
#include <charconv>

#include "http/syntax.h"

namespace coxswain::http {
namespace {

constexpr std::uint64_t kContentLengthMax = std::uint64_t{1} << 53;
constexpr std::size_t kChunkSizeDigitsMax = 15;
constexpr std::size_t kChunkExtensionBytesMax = 16 << 10;  // in one body
constexpr std::size_t kChunkLineBytesMax = kChunkSizeDigitsMax + kChunkExtensionBytesMax;

// What may stand in a request line: nothing else needs to be waited for.
bool is_request_line_text(std::string_view text) {
  return is_printable(text);
}

std::optional<std::uint64_t> decimal(std::string_view text) {
  std::uint64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c >= '0' && c <= '9';
  });
  if (!digits) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "/path?query" of an absolute target ("http://host/path?query"); neither scheme nor Host ever decide anything.
std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    const std::size_t slash = target.find('/', scheme.size());
    return slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target;
}

}  // namespace

bool RequestParser::refuse(int status, ErrorKind kind, std::string message) {
  const Code code = status == 413 || status == 414 || status == 431 ? Code::kResourceExhausted
                                                                    : Code::kInvalidArgument;
  refusal_ = {status, Status(code, kind, std::move(message))};
  state_ = State::kRefused;
  return false;
}

void RequestParser::reset() {
  *this = RequestParser(limits_);
}

RequestParser::Step RequestParser::parse(std::string_view bytes) {
  const std::size_t total = bytes.size();
  while (state_ != State::kComplete && state_ != State::kRefused) {
    if (state_ == State::kBody || state_ == State::kChunkData) {
      take_body(bytes);
      if (remaining_ > 0) break;
      state_ = state_ == State::kBody ? State::kComplete : State::kChunkEnd;
      continue;
    }
    if (!take_line(bytes)) break;
    const bool in_head = state_ <= State::kHeaders;
    if (!on_line()) break;
    line_.clear();
    if (in_head && state_ > State::kHeaders && !head_reported_) {
      head_reported_ = true;
      return {Event::kHead, total - bytes.size()};
    }
  }
  const Event event = state_ == State::kComplete  ? Event::kComplete
                      : state_ == State::kRefused ? Event::kRefused
                                                  : Event::kNeedMore;
  return {event, total - bytes.size()};
}

bool RequestParser::line_too_long() {
  switch (state_) {
    case State::kRequestLine:
      if (line_.size() <= limits_.request_line_bytes_max) return false;
      refuse(414,
             ErrorKind::kUriTooLong,
             "the request line is longer than " + std::to_string(limits_.request_line_bytes_max) +
                 " bytes");
      return true;
    case State::kChunkSize:
      if (line_.size() <= kChunkLineBytesMax) return false;
      refuse(400, ErrorKind::kBadRequest, "a chunk size line is too long");
      return true;
    case State::kChunkEnd:
      if (line_.empty()) return false;
      refuse(400, ErrorKind::kBadRequest, "a chunk is not followed by CRLF");
      return true;
    default:
      if (line_.size() <= limits_.header_line_bytes_max) return false;
      refuse(431,
             ErrorKind::kHeadersTooLarge,
             "a header line is longer than " + std::to_string(limits_.header_line_bytes_max) +
                 " bytes");
      return true;
  }
}

bool RequestParser::take_line(std::string_view& bytes) {
  // A CR is kept in line_ until the LF behind it has been seen.
  while (!bytes.empty()) {
    const bool after_cr = !line_.empty() && line_.back() == '\r';
    if (after_cr) {
      if (bytes.front() != '\n') {
        return refuse(400, ErrorKind::kBadRequest, "CR without LF");
      }
      line_.pop_back();
      bytes.remove_prefix(1);
      return true;
    }
    const std::size_t stop = std::min(bytes.find_first_of("\r\n"), bytes.size());
    // One byte above the limit is enough to refuse, so no more is kept.
    const std::size_t room =
        std::max(
            {limits_.request_line_bytes_max, limits_.header_line_bytes_max, kChunkLineBytesMax}) +
        1;
    const std::string_view part = bytes.substr(0, std::min(stop, room));
    // The fault that stands first in the line counts, wherever the bytes were cut.
    if (state_ == State::kRequestLine &&
        !is_request_line_text(part.substr(0, limits_.request_line_bytes_max - line_.size()))) {
      return refuse(400, ErrorKind::kBadRequest, "this is not an HTTP/1.1 request");
    }
    line_ += part;
    if (line_too_long()) return false;
    bytes.remove_prefix(part.size());
    if (part.size() < stop || bytes.empty()) continue;
    if (bytes.front() == '\n') return refuse(400, ErrorKind::kBadRequest, "LF without CR");
    line_ += '\r';
    bytes.remove_prefix(1);
  }
  return false;
}

bool RequestParser::on_line() {
  switch (state_) {
    case State::kRequestLine:
      return on_request_line();
    case State::kHeaders:
      return line_.empty() ? on_head_end() : on_header_line(&head_.headers);
    case State::kChunkSize:
      return on_chunk_size();
    case State::kChunkEnd:
      state_ = State::kChunkSize;  // line_too_long() has seen that the line is empty
      return true;
    case State::kTrailers:
      if (!line_.empty()) return on_header_line(nullptr);
      state_ = State::kComplete;
      return true;
    case State::kBody:
    case State::kChunkData:
    case State::kComplete:
    case State::kRefused:
      break;
  }
  return refuse(500, ErrorKind::kInternal, "the parser lost its way");
}

bool RequestParser::on_request_line() {
  if (line_.empty() && !empty_line_skipped_) {
    empty_line_skipped_ = true;  // RFC 9112 2.2: some clients end a body with one
    return true;
  }
  const std::string_view line = line_;
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) {
    return refuse(400, ErrorKind::kBadRequest, "the request line is not `METHOD target HTTP/1.1`");
  }
  const std::string_view method = line.substr(0, first);
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return refuse(400, ErrorKind::kBadRequest, "only HTTP/1.1 and HTTP/1.0 are spoken here");
  }
  if (!is_token(method)) return refuse(400, ErrorKind::kBadRequest, "the method is malformed");
  const std::string_view origin = origin_form(target);
  const bool asterisk = origin == "*" && method == "OPTIONS";
  if (origin.find_first_of(" #") != std::string_view::npos ||
      (!origin.starts_with('/') && !asterisk)) {
    return refuse(400, ErrorKind::kBadRequest, "the request target is malformed");
  }
  const std::size_t question = std::min(origin.find('?'), origin.size());
  auto path = percent_decoded(origin.substr(0, question));
  if (!path) return refuse(400, ErrorKind::kBadRequest, "the path has a malformed escape");
  head_.method = method;
  head_.path = *std::move(path);
  head_.query = origin.substr(std::min(question + 1, origin.size()));
  head_.minor_version = version.back() - '0';
  state_ = State::kHeaders;
  return true;
}

bool RequestParser::on_header_line(std::vector<Header>* headers) {
  header_bytes_ += line_.size() + 2;
  const std::size_t count = headers != nullptr ? headers->size() : trailer_count_++;
  if (count >= limits_.header_count_max) {
    return refuse(431,
                  ErrorKind::kHeadersTooLarge,
                  "there are more than " + std::to_string(limits_.header_count_max) + " headers");
  }
  if (header_bytes_ > limits_.headers_bytes_max) {
    return refuse(
        431,
        ErrorKind::kHeadersTooLarge,
        "the headers are larger than " + std::to_string(limits_.headers_bytes_max) + " bytes");
  }
  const std::string_view line = line_;
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || !is_token(line.substr(0, colon))) {
    return refuse(400, ErrorKind::kBadRequest, "a header line is not `name: value`");
  }
  const std::string_view value = trimmed(line.substr(colon + 1));
  if (!is_field_value(value)) {
    return refuse(400, ErrorKind::kBadRequest, "a header value has control characters");
  }
  if (headers != nullptr) headers->emplace_back(line.substr(0, colon), value);
  return true;
}

bool RequestParser::on_head_end() {
  if (!check_framing() || !check_connection()) return false;
  if (head_.content_length > limits_.body_bytes_max) {
    return refuse_body(std::to_string(head_.content_length));
  }
  remaining_ = head_.content_length;
  header_bytes_ = 0;  // from here on: trailers
  state_ = head_.chunked ? State::kChunkSize : head_.has_body() ? State::kBody : State::kComplete;
  return true;
}

bool RequestParser::refuse_body(const std::string& given) {
  return refuse(413,
                ErrorKind::kPayloadTooLarge,
                "the body must have at most " + std::to_string(limits_.body_bytes_max) +
                    " bytes. Given: " + given);
}

bool RequestParser::check_framing() {
  std::optional<std::uint64_t> length;
  std::size_t n_codings = 0;
  for (const auto& [name, value] : head_.headers) {
    if (equal_ignoring_case(name, "content-length")) {
      const auto parsed = decimal(value);
      if (!parsed || *parsed > kContentLengthMax) {
        return refuse(400, ErrorKind::kBadRequest, "Content-Length is malformed");
      }
      if (length && *length != *parsed) {
        return refuse(400, ErrorKind::kBadRequest, "there are two lengths");
      }
      length = parsed;
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
      ++n_codings;
      head_.chunked = equal_ignoring_case(value, "chunked");
      if (!head_.chunked) {
        return refuse(400, ErrorKind::kBadRequest, "Transfer-Encoding is not `chunked`");
      }
    }
  }
  if (n_codings > 1) return refuse(400, ErrorKind::kBadRequest, "there are two transfer codings");
  if (n_codings > 0 && length) {
    return refuse(
        400, ErrorKind::kBadRequest, "Content-Length and Transfer-Encoding exclude each other");
  }
  if (n_codings > 0 && head_.minor_version == 0) {
    return refuse(400, ErrorKind::kBadRequest, "HTTP/1.0 has no chunks");
  }
  head_.content_length = length.value_or(0);
  return true;
}

bool RequestParser::check_connection() {
  std::size_t n_hosts = 0;
  bool close = false;
  bool keep = false;
  for (const auto& [name, value] : head_.headers) {
    if (equal_ignoring_case(name, "host")) {
      ++n_hosts;
    } else if (equal_ignoring_case(name, "connection")) {
      close = close || list_has(value, "close");
      keep = keep || list_has(value, "keep-alive");
    } else if (equal_ignoring_case(name, "expect")) {
      if (!equal_ignoring_case(value, "100-continue")) {
        return refuse(417, ErrorKind::kBadRequest, "the only expectation known is 100-continue");
      }
      head_.expects_continue = head_.minor_version == 1;
    }
  }
  if (n_hosts > 1) return refuse(400, ErrorKind::kBadRequest, "there are two Host headers");
  if (n_hosts == 0 && head_.minor_version == 1) {
    return refuse(400, ErrorKind::kBadRequest, "the Host header is missing");
  }
  head_.keep_alive = !close && (head_.minor_version == 1 || keep);
  return true;
}

bool RequestParser::on_chunk_size() {
  const std::string_view line = line_;
  const std::size_t end = std::min(line.find(';'), line.size());
  const std::string_view digits = line.substr(0, end);
  std::uint64_t size = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), size, 16);
  if (digits.empty() || digits.size() > kChunkSizeDigitsMax || error != std::errc() ||
      stop != digits.data() + digits.size()) {
    return refuse(400, ErrorKind::kBadRequest, "a chunk size is not 1 to 15 hexadecimal digits");
  }
  extension_bytes_ += line.size() - end;
  if (extension_bytes_ > kChunkExtensionBytesMax || !is_field_value(line.substr(end))) {
    return refuse(400, ErrorKind::kBadRequest, "chunk extensions are malformed or too long");
  }
  if (size > limits_.body_bytes_max - body_bytes_) {
    return refuse_body("at least " + std::to_string(body_bytes_ + size));
  }
  remaining_ = size;
  state_ = size > 0 ? State::kChunkData : State::kTrailers;
  return true;
}

void RequestParser::take_body(std::string_view& bytes) {
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, bytes.size()));
  if (keep_body_) body_ += bytes.substr(0, n);
  bytes.remove_prefix(n);
  remaining_ -= n;
  body_bytes_ += n;
}

}  // namespace coxswain::http
