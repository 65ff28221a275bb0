#pragma once
// Incremental parser of HTTP/1.x requests that refuses whatever two programs could read differently
// (RFC 9112 with every "may repair" taken as "must refuse"). Bytes go in as they arrive; how they
// are cut changes nothing.
//
// Refused with 400: line ends other than CRLF, bare CR, control bytes, folded lines, blanks around header names, a
// missing or second Host, Content-Length together with Transfer-Encoding or with different or malformed values, any
// transfer coding but one `chunked`, chunked from HTTP/1.0, chunk sizes that are not 1 to 15 hexadecimal digits, a
// missing CRLF after a chunk. Limits: 414, 431, 413.
//
// Thread rule: one owner. Memory: one line, the headers and the body, each up to its limit.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "http/server.h"

namespace coxswain::http {

// Why a request cannot be answered by a handler. After one the framing is in doubt: the connection is closed.
struct Refusal {
  int status = 400;
  Status why;
};

struct ParsedHead {
  std::string method;
  std::string path;   // percent-decoded
  std::string query;  // raw
  std::vector<Header> headers;
  int minor_version = 1;
  bool keep_alive = true;  // what the client asks for
  bool expects_continue = false;
  bool chunked = false;
  std::uint64_t content_length = 0;

  bool has_body() const { return chunked || content_length > 0; }
};

struct ParserLimits {
  std::size_t request_line_bytes_max = 8 << 10;
  std::size_t header_line_bytes_max = 8 << 10;
  std::size_t header_count_max = 100;
  std::size_t headers_bytes_max = 64 << 10;
  std::size_t body_bytes_max = 2'000'000;
};

class RequestParser {
 public:
  enum class Event : std::uint8_t {
    kNeedMore,
    kHead,      // the head is complete and sound; call parse() again for the body
    kComplete,  // so is the body; call reset() before the next request
    kRefused,
  };
  struct Step {
    Event event = Event::kNeedMore;
    std::size_t consumed = 0;
  };

  explicit RequestParser(const ParserLimits& limits) : limits_(limits) {}

  // Takes bytes up to the next event; the caller presents the rest again.
  Step parse(std::string_view bytes);
  // After kHead: the body is checked and counted, but not kept.
  void discard_body() { keep_body_ = false; }
  void reset();

  // True while no byte of a request has been seen.
  bool idle() const { return state_ == State::kRequestLine && line_.empty(); }
  bool in_body() const { return state_ > State::kHeaders && state_ < State::kComplete; }
  ParsedHead& head() { return head_; }
  const ParsedHead& head() const { return head_; }
  std::string& body() { return body_; }
  const Refusal& refusal() const { return refusal_; }

 private:
  enum class State : std::uint8_t {
    kRequestLine,
    kHeaders,
    kBody,       // counted by Content-Length
    kChunkSize,  // chunked
    kChunkData,
    kChunkEnd,
    kTrailers,
    kComplete,
    kRefused,
  };

  // Takes one line into line_ (without CRLF). False if it is not complete yet or was refused.
  bool take_line(std::string_view& bytes);
  bool refuse(int status, ErrorKind kind, std::string message);
  bool refuse_body(const std::string& given);
  bool line_too_long();

  bool on_line();
  bool on_request_line();
  bool on_header_line(std::vector<Header>* headers);
  bool on_head_end();
  bool check_framing();
  bool check_connection();
  bool on_chunk_size();
  void take_body(std::string_view& bytes);

  ParserLimits limits_;
  State state_ = State::kRequestLine;
  bool empty_line_skipped_ = false;  // before the request line
  bool head_reported_ = false;
  bool keep_body_ = true;
  std::string line_;
  std::size_t header_bytes_ = 0;
  std::size_t trailer_count_ = 0;
  std::size_t extension_bytes_ = 0;
  std::uint64_t body_bytes_ = 0;  // seen so far
  std::uint64_t remaining_ = 0;   // of the body or the chunk
  ParsedHead head_;
  std::string body_;
  Refusal refusal_;
};

}  // namespace coxswain::http
